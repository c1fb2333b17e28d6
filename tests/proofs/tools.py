# SPDX-License-Identifier: MIT
"""Writes the questions for Gappa and Sollya, and reads their answers."""
from __future__ import annotations

import os
import re
import subprocess
from fractions import Fraction

from translate import Node, Untranslatable, const

GAPPA = os.environ.get("POSENC_GAPPA", "gappa")
SOLLYA = os.environ.get("POSENC_SOLLYA", "sollya")


class Unproved(Exception):
    """A tool did not find a proof."""


def literal(x):
    """Returns a number as Gappa reads it, exactly."""
    x = Fraction(x)
    exponent = x.denominator.bit_length() - 1
    if x.denominator != 1 << exponent:
        raise ValueError(f"{x} is not exact in binary")
    return f"{x.numerator}b-{exponent}" if exponent else str(x.numerator)


def power(exponent):
    return Fraction(2) ** exponent


def upper(x, bits=12):
    """Rounds a positive number up to a few bits, so that it is exact in binary."""
    x = Fraction(x)
    shift = bits - (x.numerator.bit_length() - x.denominator.bit_length())
    scaled = x * power(shift)
    return Fraction(-((-scaled.numerator) // scaled.denominator)) * power(-shift)


PRECISION = {"double": 53, "float": 24}
ROUNDING = {"double": "float<ieee_64, ne>", "float": "float<ieee_32, ne>"}


class Gappa:
    """A script: definitions in order, hints, and hypotheses."""

    def __init__(self, real="double"):
        self.real = real
        self.lines = [f"@rnd = {ROUNDING[real]};"]
        self.hints = []
        self.names, self.texts, self.exacts, self.cuts, self.taken = {}, {}, {}, set(), 0

    def let(self, name, node):
        """Gives a name of its own to the rounded value of a node."""
        text = self.rounded_text(node)
        self.lines.append(f"{name} = {text};")
        self.texts[text] = name
        self.names[id(node)] = (name, node)
        return name

    def cut(self, node, name):
        """Replaces a node by a variable, about which hypotheses say all that is known."""
        self.names[id(node)] = (name, node)
        self.cuts.add(id(node))

    def define(self, text):
        self.lines.append(text)

    def operand(self, node):
        if node.op == "var":
            return node.args[0]
        if node.op == "const":
            return self.constant(node.args[0])
        if id(node) in self.names:
            return self.names[id(node)][0]
        text = self.rounded_text(node)
        if text not in self.texts:
            self.taken += 1
            self.texts[text] = f"v{self.taken}"
            self.lines.append(f"v{self.taken} = {text};")
        self.names[id(node)] = (self.texts[text], node)
        return self.texts[text]

    def constant(self, value):
        value = Fraction(value)
        if abs(value.numerator).bit_length() - ((value.numerator & -value.numerator).bit_length() - 1 if value else 0) > PRECISION[self.real]:
            raise Untranslatable(f"{value} is no {self.real}")
        return f"({literal(value)})" if value < 0 else literal(value)

    def rounded_text(self, node):
        if node.op == "neg":
            return f"-{self.operand(node.args[0])}"
        return f"rnd({self.raw(node)})"

    def raw(self, node):
        """Returns the operation of a node on rounded operands, before its own rounding."""
        return self.formula(node, self.operand)

    def below(self, node):
        """Returns the rounding errors of all operations below a node, as a sum: what its operands differ from exact ones."""
        found = []
        def visit(x):
            if x.op in ("var", "const") or any(x is seen for seen in found) or self.is_cut(x):
                return
            for operand in x.args:
                visit(operand)
            found.append(x)
        for operand in node.args:
            visit(operand)
        return "".join(f" + ({self.operand(x)} - ({self.raw(x)}))" for x in found)

    def is_cut(self, node):
        return id(node) in self.names and id(node) in self.cuts

    @staticmethod
    def formula(node, operand):
        given = [operand(x) for x in node.args]
        if node.op == "fma":
            return f"{given[0]} * {given[1]} + {given[2]}" if given[2] != "0" else f"{given[0]} * {given[1]}"
        if node.op in ("add", "sub", "mul", "div"):
            return f"{given[0]} {dict(add='+', sub='-', mul='*', div='/')[node.op]} {given[1]}"
        raise Untranslatable(f"operation {node.op}")

    def exact(self, node, given=None):
        """Returns the name of the same expression without rounding; `given` has names for some nodes."""
        given = given or {}
        if id(node) in given:
            return given[id(node)]
        if node.op == "var":
            return node.args[0]
        if node.op == "const":
            return self.constant(node.args[0])
        if id(node) in self.exacts:
            return self.exacts[id(node)]
        if node.op == "neg":
            text = f"-{self.exact(node.args[0], given)}"
        else:
            text = self.formula(node, lambda x: self.exact(x, given))
        if ("exact", text) not in self.texts:
            self.taken += 1
            self.texts["exact", text] = f"X{self.taken}"
            self.lines.append(f"X{self.taken} = {text};")
        self.exacts[id(node)] = self.texts["exact", text]
        return self.exacts[id(node)]

    def hint(self, text):
        self.hints.append(text if text.endswith(";") else text + ";")

    def script(self, hypotheses, goals):
        return "\n".join([*self.lines, "", "{ " + " /\\ ".join(hypotheses) + "\n  -> " + "\n  /\\ ".join(goals) + " }", "", *self.hints, ""])

    def prove(self, what, hypotheses, goals, seconds=100):
        """Throws Unproved unless Gappa proves all goals; the script goes to stderr of the exception."""
        script = self.script(hypotheses, goals)
        log.append((what, script))
        try:
            done = subprocess.run([GAPPA, "-Wno-unbound-variable"], input=script,
                                  capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Unproved(f"{what}: Gappa needs more than {seconds} s") from None
        # Gappa believes the equations of hints, and warns unless both sides are the same polynomial.
        if done.returncode or "arning" in done.stderr:
            raise Unproved(f"{what}: Gappa finds no proof\n{done.stderr.strip()}")
        return done.stdout + done.stderr


log = []  # the scripts of a run, for --scripts


def sollya(script):
    log.append(("Sollya", script))
    done = subprocess.run([SOLLYA, "--warnonstderr"], input=script, capture_output=True, text=True, timeout=100)
    if done.returncode or "error" in done.stdout.lower() or "warning" in done.stderr.lower():
        raise Unproved(f"Sollya: {done.stdout.strip()} {done.stderr.strip()}")
    return done.stdout


def sollya_expression(node, given):
    """Returns an expression in real arithmetic as Sollya reads it; `given` has the text of some nodes."""
    if id(node) in given:
        return given[id(node)]
    if node.op == "var":
        return "_x_"
    if node.op == "const":
        return fraction(node.args[0])
    operands = [sollya_expression(x, given) for x in node.args]
    if node.op == "fma":
        return f"({operands[0]} * {operands[1]} + {operands[2]})"
    return f"({operands[0]} {dict(add='+', sub='-', mul='*')[node.op]} {operands[1]})"


def supremum_norms(node, function, intervals, given=None, scale=1):
    """Returns proved bounds of |node / scale - function| on intervals: Sollya's supnorm, whose answers are enclosures."""
    # supnorm() takes a polynomial whose coefficients are exact: rational mode expands it without rounding.
    script = (f"prec = 300!; rationalmode = on!; display = powers!;\n"
              f"p = horner(expand(({sollya_expression(node, given or {})}) / {fraction(scale)}));\n")
    for low, high in intervals:
        script += f"print(sup(supnorm(p, {function}, [{fraction(low)}; {fraction(high)}], absolute, 2^-20)));\n"
    return bounds_of(script, len(intervals))


def supremum_norm(node, function, interval):
    return supremum_norms(node, function, [interval])[0]


def largest_magnitudes(expressions):
    """Returns proved bounds of the magnitudes of constants, by Sollya's interval arithmetic."""
    script = "prec = 400!; display = powers!;\n"
    for expression in expressions:
        script += f"print(round(sup(abs([{expression}])), 53, RU));\n"
    return bounds_of(script, len(expressions))


def largest_magnitude(expression):
    return largest_magnitudes([expression])[0]


answers = {}  # of Sollya, by script: theorems with and without fma ask alike


def bounds_of(script, count):
    """Runs a script that prints numbers, one a line, and returns them."""
    if script not in answers:
        answers[script] = sollya(script + "quit;\n").strip().splitlines()
    found = [re.fullmatch(r"(\d+)(?:\s*\*\s*2\^\(?(-?\d+)\)?)?", line.strip()) for line in answers[script]]
    if len(found) != count or not all(found):
        raise Unproved(f"Sollya certifies no bound: {' '.join(answers[script])}")
    return [int(match[1]) * power(int(match[2] or 0)) for match in found]


def fraction(x):
    """Returns a number as Sollya reads it."""
    return f"({Fraction(x).numerator} / {Fraction(x).denominator})"
