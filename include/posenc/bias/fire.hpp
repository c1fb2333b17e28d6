// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/distances.hpp>
#include <posenc/bias/hinges.hpp>
#include <posenc/bias/logarithm.hpp>
#include <posenc/bias/tile.hpp>
#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

POSENC_STABLE_BEGIN

/// What FIRE learns; its gradient has the same shape. Names in brackets are those of the paper's code.
struct FireParameters {
  double c = 0;                            ///< required: |c|
  double threshold = 0;                    ///< required: L = |L_multiplier * init_L|
  std::vector<double> hidden_weight = {};  ///< required: [width] (mlp.0.weight)
  std::vector<double> hidden_bias = {};    ///< required: [width] (mlp.0.bias)
  std::vector<double> output_weight = {};  ///< required: [H, width], row by row (mlp.2.weight)
  std::vector<double> output_bias = {};    ///< required: [H] (mlp.2.bias)
};

POSENC_STABLE_END

POSENC_BEGIN

/// Functional interpolation of relative positions (FIRE): a score gets f_h(x),
///     x = ln(1 + c |query - key|) / (ln(1 + c max(query, L)) + epsilon),
/// with f a network 1 -> width -> H with one layer of ReLU. What normalises is the query's absolute
/// position, so positions must count from the start of the text. Keys after the query, where a mask
/// does not hide them, count as those before it. A model of ScoreBias.
///   Accuracy: x within 2 ulp of the tile's type; f_h within (width + 4) ulp of the sum of its terms'
///             magnitudes, when written as a line and its bends
///   Cost:     two operations a score for the line, three for each bend below the tile's greatest x
///   Source:   arXiv 2310.04418; the code in its appendix has the magnitude and the epsilon
class Fire {
 public:
  ///   Throws: ConfigError.
  explicit Fire(FireParameters parameters, double epsilon = 1e-6)
      : parameters_(std::move(parameters)), epsilon_(epsilon) {
    const FireParameters& p = parameters_;
    const auto require_positive = [](const char* name, double value) {
      if (!std::isfinite(value) || value <= 0) {
        detail::fail<ConfigError>("Fire", name, " must be given, positive and finite, but is ",
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
    for (std::size_t h = 0; h < heads; ++h) {
      const auto weights = std::span(p.output_weight).subspan(h * width, width);
      doubles_.emplace_back(p.hidden_weight, p.hidden_bias, weights, p.output_bias[h]);
      floats_.emplace_back(p.hidden_weight, p.hidden_bias, weights, p.output_bias[h]);
    }
  }

  Index heads() const noexcept { return static_cast<Index>(parameters_.output_bias.size()); }
  const FireParameters& parameters() const noexcept { return parameters_; }

  /// tile(i, j) += f_head(x of query i and key j).
  ///   Shapes: query_positions [Sq], key_positions [Sk], tile [Sq, Sk]
  ///   Throws: ShapeError.
  template <detail::WrittenTile Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, MatrixView<Real> tile) const {
    check("Fire::add", head, query_positions, key_positions, tile.extents());
    detail::check_output("Fire::add", "tile", tile);
    const detail::Hinges<Real>& f = hinges<Real>(head);
    Real greatest = 0;  // of all values so far
    const auto evaluate = [&](double from, const double* to, Real* values, Index count) {
      for (Index u = 0; u < count; ++u) {
        const double y = mul_add(parameters_.c, std::abs(from - to[u]), 0.0);
        values[u] = static_cast<Real>(detail::logarithm_1_plus(y));
      }
      greatest = std::max(greatest, detail::greatest_of(values, count));
    };
    const auto add_to_row = [&](Index i, Index j, Index n, const Real* values) {
      const double normaliser = normaliser_of(query_positions[static_cast<std::size_t>(i)]);
      f.add(values, static_cast<Real>(1 / normaliser), greatest, tile.row(i) + j, n);
    };
    detail::for_each_row_of_distances<Real>(query_positions, key_positions, evaluate, add_to_row);
  }

  /// gradient += that of the parameters for the scores' gradient in one head. At a bend of ReLU, and
  /// where a query stands at the threshold, the derivative from the left counts.
  ///   Shapes: grad [Sq, Sk]; gradient as the parameters, see zero_gradient()
  ///   Throws: ShapeError.
  ///   Cost:   O(Sq Sk width), in double
  template <std::floating_point Real>
  void add_gradient(Index head, std::span<const double> query_positions,
                    std::span<const double> key_positions, MatrixView<const Real> grad,
                    FireParameters& gradient) const {
    constexpr auto function = "Fire::add_gradient";
    check(function, head, query_positions, key_positions, grad.extents());
    if (gradient.hidden_weight.size() != width() || gradient.hidden_bias.size() != width() ||
        gradient.output_weight.size() != parameters_.output_weight.size() ||
        gradient.output_bias.size() != parameters_.output_bias.size()) {
      detail::fail<ShapeError>(function, "gradient must have the shape of the parameters, width ",
                               width(), " and ", heads(), " heads");
    }
    const auto add_cell = [&](Index i, Index j, double query, double key) {
      add_gradient_of(static_cast<std::size_t>(head), query, std::abs(query - key),
                      static_cast<double>(grad.row(i)[j]), gradient);
    };
    detail::for_each_cell(query_positions, key_positions, add_cell);
  }

  /// Zeros in the shape of the parameters.
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
  std::size_t width() const noexcept { return parameters_.hidden_weight.size(); }

  template <class Real>
  const detail::Hinges<Real>& hinges(Index head) const noexcept {
    const auto at = static_cast<std::size_t>(head);
    if constexpr (std::same_as<Real, float>) {
      return floats_[at];
    } else {
      return doubles_[at];
    }
  }

  double normaliser_of(double query) const noexcept {
    const double y = mul_add(parameters_.c, std::max(query, parameters_.threshold), 0.0);
    return detail::logarithm_1_plus(y) + epsilon_;
  }

  /// The chain rule for one score.
  void add_gradient_of(std::size_t head, double query, double distance, double of_score,
                       FireParameters& gradient) const {
    const FireParameters& p = parameters_;
    const double reach = std::max(query, p.threshold), normaliser = normaliser_of(query);
    const double x = detail::logarithm_1_plus(p.c * distance) / normaliser;
    double of_x = 0;
    for (std::size_t k = 0; k < width(); ++k) {
      const double hidden = p.hidden_weight[k] * x + p.hidden_bias[k];
      if (!(hidden > 0)) continue;
      const std::size_t at = head * width() + k;
      gradient.output_weight[at] += of_score * hidden;
      const double of_hidden = of_score * p.output_weight[at];
      gradient.hidden_weight[k] += of_hidden * x;
      gradient.hidden_bias[k] += of_hidden;
      of_x += of_hidden * p.hidden_weight[k];
    }
    gradient.output_bias[head] += of_score;
    const double of_reach = reach / (1 + p.c * reach);
    gradient.c += of_x * (distance / (1 + p.c * distance) - x * of_reach) / normaliser;
    if (query < p.threshold) gradient.threshold -= of_x * x * p.c / (1 + p.c * reach) / normaliser;
  }

  void check(const char* function, Index head, std::span<const double> query_positions,
             std::span<const double> key_positions, const std::array<Index, 2>& tile) const {
    detail::check_tile(function, head, heads(), "the ", " heads", query_positions, key_positions,
                       tile);
  }

  FireParameters parameters_;
  double epsilon_;
  std::vector<detail::Hinges<double>> doubles_;
  std::vector<detail::Hinges<float>> floats_;
};

POSENC_END
