#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Copies posenc's public headers, with every docstring wrapped into Doxygen's @verbatim.

Docstrings are plain text with labelled lines, which Doxygen would read as Markdown and HTML: `|q k|`, `<x, y>` and
`a * b` mean something there. docstring.py of this folder reads the text instead. Line numbers stay.

    wrap_docstrings.py <include folder> <output folder>
"""
import re
import sys
from pathlib import Path

OWN_LINE = re.compile(r"^(\s*)///(?!/)(<?)(.*)$")
AFTER_CODE = re.compile(r"^(.*\S\s+)///<(.*)$")
AFTER_BRACE = re.compile(r"^(\s*)((?:struct|class|enum) .*\{)\s+///<(.*)$")


def wrap(text):
    # Doxygen gives a comment after an opening brace to the first member.
    lines = [AFTER_BRACE.sub(r"\1/** @verbatim\3 @endverbatim */ \2", line) for line in text.split("\n")]
    blocks = []  # runs of comment lines that Doxygen reads as one: [first, last]
    for number, line in enumerate(lines):
        own = OWN_LINE.match(line)
        after = None if own else AFTER_CODE.match(line)
        if not own and not after:
            continue
        continues = own and blocks and blocks[-1][1] == number - 1
        if continues and own[2] == blocks[-1][2]:
            blocks[-1][1] = number
        else:
            blocks.append([number, number, "<" if after else own[2]])
    for first, last, _ in blocks:
        lines[first] = re.sub(r"///(<?) ?", r"///\1 @verbatim ", lines[first], count=1)
        lines[last] += " @endverbatim"
    return "\n".join(lines)


def main(include, output):
    for header in sorted(include.rglob("*.hpp")):
        relative = header.relative_to(include)
        if "detail" in relative.parts:
            continue
        copy = output / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(wrap(header.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
