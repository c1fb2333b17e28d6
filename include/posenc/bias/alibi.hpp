// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/distances.hpp>
#include <posenc/bias/detail/gradient_sums.hpp>
#include <posenc/bias/detail/logarithm.hpp>
#include <posenc/bias/detail/tile.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

POSENC_STABLE_BEGIN

/// Treatment of keys after the query. The forms agree under a causal mask.
enum class AlibiForm {
  Unspecified,  ///< no form is given, which is a ConfigError
  Causal,    ///< -m (query - key): later keys get a positive bias, so a causal mask must hide them
  Symmetric  ///< -m |query - key|
};

/// Settings of Alibi.
struct AlibiConfig {
  Index heads = 0;                          ///< required
  AlibiForm form = AlibiForm::Unspecified;  ///< required
  double max_bias = 8;  ///< MPT's alibi_bias_max, GGUF's attention.max_alibi_bias
  double scale = 1;     ///< multiplies the bias; Falcon uses 1 / sqrt(head_dim)
};

static_assert(std::is_trivially_copyable_v<AlibiConfig>);

POSENC_STABLE_END

POSENC_BEGIN

/// Returns the slopes m_h for any number of heads. For n a power of two, m_h = 2^(-max_bias (h + 1)
/// / n).
/// Otherwise the first N = 2^floor(log2 n) slopes are those of N heads, and the odd-numbered slopes
/// of 2 N heads follow. The list is therefore not sorted.
///   Source: arXiv 2108.12409 and its repository's get_slopes; flash-attn, MPT, MLX and ggml give
///           the same list
///   Throws: ConfigError
inline std::vector<double> alibi_slopes(Index heads, double max_bias = 8) {
  if (heads <= 0)
    detail::fail<ConfigError>("alibi_slopes", "heads must be set and positive but is ", heads);
  if (heads > (Index{1} << 24)) {
    detail::fail<ConfigError>("alibi_slopes", "heads must not exceed 2^24 but is ", heads);
  }
  if (!std::isfinite(max_bias) || max_bias <= 0) {
    detail::fail<ConfigError>("alibi_slopes", "max_bias must be positive and finite but is ",
                              max_bias);
  }
  Index power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  slopes.reserve(static_cast<std::size_t>(heads));
  const auto slope = [max_bias](Index number, Index of) {
    return std::exp2(-max_bias * static_cast<double>(number) / static_cast<double>(of));
  };
  for (Index h = 0; h < power; ++h) slopes.push_back(slope(h + 1, power));
  for (Index h = power; h < heads; ++h) slopes.push_back(slope(2 * (h - power) + 1, 2 * power));
  return slopes;
}

