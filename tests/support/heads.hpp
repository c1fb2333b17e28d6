// SPDX-License-Identifier: MIT
#pragma once

#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

namespace support {

using posenc::Index;

template <posenc::Scalar T>
double to_double(T x) {
  return static_cast<double>(static_cast<posenc::Compute<T>>(x));
}

/// Returns the error bound of one rounding to T for numbers of a magnitude: 2^-p of it for p bits
/// of significand, plus half the smallest denormal of Eigen::half (for other types it is far below
/// any number here).
template <class T>
double rounding(double magnitude) {
  if (std::is_same_v<T, double>) return 0x1p-53 * magnitude;
  if (std::is_same_v<T, float>) return 0x1p-24 * magnitude;
  if (std::is_same_v<T, Eigen::half>) return std::max(0x1p-11 * magnitude, 0x1p-25);
  return 0x1p-8 * magnitude;
}

/// Memory layout of a tensor [B, S, H, D] in a larger buffer.
struct Layout {
  const char* name = "dense bshd";
  bool heads_first = false;   ///< [B, H, S, D] in memory instead of [B, S, H, D]
  Index other_features = 0;   ///< on both sides of D, in the same row
  Index other_heads = 0;      ///< on both sides of H, as in a fused QKV buffer
  Index other_positions = 0;  ///< after the S, as in a cache with spare capacity
};

inline const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{
      {},
      {"dense bhsd", true, 0, 0, 0},
      {"heads out of a fused buffer", false, 0, 2, 0},
      {"features out of wider rows", false, 3, 0, 0},
      {"a cache with room, bhsd", true, 0, 1, 4},
  };
  return all;
}

/// Tensor [B, S, H, D] in a buffer whose other bits are all set: a NaN with a payload in every
/// type.
template <class T>
class Heads {
 public:
  Heads(Index batch, Index seq, Index heads, Index dim, Layout layout = {})
      : batch_(batch), seq_(seq), heads_(heads), dim_(dim), layout_(layout) {
    buffer_.resize(static_cast<std::size_t>(batch * batch_stride()));
    if (!buffer_.empty()) {
      std::memset(static_cast<void*>(buffer_.data()), 0xff, buffer_.size() * sizeof(T));
    }
  }

  static Heads random(Random& random, Index batch, Index seq, Index heads, Index dim,
                      Layout layout = {}) {
    Heads x(batch, seq, heads, dim, layout);
    x.for_each([&](T& value) { value = static_cast<T>(random.normal()); });
    return x;
  }

  posenc::HeadsView<T> view() {
    T* const data = buffer_.data();  // nullptr if empty
    return {data == nullptr ? data
                            : data + layout_.other_heads * head_stride() + layout_.other_features,
            batch_,
            seq_,
            heads_,
            dim_,
            batch_stride(),
            seq_stride(),
            head_stride()};
  }

  /// Visits every element in the order b, s, h, d, whatever the layout.
  template <class Visit>
  void for_each(const Visit& visit) {
    const auto x = view();
    for (Index b = 0; b < batch_; ++b) {
      for (Index s = 0; s < seq_; ++s) {
        for (Index h = 0; h < heads_; ++h) {
          for (Index d = 0; d < dim_; ++d) visit(x.row(b, s, h)[d]);
        }
      }
    }
  }

  /// True if all memory around the tensor has its initial bits.
  bool surroundings_kept() const {
    Heads copy = *this;
    copy.for_each([](T& value) { std::memset(static_cast<void*>(&value), 0xff, sizeof(T)); });
    const auto* bytes = reinterpret_cast<const unsigned char*>(copy.buffer_.data());
    return std::all_of(bytes, bytes + copy.buffer_.size() * sizeof(T),
                       [](unsigned char byte) { return byte == 0xff; });
  }

 private:
  Index row_length() const { return dim_ + 2 * layout_.other_features; }
  Index all_heads() const { return heads_ + 2 * layout_.other_heads; }
  Index all_positions() const { return seq_ + layout_.other_positions; }
  Index seq_stride() const {
    return layout_.heads_first ? row_length() : all_heads() * row_length();
  }
  Index head_stride() const {
    return layout_.heads_first ? all_positions() * row_length() : row_length();
  }
  Index batch_stride() const { return all_positions() * all_heads() * row_length(); }

  Index batch_, seq_, heads_, dim_;
  Layout layout_;
  std::vector<T> buffer_;
};

/// Copies between tensors of the same shape and of any layout.
template <class T>
void copy(posenc::HeadsView<const std::type_identity_t<T>> from, posenc::HeadsView<T> to) {
  for (Index b = 0; b < to.batch; ++b) {
    for (Index s = 0; s < to.seq; ++s) {
      for (Index h = 0; h < to.heads; ++h) {
        std::copy_n(from.row(b, s, h), to.dim, to.row(b, s, h));
      }
    }
  }
}

/// Returns batch row b.
template <class T>
posenc::HeadsView<T> batch_row(posenc::HeadsView<T> x, Index b) {
  x.data += b * x.batch_stride;
  x.batch = 1;
  return x;
}

template <class T>
std::vector<double> row_of(posenc::HeadsView<T> x, Index b, Index s, Index h) {
  std::vector<double> row;
  for (Index d = 0; d < x.dim; ++d) row.push_back(to_double(x.row(b, s, h)[d]));
  return row;
}

template <class T>
bool same_bits(const T* a, const T* b, Index count) {
  return count == 0 || std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(T)) == 0;
}

/// True for equal shapes and, element by element, equal bits: NaN equals the same NaN, and -0 only
/// -0.
template <class T>
bool same_bits(posenc::HeadsView<T> a, posenc::HeadsView<T> b) {
  if (a.extents() != b.extents()) return false;
  for (Index n = 0; n < a.batch; ++n) {
    for (Index s = 0; s < a.seq; ++s) {
      for (Index h = 0; h < a.heads; ++h) {
        if (!same_bits(a.row(n, s, h), b.row(n, s, h), a.dim)) return false;
      }
    }
  }
  return true;
}

}  // namespace support
