// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/distances.hpp>
#include <posenc/bias/detail/gradient_sums.hpp>
#include <posenc/bias/detail/logarithm.hpp>
#include <posenc/bias/detail/piecewise_linear.hpp>
#include <posenc/bias/detail/relu_segments.hpp>
#include <posenc/bias/detail/tile.hpp>
#include <posenc/bias/fire_parameters.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/detail/strict_fp_order.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

POSENC_BEGIN

/// Functional interpolation of relative positions (FIRE). A model of ScoreBias. Head h adds f_h(x)
/// to a score, where
///     x = ln(1 + c |query - key|) / (ln(1 + c max(query, L)) + epsilon)
/// and f is a network 1 -> width -> H with one ReLU layer. The denominator depends on the query's
/// absolute position, so positions must count from the start of the text. Keys after the query get
/// the bias of keys at the same distance before it; a mask has to hide them.
///   Accuracy: x is within 2 ulp of the tile's type; each term of f_h may see another such x. f_h
///             is within (width + 4) ulp of the sum of its terms' magnitudes, written as a line and
///             breakpoints, if x and their abscissas are 0 or at least 1e-30
///   Cost:     two operations per score for the line. Each breakpoint below the tile's largest x
///             costs three more, or two if all x of the tile lie above it. One addition per score
///             if consecutive queries up to the threshold share distances
///   Source:   arXiv 2310.04418; the code in its appendix has the magnitude and the epsilon
class Fire {
 public:
  /// Constructs the bias from its parameters and the epsilon of its definition.
  ///   Throws: ConfigError
  explicit Fire(FireParameters parameters, double epsilon = 1e-6)
      : parameters_(std::move(parameters)), epsilon_(epsilon) {
    detail::check_strict_fp_order("Fire");
    const FireParameters& p = parameters_;
    const auto require_positive = [](const char* name, double value) {
      if (!std::isfinite(value) || value <= 0) {
        detail::fail<ConfigError>("Fire", name, " must be set, positive and finite, but is ",
                                  value);
      }
    };
    require_positive("c", p.c);
    require_positive("threshold", p.threshold);
    if (!std::isfinite(epsilon) || epsilon < 0) {
      detail::fail<ConfigError>("Fire", "epsilon must be finite and not negative but is ", epsilon);
    }
    const std::size_t width = p.hidden_weight.size(), heads = p.output_bias.size();
    if (width == 0 || heads == 0 || p.hidden_bias.size() != width ||
        p.output_weight.size() != heads * width) {
      detail::fail<ConfigError>(
          "Fire",
          "hidden_weight and hidden_bias must be [width], output_weight [heads, width] and "
          "output_bias [heads] but have ",
          width, ", ", p.hidden_bias.size(), ", ", p.output_weight.size(), " and ", heads,
          " values");
    }
    for (const auto* values :
         {&p.hidden_weight, &p.hidden_bias, &p.output_weight, &p.output_bias}) {
      for (const double value : *values) {
        if (!std::isfinite(value)) {
          detail::fail<ConfigError>("Fire", "weights must be finite but one is ", value);
        }
      }
    }
    check_range();
    segments_ = detail::ReluSegments(p.hidden_weight, p.hidden_bias);
    for (std::size_t h = 0; h < heads; ++h) {
      const ListView<double> weights(p.output_weight.data() + h * width, width);
      head_networks_.push_back({{p.hidden_weight, p.hidden_bias, weights, p.output_bias[h]},
                                {p.hidden_weight, p.hidden_bias, weights, p.output_bias[h]}});
    }
  }

  /// Returns the number of heads H.
  Index heads() const noexcept { return static_cast<Index>(parameters_.output_bias.size()); }
  /// Returns the parameters.
  const FireParameters& parameters() const noexcept { return parameters_; }

