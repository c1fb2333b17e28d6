// SPDX-License-Identifier: MIT
// Storage formats of types, and what Half and Bfloat16 share.
#include "float16_case.hpp"
#include "support/user_float16.hpp"
#include <posenc/simd/detail/storage.hpp>
#include <posenc/tensor/scalar.hpp>

#include <Eigen/Core>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace storage_format_test {

using posenc::Bfloat16;
using posenc::Half;
using posenc::Scalar;
using posenc::StorageFormat;
using posenc::detail::storage_format;

namespace {

/// A class that lacks one requirement of an element type.
template <int lacks>
struct Almost16 {
  std::uint16_t bits = 0;

  Almost16() = default;
  explicit Almost16(float x) requires(lacks != 1) : bits(Half(x).bits()) {}
  explicit operator float() const requires(lacks != 2) { return Half::from_bits(bits); }
};

struct CopiedByHand {
  std::uint16_t bits = 0;

  CopiedByHand() = default;
  CopiedByHand(const CopiedByHand& other) : bits(other.bits) {}
  explicit CopiedByHand(float x) : bits(Half(x).bits()) {}
  explicit operator float() const { return Half::from_bits(bits); }
};

}  // namespace
}  // namespace storage_format_test

template <int lacks>
struct posenc::StorageFormatOf<storage_format_test::Almost16<lacks>>
    : std::integral_constant<posenc::StorageFormat, posenc::StorageFormat::Half> {};
template <>
struct posenc::StorageFormatOf<storage_format_test::CopiedByHand>
    : std::integral_constant<posenc::StorageFormat, posenc::StorageFormat::Half> {};
template <>
struct posenc::StorageFormatOf<unsigned short>
    : std::integral_constant<posenc::StorageFormat, posenc::StorageFormat::Half> {};

namespace storage_format_test {

// The formats that choose between vector and per-value loads.
static_assert(storage_format<float> == StorageFormat::Native);
static_assert(storage_format<double> == StorageFormat::Native);
static_assert(storage_format<Half> == StorageFormat::Half);
static_assert(storage_format<Bfloat16> == StorageFormat::Bfloat16);
static_assert(storage_format<Eigen::half> == StorageFormat::Half);
static_assert(storage_format<Eigen::bfloat16> == StorageFormat::Bfloat16);
static_assert(storage_format<support::UserHalf> == StorageFormat::Half);
static_assert(storage_format<support::UserBfloat16> == StorageFormat::Bfloat16);
static_assert(storage_format<support::UserFloat16> == StorageFormat::Custom16);
#if defined(__FLT16_MANT_DIG__) && defined(__x86_64__)
static_assert(storage_format<_Float16> == StorageFormat::Half && Scalar<_Float16>);
#endif
#if defined(__BFLT16_MANT_DIG__)
static_assert(storage_format<__bf16> == StorageFormat::Bfloat16 && Scalar<__bf16>);
#endif

static_assert(Scalar<float> && Scalar<double> && Scalar<Half> && Scalar<Bfloat16>);
static_assert(Scalar<Eigen::half> && Scalar<Eigen::bfloat16>);
static_assert(Scalar<support::UserHalf> && Scalar<support::UserFloat16>);
static_assert(!Scalar<support::NamelessFloat16>);
static_assert(!Scalar<std::uint16_t> && !Scalar<std::int16_t> && !Scalar<bool> && !Scalar<int>);
static_assert(!Scalar<long double> && !Scalar<void> && !Scalar<float*>);
static_assert(Scalar<Almost16<0>>);
static_assert(!Scalar<CopiedByHand>, "vectors copy memory");
static_assert(!Scalar<Almost16<1>> && !Scalar<Almost16<2>>, "single values are converted");

TEST_CASE("Half and Bfloat16: arithmetic is that of floats", "[simd][float16]") {
  const Half a(1.5F), b(0.25F);
  static_assert(std::is_same_v<decltype(a * b), float>);
  CHECK(a * b + 1 == 1.375F);
  CHECK(Bfloat16(3.0F) / Bfloat16(2.0F) == 1.5F);
  CHECK(Half(-0.0F) == Half(0.0F));
  CHECK(Half(NAN) != Half(NAN));
}

TEST_CASE("Half and Bfloat16: a NaN stays a NaN of its sign and becomes quiet", "[simd][float16]") {
  for (int bit = 0; bit < 23; ++bit) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const auto nan = std::bit_cast<float>(sign | 0x7f800000U | (1U << bit));
      const auto expected = static_cast<std::uint16_t>(sign >> 16);
      CHECK((Half(nan).bits() & 0xfe00) == (expected | 0x7e00));
      CHECK((Bfloat16(nan).bits() & 0xffc0) == (expected | 0x7fc0));
    }
  }
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    if (std::isnan(static_cast<float>(Half::from_bits(b)))) continue;
    if (Half(Half::from_bits(b)).bits() != b) FAIL("half " << bits << " is changed");
    const float number = Bfloat16::from_bits(b);
    if (!std::isnan(number) && Bfloat16(number).bits() != b) FAIL("bfloat16 " << bits);
  }
}

}  // namespace storage_format_test
