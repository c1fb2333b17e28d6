#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what the units of calls/ cost to compile, as ratios to another commit: CPU time, text and peak memory.

  tests/compile_cost/ratio.py <commit> [--rounds 2] [--compilers g++,clang++]

The units are those of this commit, and must compile against the headers of both. Each round compiles the old unit and the new
ones in turn, and the shortest CPU time of each counts, so other load of the machine matters little. "compiled" is the unit that
links posenc::compiled. The row of the second bias has what it adds to the unit with one call: of the old one, and of the new
one as a part of what the first call costs.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
UNITS = ("rope", "attention", "second_bias", "module", "reader")


def run_measured(command):
    """Returns CPU seconds and peak KiB of a command and the processes that it waits for."""
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"ratio.py: this does not compile: {' '.join(map(str, command))}")
    return usage.ru_utime, usage.ru_maxrss


def text_of(path):
    return int(subprocess.run(["size", path], check=True, capture_output=True, text=True).stdout.splitlines()[1].split()[0])


def eigen_folder():
    found = subprocess.run(["pkg-config", "--cflags-only-I", "eigen3"], capture_output=True, text=True).stdout.strip()
    return found.removeprefix("-I") or "/usr/include/eigen3"


def cost(work, compiler, include, unit, flags):
    """Returns (CPU seconds, KiB at the peak, bytes of text)."""
    output = work / "unit.o"
    command = [compiler, "-std=c++20", *flags, "-I", include, "-isystem", eigen_folder(), "-c", HERE / "calls" / f"{unit}.cpp",
               "-o", output]
    seconds, peak = run_measured(command)
    return seconds, peak, text_of(output)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--compilers", default="g++,clang++")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        archive = subprocess.run(["git", "-C", ROOT, "archive", options.commit, "include"], check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", work], input=archive.stdout, check=True)
        variants = {"old -O2": (work / "include", ["-O2"]), "new -O2": (ROOT / "include", ["-O2"]),
                    "compiled": (ROOT / "include", ["-O2", "-DPOSENC_COMPILED=1"]),
                    "old -O0": (work / "include", ["-O0"]), "new -O0": (ROOT / "include", ["-O0"])}
        print(f"{'':8}{'unit':12}{'old s':>7}{'new':>6}{'compiled':>9}{'old -O0 s':>10}{'new':>6}{'old text':>9}{'new':>6}"
              f"{'compiled':>9}{'old MB':>7}{'new':>6}{'compiled':>9}")
        for compiler in options.compilers.split(","):
            if shutil.which(compiler) is None:
                continue
            first = {}
            for unit in UNITS:
                least = {}
                for _ in range(options.rounds):
                    for name, (include, flags) in variants.items():
                        now = cost(work, compiler, include, unit, flags)
                        least[name] = tuple(map(min, now, least.get(name, now)))
                seconds, peaks, texts = ({name: value[n] for name, value in least.items()} for n in range(3))
                if unit == "attention":
                    first = least
                if unit == "second_bias":
                    # What it adds, as a part of the unit with one call.
                    seconds = {name: (value[0] - first[name][0]) / first[name][0] for name, value in least.items()}
                    print(f"{compiler:8}{unit:12}" + "  adds, of the first call: " +
                          ", ".join(f"{name} {value:.2f}" for name, value in seconds.items()), flush=True)
                    continue
                old, old_0 = seconds["old -O2"], seconds["old -O0"]
                print(f"{compiler:8}{unit:12}{old:7.1f}{seconds['new -O2'] / old:6.2f}{seconds['compiled'] / old:9.2f}"
                      f"{old_0:10.1f}{seconds['new -O0'] / old_0:6.2f}{texts['old -O2']:9d}"
                      f"{texts['new -O2'] / texts['old -O2']:6.2f}{texts['compiled'] / texts['old -O2']:9.2f}"
                      f"{peaks['old -O2'] / 1024:7.0f}{peaks['new -O2'] / peaks['old -O2']:6.2f}"
                      f"{peaks['compiled'] / peaks['old -O2']:9.2f}", flush=True)


main()
