// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/slots.hpp>
#include <posenc/attention/detail/tiled_product.hpp>
#include <posenc/core/config.hpp>
#include <posenc/simd/detail/loaded_once.hpp>
#include <posenc/simd/detail/prefetch.hpp>
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
      : weight_(weight),
        x_(x),
        in_(x.dim),
        out_(out.dim),
        rows_(x.batch * x.seq),
        x_first_(x.row(0, 0)),
        at_once_((std::max)(rows_ > rows_of_pass ? (std::min)(channels_at_once, x.dim) : x.dim,
                            Index{1})) {
    for (Index r = 0; r < rows_; ++r) out_rows_[r] = row_of_token(out, r);
    if (rows_ > 1) x_stride_ = row_of_token(x, 1) - x_first_;
  }

  ///   Throws: std::bad_alloc, before anything is written
  template <Device D>
  void run(const D& device, Slots& workspace) {
    if (rows_ > rows_as_they_lie) {
      workspace.reserve(1, 0, static_cast<std::size_t>(packed_size()) * sizeof(T));
      Carver carver(workspace.slot(0));
      pack_rows(carver.take<T>(packed_size()));
    }
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
  /// Rows of x that meet a vector of the weight while it is in a register.
  static constexpr Index rows_of_pass = 6;
  /// Rows of x that are read where they lie: so few streams, beside those of the weight, suit any cache.
  static constexpr Index rows_as_they_lie = 2;
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

  /// Rows of x as they are read: some channels of all of them, then the next.
  Index packed_size() const noexcept {
    return (in_ + at_once_ - 1) / at_once_ * rows_ * packed_stride();
  }
  /// A cache line more: rows a power of two apart would drive each other out of a cache.
  Index packed_stride() const noexcept { return at_once_ + 64 / Index{sizeof(T)}; }
  void pack_rows(T* to) noexcept {
    x_first_ = to;
    x_stride_ = packed_stride();
    for (Index d = 0; d < in_; d += at_once_, to += rows_ * x_stride_) {
      copy_rows(x_, 0, rows_, d, (std::min)(at_once_, in_ - d), to, x_stride_);
    }
  }

  template <Index Outputs>
  void make(Index first) const noexcept {
    Sums<Outputs> sums;
    for (Index r = 0; r < rows_; ++r) std::fill_n(sums[r], Outputs, P::zero());
    const T* x = x_first_;
    for (Index d = 0; d < in_; d += at_once_, x += rows_ * x_stride_) {
      const T* const w = weight_ + first * in_ + d;
      const Index count = (std::min)(at_once_, in_ - d);
      Index r = 0;
      if (rows_ >= 2 * rows_of_pass) {
        const T* const next = d + count < in_ ? w + count : weight_ + (first + Outputs) * in_;
        const Index passes = rows_ / rows_of_pass;
        for (Index n = 0; n < passes; ++n, r += rows_of_pass) {
          const Index o = Outputs * n / passes;
          const Index streams = Outputs * (n + 1) / passes - o;
          add<rows_of_pass, Outputs, true>(r, x, w, count, sums, next + o * in_, streams);
        }
      }
      for (; r + rows_of_pass <= rows_; r += rows_of_pass) {
        add<rows_of_pass, Outputs>(r, x, w, count, sums);
      }
      for (; r + 4 <= rows_; r += 4) add<4, Outputs>(r, x, w, count, sums);
      for (; r + 2 <= rows_; r += 2) add<2, Outputs>(r, x, w, count, sums);
      for (; r < rows_; ++r) add<1, Outputs>(r, x, w, count, sums);
    }
    for (Index r = 0; r < rows_; ++r) {
      T* const to = out_rows_[r] + first;
      for (Index o = 0; o < Outputs; ++o) to[o] = sum(sums[r][o]);
    }
  }

  /// Adds what `count` channels give. With Asks, it also asks for the next `count` channels of next_rows rows of the
  /// weight: memory is idle while further rows of x meet the same weights.
  template <Index Rows, Index Outputs, bool Asks = false>
  POSENC_NOINLINE void add(Index first_row, const T* x, const T* w, Index count,
                           Sums<Outputs>& sums, const T* next = nullptr,
                           Index next_rows = 0) const noexcept {
    x += first_row * x_stride_;
    P parts[std::size_t{Rows}][std::size_t{Outputs}];
    for (Index r = 0; r < Rows; ++r) {
      for (Index o = 0; o < Outputs; ++o) parts[r][o] = sums[first_row + r][o];
    }
    const auto add_vector = [&](Index d, const auto& load) {
      P weights[std::size_t{Outputs}];
      for (Index o = 0; o < Outputs; ++o) weights[o] = loaded_once(load(w + o * in_ + d));
      if constexpr (Asks) {
        for (Index n = 0; n < next_rows; ++n) {
          prefetch_far(next + n * in_ + d, P::width * Index{sizeof(T)});
        }
      }
      for (Index r = 0; r < Rows; ++r) {
        const P value = loaded_once(load(x + r * x_stride_ + d));
        for (Index o = 0; o < Outputs; ++o) parts[r][o] = mul_add(value, weights[o], parts[r][o]);
      }
    };
    Index d = 0;
    for (; d + P::width <= count; d += P::width) {
      add_vector(d, [](const T* p) { return P::load(p); });
    }
    if (d < count) {
      add_vector(d, [n = count - d](const T* p) { return P::load_partial(p, n); });
    }
    for (Index r = 0; r < Rows; ++r) {
      for (Index o = 0; o < Outputs; ++o) sums[first_row + r][o] = parts[r][o];
    }
  }

  const T* weight_;
  EmbeddingsView<const T> x_;
  Index in_, out_, rows_;
  const T* x_first_;
  Index x_stride_ = 0, at_once_;
  T* out_rows_[most_rows];
};

}  // namespace detail
POSENC_END
