// SPDX-License-Identifier: MIT
#pragma once

#include "reference/matrix.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <Eigen/Core>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

/// Half the distance between 1 and the next larger number of a type.
template <class T>
constexpr double unit_roundoff = std::is_same_v<T, double>        ? 0x1p-53
                                 : std::is_same_v<T, float>       ? 0x1p-24
                                 : std::is_same_v<T, Eigen::half> ? 0x1p-11
                                                                  : 0x1p-8;

/// Returns the largest error of rounding a number of this magnitude to T; denormals of half
/// included.
template <class T>
double rounding_of(double magnitude) {
  return unit_roundoff<T> * std::abs(magnitude) + (std::is_same_v<T, Eigen::half> ? 0x1p-25 : 0);
}

/// Embeddings [B, S, D] with NaNs before, between and after their rows, like a slice of a larger
/// tensor.
template <class T>
class GuardedEmbeddings {
 public:
  GuardedEmbeddings(posenc::Index batch, posenc::Index seq, posenc::Index dim)
      : batch_(batch), seq_(seq), dim_(dim), storage_(size(), nan()) {}

  posenc::EmbeddingsView<T> view() {
    return {storage_.data() + gap, batch_, seq_, dim_, batch_stride(), seq_stride()};
  }

  double operator()(posenc::Index b, posenc::Index s, posenc::Index d) {
    return static_cast<double>(view().row(b, s)[d]);
  }

  /// Returns the B * S rows as a table; valid only for one batch row, because batch rows are not
  /// equally spaced.
  posenc::MatrixView<T> table() {
    if (batch_ != 1) throw std::logic_error("GuardedEmbeddings: a table has one batch row");
    return {storage_.data() + gap, seq_, dim_, seq_stride()};
  }

  /// Returns the B * S rows in double.
  reference::Matrix matrix() {
    reference::Matrix m(batch_ * seq_, dim_);
    for (posenc::Index r = 0; r < m.rows; ++r) {
      for (posenc::Index d = 0; d < dim_; ++d) m(r, d) = (*this)(r / seq_, r % seq_, d);
    }
    return m;
  }

  void fill(std::uint64_t seed) {
    support::Random random(seed);
    for (posenc::Index b = 0; b < batch_; ++b) {
      for (posenc::Index s = 0; s < seq_; ++s) {
        for (posenc::Index d = 0; d < dim_; ++d) {
          view().row(b, s)[d] = static_cast<T>(random.normal());
        }
      }
    }
  }

  /// True if nothing but the B * S * D elements was written.
  bool guards_hold() {
    std::vector<T> rest = storage_;
    const auto slice = view();
    for (posenc::Index b = 0; b < batch_; ++b) {
      for (posenc::Index s = 0; s < seq_; ++s) {
        for (posenc::Index d = 0; d < dim_; ++d) {
          rest[static_cast<std::size_t>(slice.row(b, s) + d - storage_.data())] = nan();
        }
      }
    }
    for (const T value : rest) {
      if (!std::isnan(static_cast<double>(value))) return false;
    }
    return true;
  }

 private:
  static constexpr posenc::Index gap = 3;

  static T nan() { return static_cast<T>(std::numeric_limits<float>::quiet_NaN()); }
  posenc::Index seq_stride() const { return dim_ + gap; }
  posenc::Index batch_stride() const { return seq_ * seq_stride() + gap; }
  std::size_t size() const { return static_cast<std::size_t>(gap + batch_ * batch_stride()); }

  posenc::Index batch_, seq_, dim_;
  std::vector<T> storage_;
};

/// True if x == before + P, added in T's arithmetic and rounded once. P is [B * S, D] or, shared by
/// all batch rows, [S, D].
template <class T>
bool is_sum(GuardedEmbeddings<T>& x, GuardedEmbeddings<T>& before, const reference::Matrix& p) {
  using C = posenc::Compute<T>;
  const reference::Matrix got = x.matrix(), from = before.matrix();
  for (posenc::Index r = 0; r < got.rows; ++r) {
    for (posenc::Index d = 0; d < got.cols; ++d) {
      const C sum = static_cast<C>(from(r, d)) + static_cast<C>(p(r % p.rows, d));
      if (got(r, d) != static_cast<double>(static_cast<T>(sum))) return false;
    }
  }
  return true;
}
