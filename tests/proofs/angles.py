# SPDX-License-Identifier: MIT
"""Theorems of cos_sin.hpp: reduction of angles, the two polynomials, quadrants, and their sum for double and float."""
from __future__ import annotations

import re
import struct
from fractions import Fraction

import theorems
from theorems import theorem
from tools import Gappa, Unproved, fraction, largest_magnitude, literal, power, supremum_norm, upper
from translate import Node, Struct, Untranslatable, const, var

# Largest angles in radians; the factor covers the rounding of the product that check_max_angle() compares with 2^50.
DOMAINS = {"near": power(40), "far": power(50) * (1 + power(-50))}
# Bounds that Gappa proves. Steps of the reduction in quarter turns: size of the remainder, and its error.
REMAINDER = {(True, "near"): (upper(Fraction("0.50013")), power(-53)),
             (False, "near"): (upper(Fraction("0.5003")), upper(Fraction("1.112e-16"))),
             (True, "far"): (upper(Fraction("0.5797")), 3 * power(-55)),
             (False, "far"): (upper(Fraction("0.6422")), 19 * power(-57))}
# Rounding errors of the two polynomials for such remainders: cos and sin.
EVALUATION = {(True, "near"): ("1.22e-16", "1.37e-16"), (False, "near"): ("1.51e-16", "1.45e-16"),
              (True, "far"): ("1.31e-16", "1.43e-16"), (False, "far"): ("1.71e-16", "2.28e-16")}
# Errors of the polynomials themselves, which the docstring of cos_sin_reduced() states for 9/16.
APPROXIMATION = {"near": ("6.2e-18", "3.6e-17"), (True, "far"): ("8.2e-18", "4.4e-17"), (False, "far"): ("4.7e-16", "7.3e-17")}
# Relative error of the frequency in quarter turns: the constant 2/pi, and the product of two DoubleDouble.
TWO_OVER_PI, TURNS = Fraction("1e-32"), Fraction("6.2e-32")
PI = Fraction(355, 113)  # more than pi


def translator(headers, fma):
    header = headers.read("simd/cos_sin.hpp", fma)
    return theorems.translator([header], fma, {"shifter": header.constant("shifter")}, ["ReducedAngle", "CosSinOf"])


def quarter_turns(domain):
    """Returns a bound of |position * (hi + lo)|, exact in binary and a little more than radians * 2 / pi."""
    return upper(DOMAINS[domain] * 2 / Fraction(314159265, 100000000), 20)


def reduction_with_fma(headers, domain):
    read = translator(headers, True)
    angle = read.call("reduce_angle", [var("p"), var("hi"), var("lo")])
    shifter = literal(headers.read("simd/cos_sin.hpp", True).constant("shifter"))
    size, error = REMAINDER[True, domain]
    most = quarter_turns(domain)
    g = Gappa()
    for name in ("p", "hi", "lo"):
        g.define(f"{name} = rnd({name}x);")
    g.let("shifted", angle["quadrant_bits"])
    g.let("minus_integer", read.named["minus_integer"])
    g.let("r", angle["remainder"])
    g.define(f"n = shifted - {shifter};")
    g.define("angle = p * hi + p * lo - n;")
    g.define("first = p * hi + minus_integer;")
    exact = f"minus_integer - ({shifter} - shifted)"
    g.hint(f"p * hi + minus_integer -> -(shifted - (p * hi + {shifter})) + ({exact})")
    g.hint(f"r - angle -> (r - (p * lo + rnd(first))) + (rnd(first) - first) + ({exact})")
    g.prove(f"reduction with fma, {domain}",
            [f"|p * hi| <= {literal(most)}", f"|p * lo| <= {literal(most * power(-53))}"],
            ["@FIX(shifted, 0)", f"shifted in [{literal(power(52))}, {literal(power(53))}]",
             f"|r| <= {literal(size)}", f"|r - angle| <= {literal(error)}"])


