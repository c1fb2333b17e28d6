#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare.py RECORDINGS NEW: compares new recordings, of some architectures, with those of the repository."""
import pathlib
import re
import sys


def table(folder, name):
    lines = (pathlib.Path(folder) / name).read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def graphs(folder):
    """Returns the graphs, with parameters of rotations and rows in place of their numbers."""
    rotations = {row[0]: "(" + row[1] + ")" for row in table(folder, "rotations.tsv")}
    rows = {row[0]: "(" + row[1] + ")" for row in table(folder, "rows.tsv")}

    def layer(text):
        count, star, text = text.rpartition("*")
        fields = text.split(",")
        if len(fields) == 1:
            return count + star + text
        for field, names in ((0, rotations), (1, rotations), (6, rows), (7, rows)):
            fields[field] = names.get(fields[field], fields[field])
        return count + star + ",".join(fields)

    return {tuple(row[:2]): ";".join(layer(x) for x in row[2].split(";")) for row in table(folder, "graphs.tsv")}


def main(recordings, new):
    old, fresh = graphs(recordings), graphs(new)
    different = [key for key, text in fresh.items() if old.get(key) != text]
    for key in different:
        print(f"{' '.join(key)}:\n  recorded {old.get(key)}\n  now      {fresh[key]}")
    names = sorted({architecture for architecture, _ in fresh})
    missing = [key for key in old if key[0] in names and key not in fresh]
    for key in missing:
        print(f"{' '.join(key)}: not recorded now")
    print(f"{', '.join(names)}: {len(fresh)} graphs, {len(different) + len(missing)} different")
    return 1 if different or missing or not fresh else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
