#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Changes a constant or the order of operations in a copy of the headers: a theorem must then fail.

    tests/proofs/mutants.py

Ends with 77 if a tool is missing, with 1 if a change is not noticed.
"""
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True

import prove  # noqa: E402
import theorems  # noqa: E402
from translate import ROOT  # noqa: E402

COS_SIN, DOUBLE_DOUBLE, EXP, TANH = "simd/cos_sin.hpp", "core/detail/double_double.hpp", "simd/exp.hpp", "simd/tanh.hpp"
ROTATION, FREQUENCIES = "rotary/detail/rotation_step.hpp", "frequency/frequencies.hpp"
# Header, its words, other words, and words of the theorem that notices.
CONSTANTS = [
    (COS_SIN, "0x1.03c1f081b5a72p-2", "0x1.03c1f081b5a82p-2", "double, |angle| <= 2^40, with fma"),
    (COS_SIN, "-0x1.4abbce625be53p-1", "-0x1.4abbce625be4ep-1", "polynomials"),
    (COS_SIN, "shifter = 0x1.8p52", "shifter = 0x1.8p51", "double, |angle| <= 2^50, with fma"),
    (COS_SIN, "0xfffffffff8000000u", "0xfffffffffc000000u", "Dekker"),
    (COS_SIN, "shift_left<62>", "shift_left<61>", "quadrants"),
    (EXP, "0x1.555518p-5f", "0x1.555918p-5f", "exp in float, with fma"),
    (EXP, "0x1.7f7d1cp-20f", "0x1.7f7d1cp-21f", "exp_nonpositive in float, with fma"),
    (EXP, "shifter = 0x1.8p23f", "shifter = 0x1.8p22f", "tanh in float, with fma"),
    (DOUBLE_DOUBLE, "-0x1.6b01ec5417056p-55", "-0x1.6b01ed5417056p-55", "2/pi"),
]
ORDERS = [
    (COS_SIN, "(product + minus_integer) + (error + position * lo)", "product + (minus_integer + (error + position * lo))",
     "double, |angle| <= 2^50, without fma"),
    (COS_SIN, "mul_add(position, lo, mul_add(position, hi, minus_integer))",
     "mul_add(position, hi, mul_add(position, lo, minus_integer))", "double, |angle| <= 2^40, with fma"),
    (COS_SIN, "position_high * hi_high - product) + position_high * hi_low",
     "position_high * hi_high + position_high * hi_low - product)", "Dekker"),
    (EXP, "const P r = mul_add(n, P::broadcast(-K::ln_2_hi), x);\n  return {mul_add(n, P::broadcast(-K::ln_2_lo), r)",
     "const P r = mul_add(n, P::broadcast(-K::ln_2_lo), x);\n  return {mul_add(n, P::broadcast(-K::ln_2_hi), r)",
     "exp_nonpositive in float, with fma"),
    (EXP, "mul_add(detail::exp_polynomial(r), r * r, r) + P::broadcast(T{1})",
     "mul_add(detail::exp_polynomial(r), r * r, r + P::broadcast(T{1}))", "exp in float, with fma"),
    (TANH, "mul_add(exp_r_minus_1, power_of_2, power_of_2 - P::broadcast(T{1}))",
     "mul_add(exp_r_minus_1, power_of_2, power_of_2) - P::broadcast(T{1})", "tanh in float, with fma"),
    (ROTATION, "mul_sub(c, x.x0[k], s * x.x1[k])", "mul_sub(c, x.x1[k], s * x.x0[k])", "rotation of a pair in float"),
    (FREQUENCIES, "log(base) * -2.0 / static_cast<double>(dim)", "log(base) / static_cast<double>(dim) * 2.0", "frequency rules: Unscaled"),
    (DOUBLE_DOUBLE, "quick_two_sum(product.hi, product.lo + cross)", "quick_two_sum(product.hi + product.lo, cross)",
     "product of two DoubleDouble, with fma"),
    (DOUBLE_DOUBLE, "quick_two_sum(sum.hi, sum.lo + low.hi)", "quick_two_sum(sum.hi, sum.lo + low.lo)", "sum of two"),
    (DOUBLE_DOUBLE, "(a - (sum - b_part)) + (b - b_part)", "(a + (b - b_part)) - (sum - b_part)", "textbook"),
]


def notices(mutant, folder):
    """Returns what the theorems with these words say of a mutant, or None if they hold."""
    path, words, others, theorem_words = mutant
    text = (ROOT / "include" / "posenc" / path).read_text()
    if text.count(words) != 1:
        raise SystemExit(f"{path} has {words!r} {text.count(words)} times")
    copied = folder / "include" / "posenc" / path
    copied.write_text(text.replace(words, others))
    chosen = [theorem for theorem in theorems.THEOREMS if theorem_words in theorem.words]
    if not chosen:
        raise SystemExit(f"no theorem has the words {theorem_words!r}")
    headers = theorems.Headers(folder)
    promised = theorems.promises(headers)
    verdicts = [prove.judge(theorem, headers, promised) for theorem in chosen]
    said = [text.partition(": ")[2].splitlines()[0] for holds, text in verdicts if not holds]
    copied.write_text(text)
    return said[0] if said else None


def main():
    if prove.missing_tools():
        return 77
    unnoticed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shutil.copytree(ROOT / "include", folder / "include")
        (folder / "tests" / "accuracy").mkdir(parents=True)
        shutil.copy(ROOT / "tests" / "accuracy" / "promises.hpp", folder / "tests" / "accuracy")
        for kind, mutants in (("constant", CONSTANTS), ("order", ORDERS)):
            for mutant in mutants:
                said = notices(mutant, folder)
                print(f"{kind:8}  {mutant[0]}: {mutant[2]}\n          {said or 'NOT NOTICED by ' + mutant[3]}")
                unnoticed += said is None
    print(f"{len(CONSTANTS)} constants and {len(ORDERS)} orders changed, {unnoticed} not noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