def mask_bits(node):
    """Returns the number of last bits that a mask clears."""
    if node.op != "and" or node.args[1].op != "bits":
        raise Untranslatable("the halves of Dekker's product are not made by a mask")
    mask = node.args[1].args[0]
    cleared = (~mask & (2 ** 64 - 1)).bit_length()
    if mask != 2 ** 64 - 2 ** cleared or not 0 < cleared < 52:
        raise Untranslatable(f"mask {mask:x}")
    return cleared


def dekker(headers):
    """Proves that `error` is p * hi - product within 2^-104, for p and hi in [1, 2): all other factors are powers of 2 times these."""
    read = translator(headers, False)
    read.call("reduce_angle", [var("p"), var("hi"), var("lo")])
    named = read.named
    g = Gappa()
    for whole in ("position", "hi"):
        bits = mask_bits(named[whole + "_high"])
        operand = "p" if whole == "position" else "hi"
        if named[whole + "_high"].args[0] is not named[whole]:
            raise Untranslatable(f"{whole}_high is no part of {whole}")
        step, last = bits - 52, power(-52)
        # What a mask keeps of a number in [1, 2), and the rest of it.
        g.define(f"{operand}h = fixed<{step}, dn>({operand}hx);")
        g.define(f"{operand}l = fixed<-52, dn>({operand}lx);")
        g.define(f"{operand} = {operand}h + {operand}l;")
        g.cut(named[whole + "_high"], f"{operand}h")
        low = named[whole + "_low"]
        if low.op != "sub" or low.args[0] is not named[whole] or low.args[1] is not named[whole + "_high"]:
            raise Untranslatable(f"{whole}_low is not the rest of {whole}")
        g.cut(low, f"{operand}l")
    ranges = []
    for operand in ("p", "hi"):
        step = mask_bits(named[("position" if operand == "p" else "hi") + "_high"]) - 52
        ranges += [f"{operand}h in [1, {literal(2 - power(step))}]", f"{operand}l in [0, {literal(power(step) - power(-52))}]",
                   f"{operand} in [1, {literal(2 - power(-52))}]"]
    g.let("product", named["product"])
    g.cut(named["product"], "product")
    total = named["error"]
    sums = [total]  # innermost first
    while sums[0].args[0].op in ("add", "sub"):
        sums.insert(0, sums[0].args[0])
    # Each sum is exact, because it is what remains of the product, so it is small.
    rests = ["ph * hil + pl * hi", "pl * hi", "pl * hil", "0 * p"]
    if len(sums) != len(rests):
        raise Untranslatable("Dekker's product has other sums")
    for partial, rest in zip(sums, rests):
        g.hint(f"{g.raw(partial)} -> -({rest}) - (product - p * hi){g.below(partial)}")
    value = g.operand(total)
    g.hint(f"{value} - (p * hi - product) -> ({value} - ({g.raw(total)})){g.below(total)}")
    g.prove("Dekker's product", ranges, [f"|{value} - (p * hi - product)| <= {literal(power(-104))}"])


def reduction_without_fma(headers, domain):
    read = translator(headers, False)
    angle = read.call("reduce_angle", [var("p"), var("hi"), var("lo")])
    shifter = literal(headers.read("simd/cos_sin.hpp", False).constant("shifter"))
    size, error = REMAINDER[False, domain]
    most = quarter_turns(domain)
    scale = power(most.numerator.bit_length() - most.denominator.bit_length())  # of dekker(): a power of 2 not above `most`
    g = Gappa()
    for name in ("p", "hi", "lo", "error"):
        g.define(f"{name} = rnd({name}x);")
    g.cut(read.named["error"], "error")
    g.let("product", read.named["product"])
    g.let("shifted", angle["quadrant_bits"])
    g.let("minus_integer", read.named["minus_integer"])
    remainder = angle["remainder"]
    g.let("r", remainder)
    g.define(f"n = shifted - {shifter};")
    g.define("angle = p * hi + p * lo - n;")
    exact = f"minus_integer - ({shifter} - shifted)"
    g.hint(f"product + minus_integer -> -(shifted - (product + {shifter})) + ({exact})")
    for node, name in ((read.named["product"], "product"), (angle["quadrant_bits"], "shifted")):
        g.cut(node, name)
    g.hint(f"r - angle -> (r - ({g.raw(remainder)})){g.below(remainder)} + (error - (p * hi - product))")
    g.prove(f"reduction without fma, {domain}",
            [f"|p * hi| <= {literal(most)}", f"|p * lo| <= {literal(most * power(-53))}",
             f"|error - (p * hi - product)| <= {literal(scale * power(-104))}"],
            ["@FIX(shifted, 0)", f"shifted in [{literal(power(52))}, {literal(power(53))}]",
             f"|r| <= {literal(size)}", f"|r - angle| <= {literal(error)}"])


