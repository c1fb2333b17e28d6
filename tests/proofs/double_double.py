# SPDX-License-Identifier: MIT
"""Theorems of double_double.hpp."""
from __future__ import annotations

from fractions import Fraction

from angles import TURNS
from theorems import theorem, translator
from tools import Gappa, Unproved, literal, power, upper
from translate import Node, Struct, var

PATH = "core/detail/double_double.hpp"


def pair(name):
    return Struct("DoubleDouble", {"hi": var(name + "h"), "lo": var(name + "l")})


def text(node):
    if node.op in ("var", "const"):
        return str(node.args[0])
    if node.op == "neg":
        return f"(-{text(node.args[0])})"
    if node.op == "fma":
        return f"fma({', '.join(map(text, node.args))})"
    return f"({text(node.args[0])} {dict(add='+', sub='-', mul='*')[node.op]} {text(node.args[1])})"


@theorem("two_sum, quick_two_sum and two_product with fma are those of the textbooks")
def textbook(headers):
    # The exact sums and products of Knuth and Dekker are proved in the literature. The header must have their operations, in
    # their order.
    sums = translator([headers.read(PATH, True)], True, {}, ["DoubleDouble"])
    expected = {
        "quick_two_sum": ("(a + b)", "(b - ((a + b) - a))"),
        "two_sum": ("(a + b)", "((a - ((a + b) - ((a + b) - a))) + (b - ((a + b) - a)))"),
        "two_product": ("fma(a, b, 0)", "fma(a, b, (-fma(a, b, 0)))"),
    }
    for name, want in expected.items():
        got = sums.call(name, [var("a"), var("b")])
        if (text(got["hi"]), text(got["lo"])) != want:
            raise Unproved(f"{name} is {text(got['hi'])}, {text(got['lo'])}")


@theorem("sum of two DoubleDouble: algorithm 6 of Joldes, Muller, Popescu 2017, whose bound is proved there", "double_double")
def published_sum(headers):
    read, steps = translator([headers.read(PATH, True)], True, {}, ["DoubleDouble"]), []

    def record(name):
        def call(given):
            steps.append(f"{name}({text(given[0])}, {text(given[1])})")
            return Struct("DoubleDouble", {"hi": var(f"h{len(steps)}"), "lo": var(f"l{len(steps)}")})
        return call

    for name in ("two_sum", "quick_two_sum"):
        read.overrides[name] = record(name)
    result = read.call("operator+", [pair("a"), pair("b")], ["DoubleDouble", "DoubleDouble"])
    want = ["two_sum(ah, bh)", "two_sum(al, bl)", "quick_two_sum(h1, (l1 + h2))", "quick_two_sum(h3, (l3 + l2))"]
    if steps != want or (text(result["hi"]), text(result["lo"])) != ("h4", "l4"):
        raise Unproved(f"the sum has the steps {steps}")
    return 3 * power(-106) + 13 * power(-159)


def product(headers, fma, factor=None):
    """Proves the relative error of a product, for factors in [1, 2): all others are powers of 2 times these.

    The second factor may be a constant, (high, low)."""
    read = translator([headers.read(PATH, True)], fma, {}, ["DoubleDouble"])
    high, last = Node("mul", var("ah"), var("bh")), []

    def quick_two_sum(given):
        last.append(given)
        return Struct("DoubleDouble", {"hi": given[0], "lo": given[1]})

    read.overrides["two_product"] = lambda given: Struct("DoubleDouble", {"hi": high, "lo": var("pl")})
    read.overrides["quick_two_sum"] = quick_two_sum
    read.call("operator*", [pair("a"), pair("b")], ["DoubleDouble", "DoubleDouble"])
    if len(last) != 1 or last[0][0] is not high:
        raise Unproved("the product ends in no quick_two_sum of its high part")
    g = Gappa()
    for name in ("ah", "al") + (() if factor else ("bh", "bl")):
        g.define(f"{name} = rnd({name}x);")
    hypotheses = ["ah in [1, 2]", f"|al| <= {literal(power(-53))}"]
    if factor:
        g.define(f"bh = {literal(factor[0])};\nbl = {literal(factor[1])};")
    else:
        hypotheses += ["bh in [1, 2]", f"|bl| <= {literal(power(-53))}"]
    g.let("ph", high)
    g.cut(high, "ph")
    g.define("pl = ah * bh - ph;")  # two_product() is exact
    low = last[0][1]
    g.let("low", low)
    g.define("exact = (ah + al) * (bh + bl);")
    g.hint(f"ph + low - exact -> (low - ({g.raw(low)})){g.below(low)} - al * bl")
    g.hint("(ph + low - exact) / exact $ ah in 4" + ("" if factor else ", bh in 4"))
    bound = upper(TURNS * Fraction(99, 100)) if factor else power(-103)
    g.prove(f"product of DoubleDouble {'with' if fma else 'without'} fma", hypotheses,
            [f"|(ph + low - exact) / exact| <= {literal(bound)}"])
    return bound


for fma in (True, False):
    theorem(f"product of two DoubleDouble, {'with' if fma else 'without'} fma", "double_double")(
        lambda headers, fma=fma: product(headers, fma))


@theorem(f"a frequency in quarter turns, within {float(TURNS)} relative, if it is at least 1e-290")
def turns(headers):
    if "quarter_turns = uses_float() ? two_over_pi : exact * two_over_pi;" not in (
            headers.root / "include/posenc/frequency/detail/oscillator.hpp").read_text():
        raise Unproved("the oscillator multiplies frequencies by another number")
    constant = headers.read(PATH, True).constant("two_over_pi")
    for fma in (True, False):
        product(headers, fma, [2 * x for x in constant])  # the hundredth of TURNS that is left covers underflow of the last bits
