// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/tiled_product.hpp>
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
/// Multiplications hide behind the reading of a weight that lies in memory only if little else is read from beyond
/// the first-level cache: so x is cut into pieces that stay there, and the weight is asked for in the order in which
/// it lies.
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
        passes_((rows_ + rows_of_pass - 1) / rows_of_pass),
        asks_(rows_ > 2 && weight_bytes() > (passes_ < 2 ? 8 * second_cache : second_cache)),
        at_once_(passes_ > 1 || asks_
                     ? (std::max)(numbers_at_once / rows_, least_at_once) / P::width * P::width
                     : round_up(in_)),
        blocks_ahead_(asks_ ? (std::max)(weights_ahead / (most_outputs * at_once_), Index{1}) : 0),
        packed_(x.row(0, 0)) {
    for (Index r = 0; r < rows_; ++r) out_rows_[r] = row_of_token(out, r);
  }

  ///   Throws: std::bad_alloc, before anything is written
  template <Device D>
  void run(const D& device, Slots& workspace) {
    if (rows_ == 1) {
      run_groups<outputs_of_one_row>(device);
      return;
    }
    const Index size = rows_ * round_up(in_);
    workspace.reserve(1, 0, static_cast<std::size_t>(size) * sizeof(T));
    Carver carver(workspace.slot(0));
    pack_rows(carver.take<T>(size));
    run_groups<most_outputs>(device);
  }

 private:
  using P = Pack<T, Tier>;
  /// Outputs at a time: rows of the weight that are read side by side. With six rows of x their sums fill
  /// most of 32 registers, or of 16.
  static constexpr Index most_outputs = Tier::registers >= 32 ? 4 : 2;
  /// One row has few sums under way otherwise.
  static constexpr Index outputs_of_one_row = 8;
  /// The most rows of x that meet a vector of the weight while it is in a register.
  static constexpr Index rows_of_pass = 6;
  /// Numbers of x that meet some outputs before the next ones do. They stay in a first-level cache: what misses it
  /// waits behind the weight, which comes from memory.
  static constexpr Index numbers_at_once = 8192 / Index{sizeof(T)};
  /// Channels of a row among them, or sums would be loaded and stored too often.
  static constexpr Index least_at_once = 1024 / Index{sizeof(T)};
  /// Sums under way, of some outputs and all rows.
  static constexpr Index most_sums = 256;
  /// Numbers of the weight that wait in a second-level cache for the next channels of x.
  static constexpr Index weights_at_once = 131072 / Index{sizeof(T)};
  /// Memory is idle while rows of x meet the same weights, so it is asked for those to come, by so many numbers before
  /// they are read: these wait in a first-level cache, for what passes through it twice drives x and the sums out.
  static constexpr Index weights_ahead = 8192 / Index{sizeof(T)};
  /// A weight up to this size may still be in a second-level cache from the call before, so nothing is asked for.
  /// With one pass of rows the processor's own prefetchers keep up until eight times that.
  static constexpr double second_cache = 1 << 20;

  /// Weights that are multiplied together: channels channel .. channel + at_once_ - 1 of some outputs from `output` on,
  /// counted from those that make() makes. `first`: where outputs begin that are made together, 0 or those after them.
  struct Block {
    Index first, output, channel;
  };

  double weight_bytes() const noexcept {
    return static_cast<double>(in_) * static_cast<double>(out_) * double{sizeof(T)};
  }
  static constexpr Index round_up(Index channels) noexcept {
    return (channels + P::width - 1) / P::width * P::width;
  }
  /// Rows go in passes of as equal numbers as can be.
  Index first_of_pass(Index pass) const noexcept { return rows_ * pass / passes_; }

  template <Index Outputs, Device D>
  void run_groups(const D& device) const {
    const double weights = static_cast<double>(Outputs) * static_cast<double>(in_);
    const double products = weights * static_cast<double>(rows_);
    const Index together =
        (std::min)(most_sums / rows_, weights_at_once / (std::max)(in_, Index{1}));
    const Index groups = in_ <= at_once_ ? 1 : (std::max)(together / Outputs, Index{1});
    parallel_for(device, (out_ + Outputs - 1) / Outputs, weights * double{sizeof(T)}, products / 16,
                 [this, groups](Index first, Index last) {
                   Index g = first;
                   for (const Index whole = (std::min)(last, out_ / Outputs); g < whole;) {
                     const Index count = (std::min)(groups, whole - g);
                     make<Outputs>(g * Outputs, count * Outputs);
                     g += count;
                   }
                   if (g < last) make<1>(g * Outputs, out_ - g * Outputs);
                 });
  }

  /// Rows of x as they are read: a vector of each row of a pass, then the next; the passes one after the other,
  /// and then the next channels.
  void pack_rows(T* to) noexcept {
    packed_ = to;
    for (Index d = 0; d < in_; d += at_once_) {
      const Index end = (std::min)(d + at_once_, in_);
      for (Index pass = 0; pass < passes_; ++pass) {
        const Index first = first_of_pass(pass), count = first_of_pass(pass + 1) - first;
        for (Index r = 0; r < count; ++r) {
          const T* const row = row_of_token(x_, first + r);
          T* at = to + r * P::width;
          Index i = d;
          for (; i + P::width <= end; i += P::width, at += count * P::width)
            P::load(row + i).store(at);
          if (i < end) P::load_partial(row + i, end - i).store(at);
        }
        to += count * round_up(end - d);
      }
    }
  }

  /// Outputs first .. first + count - 1, a multiple of Outputs.
  template <Index Outputs>
  void make(Index first, Index count) const noexcept {
    alignas(64) T sums[static_cast<std::size_t>(most_sums * P::width)];
    std::fill_n(sums, count * rows_ * P::width, T{0});
    const T* x = packed_;
    Block ask{0, 0, 0};
    for (Index n = 0; n < blocks_ahead_; ++n) ask = after<Outputs>(ask, count);
    for (Index d = 0; d < in_; d += at_once_) {
      const Index channels = (std::min)(at_once_, in_ - d);
      T* to = sums;
      for (Index o = 0; o < count; o += Outputs, ask = after<Outputs>(ask, count)) {
        const T* const w = weight_ + (first + o) * in_ + d;
        const T* const next = weight_ + (first + ask.output) * in_ + ask.channel;
        const T* of_pass = x;
        for (Index pass = 0; pass < passes_; ++pass) {
          const Index rows = first_of_pass(pass + 1) - first_of_pass(pass);
          // Each pass asks for as many rows, the later ones for some of the block after `next`: what was asked for
          // before costs less than a count that is no constant.
          const Index from = asks_ ? Outputs * pass / passes_ : 0;
          add_pass<Outputs>(rows, of_pass, w, channels, to, next + from * in_);
          of_pass += rows * round_up(channels);
          to += rows * Outputs * P::width;
        }
      }
      x += rows_ * round_up(channels);
    }
    for (Index r = 0; r < rows_; ++r) {
      T* const to = out_rows_[r] + first;
      for (Index o = 0; o < count; o += Outputs) {
        const T* const from = sums + (o * rows_ + r * Outputs) * P::width;
        for (Index i = 0; i < Outputs; ++i) to[o + i] = sum(P::load(from + i * P::width));
      }
    }
  }

  /// The block that is multiplied after `block` where `count` outputs are made together.
  template <Index Outputs>
  Block after(Block block, Index count) const noexcept {
    block.output += Outputs;
    if (block.output < block.first + count) return block;
    block.output = block.first;
    block.channel += at_once_;
    if (block.channel < in_) return block;
    return {block.first + count, block.first + count, 0};
  }

  /// Adds to sums [rows, Outputs] vectors what `count` channels give, and asks for Outputs rows of the weight, from
  /// `next` on, which may lie behind it: a hint alone.
  template <Index Outputs>
  void add_pass(Index rows, const T* x, const T* w, Index count, T* sums,
                const T* next) const noexcept {
    const Index whole = count / P::width * P::width;
    if constexpr (Outputs == outputs_of_one_row) {
      if (whole > 0) add<1, Outputs>(x, w, whole, sums, next);
    } else if (whole > 0) {
      switch (rows) {
        case 1:
          add<1, Outputs>(x, w, whole, sums, next);
          break;
        case 2:
          add<2, Outputs>(x, w, whole, sums, next);
          break;
        case 3:
          add<3, Outputs>(x, w, whole, sums, next);
          break;
        case 4:
          add<4, Outputs>(x, w, whole, sums, next);
          break;
        case 5:
          add<5, Outputs>(x, w, whole, sums, next);
          break;
        default:
          add<rows_of_pass, Outputs>(x, w, whole, sums, next);
      }
    }
    if (whole < count) add_rest<Outputs>(rows, x + rows * whole, w + whole, count - whole, sums);
  }

  /// For whole vectors of channels, and at least one: g++ 12 has sums in memory besides where there may be none.
  template <Index Rows, Index Outputs>
  POSENC_NOINLINE void add(const T* x, const T* w, Index count, T* sums,
                           const T* next) const noexcept {
    P parts[std::size_t{Rows}][std::size_t{Outputs}];
    for (Index r = 0; r < Rows; ++r) {
      for (Index o = 0; o < Outputs; ++o)
        parts[r][o] = P::load(sums + (r * Outputs + o) * P::width);
    }
    do {
      if constexpr (2 * Rows >= rows_of_pass) {  // fewer rows never ask, see asks_
        for (Index o = 0; o < Outputs; ++o) prefetch(next + o * in_, P::width * Index{sizeof(T)});
        next += P::width;
      }
      P weights[std::size_t{Outputs}];
      for (Index o = 0; o < Outputs; ++o) weights[o] = loaded_once(P::load(w + o * in_));
      for (Index r = 0; r < Rows; ++r) {
        const P value = loaded_once(P::load(x + r * P::width));
        for (Index o = 0; o < Outputs; ++o) parts[r][o] = mul_add(value, weights[o], parts[r][o]);
      }
      x += Rows * P::width;
      w += P::width;
      count -= P::width;
    } while (count > 0);
    for (Index r = 0; r < Rows; ++r) {
      for (Index o = 0; o < Outputs; ++o) parts[r][o].store(sums + (r * Outputs + o) * P::width);
    }
  }

  /// For less than a vector of channels.
  template <Index Outputs>
  void add_rest(Index rows, const T* x, const T* w, Index count, T* sums) const noexcept {
    for (Index r = 0; r < rows; ++r, x += P::width) {
      const P value = P::load_partial(x, count);
      for (Index o = 0; o < Outputs; ++o, sums += P::width) {
        mul_add(value, P::load_partial(w + o * in_, count), P::load(sums)).store(sums);
      }
    }
  }

  const T* weight_;
  EmbeddingsView<const T> x_;
  Index in_, out_, rows_, passes_;
  bool asks_;
  Index at_once_, blocks_ahead_;
  const T* packed_;
  T* out_rows_[most_rows];
};

}  // namespace detail
POSENC_END