def approximation(headers, size, bounds):
    """Certifies the errors of both polynomials for remainders up to `size`."""
    values = translator(headers, True).call("cos_sin_reduced", [var("r")])
    for name, bound in zip(("cos", "sin"), bounds):
        found = supremum_norm(values[name], f"{name}(pi / 2 * x)", (-size, size))
        if found > Fraction(bound):
            raise Unproved(f"the polynomial of {name} has error {float(found):.3g}, more than {bound}, for |r| <= {float(size):.4g}")


def evaluation(headers, fma, size, bounds):
    """Proves the rounding errors of both polynomials as written."""
    values = translator(headers, fma).call("cos_sin_reduced", [var("r")])
    for name, bound in zip(("cos", "sin"), bounds):
        g = Gappa()
        g.define("r = rnd(rx);")
        rounded, exact = g.operand(values[name]), g.exact(values[name])
        g.hint(f"{rounded} - {exact} $ r in 8")
        g.prove(f"evaluation of {name}, {'with' if fma else 'without'} fma", [f"|r| <= {literal(size)}"],
                [f"|{rounded} - {exact}| <= {literal(upper(Fraction(bound)))}"])


def constant_two_over_pi(headers):
    high, low = headers.read("core/detail/double_double.hpp", True).constant("two_over_pi")
    error = largest_magnitude(f"({fraction(high)} + {fraction(low)}) * pi / 2 - 1")
    if error > TWO_OVER_PI:
        raise Unproved(f"two_over_pi has relative error {float(error):.3g}")


def quadrants(headers):
    """Checks the last steps of cos_sin() for each integer modulo 4: signs, and which of cos and sin is which."""
    for fma in (True, False):
        shifter = headers.read("simd/cos_sin.hpp", fma).constant("shifter")
        if shifter % 4 or not power(52) <= shifter < power(53):
            raise Unproved("the last bits of shifter are not 0")
        for integer in range(-8, 8):
            for c, s in ((0.75, 0.5), (0.75, -0.5)):
                read = translator(headers, fma)
                bits = Node("const", shifter + integer)
                read.overrides["reduce_angle"] = lambda given: Struct("ReducedAngle", {"quadrant_bits": bits, "remainder": var("r")})
                read.overrides["cos_sin_reduced"] = lambda given: Struct("CosSinOf", {"cos": const(c), "sin": const(s)})
                got = read.call("cos_sin", [var("p"), var("hi"), var("lo")], ["P", "P", "P"])
                want = [(c, s), (-s, c), (-c, -s), (s, -c)][integer % 4]
                if tuple(theorems.value(got[name]) for name in ("cos", "sin")) != want:
                    raise Unproved(f"quadrant {integer} of ({c}, {s})")


def zeros(headers):
    """Checks that position 0 and -0 give exactly 1 and 0, whatever the signs of hi and lo."""
    for fma in (True, False):
        for position in (0.0, -0.0):
            for high in (1.5, -1.5, 0.0, -0.0):
                for low in (2.0 ** -54, -2.0 ** -54, 0.0, -0.0):
                    read = translator(headers, fma)
                    given = {"p": position, "hi": high, "lo": low}
                    got = read.call("cos_sin", [var("p"), var("hi"), var("lo")], ["P", "P", "P"])
                    found = [struct.pack(">d", theorems.value(got[name], given)).hex() for name in ("cos", "sin")]
                    if found != [struct.pack(">d", x).hex() for x in (1.0, 0.0)]:
                        raise Unproved(f"cos and sin of position {position} times {high} + {low}")


