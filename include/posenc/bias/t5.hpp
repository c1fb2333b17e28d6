// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/distances.hpp>
#include <posenc/bias/detail/gradient_sums.hpp>
#include <posenc/bias/detail/tile.hpp>
#include <posenc/bias/table_gradient.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/detail/strict_fp_order.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

POSENC_STABLE_BEGIN

/// Directions that T5's buckets distinguish.
enum class T5Direction {
  Unspecified,    ///< no direction is given, which is a ConfigError
  Bidirectional,  ///< encoders: half of the buckets for later keys
  Causal          ///< decoders: all keys after the query share bucket 0 and should be masked
};

/// Settings of T5Bias.
struct T5BiasConfig {
  Index buckets = 32;        ///< relative_attention_num_buckets; must be even if bidirectional
  Index max_distance = 128;  ///< relative_attention_max_distance: from here on one bucket for all
  T5Direction direction = T5Direction::Unspecified;  ///< required
};

static_assert(std::is_trivially_copyable_v<T5BiasConfig>);

POSENC_STABLE_END

POSENC_BEGIN

/// T5's buckets of relative positions: one per distance for short distances, logarithmically wider
/// ones beyond. With n buckets per direction and e = n / 2, distance d < e has bucket d. Longer
/// ones have e + floor(ln(d / e) / ln(max_distance / e) (n - e)), at most n - 1. If bidirectional,
/// n is added for keys after the query.
///   Throws:   ConfigError
///   Accuracy: exact; buckets are found by integer thresholds, not by floating-point logarithms
///   Source:   arXiv 1910.10683, section 2.1; Hugging Face's modeling_t5.py
class T5Buckets {
 public:
  /// Copies the thresholds. Moving copies, too, because bucket() must find thresholds in a
  /// moved-from object.
  T5Buckets(const T5Buckets&) = default;
  /// Copies the thresholds.
  T5Buckets& operator=(const T5Buckets&) = default;

  /// Computes the thresholds of the buckets.
  ///   Throws: ConfigError; std::bad_alloc
  explicit T5Buckets(const T5BiasConfig& config) : config_(config) {
    constexpr auto function = "T5Buckets";
    detail::check_strict_fp_order(function);
    const bool both = config.direction == T5Direction::Bidirectional;
    if (!both && config.direction != T5Direction::Causal) {
      detail::fail<ConfigError>(function, "direction must be set to Bidirectional or Causal");
    }
    constexpr Index limit = Index{1} << 20;
    if (config.buckets < (both ? 4 : 2) || config.buckets > limit ||
        (both && config.buckets % 2 != 0)) {
      detail::fail<ConfigError>(function, "buckets must be at least ", both ? 4 : 2,
                                both ? " and even" : "", " and at most ", limit, " but are ",
                                config.buckets);
    }
    const Index direction_buckets = both ? config.buckets / 2 : config.buckets;
    const Index exact = direction_buckets / 2, steps = direction_buckets - exact;
    if (config.max_distance <= exact || config.max_distance > (Index{1} << 53)) {
      detail::fail<ConfigError>(
          function, "max_distance must be more than the ", exact,
          " distances that have individual buckets, and at most 2^53, but is ",
          config.max_distance);
    }
    for (Index d = 1; d <= exact; ++d) thresholds_.push_back(static_cast<double>(d));
    // Bucket exact + j begins at the smallest integer d with (d / e)^steps >= (max_distance / e)^j.
    const auto e = static_cast<double>(exact);
    const detail::DoubleDouble reach =
        log(detail::DoubleDouble(static_cast<double>(config.max_distance)) / e);
    for (Index j = 1; j < steps; ++j) {
      const detail::DoubleDouble goal = reach * static_cast<double>(j);
      const auto reached = [&](double d) {
        const detail::DoubleDouble lack =
            goal - log(detail::DoubleDouble(d) / e) * static_cast<double>(steps);
        return lack <= goal * 0x1p-80;  // equality up to the rounding of the logarithms
      };
      double d = std::floor(e * exp(goal / static_cast<double>(steps)).hi);
      while (d > 1 && reached(d - 1)) d -= 1;
      while (!reached(d)) d += 1;
      thresholds_.push_back(d);
    }
    // Distances from the last threshold on share a bucket. The table ends before it if it would be
    // too long.
    table_reach_ = static_cast<Index>((std::min)(thresholds_.back(), 0x1p12));
    for (Index d = -table_reach_; d <= table_reach_; ++d)
      bucket_table_.push_back(search_bucket(static_cast<double>(d)));
  }

