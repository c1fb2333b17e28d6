// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>

POSENC_BEGIN
namespace detail {

/// out <- x W^T for a few rows of x, in one pass over the weight, which lies in memory as it is multiplied:
/// each output is a sum along two rows. What packs the weight first takes several times as long.
///   Bits: a row's do not depend on the other rows, nor on the device
template <class Tier, class T>
class FewRowsProduct {
 public:
  /// For more rows a product that packs both sides is as fast.
  static constexpr Index most_rows = 32;

  ///   weight: [out.dim, x.dim]; x has at most most_rows rows in all
  FewRowsProduct(const T* weight, EmbeddingsView<const T> x, EmbeddingsView<T> out) noexcept
      : weight_(weight), in_(x.dim), out_(out.dim) {
    for (Index b = 0; b < x.batch; ++b) {
      for (Index s = 0; s < x.seq; ++s) {
        x_rows_[rows_] = x.row(b, s);
        out_rows_[rows_++] = out.row(b, s);
      }
    }
  }

  template <Device D>
  void run(const D& device) const {
    if (rows_ == 1) {
      run_groups<outputs_of_one_row>(device);
    } else {
      run_groups<most_outputs>(device);
    }
  }

 private:
  using P = Pack<T, Tier>;
  /// Outputs at a time: rows of the weight that are read side by side. With six rows of x their sums fill
  /// most of 32 registers, or of 16.
  static constexpr Index most_outputs = Tier::registers >= 32 ? 4 : 2;
  /// One row has few sums under way otherwise.
  static constexpr Index outputs_of_one_row = 8;
  /// Channels at a time, for which all rows pass: so many of four rows of the weight, and of six of x, stay in
  /// a first-level cache.
  static constexpr Index channels_at_once = 512;

  template <Index Outputs>
  using Sums = P[std::size_t{most_rows}][std::size_t{Outputs}];

  template <Index Outputs, Device D>
  void run_groups(const D& device) const {
    const double weights = static_cast<double>(Outputs) * static_cast<double>(in_);
    const double products = weights * static_cast<double>(rows_);
    parallel_for(device, (out_ + Outputs - 1) / Outputs, weights * double{sizeof(T)}, products / 16,
                 [this](Index first, Index last) {
                   Index o = first * Outputs;
                   const Index end = (std::min)(last * Outputs, out_);
                   for (; o + Outputs <= end; o += Outputs) make<Outputs>(o);
                   for (; o < end; ++o) make<1>(o);
                 });
  }

  template <Index Outputs>
  void make(Index first) const noexcept {
    Sums<Outputs> sums;
    for (Index r = 0; r < rows_; ++r) std::fill_n(sums[r], Outputs, P::zero());
    const Index at_once = rows_ <= 6 ? in_ : channels_at_once;
    for (Index d = 0; d < in_; d += at_once) {
      const Index end = (std::min)(d + at_once, in_);
      Index r = 0;
      for (; r + 6 <= rows_; r += 6) add<6, Outputs>(r, first, d, end, sums);
      for (; r + 4 <= rows_; r += 4) add<4, Outputs>(r, first, d, end, sums);
      for (; r + 2 <= rows_; r += 2) add<2, Outputs>(r, first, d, end, sums);
      for (; r < rows_; ++r) add<1, Outputs>(r, first, d, end, sums);
    }
    for (Index r = 0; r < rows_; ++r) {
      T* const to = out_rows_[r] + first;
      for (Index o = 0; o < Outputs; ++o) to[o] = sum(sums[r][o]);
    }
  }

  /// Adds what channels begin to end - 1 give.
  template <Index Rows, Index Outputs>
  POSENC_NOINLINE void add(Index first_row, Index first, Index begin, Index end,
                           Sums<Outputs>& sums) const noexcept {
    const T* const* const x = x_rows_ + first_row;
    P parts[std::size_t{Rows}][std::size_t{Outputs}];
    for (Index r = 0; r < Rows; ++r) {
      for (Index o = 0; o < Outputs; ++o) parts[r][o] = sums[first_row + r][o];
    }
    const T* const w = weight_ + first * in_;
    const auto add_vector = [&](Index d, const auto& load) {
      P weights[std::size_t{Outputs}];
      for (Index o = 0; o < Outputs; ++o) weights[o] = load(w + o * in_ + d);
      for (Index r = 0; r < Rows; ++r) {
        const P value = load(x[r] + d);
        for (Index o = 0; o < Outputs; ++o) parts[r][o] = mul_add(value, weights[o], parts[r][o]);
      }
    };
    Index d = begin;
    for (; d + P::width <= end; d += P::width) {
      add_vector(d, [](const T* p) { return P::load(p); });
    }
    if (d < end) {
      add_vector(d, [n = end - d](const T* p) { return P::load_partial(p, n); });
    }
    for (Index r = 0; r < Rows; ++r) {
      for (Index o = 0; o < Outputs; ++o) sums[first_row + r][o] = parts[r][o];
    }
  }

  const T* weight_;
  Index in_, out_, rows_ = 0;
  const T* x_rows_[most_rows];
  T* out_rows_[most_rows];
};

}  // namespace detail
POSENC_END