namespace detail {

/// Calls use(u, values) for each pack of Real. Lane l holds weight * (from - to[u + l]), or weight
/// times the magnitude of that difference if `symmetric`. `count` must be a multiple of
/// distance_padding.
template <std::floating_point Real, class Tier, class Use>
POSENC_ALWAYS_INLINE void for_alibi_values(double weight, bool symmetric, double from,
                                           const double* to, Index count, const Use& use) {
  using P = Pack<double, Tier>;
  // Mask that clears the sign if `symmetric`, and changes nothing otherwise.
  const P kept = P::broadcast(std::bit_cast<double>(~std::uint64_t{0} >> (symmetric ? 1 : 0)));
  const auto bias = [&](Index u) {
    const P distance = (P::broadcast(from) - P::load(to + u)) & kept;
    // mul_add(), because a product could be fused with the addition that follows.
    return mul_add(P::broadcast(weight), distance, P::zero());
  };
  for (Index u = 0; u < count; u += Pack<Real, Tier>::width) {
    if constexpr (std::same_as<Real, double>) {
      use(u, bias(u));
    } else if constexpr (P::width > 1) {
      use(u, rounded(bias(u), bias(u + P::width)));
    } else {
      float value;
      bias(u).store_rounded(&value);
      use(u, Pack<Real, Tier>::broadcast(value));
    }
  }
}

/// Sets values[u] to the bias of key u, as for_alibi_values() computes it.
template <class Tier = tier::Best, std::floating_point Real>
void alibi_values(double weight, bool symmetric, double from, const double* to, Real* values,
                  Index count) noexcept {
  for_alibi_values<Real, Tier>(weight, symmetric, from, to, count,
                               [values](Index u, auto value) { value.store(values + u); });
}

/// Adds the bias of key u, as for_alibi_values() computes it, to scores[u].
template <class Tier = tier::Best, std::floating_point Real>
void add_alibi_values(double weight, bool symmetric, double from, const double* to, Real* scores,
                      Index count) noexcept {
  using P = Pack<Real, Tier>;
  for_alibi_values<Real, Tier>(weight, symmetric, from, to, count, [scores](Index u, P value) {
    (P::load(scores + u) + value).store(scores + u);
  });
}

/// Variant of alibi_values() for double: weight and distance are sums of two doubles. A weight of 0
/// may give -0.
inline void alibi_values_double_double(DoubleDouble weight, bool symmetric, double from,
                                       const double* to, double* values, Index count) noexcept {
  for (Index u = 0; u < count; ++u) {
    const DoubleDouble d = two_sum(from, -to[u]);
    const double sign = symmetric ? std::copysign(1.0, d.hi) : 1.0;
    values[u] = sign * rounded_product(weight.hi, d, mul_add(weight.lo, d.hi, 0.0));
  }
}

/// True if no difference from - to[u] is rounded. `count` must be a multiple of distance_padding.
template <class Tier = tier::Best>
bool are_differences_exact(double from, const double* to, Index count) noexcept {
  using P = Pack<double, Tier>;
  const P first = P::broadcast(from);
  P worst = P::zero();
  for (Index u = 0; u < count; u += P::width) {
    const P second = P::load(to + u);
    const P difference = first - second, part = difference - first;
    const P error = (first - (difference - part)) - (second + part);
    worst = larger(larger(error, P::zero() - error), worst);
  }
  return maximum(worst) == 0;
}

/// Variant of alibi_values() for distances or biases that may overflow a double.
template <std::floating_point Real>
void alibi_values_no_overflow(DoubleDouble weight, bool symmetric, double from, const double* to,
                              Real* values, Index count) noexcept {
  for (Index u = 0; u < count; ++u) {
    if (std::abs(from - to[u]) <= overflow_limit &&
        std::abs(weight.hi * (from - to[u])) <= overflow_limit) {
      double value = 0;
      alibi_values_double_double(weight, symmetric, from, to + u, &value, 1);
      values[u] = static_cast<Real>(value + 0.0);  // 0 of -0
    } else {
      const double half = 0.5 * from - 0.5 * to[u];
      values[u] =
          static_cast<Real>(mul_add(weight.hi * (symmetric ? std::abs(half) : half), 2.0, 0.0));
    }
  }
}

}  // namespace detail

/// Attention with linear biases (arXiv 2108.12409): slope * distance is subtracted from each score.
/// A model of ScoreBias.
///
/// The bias is computed from absolute positions, one tile at a time. A decoded row therefore equals
/// the prefilled one, and nothing of size Sq x Sk is stored. There is no key-only form (slope *
/// key, as in BLOOM and MPT). It equals this form only under a causal mask and without a late soft
/// cap, sinks or log-sum-exp, and it would save next to nothing.
///   Accuracy: 1 ulp of slope * distance in the tile's type, plus the rounding of the sum
class Alibi {
 public:
  /// Constructs with the slopes of alibi_slopes(config.heads, config.max_bias).
  ///   Throws: ConfigError
  explicit Alibi(const AlibiConfig& config)
      : Alibi(alibi_slopes(config.heads, config.max_bias), config.form, config.scale) {}

  /// Constructs from user-supplied slopes, one per head: learned ones, or rounded ones as in
  /// Falcon.
  ///   Throws: ConfigError
  Alibi(std::vector<double> slopes, AlibiForm form, double scale = 1)
      : slopes_(std::move(slopes)), form_(form), scale_(scale) {
    if (form != AlibiForm::Causal && form != AlibiForm::Symmetric) {
      detail::fail<ConfigError>("Alibi", "form must be set to Causal or Symmetric");
    }
    for (const double slope : slopes_) {
      if (!std::isfinite(slope)) {
        detail::fail<ConfigError>("Alibi", "slopes must be finite but one is ", slope);
      }
    }
    if (!std::isfinite(scale)) {
      detail::fail<ConfigError>("Alibi", "scale must be finite but is ", scale);
    }
    for (const double slope : slopes_) {
      const double product = scale * slope;
      if (!std::isfinite(product) || (std::abs(product) < 0x1p-900 && scale != 0 && slope != 0)) {
        detail::fail<ConfigError>(
            "Alibi",
            "scale times slope must be 0 or of a magnitude from 2^-900 to the largest double, ",
            "but they are ", scale, " and ", slope);
      }
    }
  }

  /// Returns the number of heads H.
  Index heads() const noexcept { return static_cast<Index>(slopes_.size()); }
  /// Returns the slopes m_h, one per head.
  const std::vector<double>& slopes() const noexcept { return slopes_; }

