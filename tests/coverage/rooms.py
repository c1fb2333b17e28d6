#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sums the coverage of each room: rooms.py <lcov file> <include/posenc> <output folder>.

Writes rooms.csv and uncovered.txt to the output folder, and prints the table.
"""

import csv
import pathlib
import sys
from collections import defaultdict


def read(lcov):
    """Returns {file: ({line: hits}, {branch: hits})}; instantiations of a template are added."""
    lines, branches, path = defaultdict(lambda: defaultdict(int)), defaultdict(lambda: defaultdict(int)), None
    for row in open(lcov, encoding="utf-8"):
        kind, _, value = row.strip().partition(":")
        if kind == "SF":
            path = pathlib.Path(value)
        elif kind == "DA":
            line, hits = value.split(",")[:2]
            lines[path][int(line)] += int(hits)
        elif kind == "BRDA":
            line, block, branch, hits = value.split(",")
            branches[path][line, block, branch] += 0 if hits == "-" else int(hits)
    return lines, branches


def main():
    lcov, include, output = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3])
    lines, branches = read(lcov)
    rooms = defaultdict(lambda: [0, 0, 0, 0])
    uncovered = []
    for path in sorted(lines):
        try:
            name = path.resolve().relative_to(include)
        except ValueError:
            continue
        room = rooms[name.parts[0] if len(name.parts) > 1 else "."]
        for counts, first in ((lines[path], 0), (branches[path], 2)):
            room[first] += len(counts)
            room[first + 1] += sum(hits > 0 for hits in counts.values())
        text = path.read_text(encoding="utf-8").splitlines()
        uncovered += [f"{name}:{line}: {text[line - 1].strip()}" for line, hits in sorted(lines[path].items()) if hits == 0]
    with open(output / "rooms.csv", "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["room", "lines", "covered_lines", "branches", "covered_branches"])
        for room, sums in sorted(rooms.items()):
            table.writerow([room, *sums])
            share = [100 * sums[i + 1] / sums[i] if sums[i] else 100 for i in (0, 2)]
            print(f"{room:12} {sums[0]:6} lines {share[0]:6.2f} %   {sums[2]:6} branches {share[1]:6.2f} %")
    (output / "uncovered.txt").write_text("".join(line + "\n" for line in uncovered), encoding="utf-8")


main()
