# SPDX-License-Identifier: MIT
"""The list of theorems, and what they share."""
from __future__ import annotations

import pathlib
import re
from fractions import Fraction

import math
import struct

from translate import ROOT, Header, Translator


class Headers:
    """The headers of a copy of posenc."""

    def __init__(self, root=ROOT):
        self.root = pathlib.Path(root)

    def read(self, path, fma):
        return Header(self.root / "include" / "posenc" / path, fma)


def translator(headers, fma, constants, structs):
    """Returns a translator that knows the members of these structs of the first header."""
    return Translator(headers, fma, constants, {name: headers[0].members(name) for name in structs})


def bits_of(x):
    return struct.unpack(">Q", struct.pack(">d", x))[0]


def of_bits(x):
    return struct.unpack(">d", struct.pack(">Q", x))[0]


def value(node, given=None):
    """Runs an expression in double precision on numbers, as IEEE 754 says."""
    if node.op == "var":
        return given[node.args[0]]
    if node.op == "const":
        return float(node.args[0])
    if node.op == "bits":
        return of_bits(node.args[0])
    if node.op == "shl":
        return of_bits((bits_of(value(node.args[0], given)) << int(node.args[1])) % 2 ** 64)
    args = [value(x, given) for x in node.args]
    if node.op == "fma":
        exact = Fraction(args[0]) * Fraction(args[1]) + Fraction(args[2])
        return float(exact) if exact else args[0] * args[1] + args[2]  # the sign of a zero
    operations = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
                  "and": lambda a, b: of_bits(bits_of(a) & bits_of(b)), "xor": lambda a, b: of_bits(bits_of(a) ^ bits_of(b)),
                  "select": lambda sign, a, b: a if math.copysign(1, sign) < 0 else b}
    return operations[node.op](*args)


class Theorem:
    """A statement, the promise that it proves, and the function that proves it: it returns a bound, or None."""

    def __init__(self, words, promise, prove):
        self.words, self.promise, self.prove = words, promise, prove


THEOREMS = []


def theorem(words, promise=None):
    """Adds a function to the list. It receives the headers, and throws Unproved or Untranslatable."""
    def add(prove):
        THEOREMS.append(Theorem(words, promise, prove))
        return prove
    return add


def promises(headers):
    """Returns {name: number} of tests/accuracy/promises.hpp."""
    text = (headers.root / "tests" / "accuracy" / "promises.hpp").read_text()
    found = {}
    for name, number in re.findall(r'Promise (\w+)\{\s*"([^"]*)"', text):
        found[name] = Fraction(2) ** int(number[2:]) if number.startswith("2^") else Fraction(number)
    return found