  /// Adds the bias of one head: tile(i, j) += f_head(x of query i and key j).
  template <detail::WritableTile Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, MatrixView<Real> tile) const {
    detail::check_tile("Fire::add", head, heads(), query_positions, key_positions, tile);
    const detail::PiecewiseLinear<Real>& f = network<Real>(head);
    const double threshold = parameters_.threshold;
    InverseNormalisers<Real> factors(*this, query_positions);
    detail::ValueRange bounds{};
    const double* distances = nullptr;
    Index count = 0;
    // f of all these distances, for queries up to the threshold. There x depends on the distance
    // alone.
    alignas(64) Real shared[static_cast<std::size_t>(detail::max_block_distances)];
    bool has_shared = false;
    const auto evaluate = [&](double from, const double* to, double* values, Index n) {
      detail::log1p_distances<Real>(parameters_.c, from, to, values, n,
                                    [](double log, double) { return log; });
      const detail::ValueRange new_range = detail::value_range(values, n);
      if (distances == nullptr || values == distances) {  // otherwise a continuation of the same
                                                          // row
        distances = values;
        count = 0;
        bounds = new_range;
      }
      count += n;
      bounds = {(std::min)(bounds.least, new_range.least),
                (std::max)(bounds.greatest, new_range.greatest)};
      has_shared = false;
    };
    const auto add_to_row = [&](Index i, Index j, Index n, const double* values) {
      Real* const scores = tile.row(i) + j;
      if (query_positions[static_cast<std::size_t>(i)] <= threshold) {
        if (!has_shared) f.write(distances, factors.at(i), bounds, &shared[0], count);
        has_shared = true;
        detail::add_values(shared + (values - distances), scores, n);
      } else {
        f.add(values, factors.at(i), bounds, scores, n);
      }
    };
    detail::for_each_distance_row<double>(query_positions, key_positions, evaluate, add_to_row);
  }

  /// Adds the gradient of the parameters, for the gradient of the scores of one head. At a
  /// breakpoint of the ReLU, and for a query at the threshold, the derivative from the left is
  /// used.
  ///   Shapes:   grad [Sq, Sk]; gradient as the parameters, see zero_gradient()
  ///   Throws:   ShapeError; std::bad_alloc if the network is wider than 255
  ///   Accuracy: output_weight is within 2^-50 of the sum of |grad| (|w| x + |b|), with w and b of
  ///             its hidden unit
  ///   Cost:     O(Sq Sk + (Sq + width) width), in double
  template <std::floating_point Real, Device D = detail::CallingThread>
  void add_gradient(Index head, std::span<const double> query_positions,
                    std::span<const double> key_positions, MatrixView<const Real> grad,
                    FireParameters& gradient, const D& device = {}) const {
    constexpr auto function = "Fire::add_gradient";
    detail::check_tile(function, head, heads(), query_positions, key_positions, grad);
    if (gradient.hidden_weight.size() != width() || gradient.hidden_bias.size() != width() ||
        gradient.output_weight.size() != parameters_.output_weight.size() ||
        gradient.output_bias.size() != parameters_.output_bias.size()) {
      detail::fail<ShapeError>(function, "gradient must have the shape of the parameters, width ",
                               width(), " and ", heads(), " heads");
    }
    if (grad.empty()) return;
    const auto add_rows = [&](double* sums, Index first, Index count) {
      const auto queries =
          query_positions.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      add_to_segments<Real>(queries, key_positions,
                            {grad.row(first), count, grad.cols, grad.row_stride}, sums);
    };
    constexpr std::size_t kinds = SegmentSums::kinds;
    const auto sums =
        detail::reduce_rows(device, grad.rows, detail::max_sum_queries, kinds * segments_.count(),
                            8.0 * static_cast<double>(grad.cols), add_rows);
    const auto total_of = [&](detail::ReluSegments::Range range) {
      SegmentSums total;
      for (std::size_t n = range.first; n < range.end; ++n) total.add(sums.data() + kinds * n);
      return total;
    };
    const FireParameters& p = parameters_;
    const auto at = static_cast<std::size_t>(head);
    for (std::size_t k = 0; k < width(); ++k) {
      const SegmentSums active = total_of(segments_.active_segments(k));
      const double w = p.hidden_weight[k], output = p.output_weight[at * width() + k];
      gradient.output_weight[at * width() + k] +=
          mul_add(w, active.x, p.hidden_bias[k] * active.score);
      gradient.hidden_weight[k] += output * active.x;
      gradient.hidden_bias[k] += output * active.score;
      gradient.c += output * w * active.c;
      gradient.threshold += output * w * active.threshold;
    }
    gradient.output_bias[at] += total_of({0, segments_.count()}).score;
  }

  /// Returns zeros in the shape of the parameters.
  FireParameters zero_gradient() const {
    const auto zeros = [](const std::vector<double>& like) {
      return std::vector<double>(like.size());
    };
    return {.hidden_weight = zeros(parameters_.hidden_weight),
            .hidden_bias = zeros(parameters_.hidden_bias),
            .output_weight = zeros(parameters_.output_weight),
            .output_bias = zeros(parameters_.output_bias)};
  }

 private:
  /// Throws ConfigError unless epsilon and weights are in a range, far beyond any in use, in which
  /// every score is finite in float and x has the documented accuracy.
  void check_range() const {
    const FireParameters& p = parameters_;
    if (epsilon_ > 1e20) {
      detail::fail<ConfigError>("Fire", "epsilon must not exceed 1e20 but is ", epsilon_);
    }
    const double least = normaliser_of<double>(0).hi;
    if (!(least >= 0x1p-60)) {
      detail::fail<ConfigError>(
          "Fire", "ln(1 + c threshold) + epsilon must be at least 2^-60 but is ", least);
    }
    double greatest = 0;
    for (const double bias : p.output_bias) greatest = (std::max)(greatest, std::abs(bias));
    for (std::size_t i = 0; i < p.output_weight.size(); ++i) {
      const std::size_t k = i % width();
      const double hidden =
          (std::max)({std::abs(p.hidden_weight[k]), std::abs(p.hidden_bias[k]), 1.0});
      greatest = (std::max)(greatest, (std::max)(std::abs(p.output_weight[i]), 1.0) * hidden);
    }
    if (!(greatest * static_cast<double>(width()) <= 1e15)) {
      detail::fail<ConfigError>("Fire",
                                "width times the greatest product of weights must not exceed ",
                                "1e15 but the product is ", greatest);
    }
  }

  std::size_t width() const noexcept { return parameters_.hidden_weight.size(); }

  template <class Real>
  const detail::PiecewiseLinear<Real>& network(Index head) const noexcept {
    const auto at = static_cast<std::size_t>(head);
    if constexpr (std::same_as<Real, float>) {
      return head_networks_[at].floats;
    } else {
      return head_networks_[at].doubles;
    }
  }

  template <class Real>
  detail::DoubleDouble normaliser_of(double query) const noexcept {
    const detail::DoubleDouble log = detail::log1p_distance_no_overflow<Real>(
        parameters_.c, (std::max)(query, parameters_.threshold), 0);
    if constexpr (std::same_as<Real, double>) return log + epsilon_;
    return log.hi + epsilon_;
  }
  template <class Real>
  detail::DoubleDouble inverse_normaliser_of(double query) const noexcept {
    const detail::DoubleDouble normaliser = normaliser_of<Real>(query);
    if constexpr (std::same_as<Real, double>) return detail::DoubleDouble(1.0) / normaliser;
    return 1 / normaliser.hi;
  }

  /// Reciprocal normalisers of a tile's queries; in float a group of queries is computed per pass.
  template <class Real>
  class InverseNormalisers {
   public:
    InverseNormalisers(const Fire& fire, std::span<const double> queries) noexcept
        : fire_(fire), queries_(queries) {}

    detail::DoubleDouble at(Index i) noexcept {
      if constexpr (std::same_as<Real, double>) {
        return fire_.inverse_normaliser_of<Real>(queries_[static_cast<std::size_t>(i)]);
      } else {
        if (i < first_ || i >= first_ + detail::distance_padding) compute_group(i);
        return values_[i - first_];
      }
    }

   private:
    void compute_group(Index i) noexcept {
      const Index count =
          (std::min)(detail::distance_padding, static_cast<Index>(queries_.size()) - i);
      double reach[detail::distance_padding] = {};
      for (Index n = 0; n < count; ++n) {
        reach[n] =
            (std::max)(queries_[static_cast<std::size_t>(i + n)], fire_.parameters_.threshold);
      }
      const double epsilon = fire_.epsilon_;
      detail::log1p_distances<Real>(fire_.parameters_.c, 0, &reach[0], &values_[0],
                                    detail::distance_padding,
                                    [epsilon](double log, double) { return 1 / (log + epsilon); });
      first_ = i;
    }

    const Fire& fire_;
    std::span<const double> queries_;
    Index first_ = -detail::distance_padding;
    double values_[detail::distance_padding];
  };

  /// Sums over the scores of one segment of x: the gradients, and the gradients times x and times
  /// the derivatives of x.
  struct SegmentSums {
    static constexpr std::size_t kinds = 4;
    double score = 0, x = 0, c = 0, threshold = 0;

    void add(const double* sums) noexcept {
      score += sums[0];
      x += sums[1];
      c += sums[2];
      threshold += sums[3];
    }
    void add_to(double* sums) const noexcept {
      sums[0] += score;
      sums[1] += x;
      sums[2] += c;
      sums[3] += threshold;
    }
  };

  /// Adds the sums of each segment to `sums`, which holds SegmentSums::kinds numbers per segment.
  template <class Real>
  void add_to_segments(std::span<const double> queries, std::span<const double> keys,
                       const MatrixView<const Real>& grad, double* sums) const {
    /// ln(1 + c d) and its derivative by c.
    struct DistanceTerm {
      double log, slope;
    };
    const double c = parameters_.c;
    const auto evaluate = [c](double from, const double* to, DistanceTerm* values, Index count) {
      double logs[static_cast<std::size_t>(detail::max_block_distances)];
      detail::log1p_distances<double>(c, from, to, logs, count,
                                      [](double log, double) { return log; });
      for (Index u = 0; u < count; ++u) {
        const double d = std::abs(from - to[u]);
        values[u] = {logs[u], d > 0 ? 1 / (1 / d + c) : 0};
      }
    };
    detail::SmallVector<double> bound_buffer(segments_.count() + 1);
    double* const bounds = bound_buffer.data();
    const auto add_row = [&](Index i, Index j, Index n, const DistanceTerm* distances) {
      const double query = queries[static_cast<std::size_t>(i)];
      const double reach = (std::max)(query, parameters_.threshold);
      const double normaliser = normaliser_of<double>(query).hi;
      const double slope_of_reach = 1 / (1 / reach + c);
      const double threshold_slope =
          query < parameters_.threshold ? -1 / (1 / c + reach) / normaliser : 0;
      segments_.write_bounds(normaliser, bounds);
      const Real* const score_grads = grad.row(i) + j;
      for (Index u = 0, segment = 0; u < n;) {
        if (score_grads[u] == 0) {  // masked keys cost nothing
          ++u;
          continue;
        }
        while (distances[u].log > bounds[segment + 1]) ++segment;
        while (distances[u].log <= bounds[segment]) --segment;
        const double low = bounds[segment], high = bounds[segment + 1];
        double score = 0, log = 0, slope = 0;
        do {
          const auto score_grad = static_cast<double>(score_grads[u]);
          score += score_grad;
          log = mul_add(score_grad, distances[u].log, log);
          slope = mul_add(score_grad, distances[u].slope, slope);
        } while (++u < n && !(distances[u].log > high || distances[u].log <= low));
        SegmentSums sum{.score = score, .x = log / normaliser};
        sum.c = mul_add(-sum.x, slope_of_reach, slope) / normaliser;
        sum.threshold = sum.x * threshold_slope;
        sum.add_to(sums + static_cast<Index>(SegmentSums::kinds) * segment);
      }
    };
    detail::for_each_distance_row<DistanceTerm>(queries, keys, evaluate, add_row);
  }

  FireParameters parameters_;
  double epsilon_;
  detail::ReluSegments segments_;
  struct HeadNetwork {
    detail::PiecewiseLinear<double> doubles;
    detail::PiecewiseLinear<float> floats;
  };
  std::vector<HeadNetwork> head_networks_;
};

POSENC_END
