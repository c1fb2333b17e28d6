#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures how well the tests find faults and writes tests/REPORT.md and ACCURACY: see README.md.

    run.py [--build FOLDER] [PART...]   runs parts, by default all (hours), renews RECORD and writes the page
    run.py --page                       writes the page from RECORD and the files of other folders
    run.py --check                      compares the page with them

Parts: mutation, accuracy, bits, coverage, compile_cost, fuzz, refusals.
"""
import argparse
import collections
import csv
import datetime
import os
import pathlib
import re
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
ROOT = TESTS.parent
RECORD, PAGE, ACCURACY = HERE / "RECORD", TESTS / "REPORT.md", HERE / "ACCURACY"
NEAREST = 12  # rows of the page
RESULTS, REASONS = TESTS / "mutation" / "RESULTS", TESTS / "coverage" / "REASONS"
TIERS = ["scalar", "sse2", "avx2", "avx512"]
FUZZERS = ["gguf", "hf_config", "extents", "attention", "cache", "module"]
FOLDERS = ["core", "simd", "tensor", "frequency", "kernels", "additive", "rotary", "bias", "attention", "kv", "nn", "interop"]
ENOUGH = 97  # per cent of the lines of a folder; below it the others are listed


# --- the record: run <part> <name> <date> <commit> <machine> <how>, and row <part> <name> <values>...


class Record:
    def __init__(self):
        self.read()

    def read(self):
        self.runs, self.rows = {}, collections.defaultdict(list)
        for line in RECORD.read_text().splitlines() if RECORD.exists() else []:
            kind, *fields = line.split("\t")
            if kind == "run":
                self.runs[tuple(fields[:2])] = fields[2:]
            elif kind == "row":
                self.rows[tuple(fields[:2])].append(fields[2:])

    def renew(self, part, name, how, rows):
        """Replaces what is recorded of one run. Other parts may have been renewed meanwhile."""
        self.read()
        self.runs[part, name] = [datetime.date.today().isoformat(), commit(), machine(), how]
        self.rows[part, name] = [[str(value) for value in row] for row in rows]
        lines = ["# Renewed by run.py. run: part, name, date, commit, machine, how. row: part, name, values."]
        for key in sorted(self.runs):
            lines.append("\t".join(["run", *key, *self.runs[key]]))
            lines += ["\t".join(["row", *key, *row]) for row in self.rows[key]]
        RECORD.write_text("\n".join(lines) + "\n")

    def names(self, part):
        return [name for key, name in sorted(self.runs) if key == part]


def commit():
    """Returns the last commit that changed the library."""
    return output("git", "log", "-1", "--format=%h", "--abbrev=7", "--", "include").strip()


def machine():
    found = {}
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    model = found.get("model name", os.uname().machine)
    return f"{model} (family {found.get('cpu family', '?')}, model {found.get('model', '?')}), {os.cpu_count()} cores"


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout


def run(*command):
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True, stdin=subprocess.DEVNULL)


# --- parts


def run_mutation(record, options):
    run(TESTS / "mutation" / "run.py", "--build", options.build / "mutation")


def run_accuracy(record, options):
    build = options.build / "accuracy"
    run("cmake", "--preset", "test", "-B", build, "-D", "POSENC_CI_TESTS=ON")
    for tier in options.tiers:
        run("cmake", "--build", build, "--target", f"posenc_accuracy_{tier}")
        program = build / "tests" / f"posenc_accuracy_{tier}"
        how = ["--samples", str(options.samples), "--stride", str(options.stride)]
        print("+", program, *how, flush=True)
        parts = ["angles", "functions", "conversions", "attention", "bounds"]
        done = subprocess.run([program, *how, "--out", build, *parts], cwd=ROOT, check=False)
        if done.returncode == 77:
            continue
        with open(build / f"accuracy_{tier}.csv", encoding="utf-8") as file:
            rows = list(csv.reader(file, delimiter=";"))[1:]
        record.renew("accuracy", tier, " ".join(how), [row[1:] for row in rows])
        if done.returncode != 0:
            sys.exit(f"{program} failed")
    # All positions up to 10^6 and a sample up to 10^7, on one tier.
    if "avx2" not in options.tiers or options.no_comparison:
        return
    folder = build / "comparison"
    folder.mkdir(exist_ok=True)
    program = build / "tests" / "posenc_accuracy_avx2"
    how = ["--samples", "900000", "comparison"]
    run(program, "--out", folder, *how)
    with open(folder / "comparison_avx2.csv", encoding="utf-8") as file:
        record.renew("comparison", "avx2", " ".join(how), list(csv.reader(file, delimiter=";")))


def run_bits(record, options):
    hashes, again = TESTS / "bits" / "HASHES", options.build / "HASHES"
    options.build.mkdir(parents=True, exist_ok=True)
    run(TESTS / "bits" / "hashes.sh", again)
    if again.read_text() != hashes.read_text():
        sys.exit(f"bits: {again} differs from tests/bits/HASHES")
    lines = [line for line in hashes.read_text().splitlines() if line and not line.startswith("#")]
    record.renew("bits", "all", "tests/bits/hashes.sh", [[len(lines), sum("=" not in line for line in lines)]])


def run_coverage(record, options):
    run(TESTS / "coverage" / "run.sh", options.build, *options.programs)
    output = options.build / "coverage"
    lines = collections.defaultdict(list)
    for line in (output / "uncovered.txt").read_text().splitlines():
        header, _, text = line.split(":", 2)
        lines[header.split("/")[0]].append([header, text.strip()])
    with open(output / "folders.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            folder = row["folder"]
            if folder not in (options.folders or FOLDERS):
                continue
            counts = [row[key] for key in ("lines", "covered_lines", "branches", "covered_branches")]
            record.renew("coverage", folder, " ".join(options.programs) or "all tests", [counts, *lines[folder]])


def run_compile_cost(record, options):
    print("+ tests/compile_cost/run.sh", flush=True)
    text = output(TESTS / "compile_cost" / "run.sh")
    print(text, end="")
    rows = [words[:2] + words[3:] for words in map(str.split, text.splitlines()) if words[0] in ("g++", "clang++")]
    record.renew("compile_cost", "all", "tests/compile_cost/run.sh", rows)


def run_fuzz(record, options):
    build = options.build / "fuzz"
    run("cmake", "--preset", "test", "-B", build, "-D", "CMAKE_CXX_FLAGS_DEBUG=-O1", "-D", "CMAKE_CXX_COMPILER=clang++",
        "-D", "POSENC_FUZZ=ON", "-D", "POSENC_BUILD_EXAMPLES=OFF", "-D", f"POSENC_FUZZ_SECONDS={options.seconds}")
    for name in options.fuzzers:
        run("cmake", "--build", build, "--target", f"fuzz_{name}")
        print("+ fuzz", name, flush=True)
        log = build / f"fuzz_{name}.log"
        with open(log, "w", encoding="utf-8") as file:
            done = subprocess.run(["cmake", "--build", build, "--target", f"run_fuzz_{name}"], cwd=ROOT, check=False,
                                  stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        text = log.read_text(errors="replace")
        executions = re.search(r"number_of_executed_units: (\d+)", text)
        if done.returncode != 0 or not executions:
            print(text[-4000:])
            sys.exit(f"the fuzzer {name} found an input: {log}")
        seconds = re.search(r"Done \d+ runs in (\d+) second", text)
        covered = re.findall(r"cov: (\d+)", text)
        record.renew("fuzz", name, f"{options.seconds} seconds", [[executions[1], seconds[1], covered[-1]]])


def run_refusals(record, options):
    run(TESTS / "refusals" / "list.py", "--check")
    count = sum(not line.startswith("#") for line in (TESTS / "refusals" / "LIST").read_text().splitlines())
    record.renew("refusals", "all", "tests/refusals/list.py --check", [[count]])


PARTS = {"mutation": run_mutation, "accuracy": run_accuracy, "bits": run_bits, "coverage": run_coverage,
         "compile_cost": run_compile_cost, "fuzz": run_fuzz, "refusals": run_refusals}


# --- the page


def table(head, rows):
    align = ["---:" if name.startswith(">") else "---" for name in head]
    yield "| " + " | ".join(name.lstrip(">") for name in head) + " |"
    yield "| " + " | ".join(align) + " |"
    for row in rows:
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
    yield ""


def aligned(head, rows):
    """Returns the lines of a table of plain text."""
    right = [name.startswith(">") for name in head]
    rows = [[name.lstrip(">") for name in head], *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return ["  ".join(cell.rjust(width) if is_right else cell.ljust(width)
                      for cell, width, is_right in zip(row, widths, right)).rstrip() for row in rows]


def share(part, whole):
    """Returns a percentage, rounded down so that only all gives 100."""
    return f"{int(1000 * part / whole) / 10:.1f}" if whole else "100.0"


def grouped(number):
    return f"{int(number):,}".replace(",", " ")


def when(record, part):
    """Yields the lines that say when and where a part was measured."""
    runs = collections.defaultdict(list)
    for name in record.names(part):
        date, at, where, how = record.runs[part, name]
        runs[date, at, where, how].append(name)
    for (date, at, where, how), names in runs.items():
        of = "" if names == ["all"] else ", ".join(names) + ": "
        yield textwrap.fill(f"- {of}{date}, library of commit {at}, {where}; {how}", 120, subsequent_indent="  ",
                            break_long_words=False, break_on_hyphens=False)
    yield ""


class Mutation:
    """Scores of folders, from tests/mutation/RESULTS."""

    def __init__(self):
        self.rows = [line.split("\t")[1:] for line in RESULTS.read_text().splitlines() if line.startswith("folder\t")]
        self.killed = sum(int(row[3]) for row in self.rows)
        self.killable = sum(int(row[2]) - int(row[4]) for row in self.rows)

    def score(self):
        return share(self.killed, self.killable)


class Accuracy:
    """Histograms of all tiers."""

    def __init__(self, record):
        self.tiers = [tier for tier in TIERS if ("accuracy", tier) in record.runs]
        self.rows = {(row[0], tier): row for tier in self.tiers for row in record.rows["accuracy", tier]}
        self.names = list(dict.fromkeys(name for name, _ in self.rows))
        self.exceeded = sum(float(row[5]) > 1 for row in self.rows.values())
        self.inputs = sum(int(row[3]) for row in self.rows.values())


class Coverage:
    """Lines and branches of folders."""

    def __init__(self, record):
        self.folders = {folder: record.rows["coverage", folder] for folder in FOLDERS if ("coverage", folder) in record.runs}
        counts = [[int(number) for number in rows[0]] for rows in self.folders.values()]
        self.sums = [sum(column) for column in zip(*counts)] or [0, 0, 0, 0]

    def lines(self):
        return share(self.sums[1], self.sums[0])


class Fuzz:
    """Executions of fuzzers."""

    def __init__(self, record):
        self.rows = {name: record.rows["fuzz", name][0] for name in FUZZERS if ("fuzz", name) in record.runs}
        self.executions = sum(int(row[0]) for row in self.rows.values())
        self.seconds = sum(int(row[1]) for row in self.rows.values())

    def hours(self):
        return f"{self.seconds / 3600:.1f}"


def mutation_section(record):
    mutation = Mutation()
    yield "The headers are changed in one place at a time; a test must fail. [Method](mutation/README.md)."
    yield "[Survivors](mutation/RESULTS) and [equivalent mutants](mutation/EQUIVALENT) are listed by name."
    yield ""
    rows = [[folder, tested, killed, equivalent, survived, score, date, at]
            for folder, _, tested, killed, equivalent, survived, score, date, at in mutation.rows]
    yield from table(["folder", ">mutants", ">killed", ">equivalent", ">survived", ">score in %", "date", "commit"], rows)
    missing = [folder for folder in FOLDERS if folder not in [row[0] for row in mutation.rows]]
    if missing:
        yield f"Not measured: {', '.join(missing)}."
        yield ""


def errors(accuracy, names):
    """Returns the head and rows of the table of the largest errors."""
    rows = []
    for name in names:
        found = [accuracy.rows.get((name, tier)) for tier in accuracy.tiers]
        some = next(row for row in found if row)
        bounds = list(dict.fromkeys(row[2] for row in found if row))
        cells = [f"{float(row[4]):.3g} ({float(row[5]):.2f})" if row else "" for row in found]
        rows.append([name, some[1], " or ".join(bounds), *cells])
    return ["function and type", "unit", "promise", *accuracy.tiers], rows


def accuracy_tables(record):
    """Returns the text of ACCURACY: the errors of all functions, and their histogram."""
    accuracy = Accuracy(record)
    if not accuracy.rows:
        return "Not measured.\n"
    lines = ["Largest error of each function per tier, in its unit, and as a share of the promised bound in brackets.", ""]
    lines += aligned(*errors(accuracy, accuracy.names))
    best = accuracy.tiers[-1]
    lines += ["", f"Histogram of errors on tier {best}: number of results whose error is at most so many units.", ""]
    rows = []
    for name in accuracy.names:
        row = accuracy.rows.get((name, best))
        if row and row[1] != "bound":
            rows.append([name, row[1], grouped(row[3]), *[grouped(count) if count != "0" else "" for count in row[7:]]])
    lines += aligned(["function and type", "unit", ">inputs", ">0.5", ">1", ">1.5", ">2", ">2.5", ">3", ">4", ">more"], rows)
    return "\n".join(lines) + "\n"


def accuracy_section(record):
    accuracy = Accuracy(record)
    if not accuracy.rows:
        yield "Not measured."
        yield ""
        return
    yield from when(record, "accuracy")
    yield f"Largest error per tier, in its unit, and in brackets the share of the bound at which it arrives: the {NEAREST} functions"
    yield f"nearest to their bound. [All {len(accuracy.names)}, with histograms](report/ACCURACY), and the [promises](accuracy/promises.hpp)."
    yield "`posenc_accuracy --search` searches worse inputs."
    yield ""
    shares = {name: max(float(accuracy.rows[name, tier][5]) for tier in accuracy.tiers if (name, tier) in accuracy.rows)
              for name in accuracy.names}
    nearest = sorted(shares, key=lambda name: -shares[name])[:NEAREST]
    yield from table(*errors(accuracy, nearest))
    if ("comparison", "avx2") not in record.runs:
        return
    head, *rows = record.rows["comparison", "avx2"]
    yield from when(record, "comparison")
    yield "Largest error of cos and sin by other methods, each a plain reimplementation in"
    yield "[other_methods.cpp](accuracy/other_methods.cpp). 64 pairs, base 10000. All positions below 10^6,"
    yield "and a sample of the others, below:"
    yield ""
    rows = [[row[0], *[f"{float(cell):.2g}" for cell in row[1:]]] for row in rows]
    yield from table([head[0], *[">" + grouped(float(limit)) for limit in head[1:]]], rows)


def bits_section(record):
    if ("bits", "all") not in record.runs:
        yield "Not measured. Every test run compares a sample of `bits/HASHES` with its own build."
        yield ""
        return
    yield from when(record, "bits")
    cases, common = map(int, record.rows["bits", "all"][0])
    yield f"{cases} cases have hashes in `bits/HASHES`, {common} of them one for every tier with FMA."
    yield ""


def coverage_section(record):
    coverage = Coverage(record)
    if coverage.folders:
        yield from when(record, "coverage")
        yield "Lines and branches of the headers that tests run, by llvm-cov. Code for other processors is not compiled, and"
        yield "counts as absent."
        yield ""
        rows = []
        for folder, (counts, *_) in coverage.folders.items():
            lines, covered, branches, taken = map(int, counts)
            rows.append([folder, lines, share(covered, lines), branches, share(taken, branches)])
        yield from table(["folder", ">lines", ">covered in %", ">branches", ">taken in %"], rows)
    missing = [folder for folder in FOLDERS if folder not in coverage.folders]
    if missing:
        yield f"Not measured: {', '.join(missing)}."
        yield ""
    reasons = dict(line.split("\t") for line in REASONS.read_text().splitlines() if "\t" in line) if REASONS.exists() else {}
    rows = []
    for folder, (counts, *lines) in coverage.folders.items():
        if 100 * int(counts[1]) >= ENOUGH * int(counts[0]):
            continue
        groups = collections.OrderedDict()
        for header, text in lines:
            reason = reasons.get(f"{header}: {text}") or reasons.get(header) or "none known"
            groups.setdefault((header, reason), []).append(text)
        for (header, reason), texts in groups.items():
            shown = "; ".join(f"`{text}`" for text in texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")
            rows.append([header, len(texts), shown, reason])
    if rows:
        yield f"Lines that no test runs, in folders below {ENOUGH} %:"
        yield ""
        yield from table(["header", ">lines", "text", "reason"], rows)


def compile_cost_section(record):
    if ("compile_cost", "all") not in record.runs:
        yield "Not measured."
        yield ""
        return
    yield from when(record, "compile_cost")
    yield "Specializations of templates (g++), statements and expressions (clang++) of six typical units, and their share of"
    yield "[the record](compile_cost/RECORD), which CI compares within 3 %. [Method](compile_cost/run.sh)."
    yield ""
    counts = {(row[1], row[0]): f"{grouped(row[2])} ({row[3]})" for row in record.rows["compile_cost", "all"]}
    units, compilers = [list(dict.fromkeys(column)) for column in zip(*counts)]
    yield from table(["unit", *[">" + name for name in compilers]],
                     [[unit, *[counts[unit, name] for name in compilers]] for unit in units])


def fuzz_section(record):
    fuzz = Fuzz(record)
    if fuzz.rows:
        yield from when(record, "fuzz")
        yield "libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, from the seeds alone, without a finding."
        yield "`attention`, `cache` and `module` compare results with plain references."
        yield ""
        yield from table(["target", ">executions", ">seconds", ">edges covered"],
                         [[name, grouped(row[0]), row[1], grouped(row[2])] for name, row in fuzz.rows.items()])
    missing = [name for name in FUZZERS if name not in fuzz.rows]
    if missing:
        yield f"Not measured: {', '.join(missing)}."
        yield ""


def refusals_section(record):
    if ("refusals", "all") not in record.runs:
        yield "Not measured."
        yield ""
        return
    yield from when(record, "refusals")
    yield f"{record.rows['refusals', 'all'][0][0]} errors that a user can meet are [listed](refusals/LIST), each with a test of its words."
    yield ""


def headlines(record):
    """Yields the four numbers of the README: name of the claim, number, what it counts."""
    mutation, accuracy, coverage, fuzz = Mutation(), Accuracy(record), Coverage(record), Fuzz(record)
    yield "mutation_score", f"{mutation.score()} %", f"of {grouped(mutation.killable)} changes of the code are noticed by a test"
    if accuracy.rows:
        number = f"{accuracy.inputs / 1e9:.0f} billion" if accuracy.inputs >= 1e9 else f"{accuracy.inputs / 1e6:.0f} million"
        yield "accuracy_results", number, \
            f"results compared with more precise ones, {accuracy.exceeded or 'none'} beyond its promised bound"
    if coverage.folders:
        yield "covered_lines", f"{coverage.lines()} %", f"of {grouped(coverage.sums[0])} lines are run by tests"
    if fuzz.rows:
        yield "fuzz_executions", grouped(fuzz.executions), f"executions of fuzzers in {fuzz.hours()} hours, no finding"


SECTIONS = {"Mutation score": mutation_section, "Accuracy": accuracy_section, "Bits": bits_section,
            "Coverage": coverage_section, "Compile cost": compile_cost_section, "Fuzzing": fuzz_section,
            "Refusals": refusals_section}


def page():
    record = Record()
    lines = ["# Report", "",
             "How well the tests of posenc find faults, in numbers. `cmake --workflow --preset report` measures all of it (hours);",
             "[report/](report/README.md) says how to measure a part. Each section has the date, commit and machine of its run.",
             ""]
    lines += table(["number", "meaning"], [[number, meaning] for _, number, meaning in headlines(record)])
    for title, section in SECTIONS.items():
        lines += ["## " + title, "", *section(record)]
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "report")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tiers", nargs="+", choices=TIERS, default=TIERS, help="of accuracy")
    parser.add_argument("--samples", type=int, default=2000, help="of accuracy: inputs of each bound")
    parser.add_argument("--stride", type=int, default=10007, help="of accuracy: every so many floats are tried")
    parser.add_argument("--no-comparison", action="store_true", help="of accuracy: leave out the methods of others")
    parser.add_argument("--programs", nargs="+", default=[], help="of coverage: tests to run, by default all")
    parser.add_argument("--folders", nargs="+", choices=FOLDERS, help="of coverage: folders whose numbers are kept")
    parser.add_argument("--fuzzers", nargs="+", choices=FUZZERS, default=FUZZERS)
    parser.add_argument("--seconds", type=int, default=600, help="of each fuzzer")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.check:
        if PAGE.read_text() != page() or ACCURACY.read_text() != accuracy_tables(Record()):
            sys.exit("tests/REPORT.md or tests/report/ACCURACY differs from its sources: run tests/report/run.py --page")
        return
    if not options.page:
        record = Record()
        for part in options.parts or PARTS:
            PARTS[part](record, options)
    PAGE.write_text(page())
    ACCURACY.write_text(accuracy_tables(Record()))


if __name__ == "__main__":
    main()
