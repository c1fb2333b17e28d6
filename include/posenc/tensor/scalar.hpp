// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/storage_format.hpp>

#include <concepts>
#include <type_traits>

POSENC_BEGIN

/// A 16-bit float: Half, Bfloat16, Eigen::half, Eigen::bfloat16, a built-in type of the compiler,
/// or a user-supplied class with a specialisation of StorageFormatOf.
template <class T>
concept Float16 = detail::HasStorageFormat<T> && sizeof(T) == 2 &&
                  !std::integral<T> && std::is_trivially_copyable_v<T> &&
                  requires(T value, float f) {
  static_cast<float>(value);
  static_cast<T>(f);
};

/// An element type of tensors: float, double, or a 16-bit float.
template <class T>
concept Scalar = std::same_as<T, float> || std::same_as<T, double> || Float16<T>;

namespace detail {

/// A user-supplied class that would be a Float16 if it specialised StorageFormatOf.
template <class T>
concept UnknownFloat16 =
    !HasStorageFormat<T> && sizeof(T) == 2 && std::is_class_v<T> && requires(T value, float f) {
  static_cast<float>(value);
  static_cast<T>(f);
};

/// Asserts that T is a Scalar. All entry points of tensors use it, so that its message is the first
/// of the compiler's errors.
template <class T>
struct CheckScalar {
  static_assert(!std::integral<T>,
                "posenc: elements of a tensor must be float, double or a 16-bit float. The type of "
                "an integer does not define which one its bits are: read 16-bit integers as "
                "posenc::Bfloat16 or posenc::Half, whose "
                "memory is the same");
  static_assert(
      !UnknownFloat16<T>,
      "posenc: elements of a tensor must be float, double or a 16-bit float of known format. "
      "Define the format of this class by a specialisation of posenc::StorageFormatOf, as "
      "posenc/simd/storage_format.hpp shows");
  static_assert(
      std::integral<T> || UnknownFloat16<T> || Scalar<T>,
      "posenc: elements of a tensor must be float, double or a 16-bit float: posenc::Half, "
      "posenc::Bfloat16, Eigen::half, Eigen::bfloat16, or a trivially copyable class that "
      "specialises posenc::StorageFormatOf and is converted to and from float");
  static constexpr bool value = true;
};

/// Asserts that T may be an element of scores, weights or masks.
template <class T>
struct CheckScoresElement {
  static_assert(
      std::is_same_v<T, bool> || !std::integral<T>,
      "posenc: elements of a mask must be bool, and those of scores, weights and additive "
      "masks float, double or a 16-bit float: convert integers to bool");
  static constexpr bool value = true;
};

template <class T>
struct CheckWritable {
  static_assert(!std::is_const_v<T>, "posenc: this tensor is written to, so it must not be const");
  static_assert(CheckScalar<std::remove_const_t<T>>::value);
  static constexpr bool value = true;
};

/// An element type of outputs. Any other type is an error with a message, not an overload that does
/// not match.
template <class T>
concept Writable = CheckWritable<T>::value && Scalar<T>;

template <class T>
struct CheckWritableTile {
  static_assert(
      std::is_same_v<T, float> || std::is_same_v<T, double>,
      "posenc: a tile of scores, or a gradient, is float or double, and not const where it is "
      "written to");
  static constexpr bool value = true;
};

/// An element type of score tiles and gradients that are written: float or double, not const. Any
/// other type is an error with a message.
template <class T>
concept WritableTile = CheckWritableTile<T>::value && std::floating_point<T>;

}  // namespace detail

/// The type of arithmetic on elements of type T: double for double, float for all others. Results
/// are rounded to T once, when they are stored.
template <Scalar T>
using Compute = std::conditional_t<std::same_as<T, double>, double, float>;

POSENC_END
