// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/detail/random_bits.hpp>
#include <posenc/core/error.hpp>
#include <posenc/nn/parameter_matrix.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Order in which Linear adds the products of an output; see Linear.
enum class SumOrder : std::uint8_t {
  Any,   ///< depends on the number of tokens, and for few tokens on the tier
  Fixed  ///< one chain of multiply-adds over the inputs in their order, then the bias
};

POSENC_STABLE_END

POSENC_BEGIN

/// Weight and bias of a layer y = x W^T + b, with the layout of torch.nn.Linear.
///   Shapes: weight [out, in], bias [1, out] (or [out, 1]) or empty
template <class T>
struct LinearParameters {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "posenc: a projection is of float or double");

  /// Element type.
  using Scalar = T;

  ParameterMatrix<T> weight;  ///< W, [out, in]
  ParameterMatrix<T> bias;    ///< b, [1, out] or [out, 1]; empty for a layer without bias

  /// Constructs empty parameters. As a gradient they are not computed.
  LinearParameters() = default;
  /// Constructs zero parameters.
  ///   Throws: ConfigError as check_dims() does, std::bad_alloc
  LinearParameters(Index in, Index out, bool with_bias)
      : weight((check_dims(in, out), out), in), bias(with_bias ? 1 : 0, with_bias ? out : 0) {}

  /// Returns the number of input features.
  Index in_dim() const noexcept { return weight.cols(); }
  /// Returns the number of output features.
  Index out_dim() const noexcept { return weight.rows(); }
  /// Returns the number of elements of weight and bias.
  Index parameter_count() const noexcept { return weight.size() + bias.size(); }

  /// Sets the weights to random numbers, uniform in +-sqrt(6 / (in + out)) (Glorot and Bengio
  /// 2010), and the bias to zero. The numbers are the same on every platform.
  void randomize(std::uint64_t seed) {
    const double limit = std::sqrt(6.0 / static_cast<double>(in_dim() + out_dim()));
    for (Index i = 0; i < weight.size(); ++i) {
      const std::uint64_t bits =
          detail::mix_bits(detail::mix_bits(seed) + static_cast<std::uint64_t>(i));
      weight.data()[i] = static_cast<T>(limit * (2 * detail::uniform(bits) - 1));
    }
    bias.fill(T{0});
  }

  /// Returns a gradient for backward() to add to: zeros of the same shapes.
  LinearParameters zero_gradient() const {
    LinearParameters zeros;
    zeros.weight.resize(weight.rows(), weight.cols());
    zeros.bias.resize(bias.rows(), bias.cols());
    return zeros;
  }

  /// Checks the extents of a weight.
  ///   Throws: ConfigError if one is negative, or the weight has more than 2^56 bytes
  static void check_dims(Index in, Index out) {
    constexpr Index max_count = (Index{1} << 56) / Index{sizeof(T)};
    const auto count = detail::checked_mul({in, out});
    if (!count || *count > max_count) {
      detail::fail<ConfigError>("Linear", "the weight [", out, ", ", in,
                                "] must have no negative extent and must fit into memory");
    }
  }
};

POSENC_END
