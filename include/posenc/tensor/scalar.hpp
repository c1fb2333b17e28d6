// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <concepts>
#include <type_traits>

POSENC_BEGIN

/// A 16-bit float class that converts to and from float: Eigen::half, Eigen::bfloat16, or a user's
/// own.
template <class T>
concept Float16 = std::is_class_v<T> && sizeof(T) == 2 && requires(T value, float f) {
  static_cast<float>(value);
  static_cast<T>(f);
};

/// What a tensor's elements may be.
template <class T>
concept Scalar = std::same_as<T, float> || std::same_as<T, double> || Float16<T>;

// Said by everything that tensors enter by, so that it is the first thing that a compiler says.
#define POSENC_DETAIL_SCALAR_RULE                                                             \
  "posenc: elements of a tensor must be float, double or a 16-bit float class (Eigen::half, " \
  "Eigen::bfloat16)"

namespace detail {

template <class T>
inline constexpr bool is_scalar = Scalar<T>;

template <class T>
struct CheckWritten {
  static_assert(!std::is_const_v<T>, "posenc: this tensor is written to, so it must not be const");
  static_assert(std::is_const_v<T> || is_scalar<T>, POSENC_DETAIL_SCALAR_RULE);
  static constexpr bool value = true;
};

/// Elements of what is written. Others are an error that says so, rather than a function that does not
/// exist.
template <class T>
concept Written = CheckWritten<T>::value && Scalar<T>;

template <class T>
struct CheckTile {
  static_assert(
      std::is_same_v<T, float> || std::is_same_v<T, double>,
      "posenc: a tile of scores, or a gradient, is float or double, and not const where it is "
      "written to");
  static constexpr bool value = true;
};

/// The same for tiles of scores.
template <class T>
concept WrittenTile = CheckTile<T>::value && std::floating_point<T>;

}  // namespace detail

/// Arithmetic is done in double for double and in float for everything else, and rounded once when
/// stored.
template <Scalar T>
using Compute = std::conditional_t<std::same_as<T, double>, double, float>;

POSENC_END
