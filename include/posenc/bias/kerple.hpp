// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/distances.hpp>
#include <posenc/bias/detail/gradient_sums.hpp>
#include <posenc/bias/detail/logarithm.hpp>
#include <posenc/bias/detail/tile.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/detail/strict_fp_order.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

POSENC_STABLE_BEGIN

/// Dependence of KERPLE's bias on the distance d = |query - key|.
enum class KerpleForm {
  Unspecified,  ///< no form is given, which is a ConfigError
  Logarithmic,  ///< -r1 ln(1 + r2 d)
  Power         ///< -r1 d^r2
};

POSENC_STABLE_END

POSENC_BEGIN

/// Settings of Kerple: its learned parameters, one value per head. The authors' code calls r1 and
/// r2 bias_p and bias_a in the logarithmic form, and bias_a and bias_p in the power form.
struct KerpleConfig {
  KerpleForm form = KerpleForm::Unspecified;  ///< required
  std::vector<double> r1 = {};                ///< required; positive
  std::vector<double> r2 = {};  ///< required; positive, and at most 2 in the power form
};

/// Gradient of the parameters of Kerple, one value per head.
struct KerpleGradient {
  std::vector<double> r1,  ///< gradient of r1, [H]
      r2;                  ///< gradient of r2, [H]

  /// Adds the gradient of other scores.
  ///   Throws: ShapeError
  KerpleGradient& operator+=(const KerpleGradient& other) {
    if (other.r1.size() != r1.size() || other.r2.size() != r2.size()) {
      detail::fail<ShapeError>("KerpleGradient", "the gradient to add must have ", r1.size(),
                               " r1 and ", r2.size(), " r2 but has ", other.r1.size(), " and ",
                               other.r2.size());
    }
    detail::add_values(other.r1.data(), r1.data(), static_cast<Index>(r1.size()));
    detail::add_values(other.r2.data(), r2.data(), static_cast<Index>(r2.size()));
    return *this;
  }
};

/// Kernelised relative positions (KERPLE): a function of |query - key| with two learned parameters
/// per head is subtracted from each score. Keys after the query get the bias of keys at the same
/// distance before it; a mask has to hide them. A model of ScoreBias.
///   Accuracy: 1 ulp of the bias in the tile's type, plus the rounding of the sum. The logarithmic
///             form has it if r2 d is 0 or at least 2^-900. In tiles of double the power form has a
///             relative error of 2^-53 (3 + 2 r2 |ln d|) for d up to 2^490
///   Source:   arXiv 2205.09921, section 4
class Kerple {
 public:
  /// Constructs the bias from its parameters.
  ///   Throws: ConfigError
  explicit Kerple(const KerpleConfig& config) : config_(config) {
    detail::check_strict_fp_order("Kerple");
    if (config.form != KerpleForm::Logarithmic && config.form != KerpleForm::Power) {
      detail::fail<ConfigError>("Kerple", "form must be set to Logarithmic or Power");
    }
    if (config.r1.empty() || config.r1.size() != config.r2.size()) {
      detail::fail<ConfigError>("Kerple", "r1 and r2 must have a value for each head but have ",
                                config.r1.size(), " and ", config.r2.size());
    }
    const bool power = config.form == KerpleForm::Power;
    for (const double r1 : config.r1) {
      if (!std::isfinite(r1) || r1 <= 0) {
        detail::fail<ConfigError>("Kerple", "r1 must be positive and finite but one is ", r1);
      }
    }
    for (const double r2 : config.r2) {
      if (!std::isfinite(r2) || r2 <= 0 || (power && r2 > 2)) {
        detail::fail<ConfigError>("Kerple", "r2 must be positive and ",
                                  power ? "at most 2" : "finite", " but one is ", r2);
      }
    }
  }

  /// Returns the number of heads H.
  Index heads() const noexcept { return static_cast<Index>(config_.r1.size()); }
  /// Returns the settings, including the parameters.
  const KerpleConfig& config() const noexcept { return config_; }

