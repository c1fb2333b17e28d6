// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>

POSENC_BEGIN
namespace detail {

/// out <- x W^T for a few rows of x, in one pass over the weight, which lies in memory as it is multiplied:
/// each output is a sum along two rows. What packs the weight first takes several times as long.
///   Bits: a row's do not depend on the other rows
template <class Tier, class T>
class FewRowsProduct {
 public:
  /// For more rows a product that packs both sides is as fast.
  static constexpr Index most_rows = 32;

  ///   weight: [out.dim, x.dim]; x has at most most_rows rows in all
  FewRowsProduct(const T* weight, EmbeddingsView<const T> x, EmbeddingsView<T> out) noexcept
      : weight_(weight), x_(x), out_(out) {}

  void run() const noexcept {
    Index o = 0;
    for (; o + most_outputs <= out_.dim; o += most_outputs) make<most_outputs>(o);
    for (; o < out_.dim; ++o) make<1>(o);
  }

 private:
  using P = Pack<T, Tier>;
  /// Outputs at a time: rows of the weight that are read side by side. With six rows of x their sums fill
  /// most of 32 registers, or of 16.
  static constexpr Index most_outputs =
      std::same_as<Tier, tier::Avx512> || std::same_as<Tier, tier::Neon> ? 4 : 2;
  /// Channels at a time, for which all rows pass: so many of four rows of the weight, and of six of x, stay in
  /// a first-level cache.
  static constexpr Index channels_at_once = 512;

  template <Index Outputs>
  using Sums = P[std::size_t{most_rows}][std::size_t{Outputs}];

  Index rows() const noexcept { return x_.batch * x_.seq; }

  template <Index Outputs>
  void make(Index first) const noexcept {
    Sums<Outputs> sums;
    for (Index r = 0; r < rows(); ++r) std::fill_n(sums[r], Outputs, P::zero());
    for (Index d = 0; d < x_.dim; d += channels_at_once) {
      const Index end = (std::min)(d + channels_at_once, x_.dim);
      Index r = 0;
      for (; r + 6 <= rows(); r += 6) add<6, Outputs>(r, first, d, end, sums);
      for (; r + 4 <= rows(); r += 4) add<4, Outputs>(r, first, d, end, sums);
      for (; r + 2 <= rows(); r += 2) add<2, Outputs>(r, first, d, end, sums);
      for (; r < rows(); ++r) add<1, Outputs>(r, first, d, end, sums);
    }
    for (Index r = 0; r < rows(); ++r) {
      T* const to = out_.row(r / out_.seq, r % out_.seq) + first;
      for (Index o = 0; o < Outputs; ++o) to[o] = sum(sums[r][o]);
    }
  }

  /// Adds what channels begin to end - 1 give.
  template <Index Rows, Index Outputs>
  POSENC_NOINLINE void add(Index first_row, Index first, Index begin, Index end,
                           Sums<Outputs>& sums) const noexcept {
    const T* x[std::size_t{Rows}];
    P parts[std::size_t{Rows}][std::size_t{Outputs}];
    for (Index r = 0; r < Rows; ++r) {
      x[r] = x_.row((first_row + r) / x_.seq, (first_row + r) % x_.seq);
      for (Index o = 0; o < Outputs; ++o) parts[r][o] = sums[first_row + r][o];
    }
    const T* const w = weight_ + first * x_.dim;
    const auto add_vector = [&](Index d, const auto& load) {
      P weights[std::size_t{Outputs}];
      for (Index o = 0; o < Outputs; ++o) weights[o] = load(w + o * x_.dim + d);
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
  EmbeddingsView<const T> x_;
  EmbeddingsView<T> out_;
};

}  // namespace detail
POSENC_END
