# SPDX-License-Identifier: MIT
"""Theorems of exp.hpp and tanh.hpp: reduction of the argument, the polynomial, powers of 2, and their sum in ulp."""
from __future__ import annotations

from fractions import Fraction

import theorems
from theorems import theorem
from tools import PRECISION, Gappa, Unproved, fraction, largest_magnitude, largest_magnitudes, literal, power, supremum_norms, upper
from translate import Struct, Untranslatable, var

EXP, TANH = "simd/exp.hpp", "simd/tanh.hpp"
# Largest |x| whose result is a normal number, and the smallest result of exp_nonpositive() as a power of 2.
LARGEST = {"float": Fraction(89), "double": Fraction(710)}
SMALLEST = {"float": -99, "double": -899}
# A little more than ln 2 / 2, and than the largest |r|; and sizes of |r| between which rounding errors are alike.
HALF_LN_2 = {"float": upper(Fraction("0.346582"), 24), "double": upper(Fraction("0.346574"), 24)}
LARGEST_R = {"float": upper(Fraction("0.346765"), 24), "double": upper(Fraction("0.3465742"), 24)}
SIZES = [Fraction(0), power(-8), power(-4), power(-3), power(-2)]


def reader(headers, real, fma, path=EXP):
    read = [headers.read(EXP, fma)] + ([headers.read(path, fma)] if path != EXP else [])
    constants = read[0].constants(f"struct ExpConstants<{real}>")
    return theorems.translator(read, fma, constants, ["SplitExponent"])


def ln_2_error(constants):
    """Returns a proved bound of the error of ln_2_hi + ln_2_lo."""
    return largest_magnitude(f"log(2) - {fraction(constants['ln_2_hi'])} - {fraction(constants['ln_2_lo'])}")


def reduction(read, real, n, r, largest):
    """Proves |x - n ln 2| <= HALF_LN_2 for |x| <= largest, and returns a bound of |r - (x - n ln 2)|."""
    K, shifted = read.constants, n.args[0]
    scaled = shifted if shifted.op == "fma" else shifted.args[0]  # x log2_e
    first, biased = r.args[2] if r.op == "fma" else r.args[1], n.args[1]
    if n.op != "sub" or biased.op != "const" or scaled.args[1].op != "const":
        raise Untranslatable("n is no rounded multiple of x")
    g = Gappa(real)
    g.define("x = rnd(xx);")
    g.cut(argument(n), "x")
    for node, name in ((shifted, "shifted"), (n, "n")):
        g.let(name, node)
        g.cut(node, name)
    g.let("r", r)
    ln_2, bias = literal(K["ln_2_hi"] + K["ln_2_lo"]), literal(biased.args[0])
    log2_e = literal(scaled.args[1].args[0])
    g.define(f"integer = shifted - {bias};")
    g.define(f"rest = x - integer * {ln_2};")
    g.hint(f"rest -> (x * {log2_e} - integer) * {ln_2} - x * ({log2_e} * {ln_2} - 1)")
    g.hint(f"x * {log2_e} - integer -> -(shifted - ({g.raw(shifted)})){g.below(shifted).replace(' + ', ' - ')}")
    g.hint(f"{g.raw(first)} -> rest + integer * {literal(K['ln_2_lo'])} - (n - integer) * {literal(K['ln_2_hi'])}{g.below(first)}")
    g.hint(f"{g.raw(r)} -> rest - (n - integer) * {ln_2}{g.below(r)}")
    g.hint(f"{g.raw(r)} - rest -> -(n - integer) * {ln_2}{g.below(r)}")
    # For |x| <= 1/4 n is 0, so r is x. Otherwise the last bit of x is not too small, so that the first difference is exact.
    g.prove("argument near 0", ["|x| <= 1b-2"], ["integer in [0, 0]"])
    most, slack = upper(largest * Fraction(3, 2)), power(-9) * (not read.fma)  # without fma a second product rounds
    unit = power(-PRECISION[real])
    for low, high in ((Fraction(1, 4), largest), (-largest, -Fraction(1, 4))):
        domain = f"x in [{literal(low)}, {literal(high)}]"
        # The last operation rounds by half an ulp of r, whatever r is.
        g.prove("reduction of the argument", [domain],
                ["@FIX(shifted, 0)", f"|rest| <= {literal(HALF_LN_2[real])}", f"|r| <= {literal(LARGEST_R[real])}",
                 f"|integer| <= {literal(most)}", f"|{g.raw(r)} - rest| <= {literal(unit * slack)}"])
    return lambda size: unit * (size / 2 + slack) + most * ln_2_error(K)


def pieces(real, error):
    """Returns intervals of r, each with the unit in the last place of exp(r) and a bound of the error of r.

    The unit is in ulp of 1. Below 1 it is half of it, also where only the exact remainder is below 0."""
    ends = [(low, high, high) for low, high in zip(SIZES, SIZES[1:])]
    low, high = SIZES[-1], LARGEST_R[real]
    # The polynomial's error grows to the end.
    steps = [low + (high - low) * Fraction(i, 32) for i in (0, 8, 16, 24, 28, 30, 31, 32)]
    ends += [(a, b, 2 * low) for a, b in zip(steps, steps[1:])]
    found = [(Fraction(0), upper(2 * error(SIZES[1])), Fraction(1, 2), error(SIZES[1]))]
    for a, b, size in ends:
        found += [(a, b, Fraction(1), error(size)), (-b, -a, Fraction(1, 2), error(size))]
    return found


