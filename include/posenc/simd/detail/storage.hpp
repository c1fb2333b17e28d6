// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/pack.hpp>
#include <posenc/simd/storage_format.hpp>

// Loads and stores between packs and element types of tensors: float, double, half, bfloat16, or
// another 16-bit type, whose values are converted one at a time.
POSENC_BEGIN
namespace detail {

/// Loads P::width values of type T.
template <class P, class T>
POSENC_ALWAYS_INLINE P load_as(const T* p) noexcept {
  constexpr StorageFormat format = storage_format<T>;
  if constexpr (format == StorageFormat::Native) {
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

/// Stores P::width values as type T.
template <class P, class T>
POSENC_ALWAYS_INLINE void store_as(P value, T* p) noexcept {
  constexpr StorageFormat format = storage_format<T>;
  if constexpr (format == StorageFormat::Native) {
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

/// Loads the first n values, 0 <= n <= P::width. The other lanes are zero, and their memory is not
/// accessed.
template <class P, class T>
POSENC_ALWAYS_INLINE P load_partial_as(const T* p, Index n) noexcept {
  if constexpr (storage_format<T> == StorageFormat::Native) {
    return P::load_partial(p, n);
  } else {
    T lanes[P::width] = {};
    for (Index i = 0; i < n; ++i) lanes[i] = p[i];
    return load_as<P>(lanes);
  }
}

/// Stores the first n values, 0 <= n <= P::width.
template <class P, class T>
POSENC_ALWAYS_INLINE void store_partial_as(P value, T* p, Index n) noexcept {
  if constexpr (storage_format<T> == StorageFormat::Native) {
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
