// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/additive/detail/rows.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Settings of IntegerEncoding.
struct IntegerEncodingConfig {
  Index max_length = 0;  ///< the divisor of positions; 0: no division
};

static_assert(std::is_trivially_copyable_v<IntegerEncodingConfig>);

POSENC_STABLE_END

POSENC_BEGIN

/// An additive encoding that adds the position itself to every channel. A baseline for teaching:
/// the position exceeds unit-variance embeddings within a few tokens. Divided by max_length,
/// consecutive positions can hardly be distinguished.
///   Shapes: x [B, S, D] of any width; positions [B or 1, S] on one axis, real ones too
///   Types:  float, double, half, bfloat16; arithmetic in float (double for double), rounded once;
///           half overflows to inf from 65520 on, float beyond 3.4e38
///   Throws: ConfigError from the constructor. ShapeError; nothing is written then
///   Device: the threads of the device share the tokens; results are bit-identical
///   Cost:   one pass over x; one row of scratch per call
class IntegerEncoding {
 public:
  /// Constructs the encoding.
  ///   Throws: ConfigError if max_length is negative
  explicit IntegerEncoding(const IntegerEncodingConfig& config = {}) : config_(config) {
    if (config.max_length < 0) {
      detail::fail<ConfigError>("IntegerEncoding", "max_length must not be negative but is ",
                                config.max_length);
    }
  }

  /// Adds position, or position / max_length, to x.
  template <detail::Writable T, Device D = detail::CallingThread>
  void add_to(EmbeddingsView<T> x, const Positions& positions, const D& device = {}) const {
    detail::check_embeddings("IntegerEncoding::add_to", x, x.dim, positions);
    const double unit = config_.max_length == 0 ? 1 : static_cast<double>(config_.max_length);
    detail::store_eager_rows<true>(
        device, x, positions.batch() == 1, [&](Index b, Index s, Compute<T>* row) {
          std::fill_n(row, x.dim, static_cast<Compute<T>>(positions.at(b, s) / unit));
        });
  }

  /// Returns the settings.
  const IntegerEncodingConfig& config() const noexcept { return config_; }

  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void add_to(detail::RefusedCall<detail::AdditiveRule>, ...) const;

 private:
  IntegerEncodingConfig config_;
};

POSENC_END
