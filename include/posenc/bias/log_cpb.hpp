// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/window.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

POSENC_STABLE_BEGIN

/// Window sizes of LogCpb, in tokens.
struct LogCpbConfig {
  Index rows = 0;             ///< required: the window's height
  Index cols = 0;             ///< required: its width
  Index pretrained_rows = 0;  ///< height of the window of the training; 0: the same
  Index pretrained_cols = 0;  ///< its width; both are 0, or at least 2
};

static_assert(std::is_trivially_copyable_v<LogCpbConfig>);

POSENC_STABLE_END

POSENC_BEGIN

/// Parameters that LogCpb learns. Their gradient has the same shape. Names in brackets are those of
/// Swin-V2's checkpoints (Hugging Face writes continuous_position_bias_mlp instead of cpb_mlp).
struct LogCpbParameters {
  std::vector<double> hidden_weight = {};  ///< required: [width, 2], row by row (cpb_mlp.0.weight)
  std::vector<double> hidden_bias = {};    ///< required: [width] (cpb_mlp.0.bias)
  std::vector<double> output_weight = {};  ///< required: [H, width], row by row (cpb_mlp.2.weight)
};

/// Swin-V2's continuous position bias in logarithmic coordinates (Log-CPB): a network that computes
/// the table of a WindowBias for any window,
///     table[cell, h] = 16 sigmoid(f_h(c_y, c_x)),
///     c = sign(z) log2(1 + |z|) / 3,  z = 8 d / (W - 1).
/// Here d is a distance query - key on an axis, and W is the window's extent on this axis, or that
/// of the training. f is a network 2 -> width -> H with one ReLU layer. If W = 1, then c = 0. Like
/// Swin-V2 it has no class token. Swin-V2 uses cosine attention, for which cosine_queries() and
/// cosine_keys() prepare. timm's modes "cr" and "rw" of RelPosMlp are other networks in other
/// coordinates and are not covered.
///   Types:  computed in double, each value of the table is rounded once
///   Cost:   O(cells width H), once per window
///   Source: arXiv 2111.09883, section 3.3; timm's models/swin_transformer_v2.py at 0041cb7 and
///           Hugging Face's modeling_swinv2.py at 004edfe
class LogCpb {
 public:
  /// Copies the network. Moving copies, too, so that a moved-from object keeps its network.
  LogCpb(const LogCpb&) = default;
  /// Copies the network.
  LogCpb& operator=(const LogCpb&) = default;

  /// Constructs the network from its parameters, for one window.
  ///   Throws: ConfigError
  LogCpb(LogCpbParameters parameters, const LogCpbConfig& config)
      : parameters_(std::move(parameters)),
        index_({.rows = config.rows, .cols = config.cols}),
        width_(parameters_.hidden_bias.size()) {
    const LogCpbParameters& p = parameters_;
    const std::size_t outputs = p.output_weight.size();
    if (width_ == 0 || outputs == 0 || p.hidden_weight.size() != 2 * width_ ||
        outputs % width_ != 0) {
      detail::fail<ConfigError>(
          "LogCpb",
          "hidden_weight must be [width, 2], hidden_bias [width] and output_weight [heads, width] "
          "but have ",
          p.hidden_weight.size(), ", ", width_, " and ", outputs, " values");
    }
    for (const auto* values : {&p.hidden_weight, &p.hidden_bias, &p.output_weight}) {
      for (const double value : *values) {
        if (!std::isfinite(value)) {
          detail::fail<ConfigError>("LogCpb", "weights must be finite but one is ", value);
        }
      }
    }
    check_range();
    const bool same = config.pretrained_rows == 0 && config.pretrained_cols == 0;
    if (!same && (config.pretrained_rows < 2 || config.pretrained_cols < 2)) {
      detail::fail<ConfigError>("LogCpb",
                                "pretrained_rows and pretrained_cols must both be 0 or both be at "
                                "least 2 but are ",
                                config.pretrained_rows, " and ", config.pretrained_cols);
    }
    trained_rows_ = same ? config.rows : config.pretrained_rows;
    trained_cols_ = same ? config.cols : config.pretrained_cols;
  }

  /// Returns the number of heads H.
  Index heads() const noexcept {
    return static_cast<Index>(parameters_.output_weight.size() / width_);
  }
  /// Returns the parameters.
  const LogCpbParameters& parameters() const noexcept { return parameters_; }
  /// Returns the index of the WindowBias that reads the table.
  const WindowIndex& index() const noexcept { return index_; }

  /// Returns c for a distance on an axis on which the training window had `extent` tokens.
  static double coordinate(Index distance, Index extent) noexcept {
    if (distance == 0 || extent == 1) return 0;
    const double z = 8 * static_cast<double>(distance) / static_cast<double>(extent - 1);
    return std::copysign(std::log2(1 + std::abs(z)) / 3, z);
  }

  /// Writes the table.
  ///   Shapes: table [index().table_rows(), H]
  ///   Throws: ShapeError, std::bad_alloc
  template <detail::Writable T>
  void evaluate(MatrixView<T> table) const {
    constexpr auto function = "LogCpb::evaluate";
    check(function, "table", table);
    detail::check_output(function, "table", table);
    std::vector<double> hidden(width_);
    for (Index cell = 0; cell < table.rows; ++cell) {
      compute_hidden(coordinates(cell), hidden.data());
      for (Index head = 0; head < table.cols; ++head) {
        table.row(cell)[head] = static_cast<T>(static_cast<Compute<T>>(value(head, hidden.data())));
      }
    }
  }

