# SPDX-License-Identifier: MIT
"""Theorem of the rotation kernel: the rounding errors of one pair."""
from __future__ import annotations

import re

from theorems import theorem, translator, value
from tools import PRECISION, Gappa, Unproved, literal, power
from translate import Body, Node, Untranslatable, tokens_of, var

PATH = "rotary/detail/rotation_step.hpp"


def outputs(headers, fma):
    """Returns the expressions that rotated() writes: each an expression of the channel x, its partner and their c and s."""
    text = re.sub(r"//[^\n]*", "", (headers.root / "include" / "posenc" / PATH).read_text())
    body = text[text.index(" rotated(const Channels& x"):text.index("return y;", text.index(" rotated(const Channels& x"))]
    statements = re.findall(r"y\.(x[01])\[k\] = ([^;]*);", body)
    if [name for name, _ in statements] != ["x0", "x0", "x1"]:
        raise Untranslatable("rotated() writes other channels")
    read = translator([headers.read("core/mul_add.hpp", fma)], fma, {}, [])
    read.overrides["swap_pairs"] = lambda given: var("x1") if given[0].args == ("x0",) else var("x0")
    names = {"c": var("c"), "s": var("s"), "k": 0, "x": {"x0": [var("x0")], "x1": [var("x1")]}}
    return [Body(read, tokens_of(expression), dict(names)).expression() for _, expression in statements]


def rotation(headers, real, fma):
    # The norm of the pair is in [1, 2): all others are powers of 2 times such. |c| and |s| are at most 1 (angles.at_most_1), so
    # products are less than 2. The result may be larger than the norm, by the errors of c and s.
    unit = power(1 - PRECISION[real])  # an ulp of the norm
    most = literal(2 + power(-20))
    for result, want in zip(outputs(headers, fma), (2 * 5 + 3 * 7, 2 * 5 - 3 * 7, 2 * 7 + 3 * 5)):
        if value(result, {"c": 2.0, "s": 3.0, "x0": 5.0, "x1": 7.0}) != want:
            raise Unproved("a rotated channel is another sum of products")
        g = Gappa(real)
        for name in ("c", "s", "x0", "x1"):
            g.define(f"{name} = rnd({name}x);")
        rounded, exact = g.operand(result), g.exact(result)
        products = {x.args[:2] for x in walk(result) if x.op in ("mul", "fma")}
        names = sorted("".join(sorted(y.args[0] for y in pair)) for pair in products)
        g.prove(f"rotation in {real}, {'with' if fma else 'without'} fma",
                [f"|{name[0]} * {name[1:]}| <= 2" for name in names] + [f"|{exact}| <= {most}"],
                [f"|{rounded} - {exact}| <= {literal(2 * unit)}"])
    return 2


def walk(node):
    yield node
    for operand in node.args:
        if isinstance(operand, Node):
            yield from walk(operand)


for real in ("float", "double"):
    for fma in (True, False):
        theorem(f"rotation of a pair in {real} by given c and s, factor 1, {'with' if fma else 'without'} fma", "rotation")(
            lambda headers, real=real, fma=fma: rotation(headers, real, fma))