  /// Adds the bias of one head: tile(i, j) += bias[head](|query i - key j|).
  template <detail::WritableTile Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, MatrixView<Real> tile) const {
    detail::check_tile("Kerple::add", head, heads(), query_positions, key_positions, tile);
    with_evaluator_of<Real>(head, [&](const auto& values) {
      detail::add_distance_bias<Real>(query_positions, key_positions, values, tile);
    });
  }

  /// The class itself, which makes it a DistanceBias.
  using DistanceBiasSelf = Kerple;
  /// Writes values[u] = bias[head](|distance|), where query - key is farthest - u; see
  /// DistanceBias.
  template <detail::WritableTile Real>
  void write_values(Index head, double farthest, std::span<Real> values) const noexcept {
    with_evaluator_of<Real>(head, [&](const auto& evaluate) {
      detail::write_distance_bias(farthest, values, evaluate);
    });
  }

  /// Adds the gradient of r1[head] and r2[head], for the gradient of the scores of one head, summed
  /// in double.
  ///   Cost:   one addition per score, and one logarithm or power per distance at consecutive
  ///           positions, otherwise per score
  template <std::floating_point Real, Device D = detail::CallingThread>
  void add_gradient(Index head, std::span<const double> query_positions,
                    std::span<const double> key_positions, MatrixView<const Real> grad,
                    KerpleGradient& gradient, const D& device = {}) const {
    constexpr auto function = "Kerple::add_gradient";
    detail::check_tile(function, head, heads(), query_positions, key_positions, grad);
    if (gradient.r1.size() != config_.r1.size() || gradient.r2.size() != config_.r2.size()) {
      detail::fail<ShapeError>(function, "gradient must have r1 and r2 for each of the ", heads(),
                               " heads but has ", gradient.r1.size(), " and ", gradient.r2.size());
    }
    if (grad.empty()) return;
    const auto at = static_cast<std::size_t>(head);
    const double r1 = config_.r1[at], r2 = config_.r2[at];
    const bool logarithmic = config_.form == KerpleForm::Logarithmic;
    const auto subtract = [&](double* sums, double from, const double* to, const double* grads,
                              Index count) {
      double values[static_cast<std::size_t>(detail::max_block_distances)];
      if (logarithmic) {
        detail::log1p_distances<double>(r2, from, to, values, count,
                                        [](double log, double) { return log; });
      }
      double grad_r1 = sums[0], grad_r2 = sums[1];
      for (Index u = 0; u < count; ++u) {
        if (grads[u] == 0) continue;  // masked keys: their power may be infinite
        const double d = std::abs(from - to[u]);
        double value = 0, slope = 0;
        if (logarithmic) {
          value = values[u];
          if (d > 0) slope = 1 / (1 / d + r2);
        } else {
          value = std::pow(d, r2);
          if (d > 0) slope = value * std::log(d);
        }
        grad_r1 = mul_add(-value, grads[u], grad_r1);
        grad_r2 = mul_add(-r1 * slope, grads[u], grad_r2);
      }
      sums[0] = grad_r1;
      sums[1] = grad_r2;
    };
    const auto sums =
        detail::reduce_distances(device, query_positions, key_positions, grad, 2, subtract);
    gradient.r1[at] += sums[0];
    gradient.r2[at] += sums[1];
  }

  /// Returns zeros in the shape of the parameters.
  KerpleGradient zero_gradient() const {
    return {std::vector<double>(config_.r1.size()), std::vector<double>(config_.r2.size())};
  }

 private:
  /// Calls use() with the function that evaluates the bias of one head; see add_distance_bias().
  template <class Real, class Use>
  void with_evaluator_of(Index head, const Use& use) const {
    const double r1 = config_.r1[static_cast<std::size_t>(head)];
    const double r2 = config_.r2[static_cast<std::size_t>(head)];
    const auto logarithms = [=](double from, const double* to, Real* values, Index count) {
      detail::log1p_distances<Real>(r2, from, to, values, count, [=](double log, double log_lo) {
        if constexpr (std::same_as<Real, double>) {
          return detail::rounded_product(-r1, detail::DoubleDouble(log, log_lo));
        } else {
          return mul_add(-r1, log, 0.0);
        }
      });
    };
    const auto powers = [=](double from, const double* to, Real* values, Index count) {
      // Two numbers have a denormal distance only if both are tiny.
      if (detail::may_overflow(0x1p490, from, to, count) || std::abs(from) < 0x1p-960) {
        power_values_of_any_distance(r1, r2, from, to, values, count);
      } else {
        power_values(r1, r2, from, to, values, count);
      }
    };
    if (config_.form == KerpleForm::Logarithmic) {
      use(logarithms);
    } else {
      use(powers);
    }
  }

  /// Sets values[u] = -r1 |from - to[u]|^r2, for distances that are 0, or from the least normal
  /// number to 2^491.
  template <class Real>
  static void power_values(double r1, double r2, double from, const double* to, Real* values,
                           Index count) noexcept {
    double x[static_cast<std::size_t>(detail::max_block_distances)];
    for (Index u = 0; u < count; ++u) x[u] = detail::logarithm(std::abs(from - to[u]));
    using P = Pack<double, tier::Best>;
    const P rate = P::broadcast(r2), none = P::broadcast(-std::numeric_limits<double>::infinity());
    for (Index u = 0; u < count; u += P::width) {
      // logarithm(0) is -1023 ln 2, below the logarithm of every normal number.
      const P log = P::load(x + u);
      exp(select_by_sign(log + P::broadcast(709), none, rate * log)).store(x + u);
    }
    for (Index u = 0; u < count; ++u) values[u] = static_cast<Real>(mul_add(-r1, x[u], 0.0));
  }

  /// Variant of power_values() for any distances. A power may overflow a double although its
  /// product with r1 does not. The power of an infinite distance is infinite, and that of NaN is
  /// NaN.
  template <class Real>
  static void power_values_of_any_distance(double r1, double r2, double from, const double* to,
                                           Real* values, Index count) noexcept {
    power_values(r1, r2, from, to, values, count);
    for (Index u = 0; u < count; ++u) {
      const double d = std::abs(from - to[u]), half = std::abs(0.5 * from - 0.5 * to[u]);
      if (d > 0 && d < (std::numeric_limits<double>::min)()) {
        values[u] = static_cast<Real>(-r1 * std::pow(d, r2));
      } else if (!std::isfinite(half)) {
        values[u] = static_cast<Real>(-half);
      } else if (half > 0x1p490) {
        const double root = std::exp(0.25 * r2 * (detail::logarithm(half) + detail::ln_2.hi));
        values[u] = static_cast<Real>(-(r1 * root * root * root * root));
      }
    }
  }

  KerpleConfig config_;
};

POSENC_END