  /// Adds the gradient of the parameters, for the gradient of the table that
  /// WindowBias::add_gradient() computes. At a breakpoint of the ReLU the derivative from the left
  /// is used.
  ///   Shapes: grad_table [index().table_rows(), H]; gradient as the parameters, see
  ///           zero_gradient()
  ///   Throws: ShapeError, std::bad_alloc
  template <Scalar T>
  void add_gradient(MatrixView<const T> grad_table, LogCpbParameters& gradient) const {
    constexpr auto function = "LogCpb::add_gradient";
    check(function, "grad_table", grad_table);
    if (gradient.hidden_weight.size() != 2 * width_ || gradient.hidden_bias.size() != width_ ||
        gradient.output_weight.size() != parameters_.output_weight.size()) {
      detail::fail<ShapeError>(function, "gradient must have the shape of the parameters, width ",
                               width_, " and ", heads(), " heads");
    }
    std::vector<double> hidden(width_), grad_hidden(width_);
    for (Index cell = 0; cell < grad_table.rows; ++cell) {
      const Coordinates at = coordinates(cell);
      compute_hidden(at, hidden.data());
      grad_hidden.assign(width_, 0.0);
      for (Index head = 0; head < grad_table.cols; ++head) {
        const double part = value(head, hidden.data()) / 16;  // the sigmoid
        const double grad_output =
            16 * static_cast<double>(grad_table.row(cell)[head]) * part * (1 - part);
        const std::size_t first = static_cast<std::size_t>(head) * width_;
        for (std::size_t k = 0; k < width_; ++k) {
          double& sum = gradient.output_weight[first + k];
          sum = mul_add(grad_output, hidden[k], sum);
          grad_hidden[k] =
              mul_add(grad_output, parameters_.output_weight[first + k], grad_hidden[k]);
        }
      }
      for (std::size_t k = 0; k < width_; ++k) {
        if (!(hidden[k] > 0)) continue;
        double* const weights = gradient.hidden_weight.data() + 2 * k;
        weights[0] = mul_add(grad_hidden[k], at.y, weights[0]);
        weights[1] = mul_add(grad_hidden[k], at.x, weights[1]);
        gradient.hidden_bias[k] += grad_hidden[k];
      }
    }
  }

  /// Returns zeros in the shape of the parameters.
  LogCpbParameters zero_gradient() const {
    return {.hidden_weight = std::vector<double>(parameters_.hidden_weight.size()),
            .hidden_bias = std::vector<double>(width_),
            .output_weight = std::vector<double>(parameters_.output_weight.size())};
  }

 private:
  struct Coordinates {
    double y, x;
  };

  template <class View>
  void check(const char* function, const char* name, const View& table) const {
    detail::check_extents(function, name, table);
    if (table.rows != index_.table_rows() || table.cols != heads()) {
      detail::fail<ShapeError>(function, name, " must have ", index_.table_rows(), " rows and ",
                               heads(), " columns but is ", table.extents());
    }
  }

  /// Throws ConfigError unless weights are in a range in which no sum over the width is infinite,
  /// so that no difference of sums is NaN.
  void check_range() const {
    const LogCpbParameters& p = parameters_;
    double greatest = 0;
    for (std::size_t i = 0; i < p.output_weight.size(); ++i) {
      const std::size_t k = i % width_;
      const double hidden =
          (std::max)({std::abs(p.hidden_weight[2 * k]), std::abs(p.hidden_weight[2 * k + 1]),
                      std::abs(p.hidden_bias[k]), 1.0});
      greatest = (std::max)(greatest, (std::max)(std::abs(p.output_weight[i]), 1.0) * hidden);
    }
    if (!(greatest * static_cast<double>(width_) <= 1e15)) {
      detail::fail<ConfigError>("LogCpb",
                                "width times the greatest product of weights must not exceed ",
                                "1e15 but the product is ", greatest);
    }
  }

  Coordinates coordinates(Index cell) const noexcept {
    const Index rows = index_.config().rows, cols = index_.config().cols, line = 2 * cols - 1;
    return {coordinate(cell / line - (rows - 1), trained_rows_),
            coordinate(cell % line - (cols - 1), trained_cols_)};
  }

  /// Computes the outputs of the ReLU layer.
  void compute_hidden(const Coordinates& at, double* hidden) const noexcept {
    for (std::size_t k = 0; k < width_; ++k) {
      const double* const weights = parameters_.hidden_weight.data() + 2 * k;
      const double sum =
          mul_add(weights[1], at.x, mul_add(weights[0], at.y, parameters_.hidden_bias[k]));
      hidden[k] = sum < 0 ? 0 : sum;
    }
  }

  double value(Index head, const double* hidden) const noexcept {
    const double* const weights =
        parameters_.output_weight.data() + static_cast<std::size_t>(head) * width_;
    double sum = 0;
    for (std::size_t k = 0; k < width_; ++k) sum = mul_add(weights[k], hidden[k], sum);
    return 16 / (1 + std::exp(-sum));
  }

  LogCpbParameters parameters_;
  WindowIndex index_;
  std::size_t width_;
  Index trained_rows_ = 0, trained_cols_ = 0;
};

POSENC_END