  /// Returns the bucket of relative = key_position - query_position. Fractions are cut off. NaN has
  /// the bucket of the farthest earlier key.
  Index bucket(double relative) const noexcept {
    const auto reach = static_cast<double>(table_reach_);
    if (std::abs(relative) > reach && reach < thresholds_.back()) return search_bucket(relative);
    // With the arguments in this order NaN becomes -reach.
    const auto whole = static_cast<Index>((std::min)((std::max)(-reach, relative), reach));
    return bucket_table_[static_cast<std::size_t>(whole + table_reach_)];
  }

  /// Calls visit(u, bucket) for each of `count` keys at key - query = first + u. `first` must be an
  /// integer of at most 2^52.
  template <class Visit>
  void for_each_consecutive(double first, Index count, const Visit& visit) const {
    const auto begin = static_cast<Index>(first);
    if (static_cast<double>(table_reach_) < thresholds_.back()) {
      for (Index u = 0; u < count; ++u) visit(u, bucket(static_cast<double>(begin + u)));
      return;
    }
    const Index low = std::clamp(-table_reach_ - begin, Index{0}, count);
    const Index high = std::clamp(table_reach_ - begin, low, count);
    const Index* const of = bucket_table_.data();
    for (Index u = 0; u < low; ++u) visit(u, of[0]);
    for (Index u = low; u < high; ++u) visit(u, of[begin + table_reach_ + u]);
    for (Index u = high; u < count; ++u) visit(u, of[2 * table_reach_]);
  }

  /// Returns the settings.
  const T5BiasConfig& config() const noexcept { return config_; }
  /// Returns the distances at which buckets 1, 2, ... of a direction begin.
  std::span<const double> thresholds() const noexcept {
    return {thresholds_.data(), thresholds_.size()};
  }

 private:
  Index search_bucket(double relative) const noexcept {
    const bool both = config_.direction == T5Direction::Bidirectional;
    const double distance = both ? std::abs(relative) : -relative;
    const double* const begin = thresholds_.data();
    const Index bucket = std::upper_bound(begin, begin + thresholds_.size(), distance) - begin;
    return bucket + (both && relative > 0 ? config_.buckets / 2 : 0);
  }

  T5BiasConfig config_;
  std::vector<double> thresholds_;
  Index table_reach_ = 0;
  std::vector<Index> bucket_table_;  ///< buckets of -table_reach_ .. table_reach_
};

/// T5's learned bias: table[bucket of key - query, head] is added to each score. A model of
/// ScoreBias.
///
/// Views the user's table, which must outlive it. T5 keeps the table in its first layer and shares
/// it with all others, and does not scale q k^T by 1 / sqrt(head_dim). The bias is computed from
/// absolute positions, one tile at a time, so a decoded row equals the prefilled one. Keys whose
/// position is NaN get a value of the table, see T5Buckets::bucket(), and not NaN as from other
/// biases.
///   Shapes:   table [buckets, H]
///   Accuracy: the table's value, and the rounding of the sum
///   Source:   as T5Buckets
template <class T>
class T5Bias {
  static_assert(detail::CheckScalar<T>::value);

