// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/pack.hpp>

#include <concepts>
#include <limits>

// Loads and stores between packs and what tensors store: the pack's own type, half, bfloat16, or
// another 16-bit float of the user's, which goes one value at a time.
POSENC_BEGIN
namespace detail {

enum class StorageFormat { Own, Half, Bfloat16, Other };

/// Known by its digits and range, so that Eigen's, the compiler's and a user's types are all found.
template <class T>
inline constexpr StorageFormat storage_format =
    std::floating_point<T> ? StorageFormat::Own
    : std::numeric_limits<T>::digits == 11 && std::numeric_limits<T>::max_exponent == 16
        ? StorageFormat::Half
    : std::numeric_limits<T>::digits == 8 && std::numeric_limits<T>::max_exponent == 128
        ? StorageFormat::Bfloat16
        : StorageFormat::Other;

template <class P, class T>
POSENC_ALWAYS_INLINE P load_as(const T* p) noexcept {
  constexpr StorageFormat format = storage_format<T>;
  if constexpr (format == StorageFormat::Own) {
    return P::load(p);
  } else if constexpr (format == StorageFormat::Half) {
    return P::load_half(p);
  } else if constexpr (format == StorageFormat::Bfloat16) {
    return P::load_bfloat16(p);
  } else {
    float lanes[P::width];
    for (Index i = 0; i < P::width; ++i) lanes[i] = static_cast<float>(p[i]);
    return P::load(lanes);
  }
}

template <class P, class T>
POSENC_ALWAYS_INLINE void store_as(P value, T* p) noexcept {
  constexpr StorageFormat format = storage_format<T>;
  if constexpr (format == StorageFormat::Own) {
    if constexpr (requires { value.store(p); }) {
      value.store(p);
    } else {
      value.store_rounded(p);
    }
  } else if constexpr (format == StorageFormat::Half) {
    value.store_half(p);
  } else if constexpr (format == StorageFormat::Bfloat16) {
    value.store_bfloat16(p);
  } else {
    float lanes[P::width];
    value.store(lanes);
    for (Index i = 0; i < P::width; ++i) p[i] = static_cast<T>(lanes[i]);
  }
}

/// The first n values, 0 <= n <= width; the other lanes are zero, their memory is not touched.
template <class P, class T>
POSENC_ALWAYS_INLINE P load_partial_as(const T* p, Index n) noexcept {
  if constexpr (storage_format<T> == StorageFormat::Own) {
    return P::load_partial(p, n);
  } else {
    T lanes[P::width] = {};
    for (Index i = 0; i < n; ++i) lanes[i] = p[i];
    return load_as<P>(lanes);
  }
}

template <class P, class T>
POSENC_ALWAYS_INLINE void store_partial_as(P value, T* p, Index n) noexcept {
  if constexpr (storage_format<T> == StorageFormat::Own) {
    if constexpr (requires { value.store_partial(p, n); }) {
      value.store_partial(p, n);
    } else {
      value.store_rounded_partial(p, n);
    }
  } else {
    T lanes[P::width];
    store_as(value, lanes);
    for (Index i = 0; i < n; ++i) p[i] = lanes[i];
  }
}

}  // namespace detail
POSENC_END