def total(headers, fma, domain):
    """Returns a proved bound of the error of cos and sin in double, for angles of a domain."""
    size, error = REMAINDER[fma, domain]
    (reduction_with_fma if fma else reduction_without_fma)(headers, domain)
    evaluation(headers, fma, size, EVALUATION[fma, domain])
    polynomials = APPROXIMATION[domain if domain == "near" else (fma, domain)]
    approximation(headers, size, polynomials)
    # cos and sin change by no more than the angle does, which is pi/2 times its error in quarter turns.
    angle = error * PI / 2 + DOMAINS[domain] * (TURNS + TWO_OVER_PI)
    return max(Fraction(evaluated) + Fraction(approximate) for evaluated, approximate in zip(EVALUATION[fma, domain], polynomials)) + angle


def small(headers, fma, domain):
    """Returns a proved bound of the error of results that are below 2^-20."""
    size = power(-19)
    evaluation(headers, fma, size, ("1.2e-16", "1e-21"))
    approximation(headers, size, ("1e-21", "1e-21"))
    return REMAINDER[fma, domain][1] * PI / 2 + DOMAINS[domain] * (TURNS + TWO_OVER_PI) + 2 * Fraction("1e-21")


@theorem("cos_sin: Dekker's product, quadrants and zeros")
def steps(headers):
    dekker(headers)
    quadrants(headers)
    zeros(headers)


@theorem("2/pi as a DoubleDouble, within 1e-32 relative")
def two_over_pi(headers):
    constant_two_over_pi(headers)


@theorem("docstring of cos_sin_reduced: errors of its polynomials on 9/16")
def stated_polynomials(headers):
    text = " ".join(line.strip().lstrip("/ ") for line in (headers.root / "include/posenc/simd/cos_sin.hpp").read_text().splitlines())
    stated = re.search(r"\|r\| <= 9/16.*?cos within (\S+) and sin within ([\d.e-]+)", text)
    if not stated:
        raise Untranslatable("the docstring states no errors of the polynomials")
    approximation(headers, Fraction(9, 16), stated.groups())


@theorem("cos and sin are at most 1 in magnitude")
def at_most_1(headers):
    for fma in (True, False):
        values = translator(headers, fma).call("cos_sin_reduced", [var("r")])
        g = Gappa()
        g.define("r = rnd(rx);")
        cos, sin = g.operand(values["cos"]), g.operand(values["sin"])
        g.hint(f"{cos}, {sin} $ r in 16")
        g.prove("magnitude of cos and sin", [f"|r| <= {literal(REMAINDER[False, 'far'][0])}"], [f"{cos} in [0, 1]", f"|{sin}| <= 1"])


for domain, promise in (("near", "near_angle"), ("far", "far_angle")):
    for fma in (True, False):
        words = f"cos and sin in double, |angle| <= 2^{40 if domain == 'near' else 50}, {'with' if fma else 'without'} fma"
        theorem(words, promise)(lambda headers, fma=fma, domain=domain: total(headers, fma, domain))


@theorem("cos and sin in float: half an ulp and the error in double", "float_angle")
def rounded_to_float(headers):
    # Let t be exact, d its double, |d - t| <= e, and f the float nearest to d. If |f - d| is at most half an ulp of t, all is
    # said. Else the binade of |d| is above that of |t|, a power of 2 is between them, and |f - d| <= e, so |f - t| <= 2 e.
    # From 2^-20 on, e is less than a quarter of an ulp, so f is that power of 2, which is within e of t.
    known = theorems.promises(headers)
    for domain, promise in (("near", "near_angle"), ("far", "far_angle")):
        if known[promise] > power(-20 - 23 - 2):
            raise Unproved("the error in double is a large part of an ulp of float")
        for fma in (True, False):
            if 2 * small(headers, fma, domain) > known[promise]:
                raise Unproved(f"results below 2^-20, {domain}")
    return Fraction(1, 2)
