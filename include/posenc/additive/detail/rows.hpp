// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/call_diagnostics.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

// The walk over a tensor, its kernels, and the checks that all additive encodings share.
POSENC_BEGIN
namespace detail {

POSENC_DETAIL_CALL_RULE(
    AdditiveRule,
    "posenc: additive encodings take (x, positions), x an EmbeddingsView (from bsd(tensor) and "
    "its like), positions a posenc::Positions; an Eigen device may come last");

/// Writes in[i], rounded once, to out[n][i], or adds it in out's arithmetic (Add), for i < count
/// and every n.
template <bool Add, class Tier = tier::Best, Scalar T, std::size_t N, class Value>
POSENC_ALWAYS_INLINE void store_rows(T* const (&out)[N], const Value* in, Index count) noexcept {
  using P = Pack<Compute<T>, Tier>;
  // g++ 12 cannot derive rest < width from the loop's end. It then compiles a full load of the
  // tail, and warns (-Warray-bounds) that it reads past an array.
  const Index rest = count % P::width, full = count - rest;
  for (Index i = 0; i < full; i += P::width) {
    const P value = load_as<P>(in + i);
    // Not a loop, which g++ 12 would leave as one in some callers, and read the rows from memory.
    unrolled<Index{N}>([&](Index n) POSENC_INLINE_LAMBDA {
      store_as(Add ? load_as<P>(out[n] + i) + value : value, out[n] + i);
    });
  }
  if (rest > 0) {
    const P value = load_partial_as<P>(in + full, rest);
    for (T* const row : out) {
      store_partial_as(Add ? load_partial_as<P>(row + full, rest) + value : value, row + full,
                       rest);
    }
  }
}
/// Like store_rows(), for one row.
template <bool Add, class Tier = tier::Best, Scalar T, class Value>
void store_row(T* out, const Value* in, Index count) noexcept {
  T* const rows[] = {out};
  store_rows<Add, Tier>(rows, in, count);
}

/// Writes even[0], odd[0], even[1], ... to out, `count` values in total.
template <class Tier = tier::Best, class C>
POSENC_ALWAYS_INLINE void interleave_row(const C* even, const C* odd, C* out,
                                         Index count) noexcept {
  using P = Pack<C, Tier>;
  Index i = 0;
  for (; 2 * (i + P::width) <= count; i += P::width) {
    P low, high;
    join_pairs(pair_order(P::load(even + i)), pair_order(P::load(odd + i)), low, high);
    low.store(out + 2 * i);
    high.store(out + 2 * i + P::width);
  }
  for (; 2 * i < count; ++i) {
    out[2 * i] = even[i];
    if (2 * i + 1 < count) out[2 * i + 1] = odd[i];
  }
}

/// Adds in[i] to out[i] for i < count, in out's arithmetic, rounded once.
template <Scalar T, Scalar Value>
void accumulate(T* out, const Value* in, Index count) noexcept {
  if constexpr (std::is_same_v<Compute<T>, Compute<Value>>) {
    store_row<true>(out, in, count);
  } else {
    using C = Compute<T>;
    for (Index i = 0; i < count; ++i) {
      out[i] = static_cast<T>(static_cast<C>(out[i]) + static_cast<C>(in[i]));
    }
  }
}

inline constexpr Index max_positions_per_block = 64;

/// Returns the number of positions per block. A block's rows of P stay in L2, and each batch row is
/// accessed in long contiguous runs.
inline Index positions_per_block(Index dim) noexcept {
  return std::clamp(Index{65536} / (std::max)(dim, Index{1}), Index{8}, max_positions_per_block);
}

/// Batch rows that one loop writes. Memory is faster with several interleaved streams, and the
/// batch rows share the loads of P.
inline constexpr std::size_t interleaved_batch_rows = 4;

/// Rows of P that a function writes as full rows, one block of rows at a time.
template <class C, class WriteRow>
class EagerRows {
 public:
  EagerRows(const WriteRow& write_row, Index dim)
      : write_row_(write_row),
        dim_(dim),
        rows_(static_cast<std::size_t>(dim * positions_per_block(dim))) {}

  const C* operator()(Index b, Index s, Index index) {
    C* row = rows_.data() + index * dim_;
    write_row_(b, s, row);
    return row;
  }

 private:
  const WriteRow& write_row_;
  Index dim_;
  AlignedVector<C> rows_;
};

/// Rows of P that a function computes on first use, in parts, while they are stored. The arithmetic
/// of one part overlaps the memory accesses of the parts before it. A row that further batch rows
/// use is buffered.
template <class C, class ComputeRow>
class LazyRows {
 public:
  struct Row {
    const LazyRows* rows;
    Index b, s;
    C* values;
    bool is_computed;

    template <bool Add, std::size_t N>
    void store_to(C* const (&out)[N]) {
      if (is_computed) {
        store_rows<Add>(out, values, rows->dim_);
        return;
      }
      rows->compute_row_(
          b, s, Part<Add, N>{out, rows->batch_reuse_ > static_cast<Index>(N) ? values : nullptr});
      is_computed = true;
    }
  };

  /// Constructs rows of which each is used by `batch_reuse` batch rows.
  LazyRows(const ComputeRow& compute_row, Index dim, Index batch_reuse)
      : compute_row_(compute_row),
        dim_(dim),
        batch_reuse_(batch_reuse),
        values_(static_cast<std::size_t>(dim * positions_per_block(dim))) {}