 public:
  /// Constructs the bias from a view of the table.
  ///   Throws: ConfigError; ShapeError unless the table has `buckets` rows
  T5Bias(MatrixView<const T> table, const T5BiasConfig& config) : table_(table), buckets_(config) {
    detail::check_extents("T5Bias", "table", table);
    if (table.rows != config.buckets) {
      detail::fail<ShapeError>("T5Bias", "table must have a row for each of the ", config.buckets,
                               " buckets but is ", table.extents());
    }
  }

  /// Returns the number of heads H.
  Index heads() const noexcept { return table_.cols; }
  /// Returns the buckets.
  const T5Buckets& buckets() const noexcept { return buckets_; }

  /// Adds the bias of one head: tile(i, j) += table[bucket(key j - query i), head].
  template <detail::WritableTile Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, MatrixView<Real> tile) const {
    detail::check_tile("T5Bias::add", head, heads(), query_positions, key_positions, tile);
    detail::add_distance_bias<Real>(query_positions, key_positions, evaluator_of<Real>(head), tile);
  }

  /// The class itself, which makes it a DistanceBias.
  using DistanceBiasSelf = T5Bias;
  /// Writes values[u] = table[bucket(key - query), head], where query - key is farthest - u; see
  /// DistanceBias.
  template <detail::WritableTile Real>
  void write_values(Index head, double farthest, std::span<Real> values) const noexcept {
    detail::write_distance_bias(farthest, values, evaluator_of<Real>(head));
  }

  /// Adds the gradient of the table, for the gradient of the scores of one head:
  /// grad_table[bucket(key j - query i), head] += the sum of grad(i, j).
  ///   Types:  sums of a call are double, and are rounded once when added to the table
  ///   Shapes: grad [Sq, Sk]; grad_table as the table: a MatrixView, or a TableGradient, see
  ///           zero_gradient()
  ///   Throws: ShapeError; std::bad_alloc if the table has more than 1024 rows. On the threads of
  ///           attention_backward() a std::bad_alloc ends the program
  template <std::floating_point Real, detail::GradientOfTable Gradient,
            Device D = detail::CallingThread>
  void add_gradient(Index head, std::span<const double> query_positions,
                    std::span<const double> key_positions, MatrixView<const Real> grad,
                    Gradient&& grad_table, const D& device = {}) const {
    constexpr auto function = "T5Bias::add_gradient";
    detail::check_tile(function, head, heads(), query_positions, key_positions, grad);
    const auto table = detail::gradient_view(grad_table);
    detail::check_table_gradient(function, table, table_.extents());
    if (grad.empty()) return;
    const auto add_values = [&](double* sums, double from, const double* to, const double* grads,
                                Index count) {
      for (Index u = 0; u < count; ++u) sums[buckets_.bucket(to[u] - from)] += grads[u];
    };
    const auto sums = detail::reduce_distances(device, query_positions, key_positions, grad,
                                               static_cast<std::size_t>(table_.rows), add_values);
    detail::add_sums(sums, head, table);
  }

  /// Returns zeros in the shape of the table.
  TableGradient zero_gradient() const { return TableGradient(table_.rows, table_.cols); }

 private:
  /// Returns the function that evaluates the bias of one head; see add_distance_bias().
  template <class Real>
  auto evaluator_of(Index head) const noexcept {
    return [this, head](double from, const double* to, Real* values, Index count) {
      if (detail::points_into_iota(to) && detail::is_exact_integer(from)) {
        const T* const column = table_.data + head;
        const Index stride = table_.row_stride;
        buckets_.for_each_consecutive(to[0] - from, count, [=](Index u, Index bucket) {
          values[u] = static_cast<Real>(column[bucket * stride]);
        });
        return;
      }
      for (Index u = 0; u < count; ++u) {
        values[u] = static_cast<Real>(table_.row(buckets_.bucket(to[u] - from))[head]);
      }
    };
  }

  MatrixView<const T> table_;
  T5Buckets buckets_;
};

/// Deduces T from a view of a table, const or not.
template <class T>
T5Bias(MatrixView<T>, const T5BiasConfig&) -> T5Bias<std::remove_const_t<T>>;

POSENC_END
