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


FORMATS = {"double": (">d", ">Q", 64), "float": (">f", ">I", 32)}


def bits_of(x, real="double"):
    return struct.unpack(FORMATS[real][1], struct.pack(FORMATS[real][0], x))[0]


def of_bits(x, real="double"):
    return struct.unpack(FORMATS[real][0], struct.pack(FORMATS[real][1], x % 2 ** FORMATS[real][2]))[0]


def value(node, given=None, real="double", known=None):
    """Runs an expression on numbers, as IEEE 754 says. `given` has variables by name, and `known` values of some nodes."""
    if known and id(node) in known:
        return known[id(node)]
    if node.op == "var":
        return given[node.args[0]]
    if node.op == "const":
        return float(node.args[0])
    if node.op == "bits":
        return of_bits(node.args[0], real)
    if node.op == "shl":
        return of_bits(bits_of(value(node.args[0], given, real, known), real) << int(node.args[1]), real)
    args = [value(x, given, real, known) for x in node.args]
    if node.op == "fma":
        exact = Fraction(args[0]) * Fraction(args[1]) + Fraction(args[2])
        result = float(exact) if exact else args[0] * args[1] + args[2]  # the sign of a zero
    else:
        operations = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a,
                      "and": lambda a, b: of_bits(bits_of(a, real) & bits_of(b, real), real),
                      "xor": lambda a, b: of_bits(bits_of(a, real) ^ bits_of(b, real), real),
                      "add_bits": lambda a, b: of_bits(bits_of(a, real) + bits_of(b, real), real),
                      "select": lambda sign, a, b: a if math.copysign(1, sign) < 0 else b}
        result = operations[node.op](*args)
    if real == "float":
        if float(Fraction(result)) != result or (node.op == "fma" and Fraction(result) != exact):
            raise ValueError("two roundings")
        return struct.unpack(">f", struct.pack(">f", result))[0]
    return result


def product(numbers):
    return math.prod(numbers, start=Fraction(1))


def upper_end(answer):
    """Returns the upper end of the only interval of an answer of Gappa; 0 if no number fulfils the hypotheses."""
    if "anything can be proved" in answer:
        return Fraction(0)
    number = r"(-?\d+)(?:b(-?\d+))?(?: \{[^}]*\})?"
    found = [match[2:] for match in re.findall(rf" in \[{number}, {number}\]", answer)]
    if len(found) != 1:
        raise ValueError(answer)
    return Fraction(int(found[0][0])) * Fraction(2) ** int(found[0][1] or 0)


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
