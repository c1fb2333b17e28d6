// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/packed_gemm.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/simd/detail/pin_in_register.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

POSENC_BEGIN
namespace detail {

/// Skinny GEMM: out <- x W^T for a few rows of x, in one pass over the weight as it lies in memory.
/// Each output is a sum along two rows. A product that packs the weight first takes several times
/// as long.
/// The kernel is bound by reading the weight from memory. Therefore x is cut into blocks of
/// channels that stay in L1, and the weight is prefetched in the order in which it is read.
///   Bits: a row's bits depend neither on the other rows nor on the device
template <class Tier, class T>
class SkinnyGemm {
 public:
  /// Maximum number of rows. For more rows a GEMM that packs both sides is as fast.
  static constexpr Index max_rows = 32;

  ///   weight: [out.dim, x.dim]; x has at most max_rows rows in all
  SkinnyGemm(const T* weight, EmbeddingsView<const T> x, EmbeddingsView<T> out) noexcept
      : weight_(weight),
        x_(x),
        in_(x.dim),
        out_(out.dim),
        rows_(x.batch * x.seq),
        passes_((rows_ + rows_per_pass - 1) / rows_per_pass),
        prefetches_(rows_ > 2 && weight_bytes() > (passes_ < 2 ? 8 * l2_bytes : l2_bytes)),
        block_(passes_ > 1 || prefetches_
                   ? (std::max)(l1_block / rows_, min_block) / P::width * P::width
                   : round_up(in_)),
        packed_(x.row(0, 0)) {
    for (Index r = 0; r < rows_; ++r) out_rows_[r] = token_row(out, r);
  }

  /// Computes out.
  ///   Throws: std::bad_alloc, before anything is written
  template <Device D>
  void run(const D& device, ScratchArenas& workspace) {
    if (rows_ == 1) {
      run_groups<outputs_of_one_row>(device);
      return;
    }
    const Index size = rows_ * round_up(in_);
    workspace.reserve(1, 0, static_cast<std::size_t>(size) * sizeof(T));
    ArenaAllocator allocator(workspace.arena(0));
    pack_rows(allocator.allocate<T>(size));
    run_groups<outputs_of_rows>(device);
  }

 private:
  using P = Pack<T, Tier>;
  /// Outputs per step: rows of the weight that are read interleaved. With six rows of x their sums
  /// fill most of 32 registers, or of 16.
  static constexpr Index outputs_of_rows = Tier::registers >= 32 ? 4 : 2;
  /// Outputs per step for one row of x, which would have too few dependency chains otherwise.
  static constexpr Index outputs_of_one_row = 8;
  /// Maximum number of rows of x that are multiplied with a vector of the weight while it is in a
  /// register.
  static constexpr Index rows_per_pass = 6;
  /// Numbers of x in a block of channels. They stay in L1, because a load that misses L1 queues
  /// behind the weight.
  static constexpr Index l1_block = 8192 / Index{sizeof(T)};
  /// Minimum number of channels per block, because sums are loaded and stored once per block.
  static constexpr Index min_block = 1024 / Index{sizeof(T)};
  /// Maximum number of sums, in vectors, of a group of outputs and all rows.
  static constexpr Index max_sums = 256;
  /// Numbers of the weight that stay in L2 until the next block of channels.
  static constexpr Index l2_block = 131072 / Index{sizeof(T)};
  /// Size in bytes up to which a weight may be in L2 from the previous call and is not prefetched.
  /// With one pass of rows the hardware prefetchers suffice up to eight times that size.
  static constexpr double l2_bytes = 1 << 20;

  double weight_bytes() const noexcept {
    return static_cast<double>(in_) * static_cast<double>(out_) * double{sizeof(T)};
  }
  static constexpr Index round_up(Index channels) noexcept {
    return (channels + P::width - 1) / P::width * P::width;
  }
  /// Returns the first row of a pass. Passes have equal numbers of rows, up to one.
  Index first_of_pass(Index pass) const noexcept { return rows_ * pass / passes_; }

