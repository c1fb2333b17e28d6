#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mutation score of the library: see README.md.

  run.py --build <folder> [--folders core,bias]      draws, builds, runs, and renews those folders in RESULTS
  run.py --build <folder> --sample 60 --seed <n>     CI: that many of the draw, of one folder; fails if a new one survives
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

try:
    import mutate
except ImportError:
    print("skipped: python3-clang-14 is not installed")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS, EQUIVALENT = HERE / "RESULTS", HERE / "EQUIVALENT"

DRAW_SEED = 1
TOTAL, LEAST = 1600, 64
LEVEL = ["-march=x86-64-v4", "-mavx512bf16"]

# Test programs that judge a folder.
PROGRAMS = {
    "core": ["core", "frequency"],
    "simd": ["simd", "bias", "attention_tiers"],
    "tensor": ["tensor", "additive", "bias"],
    "frequency": ["frequency"],
    "additive": ["additive"],
    "rotary": ["rotary", "simd", "tensor", "laws"],
    "bias": ["bias", "laws"],
    "kernels": ["attention_tiers", "attention"],
    "attention": ["attention_tiers", "attention", "kv"],
    "kv": ["kv", "attention_tiers"],
    "nn": ["nn"],
    "interop": ["interop"],
}


def log(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


# --- files beside this one


def read_equivalent():
    """Returns {name: reason}."""
    lines = EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []
    return dict(line.split("\t", 1) for line in lines if line and not line.startswith("#"))


def read_results():
    """Returns ({folder: columns}, {folder: [survivor]})."""
    folders, survivors = {}, collections.defaultdict(list)
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else []:
        word, *rest = line.split("\t")
        if word == "folder":
            folders[rest[0]] = rest[1:]
        elif word == "survivor":
            survivors[rest[0].split("/")[0]].append(rest[0])
    return folders, survivors


def write_results(folders, survivors):
    lines = [
        "# Renewed by tests/mutation/run.py; README.md says what it means.",
        "# folder, drawn, tested, killed, equivalent, survived, score in %, date, commit",
    ]
    lines += ["\t".join(["folder", folder, *folders[folder]]) for folder in sorted(folders)]
    lines += [f"survivor\t{name}" for folder in sorted(survivors) for name in sorted(survivors[folder])]
    RESULTS.write_text("\n".join(lines) + "\n")


# --- drawing


def compiler_arguments():
    eigen = subprocess.run(["pkg-config", "--cflags-only-I", "eigen3"], capture_output=True, text=True).stdout.split()
    return ["-std=c++20", "-w", *LEVEL, *[f"-isystem{flag[2:]}" for flag in eigen]]


def lines_of_folders():
    lines = collections.Counter()
    for header in (ROOT / "include/posenc").glob("*/**/*.hpp"):
        lines[header.relative_to(ROOT / "include/posenc").parts[0]] += len(header.read_bytes().splitlines())
    return lines


def draw(finder):
    """Returns {folder: [(point, alternative, name)]}: from every folder in proportion to its lines, by the seed of the draw."""
    lines = lines_of_folders()
    by_folder = collections.defaultdict(list)
    for point, alternative, name in mutate.name_mutants(finder.points, finder.texts):
        by_folder[mutate.folder_of(point.file)].append((point, alternative, name))
    drawn = {}
    for folder, mutants in by_folder.items():
        quota = max(LEAST, round(TOTAL * lines[folder] / sum(lines.values())))
        drawn[folder] = sorted(mutants, key=lambda m: mutate.rank(DRAW_SEED, m[2]))[:quota]
    return drawn


# --- building


def copy_if_changed(source, target):
    data = source if isinstance(source, bytes) else source.read_bytes()
    if not target.exists() or target.read_bytes() != data:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if not isinstance(source, bytes):
            shutil.copymode(source, target)


def write_tree(build, finder, points):
    """Writes the project with instrumented headers to build/source, touching only what changes."""
    source = build / "source"
    files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    by_file = collections.defaultdict(list)
    for point in points:
        by_file[point.file].append(point)
    for name in files:
        if not name or not (ROOT / name).is_file() or name.startswith("bench/"):
            continue
        header = name[len("include/"):] if name.startswith("include/") else ""
        if header in by_file:
            text = mutate.instrument(finder.texts[header], by_file[header])
            first, rest = text.split("\n", 1)
            assert first.startswith("// SPDX"), header
            text = "#include <posenc_mutation.hpp>\n" + rest  # in the licence's place, so that lines keep their numbers
            copy_if_changed(text.encode("latin-1"), source / name)
        else:
            copy_if_changed(ROOT / name, source / name)
    copy_if_changed(HERE / "mutation.hpp", source / "include/posenc_mutation.hpp")
    return source


def configure(build, arguments):
    subprocess.run(["cmake", "-S", build / "source", "-B", build / "objects", "-G", "Ninja", "-D", "CMAKE_BUILD_TYPE=Debug",
                    "-D", f"CMAKE_CXX_FLAGS={' '.join(LEVEL)} -w -Wno-narrowing", "-D", f"CMAKE_CXX_FLAGS_DEBUG={arguments.optimisation}",
                    "-D", "POSENC_CHECKED=ON", "-D", "POSENC_JOIN_SOURCES=30", "-D", "POSENC_BUILD_BENCH=OFF",
                    "-D", "POSENC_BUILD_EXAMPLES=OFF", "-D", "POSENC_CONFORMANCE_DIR=", "-D", "POSENC_CONFIGS_DIR="],
                   check=True, stdout=subprocess.DEVNULL)


def compile_programs(build, finder, points, programs, arguments):
    """Builds the programs. Points on lines of which the compiler complains are left out, and it starts again."""
    rejected_file = build / "rejected.json"
    rejected = set(json.loads(rejected_file.read_text())) if rejected_file.exists() else set()
    points = [p for p in points if p.number not in rejected]
    for _ in range(12):
        if arguments.no_build:
            return rejected
        source = write_tree(build, finder, points)
        if not (build / "objects/build.ninja").exists():
            configure(build, arguments)
        command = ["cmake", "--build", build / "objects", "--parallel", str(arguments.jobs), "--target",
                   *[f"test_{p}" for p in programs], "--", "-k", "0"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode == 0:
            return rejected
        # The place of the error; if no point is there, those from which the template is required.
        for what in ("error:", "(?:  )?required|in .constexpr. expansion"):
            lines = set(re.findall(r"include/(posenc/[\w/]+\.hpp):(\d+):\d+: +(?:" + what + ")", done.stdout))
            bad = [p for p in points if any(
                p.file == file and p.line <= int(line) <= p.line + finder.texts[p.file].count("\n", *p.extent) for file, line in lines)]
            if bad:
                break
        (build / "rejected.log").write_text(done.stdout)
        if not bad:
            print(done.stdout[-6000:])
            raise SystemExit("the tests do not compile, and no mutant is to blame")
        log(f"{len(bad)} points do not compile:", *[f"{p.file}:{p.line}" for p in bad])
        rejected.update(p.number for p in bad)
        rejected_file.write_text(json.dumps(sorted(rejected)))
        points = [p for p in points if p not in bad]
    raise SystemExit("the instrumented headers do not compile; see rejected.log")


# --- running


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_cases(program, cases, environment, seconds):
    """Returns the exit code, or None after that many seconds."""
    names = ",".join(re.sub(r"([\\,\[\]])", r"\\\1", case) for case in cases)
    try:
        return subprocess.run([program, names, "--abort"], env={**os.environ, **environment}, timeout=seconds,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              preexec_fn=limit_memory, cwd=pathlib.Path(program).parent).returncode
    except subprocess.TimeoutExpired:
        return None


def record_coverage(build, programs):
    """Returns {number: [(seconds, program, case)]} of the mutants that cases reach."""
    reached = collections.defaultdict(list)
    record = build / "reached.txt"
    for name in programs:
        program = str(build / "objects/tests" / f"test_{name}")
        cache = build / f"coverage_{name}.json"
        if not os.path.exists(program):
            log(f"test_{name} is not built")
            continue
        stamp = os.stat(program).st_mtime
        known = json.loads(cache.read_text()) if cache.exists() else {}
        if known.get("stamp") != stamp:
            listed = subprocess.run([program, "--list-test-names-only"], capture_output=True, text=True).stdout.splitlines()
            known = {"stamp": stamp, "cases": []}
            for case in filter(None, listed):
                record.unlink(missing_ok=True)
                start = time.monotonic()
                status = run_cases(program, [case], {"POSENC_MUTATION_RECORD": str(record)}, 300)
                seconds = time.monotonic() - start
                if status != 0 or not record.exists():
                    log(f"left out, as it fails without a mutant: {name}: {case}")
                    continue
                known["cases"].append([case, seconds, [int(n) for n in record.read_text().split()]])
            cache.write_text(json.dumps(known))
        for case, seconds, numbers in known["cases"]:
            for number in numbers:
                reached[number].append((seconds, program, case))
        log(f"coverage of test_{name}: {len(known['cases'])} cases, {sum(c[1] for c in known['cases']):.0f} s")
    return reached


def groups_of(cases):
    """The cases of the folder's programs, quickest first: the first few alone, then some seconds' worth in one process."""
    group, total, limit = [], 0, 0.3
    for seconds, program, case in sorted(cases):
        if group and (total + seconds > limit or group[0][1] != program):
            yield group
            group, total, limit = [], 0, min(4 * limit, 10)
        group.append((seconds, program, case))
        total += seconds
    if group:
        yield group


def outcome_of(number, cases, folder):
    """Returns killed, survived, uncovered or impossible: by the folder's programs alone, which a sample builds as well."""
    own = tuple(f"/test_{p}" for p in PROGRAMS[folder])
    cases = [case for case in cases if case[1].endswith(own)]
    if not cases:
        return "uncovered"
    for group in groups_of(cases):
        seconds = sum(s for s, _, _ in group)
        status = run_cases(group[0][1], [c for _, _, c in group], {"POSENC_MUTANT": str(number)}, 5 + 8 * seconds)
        if status == 77:
            return "impossible"
        if status != 0:
            return "killed"
    return "survived"


# --- the whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--folders", help="all, if omitted")
    parser.add_argument("--sample", type=int, help="how many of one folder of the draw")
    parser.add_argument("--seed", type=int, help="of the sample; the day of the year, if omitted")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--optimisation", default="-O0")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--no-build", action="store_true", help="run what an earlier call built")
    parser.add_argument("--list", action="store_true", help="print the draw, and stop")
    parser.add_argument("--survivors", action="store_true", help="run those alone that survived at the last run of this build")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    build.mkdir(parents=True, exist_ok=True)
    if "avx512_bf16" not in pathlib.Path("/proc/cpuinfo").read_text():
        print("skipped: the mutants are those of a processor with AVX512_BF16")
        return 77

    finder = mutate.Finder(ROOT / "include")
    finder.find(compiler_arguments())
    drawn = draw(finder)
    log(f"{len(finder.points)} points; drawn: " + ", ".join(f"{folder} {len(drawn[folder])}" for folder in sorted(drawn)))

    results, old_survivors = read_results()
    equivalent = read_equivalent()
    if arguments.sample:
        day = arguments.seed or datetime.date.today().timetuple().tm_yday
        eligible = [folder for folder in sorted(results) if folder in SAMPLED and float(results[folder][5]) >= 95]
        if not eligible:
            log("no folder has a score of 95 % yet")
            return 0
        folder = eligible[day % len(eligible)]
        drawn = {folder: sorted(drawn[folder], key=lambda m: mutate.rank(f"day {day}", m[2]))[:arguments.sample]}
    folders = list(drawn) if arguments.sample else (arguments.folders or ",".join(PROGRAMS)).split(",")
    selected = [m for r in folders for m in drawn[r]]
    if arguments.list:
        print("\n".join(name for _, _, name in selected))
        return 0
    programs = list(dict.fromkeys(p for r in folders for p in PROGRAMS[r]))

    # A build holds the mutants of the whole draw, or of the sample alone, except those that it found not to compile.
    for n, point in enumerate(finder.points):
        point.number = 4 * (n + 1)
    in_build = {p for r in drawn for p, _, _ in drawn[r]}
    rejected = compile_programs(build, finder, [p for p in finder.points if p in in_build], programs, arguments)
    log("built")
    if arguments.build_only:
        return 0
    reached = record_coverage(build, programs)

    state_file = build / "state.json"
    state = json.loads(state_file.read_text()) if state_file.exists() else {}
    failed = False
    for folder in folders:
        start = time.monotonic()
        outcome = {}
        for point, alternative, name in drawn[folder]:
            if point.number in rejected:
                continue
            number = point.number + alternative
            if arguments.survivors and state.get(name) in ("killed", "impossible"):
                outcome[name] = state[name]
                continue
            state[name] = outcome[name] = outcome_of(number, reached.get(number, []), folder)
            if outcome[name] in ("survived", "uncovered") and name not in equivalent:
                log(f"{outcome[name]}: {name}  ({point.file}:{point.line}, POSENC_MUTANT={number})")
        state_file.write_text(json.dumps(state))
        log(f"{folder}: {len(outcome)} mutants in {time.monotonic() - start:.0f} s")
        tested = {n: o for n, o in outcome.items() if o != "impossible"}
        undetected = [n for n, o in tested.items() if o in ("survived", "uncovered")]
        survivors = [n for n in undetected if n not in equivalent]
        killed, num_equivalent = len(tested) - len(undetected), len(undetected) - len(survivors)
        killable = len(tested) - num_equivalent
        score = 100 * killed / killable if killable else 100.0
        log(f"{folder}: {len(drawn[folder])} drawn, {len(tested)} tested, {killed} killed, {num_equivalent} equivalent, "
            f"{len(survivors)} survived: {score:.1f} %")
        stale = [n for n in equivalent if tested.get(n) == "killed"]
        for name in stale:
            log(f"listed as equivalent, but killed: {name}")
        if arguments.sample:
            new = [n for n in survivors if n not in old_survivors[folder]]
            for name in new:
                log(f"NEW SURVIVOR: {name}")
            failed = failed or bool(new) or bool(stale)
        else:
            commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
            results, old_survivors = read_results()
            results[folder] = [str(len(drawn[folder])), str(len(tested)), str(killed), str(num_equivalent), str(len(survivors)),
                             f"{score:.1f}", datetime.date.today().isoformat(), commit]
            old_survivors[folder] = survivors
            write_results(results, old_survivors)
    return 1 if failed else 0


# Folders whose test programs are cheap enough for CI.
SAMPLED = ("core", "frequency", "additive", "bias", "tensor")

if __name__ == "__main__":
    sys.exit(main())
