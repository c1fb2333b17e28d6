// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/bfloat16.hpp>
#include <posenc/simd/half.hpp>

#include <concepts>
#include <type_traits>

// Forward declarations of Eigen's 16-bit types, so that this header does not include Eigen.
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
  Custom16   ///< another 16-bit format; the class converts value by value, several times slower
};

POSENC_STABLE_END

POSENC_BEGIN

/// The storage format of an element type. float, double, Half, Bfloat16, Eigen::half,
/// Eigen::bfloat16 and the compiler's _Float16 and __bf16 (std::float16_t, std::bfloat16_t) have
/// one. Specialise it for a user-supplied 16-bit class before its first use. The class is then
/// loaded and stored at their speed:
///
///   template <>
///   struct posenc::StorageFormatOf<MyBfloat16> {
///     static constexpr auto value = posenc::StorageFormat::Bfloat16;
///   };
///
/// The class must be trivially copyable and consist of the 16 bits of the number. static_cast must
/// convert it from and to float, rounding to nearest even.
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

// Built-in types of the compiler, which std::float16_t and std::bfloat16_t name. Before g++ 13 the
// macro is defined on all processors, but in C++ the type exists only on x86.
#if defined(__FLT16_MANT_DIG__) && \
    (defined(__clang__) || __GNUC__ >= 13 || defined(__x86_64__) || defined(__i386__))
template <>
struct StorageFormatOf<_Float16> : std::integral_constant<StorageFormat, StorageFormat::Half> {};
#endif
// clang++ has no macro for __bf16. Before clang++ 17 the type has no conversions.
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
