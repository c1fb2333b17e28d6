// SPDX-License-Identifier: MIT
// Errors of cos and sin as other projects compute them, from plain reimplementations.
#include "accuracy/survey.hpp"
#include "accuracy/truth.hpp"
#include "reference/float16.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/unscaled.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace accuracy {
namespace {

using posenc::Index;
using posenc::detail::DoubleDouble;

constexpr int head_dim = 128, pairs = head_dim / 2;
constexpr double base = 10000;

float to_bfloat16(float x) {
  return static_cast<float>(reference::decode(
      reference::bfloat16, reference::encode(reference::bfloat16, static_cast<double>(x))));
}

/// Largest error of each method at positions up to a limit.
class Worst {
 public:
  explicit Worst(std::vector<DoubleDouble> frequencies)
      : exact_(std::move(frequencies)), oscillator_(std::span<const DoubleDouble>(exact_)) {
    // PyTorch, Hugging Face: 1 / base^(2i / d) in float32.
    for (int i = 0; i < pairs; ++i) {
      const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
      inv_freq_[i] = 1.0F / std::pow(static_cast<float>(base), exponent);
    }
  }

  void add(double position) {
    const auto p = static_cast<float>(position);
    // ggml: theta is multiplied by theta_scale from pair to pair.
    const float theta_scale =
        std::pow(static_cast<float>(base), -2.0F / static_cast<float>(head_dim));
    float theta = p, cos_row[pairs], sin_row[pairs];
    double cos_double[pairs], sin_double[pairs];
    oscillator_.cos_sin_row(position, 0, pairs, 1.0, &cos_row[0], &sin_row[0]);
    oscillator_.cos_sin_row(position, 0, pairs, 1.0, &cos_double[0], &sin_double[0]);
    for (int i = 0; i < pairs; ++i) {
      const CosSin want = cos_sin_of(angle_of(position, exact_[static_cast<std::size_t>(i)]));
      const auto check = [&](std::size_t method, double c, double s) {
        const long double off = std::max(std::abs(static_cast<long double>(c) - want.cos),
                                         std::abs(static_cast<long double>(s) - want.sin));
        errors_[method] = std::max(errors_[method], static_cast<double>(off));
      };
      const float angle = p * inv_freq_[i];
      const float c = std::cos(angle), s = std::sin(angle);
      check(0, static_cast<double>(c), static_cast<double>(s));
      check(1, static_cast<double>(std::cos(theta)), static_cast<double>(std::sin(theta)));
      check(2, static_cast<double>(to_bfloat16(c)), static_cast<double>(to_bfloat16(s)));
      check(3, static_cast<double>(cos_row[i]), static_cast<double>(sin_row[i]));
      check(4, cos_double[i], sin_double[i]);
      theta *= theta_scale;
    }
  }

  double error(std::size_t method) const { return errors_[method]; }

 private:
  std::vector<DoubleDouble> exact_;
  posenc::detail::Oscillator oscillator_;
  float inv_freq_[pairs];
  double errors_[5] = {};
};

}  // namespace

std::vector<Comparison> compare_methods(const Extent& extent) {
  std::vector<Comparison> all{{"float32 product (PyTorch, Hugging Face)", {}},
                              {"repeated float32 product (ggml)", {}},
                              {"float32 product, cos and sin in bfloat16 (PyTorch)", {}},
                              {"posenc, float", {}},
                              {"posenc, double", {}}};
  const auto rule = frequencies(posenc::Unscaled{.rotary_dim = head_dim, .base = base});
  const auto& w = posenc::detail::exact_inv_freq(rule);
  Worst worst({w.begin(), w.end()});
  support::Random random(extent.seed);
  double first = 0;
  for (const double limit : comparison_limits) {
    // All positions up to the limit if the survey is exhaustive, otherwise a sample and the last.
    if (extent.stride == 1 || limit - first <= static_cast<double>(extent.samples)) {
      for (double position = first; position < limit; ++position) worst.add(position);
    } else {
      for (long n = 0; n < extent.samples; ++n) {
        worst.add(std::floor(random.uniform(first, limit)));
        worst.add(limit - 1 - static_cast<double>(n % 100));
      }
    }
    first = limit;
    for (std::size_t method = 0; method < all.size(); ++method)
      all[method].errors.push_back(worst.error(method));
  }
  return all;
}

}  // namespace accuracy
