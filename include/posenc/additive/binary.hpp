// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/additive/detail/rows.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

POSENC_STABLE_BEGIN

/// The values that are added for a bit that is not set and for one that is.
enum class BinaryValues {
  ZeroOne,      ///< 0 and 1
  PlusMinusOne  ///< -1 and +1
};

/// The treatment of a position that needs more bits than there are channels.
enum class BinaryOverflow {
  Reject,  ///< throw PositionError
  Wrap     ///< drop the upper bits, so that positions repeat with period 2^model_dim
};

/// Settings of BinaryEncoding.
struct BinaryEncodingConfig {
  Index model_dim = 0;  ///< required; channels above the position's highest bit get zero bits
  BinaryValues values = BinaryValues::ZeroOne;       ///< added for a bit that is 0 or 1
  BinaryOverflow overflow = BinaryOverflow::Reject;  ///< for positions of more than model_dim bits
};

static_assert(std::is_trivially_copyable_v<BinaryEncodingConfig>);

POSENC_STABLE_END

POSENC_BEGIN

/// An additive encoding that adds bit k of the position to channel k. Bit 0 is the lowest and has
/// period 2, the next one has period 4, and so on.
/// A baseline for teaching: consecutive positions may differ in many channels (7 and 8 in four),
/// and the number of differing channels does not grow with the distance.
///   Shapes: x [B, S, D], D == model_dim; positions [B or 1, S], integers on one axis
///   Types:  float, double, half, bfloat16; arithmetic in float (double for double), rounded once
///   Throws: ConfigError from the constructor. ShapeError; PositionError for a position that is not
///           an integer, is negative, or, unless overflow is Wrap, has more bits than there are
///           channels. Nothing is written if a call throws
///   Device: the threads of the device share the tokens; results are bit-identical
///   Cost:   one pass over x; one row of scratch per call
class BinaryEncoding {
 public:
  /// Constructs the encoding.
  ///   Throws: ConfigError unless model_dim is positive
  explicit BinaryEncoding(const BinaryEncodingConfig& config) : config_(config) {
    if (config.model_dim < 1) {
      detail::fail<ConfigError>("BinaryEncoding", "model_dim must be set and positive but is ",
                                config.model_dim);
    }
  }

  /// Adds the bits of the positions to x.
  template <detail::Writable T, Device D = detail::CallingThread>
  void add_to(EmbeddingsView<T> x, const Positions& positions, const D& device = {}) const {
    check("BinaryEncoding::add_to", x, positions);
    const Compute<T> zero = config_.values == BinaryValues::ZeroOne ? 0 : -1;
    detail::store_eager_rows<true>(device, x, positions.batch() == 1,
                                   [&](Index b, Index s, Compute<T>* row) {
                                     const Bits bits(positions.at(b, s));
                                     for (Index k = 0; k < x.dim; ++k) {
                                       row[k] = bits.at(k) ? Compute<T>{1} : zero;
                                     }
                                   });
  }

  /// Returns the settings.
  const BinaryEncodingConfig& config() const noexcept { return config_; }
  /// Returns D, the width of the embeddings.
  Index model_dim() const noexcept { return config_.model_dim; }

  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void add_to(detail::RefusedCall<detail::AdditiveRule>, ...) const;

 private:
  /// The bits of an integer position, which may exceed the range of any integer type.
  class Bits {
   public:
    explicit Bits(double position) noexcept {
      int exponent = 0;
      // The leading 53 bits of the position, or all if there are fewer. All bits below them are
      // zero.
      const double leading = std::frexp(position, &exponent);
      const int num_bits = (std::min)(exponent, 53);
      leading_ = static_cast<std::uint64_t>(std::ldexp(leading, num_bits));
      num_zeros_ = exponent - num_bits;
    }
    /// Returns the number of bits up to the highest bit set.
    Index width() const noexcept {
      return num_zeros_ + static_cast<Index>(std::bit_width(leading_));
    }
    bool at(Index k) const noexcept {
      return k >= num_zeros_ && k - num_zeros_ < 64 && ((leading_ >> (k - num_zeros_)) & 1) != 0;
    }

   private:
    std::uint64_t leading_ = 0;
    Index num_zeros_ = 0;
  };

  template <class T>
  void check(const char* function, const EmbeddingsView<T>& x, const Positions& positions) const {
    detail::check_embeddings(function, x, config_.model_dim, positions);
    detail::check_integral(function, positions);
    detail::for_extreme_positions(positions, [&](double position) {
      if (position < 0) {
        detail::fail<PositionError>(function, "positions must not be negative but one is ",
                                    position);
      }
      const Index width = Bits(position).width();
      if (config_.overflow == BinaryOverflow::Reject && width > config_.model_dim) {
        detail::fail<PositionError>(function, "position ", position, " needs ", width,
                                    " bits, but model_dim is ", config_.model_dim);
      }
    });
  }

  BinaryEncodingConfig config_;
};

POSENC_END
