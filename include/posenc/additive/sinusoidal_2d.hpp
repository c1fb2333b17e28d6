// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/additive/detail/rows.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <type_traits>

POSENC_STABLE_BEGIN

/// The coordinate that the first half of the channels encodes. In MAE it is the column, although
/// MAE's code calls that half "h".
enum class GridAxisOrder {
  Unspecified,  ///< no order is given, which is a ConfigError
  ColumnFirst,  ///< the first half of the channels encodes the column
  RowFirst      ///< the first half of the channels encodes the row
};

/// Settings of Sinusoidal2d.
struct Sinusoidal2dConfig {
  Index model_dim = 0;  ///< required; even, each axis gets model_dim / 2 channels
  GridAxisOrder axis_order = GridAxisOrder::Unspecified;  ///< required; MAE: ColumnFirst
  /// Required, of each half; MAE: Concatenated.
  SinusoidalLayout layout = SinusoidalLayout::Unspecified;
  double base = 10000;  ///< > 1
};

static_assert(std::is_trivially_copyable_v<Sinusoidal2dConfig>);

POSENC_STABLE_END

POSENC_BEGIN

/// Sinusoidal position encoding of a grid (MAE, arXiv 2111.06377, and other vision transformers).
/// One half of the channels encodes the row and the other the column, each as Sinusoidal does.
///
/// Class and register tokens, to which MAE gives zeros, are excluded by slice_seq(x, prefix,
/// cells). Coordinates may be real, so that a grid can be stretched: Positions::axes() of two real
/// forms.
///   Shapes:   x [B, S, D], D == model_dim; positions [B or 1, S] on two axes, axis 0 the row and
///             axis 1 the column: Positions::grid(rows, cols)
///   Types:    float, double, half, bfloat16; arithmetic in float (double for double), rounded once
///   Throws:   ConfigError from the constructor. ShapeError; PositionError if |position| exceeds
///             2^50; nothing is written then
///   Device:   the threads of the device share the tokens; results are bit-identical
///   Accuracy: sin and cos as stated at AnglePolicy::Exact
///   Cost:     D / 2 sin and cos per position, once for all batch rows if they share their
///             positions; one pass over x; one row of scratch per call
class Sinusoidal2d {
 public:
  /// Constructs the encoding.
  ///   Throws: ConfigError
  explicit Sinusoidal2d(const Sinusoidal2dConfig& config)
      : config_(checked(config)), axis_(name, config.model_dim / 2, config.layout, config.base) {}

  /// Adds P to x.
  template <detail::Writable T, Device D = detail::CallingThread>
  void add_to(EmbeddingsView<T> x, const Positions& positions, const D& device = {}) const {
    store<true>("Sinusoidal2d::add_to", device, x, positions);
  }

  /// Writes P to out.
  template <detail::Writable T, Device D = detail::CallingThread>
  void write_to(EmbeddingsView<T> out, const Positions& positions, const D& device = {}) const {
    store<false>("Sinusoidal2d::write_to", device, out, positions);
  }

  /// Returns the settings.
  const Sinusoidal2dConfig& config() const noexcept { return config_; }
  /// Returns D, the width of the embeddings.
  Index model_dim() const noexcept { return config_.model_dim; }
  /// Returns w_i of either half, fastest first.
  const Frequencies& frequencies() const noexcept { return axis_.frequencies(); }

  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void add_to(detail::RefusedCall<detail::AdditiveRule>, ...) const;
  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void write_to(detail::RefusedCall<detail::AdditiveRule>, ...) const;

 private:
  static constexpr auto name = "Sinusoidal2d";

  static const Sinusoidal2dConfig& checked(const Sinusoidal2dConfig& config) {
    if (config.model_dim < 2 || config.model_dim % 2 != 0) {
      detail::fail<ConfigError>(name, "model_dim must be set, positive and even but is ",
                                config.model_dim);
    }
    detail::check_max_channels(name, "model_dim", config.model_dim);
    if (config.axis_order != GridAxisOrder::ColumnFirst &&
        config.axis_order != GridAxisOrder::RowFirst) {
      detail::fail<ConfigError>(name, "axis_order must be set to ColumnFirst or RowFirst");
    }
    return config;
  }

  template <class T>
  void check(const char* function, const EmbeddingsView<T>& x, const Positions& positions) const {
    detail::check_embeddings(function, x, config_.model_dim, positions, 2);
    detail::check_max_angle(function, axis_.oscillator(), positions);
  }

  template <bool Add, Device D, detail::Writable T>
  void store(const char* function, const D& device, EmbeddingsView<T> x,
             const Positions& positions) const {
    check(function, x, positions);
    const Index first = config_.axis_order == GridAxisOrder::RowFirst ? 0 : 1;
    detail::store_eager_rows<Add>(
        device, x, positions.batch() == 1, [&](Index b, Index s, Compute<T>* row) {
          axis_.write(positions.at(b, s, first), 1, row);
          axis_.write(positions.at(b, s, 1 - first), 1, row + config_.model_dim / 2);
        });
  }

  Sinusoidal2dConfig config_;
  detail::SinusoidalAxis axis_;
};

POSENC_END
