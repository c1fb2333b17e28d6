# SPDX-License-Identifier: MIT
"""Reads the text of a docstring: paragraphs, labelled lines ("Shapes:", "Throws:", ...) and formulas.

    Computes something, in one or more lines.
      Shapes:   q [B, S, H, D]; a continued line begins
                below the text
      Throws:   ShapeError

        y0 = m (cos x0 - sin x1)

A label is indented by two columns. Indented lines without a label, outside of a labelled line, are a formula.
"""
import re
from dataclasses import dataclass

LABEL = re.compile(r"^  ([A-Z][A-Za-z0-9]*(?: [a-z]+){0,3}):(?: +|$)(.*)$")
SENTENCE = re.compile(r"^(.+?\S[.;])(?=\s+[A-Z(`]|\s*$)", re.S)


@dataclass
class Block:
    """A paragraph, a labelled line or a formula, by `kind`: "text", "label" or "formula"."""

    kind: str
    text: str
    label: str = ""


def lines_of(text):
    """Returns the lines of a comment without its slashes, and without one space after them."""
    lines = []
    for line in text.strip().split("\n"):
        line = re.sub(r"^\s*///<?", "", line.rstrip())
        lines.append(line[1:] if line.startswith(" ") else line)
    return lines


def blocks(text):
    found = []
    fresh = True  # the next line of text begins a paragraph
    for line in lines_of(text):
        label = LABEL.match(line)
        last = found[-1] if found else None
        if not line.strip():
            fresh = True
        elif label:
            found.append(Block("label", label[2], label[1]))
            fresh = False
        elif line.startswith("   ") and last and last.kind == "label" and not fresh:
            last.text = (last.text + " " + line.strip()).strip()
        elif line.startswith("  "):
            if last and last.kind == "formula" and not fresh:
                last.text += "\n" + line[2:]
            else:
                found.append(Block("formula", line[2:]))
            fresh = False
        elif last and last.kind == "text" and not fresh:
            last.text += " " + line.strip()
        else:
            found.append(Block("text", line.strip()))
            fresh = False
    return found


def first_sentence(text):
    for block in blocks(text):
        if block.kind == "text":
            match = SENTENCE.match(block.text)
            return (match[1] if match else block.text).rstrip(":;")
    return ""
