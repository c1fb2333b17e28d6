# SPDX-License-Identifier: MIT
"""Theorem of tanh.hpp."""
from __future__ import annotations

import itertools
import math
from fractions import Fraction

from elementary import LARGEST_R, TANH, piece_errors, pieces, reader, split
from theorems import theorem
from tools import PRECISION, Gappa, Unproved, fraction, largest_magnitudes, literal, power
from translate import Struct, Untranslatable, var

SMALL = power(-5)  # below it, bounds are relative


def ulp(x, real):
    """Returns the unit in the last place of numbers from x > 0 on, to the next power of 2."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    exponent -= power(exponent) > x
    return power(exponent + 1 - PRECISION[real])


def parts_of(headers, real, fma):
    """Returns the expression of exp(r) - 1, r, and the error of r, once the other steps are as the theorem has them."""
    read = reader(headers, real, fma, TANH)
    error = split(read, real, None, Fraction(40), range(0, 59))
    read = reader(headers, real, fma, TANH)
    r, w, asked = var("r"), var("w"), []

    def split_exponent(given):
        asked.append(given)
        return Struct("SplitExponent", {"r": r, "power_of_2": w})

    read.overrides["split_exponent"] = split_exponent
    result = read.call("tanh", [var("x")])
    named = read.named
    reduced, most = named["exp_r_minus_1"], asked[0][0]
    total = result.args[0]
    sum_ = total.args[1]
    expected = read.mul_add(reduced, w, named["exp_minus_1"].args[-1])
    tests = [result.op == "xor" and result.args[1] is named["sign"], total.op == "div" and total.args[0] is named["exp_minus_1"],
             sum_.op == "add" and sum_.args[0] is named["exp_minus_1"] and sum_.args[1].args[0] == 2,
             repr(expected) == repr(named["exp_minus_1"]),
             repr(named["exp_minus_1"].args[-1]) == "sub(var('w'), const(Fraction(1, 1)))",
             len(asked) == 1 and most.op == "min" and most.args[0].args[0] == 40,
             repr(most.args[1]) == repr(read.operate("+", named["magnitude"], named["magnitude"]))]
    if not all(tests):
        raise Untranslatable("tanh() has other steps: " + str(tests))
    return reduced, r, error


def bound(real, low, high, error):
    """Returns a bound of the error in ulp, if exp(2|x|) - 1 is in [low, high] and known with this error."""
    # y = E / (E + 2) has the derivative 2 / (E + 2)^2. The sum is rounded, and so is the quotient, by half a unit of it. If that
    # is in a higher binade than the exact y, a power of 2 is between. Then E and E + 2 are multiples of their units, so that a
    # quotient which is rounded up is as far from the power of 2 as the next number, up to half a unit of y: README.md.
    of_error = 2 * error / (low - error + 2) ** 2
    of_sum = (high + error) / (high + error + 2) * ulp(high + error + 2, real) / 2 / (low - error + 2)
    return (of_error + of_sum) / ulp(low / (low + 2), real) + Fraction(1, 2)


def grid(low, high, count, crossings):
    """Returns the ends of intervals: evenly spaced, and close to both sides of points where a unit changes."""
    near = power(-30)
    ends = {low + (high - low) * Fraction(i, count) for i in range(count + 1)}
    ends |= {end for x in crossings for end in (Fraction(x).limit_denominator(2 ** 40) - near, Fraction(x).limit_denominator(2 ** 40) + near)}
    ends = sorted({Fraction(round(end * 2 ** 40), 2 ** 40) for end in ends if low <= end <= high})
    return list(zip(ends, ends[1:]))


def exp_between(parts):
    """Returns proved bounds of exp(r) below and above on intervals of r."""
    lower = largest_magnitudes([f"exp({fraction(-low)})" for low, _ in parts])
    upper = largest_magnitudes([f"exp({fraction(high)})" for _, high in parts])
    return [(1 / a, b) for a, b in zip(lower, upper)]


def tanh_bound(headers, real, fma):
    reduced, r, error = parts_of(headers, real, fma)
    worst = tiny(real, reduced, r)
    # 2|x| up to ln(2) / 2: it is r, without an error.
    most = LARGEST_R[real]
    crossings = [math.log1p(2.0 ** k) for k in range(-6, 0)]
    crossings += [math.log((1 + 2.0 ** k) / (1 - 2.0 ** k)) for k in range(-7, -1)]
    parts = [part for k in range(-5, -1) for part in grid(power(k), min(power(k + 1), most), 1 if k < -3 else 2, crossings)]
    found = piece_errors(real, reduced, r, [(low, high, 1, Fraction(0)) for low, high in parts], 1, "expm1(x)")
    for (low, high), off in zip(exp_between(parts), found):
        worst = max(worst, bound(real, low - 1, high - 1, off))
    # Other arguments: n from 1 to 58, and r of both signs. The product with 2^n is exact, and 2^n - 1 until n exceeds the precision.
    crossings = [math.log(x) for x in (5 / 6, 1, 3 / 4, 5 / 4)]
    sizes = [Fraction(0), power(-3), power(-2), most]
    parts = [part for low, high in zip(sizes, sizes[1:]) for part in grid(low, high, 4, crossings) + grid(-high, -low, 4, crossings)]
    offs = [error(next(size for size in (power(-3), power(-2), power(-1)) if max(-low, high) <= size)) for low, high in parts]
    found = piece_errors(real, reduced, r, [(*part, 1, off) for part, off in zip(parts, offs)], 1, "expm1(x)")
    for (low, high), off in zip(exp_between(parts), found):
        for n in range(1, 59):
            w = power(n)
            of_difference = ulp(w, real) / 2 if n > PRECISION[real] else 0
            total = ulp(w * high - 1, real) / 2 + w * off + of_difference
            worst = max(worst, bound(real, w * low - 1, w * high - 1, total))
    return worst


def tiny(real, reduced, r):
    """Returns a bound of the error in ulp for 2|x| up to SMALL."""
    # r^2 q(r) is small beside r, so its relative error hardly matters. It is proved down to 2^-60, where r^2 is less than half an
    # ulp of r.
    g = Gappa(real)
    g.define("r = rnd(rx);")
    g.cut(r, "r")
    raw, exact = g.raw(reduced), g.exact(reduced, {id(r): "r"})
    g.define(f"raw = {raw};")
    off = power(-4 - PRECISION[real])
    g.prove("tanh of small numbers", [f"r in [{literal(power(-60))}, {literal(SMALL)}]"], [f"|(raw - {exact}) / r| <= {literal(off)}"])
    # The polynomial: coefficients beside those of exp, where r^2 q(r) has the coefficients of q from the second on.
    coefficients = exp_coefficients(reduced, r)
    differences = sum(abs(c - Fraction(1, math.factorial(k))) * SMALL ** (k - 1) for k, c in enumerate(coefficients) if k > 1)
    differences += 2 * SMALL ** (len(coefficients) - 1) / math.factorial(len(coefficients))
    relative = 2 * (off + differences)
    # E and E + 2 round by a unit of y each at most, and the quotient by half of it.
    return (2 * (1 + relative * power(PRECISION[real])) + Fraction(1, 2)) * (1 + SMALL)


def exp_coefficients(node, r):
    """Returns the coefficients of an expression, a polynomial in r."""
    if node is r:
        return [Fraction(0), Fraction(1)]
    if node.op == "const":
        return [node.args[0]]
    given = [exp_coefficients(x, r) for x in node.args]
    if node.op == "add":
        return added(*given)
    product = [Fraction(0)] * (len(given[0]) + len(given[1]) - 1)
    for i, a in enumerate(given[0]):
        for j, b in enumerate(given[1]):
            product[i + j] += a * b
    return added(product, given[2]) if node.op == "fma" else product


def added(a, b):
    return [x + y for x, y in itertools.zip_longest(a, b, fillvalue=Fraction(0))]


LIMIT = {"float": Fraction("3.5"), "double": Fraction("3.75")}
for real in LIMIT:
    for fma in (True, False):
        def proved(headers, real=real, fma=fma):
            found = tanh_bound(headers, real, fma)
            if found > LIMIT[real]:
                raise Unproved(f"the bound is {float(found):.3f} ulp")

        theorem(f"tanh in {real}, {'with' if fma else 'without'} fma: {float(LIMIT[real])} ulp, more than its promise", None)(proved)
