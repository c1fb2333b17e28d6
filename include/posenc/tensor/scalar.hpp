// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/storage_format.hpp>

#include <concepts>
#include <type_traits>

POSENC_BEGIN

/// A 16-bit float: Half, Bfloat16, Eigen::half, Eigen::bfloat16, the compiler's own, or a user's class that
/// specialises StorageFormatOf.
template <class T>
concept Float16 = detail::HasStorageFormat<T> && sizeof(T) == 2 &&
                  !std::integral<T> && std::is_trivially_copyable_v<T> &&
                  requires(T value, float f) {
  static_cast<float>(value);
  static_cast<T>(f);
};

/// What a tensor's elements may be.
template <class T>
concept Scalar = std::same_as<T, float> || std::same_as<T, double> || Float16<T>;

namespace detail {

/// A class of the user's that would be a Float16 if it said its format.
template <class T>
concept UnknownFloat16 =
    !HasStorageFormat<T> && sizeof(T) == 2 && std::is_class_v<T> && requires(T value, float f) {
  static_cast<float>(value);
  static_cast<T>(f);
};

/// Asserts that T is a Scalar. Everything that tensors enter by has it, so that its message is the first thing
/// that a compiler says.
template <class T>
struct CheckScalar {
  static_assert(
      !std::integral<T>,
      "posenc: elements of a tensor must be float, double or a 16-bit float. An integer does not "
      "say which one its bits are: read 16-bit integers as posenc::Bfloat16 or posenc::Half, whose "
      "memory is the same");
  static_assert(
      !UnknownFloat16<T>,
      "posenc: elements of a tensor must be float, double or a 16-bit float of known format. Say "
      "the format of this class by a specialisation of posenc::StorageFormatOf, as "
      "posenc/simd/storage_format.hpp shows");
  static_assert(
      std::integral<T> || UnknownFloat16<T> || Scalar<T>,
      "posenc: elements of a tensor must be float, double or a 16-bit float: posenc::Half, "
      "posenc::Bfloat16, Eigen::half, Eigen::bfloat16, or a trivially copyable class that "
      "specialises posenc::StorageFormatOf and is converted to and from float");
  static constexpr bool value = true;
};

template <class T>
struct CheckWritten {
  static_assert(!std::is_const_v<T>, "posenc: this tensor is written to, so it must not be const");
  static_assert(CheckScalar<std::remove_const_t<T>>::value);
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