  Row operator()(Index b, Index s, Index index) {
    return {.rows = this,
            .b = b,
            .s = s,
            .values = values_.data() + index * dim_,
            .is_computed = false};
  }

 private:
  template <bool Add, std::size_t N>
  struct Part {
    C* const (&out)[N];
    C* reuse_buffer;  ///< buffer for reuse, or null

    POSENC_ALWAYS_INLINE void operator()(Index first, const C* values, Index count) const noexcept {
      C* channels[N];
      for (std::size_t n = 0; n < N; ++n) channels[n] = out[n] + first;
      store_rows<Add>(channels, values, count);
      if (reuse_buffer != nullptr) store_row<false>(reuse_buffer + first, values, count);
    }
  };

  const ComputeRow& compute_row_;
  Index dim_, batch_reuse_;
  AlignedVector<C> values_;
};

/// Calls use(out, row) for the tokens [s, s_end) of batch rows [b, b_end), which share their rows
/// of P. `out` is an array of pointers to a token's features in some batch rows. `row` is the
/// token's row of P.
template <std::size_t MaxBatchRows, class T, class Source, class Use>
void for_token_rows(EmbeddingsView<T> x, Index b, Index b_end, Index s, Index s_end,
                    Source&& source, const Use& use) {
  using Row = decltype(source(b, s, Index{0}));
  const Index block_size = positions_per_block(x.dim);
  for (; s < s_end; s += block_size) {
    const Index count = (std::min)(block_size, s_end - s);
    Row rows[static_cast<std::size_t>(max_positions_per_block)];
    for (Index i = 0; i < count; ++i) rows[i] = source(b, s + i, i);
    Index row = b;
    const auto visit = [&]<std::size_t BatchRows>(std::integral_constant<std::size_t, BatchRows>) {
      for (; row + static_cast<Index>(BatchRows) <= b_end; row += static_cast<Index>(BatchRows)) {
        for (Index i = 0; i < count; ++i) {
          T* token_rows[BatchRows];
          for (std::size_t n = 0; n < BatchRows; ++n) {
            token_rows[n] = x.row(row + static_cast<Index>(n), s + i);
          }
          use(token_rows, rows[i]);
        }
      }
    };
    visit(std::integral_constant<std::size_t, MaxBatchRows>());
    if constexpr (MaxBatchRows > interleaved_batch_rows) {
      visit(std::integral_constant<std::size_t, interleaved_batch_rows>());
    }
    visit(std::integral_constant<std::size_t, 1>());
  }
}

/// Like for_token_rows(), for every token of x, on the threads of a device. make_source() returns a
/// source for one thread. If `shared`, all batch rows use the same rows of P, and the source is
/// called once for all of them.
template <std::size_t MaxBatchRows = interleaved_batch_rows, Device D, class T, class MakeSource,
          class Use>
void for_all_token_rows(const D& device, EmbeddingsView<T> x, bool shared,
                        const MakeSource& make_source, const Use& use) {
  if (x.empty()) return;  // before rows of P are allocated
  const double bytes = static_cast<double>(x.dim) * sizeof(T);
  if (shared) {
    parallel_for(device, x.seq, bytes * static_cast<double>(x.batch), bytes / 8,
                 [&](Index begin, Index end) {
                   for_token_rows<MaxBatchRows>(x, 0, x.batch, begin, end, make_source(), use);
                 });
  } else {
    parallel_for(device, x.batch, bytes * static_cast<double>(x.seq),
                 bytes / 8 * static_cast<double>(x.seq), [&](Index begin, Index end) {
                   auto source = make_source();
                   for (Index b = begin; b < end; ++b) {
                     for_token_rows<MaxBatchRows>(x, b, b + 1, 0, x.seq, source, use);
                   }
                 });
  }
}

/// Computes x += P (Add) or x = P, where write_row(b, s, row) writes a row of P to C row[D].
template <bool Add, Device D, Scalar T, class WriteRow>
void store_eager_rows(const D& device, EmbeddingsView<T> x, bool shared,
                      const WriteRow& write_row) {
  using C = Compute<T>;
  for_all_token_rows(
      device, x, shared, [&] { return EagerRows<C, WriteRow>(write_row, x.dim); },
      [&x](const auto& out, const C* row) { store_rows<Add>(out, row, x.dim); });
}

/// Like store_eager_rows(), but compute_row(b, s, part) calls part(first, values, count) for
/// channels that jointly cover [0, D). It interleaves twice as many batch rows, so that more memory
/// accesses overlap the computation of the next part.
template <bool Add, Device D, class C, class ComputeRow>
void store_lazy_rows(const D& device, EmbeddingsView<C> x, bool shared,
                     const ComputeRow& compute_row) {
  for_all_token_rows<2 * interleaved_batch_rows>(
      device, x, shared,
      [&] { return LazyRows<C, ComputeRow>(compute_row, x.dim, shared ? Index{x.batch} : 1); },
      [](const auto& out, auto& row) { row.template store_to<Add>(out); });
}

/// Checks the arguments of an additive encoding, before anything is written.
template <class T>
void check_embeddings(const char* function, const EmbeddingsView<T>& x, Index dim,
                      const Positions& positions, Index axes = 1) {
  check_extents(function, "x", x);
  if (x.dim != dim) {
    fail<ShapeError>(function, "x must be [B, S, ", dim, "] but is ", x.extents());
  }
  if constexpr (!std::is_const_v<T>) check_output(function, "x", x);
  check_positions(function, positions, x.batch, x.seq, axes, x.extents());
}

}  // namespace detail
POSENC_END
