# SPDX-License-Identifier: MIT
"""Theorems of the frequency rules: the errors of their steps, added up.

The steps are operations of QuadDouble, whose promised errors are assumed here: they are tested, not proved. A rule is compared
word by word with the steps that are added up, so a change of a step fails.
"""
from __future__ import annotations

from fractions import Fraction

import theorems
from theorems import theorem
from tools import Unproved, power
from translate import tokens_of

PATH = "frequency/"
# The functions whose steps the theorems add up.
STEPS = {
    ("frequencies.hpp", "log_of_ratio"): "return log(base) * -2.0 / static_cast<double>(dim);",
    ("frequencies.hpp", "geometric_sequence"): """
        const QuadDouble ratio = exp(log_ratio);
        std::vector<QuadDouble> inv_freq(static_cast<std::size_t>(count));
        QuadDouble power = 1;
        for (QuadDouble& w : inv_freq) {
          w = power;
          power = power * ratio;
        }
        return inv_freq;""",
    ("frequencies.hpp", "wide_power_law"): "return geometric_sequence(log_of_ratio(base, dim), count);",
    ("frequencies.hpp", "power_law"): "return rounded(wide_power_law(base, dim, count));",
    ("frequencies.hpp", "divided"): """
        const QuadDouble inverse = QuadDouble(1) / factor;
        for (QuadDouble& w : inv_freq) w = w * inverse;
        return inv_freq;""",
    ("ntk.hpp", "ntk_power_law"): "return geometric_sequence(log_of_ratio(base, dim) + log_of_ratio(scale, dim - 2), dim / 2);",
    ("detail/rotation_ramp.hpp", "scale_by_rotations"): """
        if (factor == 1) return;
        const QuadDouble width = QuadDouble(high) - low;
        for (QuadDouble& w : inv_freq) {
          const QuadDouble rotations = w * length / (quad_pi * 2.0);
          const QuadDouble above = rotations - low, below = QuadDouble(high) - rotations;
          const bool is_below_low = above < QuadDouble(0);
          if (!is_below_low && !(QuadDouble(0) < below)) continue;
          const QuadDouble interpolated = w / factor;
          w = is_below_low ? interpolated : w * (above / width) + interpolated * (below / width);
        }""",
    ("index_ramp.hpp", "blend"): """
        const QuadDouble width = ramp.high - ramp.low;
        for (std::size_t i = 0; i < a.size(); ++i) {
          const QuadDouble pair = static_cast<double>(i);
          const QuadDouble rho = (pair - ramp.low) / width, kept = (ramp.high - pair) / width;
          if (!(QuadDouble(0) < rho) || a[i] == b[i]) continue;
          a[i] = QuadDouble(0) < kept ? a[i] * kept + b[i] * rho : b[i];
        }""",
}
LAST_LINES = {
    ("unscaled.hpp", "rule.base, rule.rotary_dim, rule.rotary_dim / 2"): "detail::power_law(",
    ("linear.hpp", "rule.base, rule.rotary_dim, rule.rotary_dim / 2"): "detail::wide_power_law(",
    ("linear.hpp", "detail::divided(inv_freq, rule.factor)"): "detail::rounded(",
    ("ntk.hpp", "detail::ntk_power_law(rule.base, rule.factor, rule.rotary_dim)"): "detail::rounded(",
    ("llama3.hpp", "inv_freq"): "detail::rounded(",
    ("yarn.hpp", "divided(inv_freq, factor)"): "interpolated = ",
}
ROUNDED = "return quick_two_sum(x.limbs[0], x.limbs[1] + x.limbs[2]);"
LARGEST_LOG = Fraction(231)  # of a base or factor up to 1e100
PAIRS = power(23)            # half of max_channels


def expect_steps(headers):
    for (path, name), words in STEPS.items():
        body = tokens_of_text(headers.read(PATH + path, True).function(name)[2])
        if body != tokens_of_text(words):
            raise Unproved(f"{path}: {name} has other steps: {' '.join(body)}")
    for (path, words), before in LAST_LINES.items():
        text = "".join(headers.read(PATH + path, True).text.split())
        if "".join((before + words).split()) not in text:
            raise Unproved(f"{path}: its rule has other steps than {before}{words}")
    body = headers.read("core/detail/quad_double.hpp", True).function("rounded")[2]
    if tokens_of_text(body) != tokens_of_text(ROUNDED):
        raise Unproved(f"rounded(QuadDouble) has other steps: {body}")


def tokens_of_text(text):
    return tokens_of(text.replace("||", " && ").replace("==", " = "))


class Errors:
    """Promised errors of QuadDouble, and relative errors of the steps."""

    def __init__(self, headers):
        known = theorems.promises(headers)
        self.operation, self.function = known["quad_double"], known["quad_double_exp"]
        # The third and fourth limb are at most 2^-106 and 2^-159 of the first, and the sum of the second and third rounds.
        self.rounded = power(-106) + power(-158)

    def log_of_ratio(self, dim_share):
        """Absolute error times the number of pairs; dim_share is at least 2 pairs / dim."""
        # log(base), and two operations on it. Each error is multiplied by 2 / dim, and then by the number of pairs.
        return dim_share * LARGEST_LOG * (self.function + 2 * self.operation) * 2

    def geometric(self, log_error):
        """Relative error of each number of a sequence, from the error of the logarithm times the number of pairs."""
        # Each step multiplies by ratio, which has the errors of exp and of its argument. The factor 2 covers products of errors.
        return 2 * (log_error + PAIRS * (self.function + self.operation))

    def power_law(self):
        return self.geometric(self.log_of_ratio(1))

    def ntk(self):
        # (dim - 2) is at least half of dim, and the sum rounds once more.
        return self.geometric(self.log_of_ratio(1) + self.log_of_ratio(2) + 3 * LARGEST_LOG * self.operation * 2)

    def divided(self, error):
        return error + 3 * self.operation

    def ramp(self, error, condition):
        """Relative error within the ramp of Llama 3, if factor * high / (high - low) is at most `condition`."""
        # rotations has the error of w and three more; above and below have it times high, and round by 2^-195 of high. Each is
        # divided by width and multiplies w, which is at most factor times the result.
        return 2 * (condition * 2 * (error + 6 * self.operation) + error + 6 * self.operation)


@theorem("frequency rules: Unscaled, NtkScaling, LinearScaling, and Llama3Scaling and YarnScaling outside of their ramps", "rules")
def plain_rules(headers):
    expect_steps(headers)
    errors = Errors(headers)
    return max(errors.power_law(), errors.ntk(), errors.divided(errors.power_law())) + errors.rounded


@theorem("frequency rules: Llama3Scaling within its ramp, if factor high / (high - low) <= 2^60", "rules")
def llama3_ramp(headers):
    expect_steps(headers)
    errors = Errors(headers)
    return errors.ramp(errors.power_law(), power(60)) + errors.rounded
