// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <Eigen/Core>

#include <concepts>

// With POSENC_SAMPLE_OF_HASHES the cases are those of some types.
namespace bits {

#if !defined(POSENC_SAMPLE_OF_HASHES)
constexpr bool is_sample = false;
#else
constexpr bool is_sample = true;
#endif

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr bool is_wide = true;
#else
constexpr bool is_wide = false;
#endif

/// True if there are cases of elements T. In a sample each tier has some of the types, because most
/// of the time is spent on compiling them. For products of bfloat16 by bfloat16 only that type
/// differs.
template <class T>
constexpr bool takes =
    !is_sample || (std::same_as<T, Eigen::bfloat16>
                       ? is_wide
                       : !POSENC_BFLOAT16_PRODUCTS && is_wide == std::same_as<T, float>);

}  // namespace bits