  /// Adds the bias of one head: tile(i, j) += -scale * slope[head] * distance(query i, key j).
  template <detail::WritableTile Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, MatrixView<Real> tile) const {
    detail::check_tile("Alibi::add", head, heads(), query_positions, key_positions, tile);
    MatrixView<Real> left = tile;
    if constexpr (std::same_as<Real, float>) {
      // Biases of a single query are used once, so they are added without an intermediate buffer.
      // Double takes the general path, which selects among several kernels.
      if (tile.rows == 1 && !is_tiny(weight_of(head))) {
        const auto keys = static_cast<Index>(key_positions.size());
        const Index whole = keys / detail::distance_padding * detail::distance_padding;
        detail::add_alibi_values(weight_of(head).hi, form_ == AlibiForm::Symmetric,
                                 query_positions[0], key_positions.data(), tile.row(0), whole);
        if (whole == keys) return;
        key_positions = key_positions.subspan(static_cast<std::size_t>(whole));
        left = {tile.row(0) + whole, 1, keys - whole, tile.row_stride};
      }
    }
    detail::add_distance_bias<Real>(query_positions, key_positions, evaluator_of<Real>(head), left);
  }

  /// The class itself, which makes it a DistanceBias.
  using DistanceBiasSelf = Alibi;
  /// Writes values[u] = -scale * slope[head] * distance, where query - key is farthest - u; see
  /// DistanceBias.
  template <detail::WritableTile Real>
  void write_values(Index head, double farthest, std::span<Real> values) const noexcept {
    detail::write_distance_bias(farthest, values, evaluator_of<Real>(head));
  }

  /// Adds the gradient of the slope of one head: -scale times the sum of distance * grad, in
  /// double, to gradient[head].
  template <std::floating_point Real, Device D = detail::CallingThread>
  void add_gradient(Index head, std::span<const double> query_positions,
                    std::span<const double> key_positions, MatrixView<const Real> grad,
                    std::span<double> gradient, const D& device = {}) const {
    constexpr auto function = "Alibi::add_gradient";
    detail::check_tile(function, head, heads(), query_positions, key_positions, grad);
    if (gradient.size() != slopes_.size()) {
      detail::fail<ShapeError>(function, "gradient must have a value for each of the ", heads(),
                               " slopes but has ", gradient.size());
    }
    if (grad.empty()) return;
    const bool symmetric = form_ == AlibiForm::Symmetric;
    const auto subtract = [symmetric](double* sum, double from, const double* to,
                                      const double* grads, Index count) {
      double all = *sum;
      for (Index u = 0; u < count; ++u) {
        const double d = symmetric ? std::abs(from - to[u]) : from - to[u];
        if (grads[u] != 0) all = mul_add(-d, grads[u], all);  // masked keys may be infinitely far
      }
      *sum = all;
    };
    gradient[static_cast<std::size_t>(head)] +=
        scale_ *
        detail::reduce_distances(device, query_positions, key_positions, grad, 1, subtract)[0];
  }

  /// Returns zeros, one value per slope.
  std::vector<double> zero_gradient() const { return std::vector<double>(slopes_.size()); }

 private:
  detail::DoubleDouble weight_of(Index head) const noexcept {
    return detail::two_product(-scale_, slopes_[static_cast<std::size_t>(head)]);
  }
  /// True if the weight is so small that an infinite distance may have a finite bias in float.
  static bool is_tiny(const detail::DoubleDouble& weight) noexcept {
    return std::abs(weight.hi) < 0x1p-800;
  }

  /// Returns the function that evaluates the bias of one head; see add_distance_bias().
  template <class Real>
  auto evaluator_of(Index head) const noexcept {
    const detail::DoubleDouble weight = weight_of(head);
    const bool symmetric = form_ == AlibiForm::Symmetric;
    const bool check_overflow = std::same_as<Real, double> || is_tiny(weight);
    return [=](double from, const double* to, Real* values, Index count) {
      if (check_overflow && detail::may_overflow(weight.hi, from, to, count)) {
        detail::alibi_values_no_overflow(weight, symmetric, from, to, values, count);
        return;
      }
      if constexpr (std::same_as<Real, double>) {
        const bool is_rounded = weight.lo != 0 || !detail::are_differences_exact(from, to, count);
        if (is_rounded && weight.hi != 0) {
          detail::alibi_values_double_double(weight, symmetric, from, to, values, count);
          return;
        }
      }
      detail::alibi_values(weight.hi, symmetric, from, to, values, count);
    };
  }

  std::vector<double> slopes_;
  AlibiForm form_;
  double scale_;
};

POSENC_END
