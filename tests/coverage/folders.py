#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sums the coverage of each folder: folders.py <lcov file> <JSON file> <include/posenc> <output folder>.

Both files are exports of llvm-cov. Lines are read from the first. Branches are read from the second, which has their columns, so
that those of all instantiations of a template are added. Writes folders.csv and uncovered.txt to the output folder, and prints the
table.
"""

import csv
import json
import pathlib
import sys
from collections import defaultdict


def read_lines(lcov):
    """Returns {file: {line: hits}}; instantiations of a template are added."""
    lines, path = defaultdict(lambda: defaultdict(int)), None
    for row in open(lcov, encoding="utf-8"):
        kind, _, value = row.strip().partition(":")
        if kind == "SF":
            path = pathlib.Path(value)
        elif kind == "DA":
            line, hits = value.split(",")[:2]
            lines[path][int(line)] += int(hits)
    return lines


def read_branches(exported, lines):
    """Returns {file: [hits of each branch]}. Conditions that compilers evaluate, which are never counted, are left out."""
    branches = {}
    for file in json.load(open(exported, encoding="utf-8"))["data"][0]["files"]:
        path = pathlib.Path(file["filename"])
        conditions = defaultdict(lambda: [0, 0])
        for *place, if_true, if_false in (branch[:6] for branch in file["branches"]):
            counts = conditions[tuple(place)]
            counts[0] += if_true
            counts[1] += if_false
        branches[path] = [hits for place, counts in conditions.items() if any(counts) or lines[path].get(place[0], 0) == 0
                          for hits in counts]
    return branches


def main():
    lcov, exported = sys.argv[1:3]
    include, output = pathlib.Path(sys.argv[3]).resolve(), pathlib.Path(sys.argv[4])
    lines = read_lines(lcov)
    branches = read_branches(exported, lines)
    folders = defaultdict(lambda: [0, 0, 0, 0])
    uncovered = []
    for path in sorted(lines):
        try:
            name = path.resolve().relative_to(include)
        except ValueError:
            continue
        folder = folders[name.parts[0] if len(name.parts) > 1 else "."]
        for counts, first in ((lines[path].values(), 0), (branches.get(path, []), 2)):
            folder[first] += len(counts)
            folder[first + 1] += sum(hits > 0 for hits in counts)
        text = path.read_text(encoding="utf-8").splitlines()
        uncovered += [f"{name}:{line}: {text[line - 1].strip()}" for line, hits in sorted(lines[path].items()) if hits == 0]
    with open(output / "folders.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["folder", "lines", "covered_lines", "branches", "covered_branches"])
        for folder, sums in sorted(folders.items()):
            table.writerow([folder, *sums])
            share = [100 * sums[i + 1] / sums[i] if sums[i] else 100 for i in (0, 2)]
            print(f"{folder:12} {sums[0]:6} lines {share[0]:6.2f} %   {sums[2]:6} branches {share[1]:6.2f} %")
    (output / "uncovered.txt").write_text("".join(line + "\n" for line in uncovered), encoding="utf-8")


main()
