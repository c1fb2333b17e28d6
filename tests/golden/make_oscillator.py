#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes oscillator.csv, the truth of frequency/oscillator_golden_test.cpp, with mpmath.

A row is base, rotary_dim, pair, position, then inv_freq, cos and sin, each as the nearest double
and what it leaves. Rows with base 0 have an inv_freq of their own, to be taken as exact. Lines end
with a comma and numbers are hexadecimal, so that the file is a C++ list of numbers as it stands.
"""
import pathlib

from mpmath import cos, mp, mpf, sin

mp.prec = 400

PRESETS = [(10000, 128), (10000, 64), (10000, 24), (150000, 64), (500000, 128), (1000000, 256),
           (5000000, 128)]
POSITIONS = [0, 1, -1, 4095, 131071, -1048575, 2**24 + 1, 10**9, 2**40, 0.5, -7.25, 1e-9]
OWN = [1.0, 0.1, -0.75, 3.0, 1e-6, 123.456]
OWN_POSITIONS = [1, -3, 0.5, 1000003, 2**40 / 123.456, 2**50 / 123.456, -(2**33 + 1)]


def parts(x):
    """x as the nearest double and the rest."""
    high = float(x)
    return [high, float(x - mpf(high))]


def row(base, rotary_dim, pair, position, inv_freq):
    angle = mpf(position) * inv_freq
    numbers = [base, rotary_dim, pair, position]
    numbers += parts(inv_freq) + parts(cos(angle)) + parts(sin(angle))
    return ", ".join(float(number).hex() for number in numbers) + ",\n"


def rows():
    for base, rotary_dim in PRESETS:
        for pair in (0, 1, rotary_dim // 5, rotary_dim // 2 - 1):
            for position in POSITIONS:
                inv_freq = mpf(base) ** (mpf(-2 * pair) / rotary_dim)
                yield row(base, rotary_dim, pair, position, inv_freq)
    for inv_freq in OWN:
        for position in OWN_POSITIONS:
            yield row(0, 0, 0, position, mpf(inv_freq))


with open(pathlib.Path(__file__).with_name("oscillator.csv"), "w") as file:
    file.write("// base, rotary_dim, pair, position, inv_freq, rest, cos, rest, sin, rest\n")
    file.writelines(rows())