def piece_errors(real, result, r, parts, scale=1, function="exp(x)"):
    """Returns proved bounds of |result / scale - function of the exact remainder| on intervals of r."""
    approximate = supremum_norms(result, function, [part[:2] for part in parts], {id(r): "_x_"}, scale)
    slopes = largest_magnitudes([f"exp({fraction(high + off)})" for _, high, _, off in parts])
    found = []
    for (low, high, _, off), of_polynomial, slope in zip(parts, approximate, slopes):
        g = Gappa(real)
        g.define("r = rnd(rx);")
        g.cut(r, "r")
        rounded, exact = g.operand(result), g.exact(result, {id(r): "r"})
        answer = g.prove("evaluation of exp", [f"r in [{literal(low)}, {literal(high)}]"], [f"|{rounded} - {exact}| in ?"])
        found.append(theorems.upper_end(answer) / scale + of_polynomial + slope * off)
    return found


def in_ulp(real, result, r, error, scale=1):
    """Returns a proved bound of the error of `result`, scale * exp(r), in ulp; r itself has an error."""
    parts = pieces(real, error)
    return max(found / part[2] for found, part in zip(piece_errors(real, result, r, parts, scale), parts)) / power(1 - PRECISION[real])


# Arguments of normal results, which no clamp may change.
ARGUMENTS = {"float": (Fraction("-87.34"), Fraction("88.73")), "double": (Fraction("-708.4"), Fraction("709.79"))}


def check_clamps(node, low, high):
    """Checks that the argument of exp() is clamped to an interval that contains [low, high]."""
    while node.op in ("min", "max"):
        limit, other = node.args
        if limit.op != "const" or (limit.args[0] < high if node.op == "min" else limit.args[0] > low):
            raise Unproved(f"the argument is clamped to {limit}")
        node = other
    if node.op != "var":
        raise Untranslatable(f"the argument is {node}")


def argument(n):
    """Returns the argument of exp(), clamped, from the node of n."""
    scaled = n.args[0] if n.args[0].op == "fma" else n.args[0].args[0]
    return scaled.args[0]


NORMAL = {"float": range(-126, 129), "double": range(-1022, 1025)}  # n of normal results


def check_powers(integers, power_of_2):
    """Checks that power_of_2(n) is 2^n for all integers."""
    for n in integers:
        if power_of_2(n) != power(n):
            raise Unproved(f"2^{n} is {power_of_2(n)}")


def exp_bound(headers, real, fma):
    read = reader(headers, real, fma)
    result = read.call("exp", [var("x")])
    n, r, power_node = (read.named[name] for name in ("n", "r", "power"))
    if result.op != "mul" or result.args[0].op != "mul" or result.args[0].args[0] is not power_node:
        raise Untranslatable("exp() is not a number times two powers of 2")
    factors = result.args[0].args[1], result.args[1]
    check_powers(NORMAL[real], lambda i: theorems.product(Fraction(theorems.value(f, {}, real, {id(n): float(i)})) for f in factors))
    check_clamps(argument(n), *ARGUMENTS[real])
    return in_ulp(real, power_node, r, reduction(read, real, n, r, LARGEST[real]))


def split(read, real, bias, largest, integers):
    """Proves the results of split_exponent(): powers of 2, and the error of r, which is returned."""
    given = [var("x")] if bias is None else [var("x"), bias]
    pair, named = read.call("split_exponent", given), read.named
    shifted, biased, n = named["shifted"], named["biased"], named["n"]
    if biased.op != "const" or n.args[0] is not shifted:
        raise Untranslatable("shifted is no integer plus a constant")
    bias = read.constants["exponent_bias"] if bias is None else bias
    scale = power(int(read.constants["exponent_bias"] - bias))
    check_powers(integers, lambda i: scale * Fraction(theorems.value(pair["power_of_2"], {}, real, {id(shifted): float(biased.args[0] + i)})))
    return reduction(read, real, n, pair["r"], largest)


def exp_nonpositive_bound(headers, real, fma):
    read = reader(headers, real, fma)
    K = read.constants
    if K["exponent_rescale"] != power(int(K["exponent_bias"] - K["underflow_exponent"])):
        raise Unproved("exponent_rescale is another power of 2")
    error = split(read, real, K["underflow_exponent"], -K["min_nonpositive_argument"], range(1 - int(K["underflow_exponent"]), 128))
    r = var("r")
    asked = []

    def split_exponent(given):
        asked.append(given)
        return Struct("SplitExponent", {"r": r, "power_of_2": var("w")})

    read.overrides["split_exponent"] = split_exponent
    result = read.call("exp_nonpositive", [var("x")])
    if result.op != "mul" or result.args[1].op != "var":
        raise Untranslatable("exp_nonpositive() does not end with its power of 2")
    check_clamps(asked[0][0], SMALLEST[real] * Fraction("0.6931471"), Fraction(0))
    if asked[0][1] != K["underflow_exponent"]:
        raise Unproved("exp_nonpositive() has another smallest exponent")
    return in_ulp(real, result.args[0], r, error, K["exponent_rescale"])


for real in ("float", "double"):
    for fma in (True, False):
        words = f"in {real}, {'with' if fma else 'without'} fma"
        theorem(f"exp {words}, normal results", "exp" if real == "float" else "exp_double")(
            lambda headers, real=real, fma=fma: exp_bound(headers, real, fma))
        theorem(f"exp_nonpositive {words}, results from 2^{SMALLEST[real]}", "exp_nonpositive" if fma else "exp_nonpositive_without_fma")(
            lambda headers, real=real, fma=fma: exp_nonpositive_bound(headers, real, fma))
