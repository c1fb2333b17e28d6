// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/bfloat16.hpp>
#include <posenc/simd/half.hpp>

#include <concepts>
#include <type_traits>

// Eigen's 16-bit types, as Eigen declares them, so that this header does without Eigen.
namespace Eigen {
struct half;
struct bfloat16;
}  // namespace Eigen

POSENC_STABLE_BEGIN

/// The format in which a type stores a number.
enum class StorageFormat {
  Native,    ///< float or double
  Half,      ///< IEEE 754 binary16
  Bfloat16,  ///< the upper half of a float
  Custom16  ///< another 16-bit format: the type's own conversions run value by value, which takes several
            ///< times as long
};

POSENC_STABLE_END

POSENC_BEGIN

/// The storage format of an element type. float, double, Half, Bfloat16, Eigen::half, Eigen::bfloat16 and
/// the compiler's own _Float16 and __bf16 (std::float16_t, std::bfloat16_t) have one; a 16-bit class of the
/// user's is given one, before its first use, and is then loaded and stored at their speed:
///
///   template <>
///   struct posenc::StorageFormatOf<MyBfloat16> {
///     static constexpr auto value = posenc::StorageFormat::Bfloat16;
///   };
///
/// Such a class must be trivially copyable, its 16 bits must be the number, and static_cast must convert it
/// from and to float, rounding to nearest even.
template <class T>
struct StorageFormatOf {};

template <>
struct StorageFormatOf<float> : std::integral_constant<StorageFormat, StorageFormat::Native> {};
template <>
struct StorageFormatOf<double> : std::integral_constant<StorageFormat, StorageFormat::Native> {};
template <>
struct StorageFormatOf<Half> : std::integral_constant<StorageFormat, StorageFormat::Half> {};
template <>
struct StorageFormatOf<Bfloat16> : std::integral_constant<StorageFormat, StorageFormat::Bfloat16> {
};
template <>
struct StorageFormatOf<Eigen::half> : std::integral_constant<StorageFormat, StorageFormat::Half> {};
template <>
struct StorageFormatOf<Eigen::bfloat16>
    : std::integral_constant<StorageFormat, StorageFormat::Bfloat16> {};

// The compiler's own: std::float16_t and std::bfloat16_t are the same types. Before g++ 13 the macro is there
// on all processors, but in C++ the type on x86 alone.
#if defined(__FLT16_MANT_DIG__) && \
    (defined(__clang__) || __GNUC__ >= 13 || defined(__x86_64__) || defined(__i386__))
template <>
struct StorageFormatOf<_Float16> : std::integral_constant<StorageFormat, StorageFormat::Half> {};
#endif
// clang++ has no macro for it. Before clang++ 17 it converts to nothing.
#if defined(__BFLT16_MANT_DIG__) || \
    (defined(__clang__) && __clang_major__ >= 17 && (defined(__SSE2__) || defined(__aarch64__)))
template <>
struct StorageFormatOf<__bf16> : std::integral_constant<StorageFormat, StorageFormat::Bfloat16> {};
#endif

namespace detail {

template <class T>
concept HasStorageFormat = requires {
  { StorageFormatOf<T>::value } -> std::convertible_to<StorageFormat>;
};

template <class T>
inline constexpr StorageFormat storage_format = StorageFormatOf<T>::value;

}  // namespace detail
POSENC_END