  template <Index Outputs, Device D>
  void run_groups(const D& device) const {
    const double weights = static_cast<double>(Outputs) * static_cast<double>(in_);
    const double products = weights * static_cast<double>(rows_);
    const Index max_outputs = (std::min)(max_sums / rows_, l2_block / (std::max)(in_, Index{1}));
    const Index group =
        in_ <= block_ ? Outputs : (std::max)(max_outputs / Outputs * Outputs, Outputs);
    if (Outputs > out_) return run_groups<1>(device);
    parallel_for(device, (out_ + Outputs - 1) / Outputs, weights * double{sizeof(T)}, products / 16,
                 [this, group](Index first, Index last) {
                   const Index end = (std::min)(last * Outputs, out_);
                   for (Index o = first * Outputs; o < end; o += group) {
                     multiply<Outputs>(o, (std::min)(group, end - o));
                   }
                 });
  }

  /// Packs x in the order in which it is read: by block of channels, by pass in a block, and in a
  /// pass one vector of each row, then the next vectors.
  void pack_rows(T* to) noexcept {
    packed_ = to;
    for (Index d = 0; d < in_; d += block_) {
      const Index end = (std::min)(d + block_, in_);
      for (Index pass = 0; pass < passes_; ++pass) {
        const Index first = first_of_pass(pass), count = first_of_pass(pass + 1) - first;
        for (Index r = 0; r < count; ++r) {
          const T* const row = token_row(x_, first + r);
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

  /// Computes a group of outputs, one block of channels after the other.
  template <Index Outputs>
  void multiply(Index first, Index count) const noexcept {
    alignas(64) T sums[static_cast<std::size_t>(max_sums * P::width)];
    const Index steps = (count + Outputs - 1) / Outputs;
    std::fill_n(sums, steps * Outputs * rows_ * P::width, T{0});
    const T* x = packed_;
    for (Index d = 0; d < in_; d += block_) {
      const Index channels = (std::min)(block_, in_ - d);
      T* to = sums;
      for (Index o = 0; o < count; o += Outputs) {
        // The last step overlaps the one before, so that it has Outputs outputs.
        const T* const w = weight_ + (std::min)(first + o, out_ - Outputs) * in_ + d;
        // Next weights to be read: of this group, of its first outputs in the next block, or of the
        // next group.
        const T* const next = o + Outputs < count  ? w + Outputs * in_
                              : d + channels < in_ ? weight_ + first * in_ + d + channels
                                                   : weight_ + (first + count) * in_;
        const T* pass_x = x;
        for (Index pass = 0; pass < passes_; ++pass) {
          const Index rows = first_of_pass(pass + 1) - first_of_pass(pass);
          // Later passes prefetch other rows of the weight. The last of them prefetch some rows
          // past the next ones, because a loop over a variable number of rows costs more.
          const Index from = prefetches_ ? Outputs * pass / passes_ : 0;
          add_pass<Outputs>(rows, pass_x, w, channels, to, next + from * in_);
          pass_x += rows * round_up(channels);
          to += rows * Outputs * P::width;
        }
      }
      x += rows_ * round_up(channels);
    }
    const T* from = sums;
    for (Index o = first; o < first + count; o += Outputs) {
      const Index step = (std::min)(o, out_ - Outputs);
      for (Index r = 0; r < rows_; ++r, from += Outputs * P::width) {
        for (Index i = o - step; i < Outputs; ++i) {
          out_rows_[r][step + i] = sum(P::load(from + i * P::width));
        }
      }
    }
  }

  /// Adds the products of `count` channels to sums, vectors [rows, outputs], and prefetches Outputs
  /// rows of the weight starting at `next`.
  template <Index Outputs>
  void add_pass(Index rows, const T* x, const T* w, Index count, T* sums,
                const T* next) const noexcept {
    constexpr Index max_rows_here = Outputs == outputs_of_one_row ? 1 : rows_per_pass;
    const Index whole = count / P::width * P::width, rest = count - whole;
    if (whole > 0) {
      const auto add_if = [&]<std::size_t N>(std::index_sequence<N>) {
        constexpr Index count_of_rows = Index{N} + 1;
        if (rows == count_of_rows) add<count_of_rows, Outputs>(x, w, whole, sums, next);
        return rows == count_of_rows;
      };
      [&]<std::size_t... N>(std::index_sequence<N...>) {
        (void)(add_if(std::index_sequence<N>()) || ...);
      }
      (std::make_index_sequence<std::size_t{max_rows_here}>());
    }
    if (rest == 0) return;
    for (Index r = 0; r < rows; ++r) {
      const P value = P::load_partial(x + rows * whole + r * P::width, rest);
      for (Index o = 0; o < Outputs; ++o, sums += P::width) {
        mul_add(value, P::load_partial(w + o * in_ + whole, rest), P::load(sums)).store(sums);
      }
    }
  }

  /// Adds the products of complete vectors of channels; at least one. If there might be none, g++
  /// 12 would also keep the sums in memory.
  template <Index Rows, Index Outputs>
  POSENC_NOINLINE void add(const T* x, const T* w, Index count, T* sums,
                           const T* next) const noexcept {
    P parts[std::size_t{Rows}][std::size_t{Outputs}];
    for (Index r = 0; r < Rows; ++r) {
      for (Index o = 0; o < Outputs; ++o)
        parts[r][o] = P::load(sums + (r * Outputs + o) * P::width);
    }
    do {
      if constexpr (2 * Rows >= rows_per_pass) {  // fewer rows never prefetch, see prefetches_
        for (Index o = 0; o < Outputs; ++o) prefetch(next + o * in_, P::width * Index{sizeof(T)});
        next += P::width;
      }
      P weights[std::size_t{Outputs}];
      for (Index o = 0; o < Outputs; ++o) weights[o] = pin_in_register(P::load(w + o * in_));
      for (Index r = 0; r < Rows; ++r) {
        const P value = pin_in_register(P::load(x + r * P::width));
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

  const T* weight_;
  EmbeddingsView<const T> x_;
  Index in_, out_, rows_, passes_;
  bool prefetches_;
  Index block_;  ///< channels per block
  const T* packed_;
  T* out_rows_[max_rows];
};

/// GEMM c <- c + a b for few rows or little depth. Matrices are read where they are, because
/// packing takes longer than so few products.
///   Shapes: a [rows, depth], b [depth, columns], c [rows, columns]
///   Bits:   each number is one chain of multiply-adds that starts with c, in the order of the
///           depth
template <class Tier, class T>
struct InPlaceGemm {
  const T* a;
  Index a_row_stride, a_depth_stride;
  const T* b;
  Index b_stride;
  T* c;
  Index c_stride;
  Index rows, depth, columns;

  void add() const noexcept {
    // Rows of b that are read interleaved, so that each is read from memory in address order.
    constexpr Index depth_block = 32;
    InPlaceGemm part = *this;
    for (Index k = 0; k < depth; k += depth_block) {
      part.depth = (std::min)(depth_block, depth - k);
      for_register_tiles<Tier>(rows, part);
      part.a += depth_block * a_depth_stride;
      part.b += depth_block * b_stride;
    }
  }

  /// Adds the products to rows r .. r + Rows - 1.
  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    constexpr Index vectors = register_tile_columns<Tier>(Rows);
    Index j = 0;
    for (; j + vectors * P::width <= columns; j += vectors * P::width) {
      multiply<Rows, vectors>(r, j);
    }
    for (; j < columns; j += P::width) multiply<Rows, 1>(r, j);
  }

 private:
  using P = Pack<T, Tier>;

  /// Multiplies several complete vectors of columns, or one that may be partial.
  template <Index Rows, Index Vectors>
  POSENC_NOINLINE void multiply(Index row, Index column) const noexcept {
    const Index lanes = (std::min)(P::width, columns - column);
    const auto load = [lanes](const T* p) POSENC_INLINE_LAMBDA {
      return Vectors > 1 ? P::load(p) : P::load_partial(p, lanes);
    };
    const T* factor = a + row * a_row_stride;
    const T* from = b + column;
    T* const to = c + row * c_stride + column;
    P sums[std::size_t{Rows}][std::size_t{Vectors}];
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<Vectors>([&](Index v) POSENC_INLINE_LAMBDA {
        sums[r][v] = load(to + r * c_stride + v * P::width);
      });
    });
    for (Index k = 0; k < depth; ++k, factor += a_depth_stride, from += b_stride) {
      P values[std::size_t{Vectors}];
      unrolled<Vectors>([&](Index v)
                            POSENC_INLINE_LAMBDA { values[v] = load(from + v * P::width); });
      unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
        const P row_factor = P::broadcast(factor[r * a_row_stride]);
        unrolled<Vectors>([&](Index v) POSENC_INLINE_LAMBDA {
          sums[r][v] = mul_add(row_factor, values[v], sums[r][v]);
        });
      });
    }
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<Vectors>([&](Index v) POSENC_INLINE_LAMBDA {
        T* const at = to + r * c_stride + v * P::width;
        if constexpr (Vectors > 1) {
          sums[r][v].store(at);
        } else {
          sums[r][v].store_partial(at, lanes);
        }
      });
    });
  }
};

}  // namespace detail
POSENC_END
