// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/refusal.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#define POSENC_DETAIL_ADDITIVE_RULE                                                            \
  "posenc: additive encodings take (x, positions), x an EmbeddingsView (from bsd(tensor) and " \
  "its like), positions a posenc::Positions; an Eigen device may come first"

// The walk over a tensor, its kernels and the checks that all additive encodings share.
POSENC_BEGIN
namespace detail {

/// out[n][i] = in[i] rounded once, or out[n][i] + in[i] in out's arithmetic, for i < count and every n.
template <bool Add, class Tier = tier::Best, Scalar T, std::size_t N, class Value>
POSENC_ALWAYS_INLINE void store_rows(T* const (&out)[N], const Value* in, Index count) noexcept {
  using P = Pack<Compute<T>, Tier>;
  // g++ 12 cannot derive rest < width from the loop's end: it then compiles a full load of the tail, and
  // warns (-Warray-bounds) that it reads past an array.
  const Index rest = count % P::width, full = count - rest;
  for (Index i = 0; i < full; i += P::width) {
    const P value = load_as<P>(in + i);
    for (T* const row : out) store_as(Add ? load_as<P>(row + i) + value : value, row + i);
  }
  if (rest > 0) {
    const P value = load_partial_as<P>(in + full, rest);
    for (T* const row : out) {
      store_partial_as(Add ? load_partial_as<P>(row + full, rest) + value : value, row + full,
                       rest);
    }
  }
}
/// The same of one row.
template <bool Add, class Tier = tier::Best, Scalar T, class Value>
void store_row(T* out, const Value* in, Index count) noexcept {
  T* const rows[] = {out};
  store_rows<Add, Tier>(rows, in, count);
}

/// out <- even[0], odd[0], even[1], ...; count values of out.
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

/// out[i] += in[i] for i < count, in out's arithmetic, rounded once.
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

inline constexpr Index most_rows_together = 64;

/// Positions at a time, so that the memory of a batch row is walked in long runs while the rows of P
/// stay in the second cache.
inline Index rows_together(Index dim) noexcept {
  return std::clamp(Index{65536} / (std::max)(dim, Index{1}), Index{8}, most_rows_together);
}

/// Batch rows that are walked side by side: memory answers several streams faster than one, and they share
/// what is read of P.
inline constexpr std::size_t rows_abreast = 4;

/// Rows of P that a function writes: as many at a time as are used together.
template <class C, class Write>
class WrittenRows {
 public:
  WrittenRows(const Write& write, Index dim)
      : write_(write), dim_(dim), rows_(static_cast<std::size_t>(dim * rows_together(dim))) {}

  const C* operator()(Index b, Index s, Index slot) {
    C* row = rows_.data() + slot * dim_;
    write_(b, s, row);
    return row;
  }

 private:
  const Write& write_;
  Index dim_;
  AlignedVector<C> rows_;
};

/// Rows of P that a function makes where they are used first, part by part, so that the arithmetic for a part
/// fills the time in which memory answers for the parts before. What more batch rows need is kept.
template <class C, class Make>
class MadeRows {
 public:
  struct Row {
    const MadeRows* rows;
    Index b, s;
    C* values;
    bool made;

    template <bool Add, std::size_t N>
    void store_to(C* const (&out)[N]) {
      if (made) {
        store_rows<Add>(out, values, rows->dim_);
        return;
      }
      rows->make_(b, s,
                  Part<Add, N>{out, rows->sharing_ > static_cast<Index>(N) ? values : nullptr});
      made = true;
    }
  };

  /// `sharing` batch rows use a row of P.
  MadeRows(const Make& make, Index dim, Index sharing)
      : make_(make),
        dim_(dim),
        sharing_(sharing),
        values_(static_cast<std::size_t>(dim * rows_together(dim))) {}

  Row operator()(Index b, Index s, Index slot) {
    return {this, b, s, values_.data() + slot * dim_, false};
  }

 private:
  template <bool Add, std::size_t N>
  struct Part {
    C* const (&out)[N];
    C* kept;  ///< or null

    POSENC_ALWAYS_INLINE void operator()(Index first, const C* values, Index count) const noexcept {
      C* channels[N];
      for (std::size_t n = 0; n < N; ++n) channels[n] = out[n] + first;
      store_rows<Add>(channels, values, count);
      if (kept != nullptr) store_row<false>(kept + first, values, count);
    }
  };

  const Make& make_;
  Index dim_, sharing_;
  AlignedVector<C> values_;
};

/// Calls use(a token's features in some batch rows, an array of pointers; its features of P) for the tokens
/// [s, s_end) of batch rows [b, b_end), which share their rows of P.
template <std::size_t MostAbreast, class T, class Source, class Use>
void visit_rows(EmbeddingsView<T> x, Index b, Index b_end, Index s, Index s_end, Source&& source,
                const Use& use) {
  using Row = decltype(source(b, s, Index{0}));
  const Index together = rows_together(x.dim);
  for (; s < s_end; s += together) {
    const Index count = (std::min)(together, s_end - s);
    Row rows[static_cast<std::size_t>(most_rows_together)];
    for (Index i = 0; i < count; ++i) rows[i] = source(b, s + i, i);
    Index row = b;
    const auto visit = [&]<std::size_t Abreast>(std::integral_constant<std::size_t, Abreast>) {
      for (; row + static_cast<Index>(Abreast) <= b_end; row += static_cast<Index>(Abreast)) {
        for (Index i = 0; i < count; ++i) {
          T* of_token[Abreast];
          for (std::size_t n = 0; n < Abreast; ++n) {
            of_token[n] = x.row(row + static_cast<Index>(n), s + i);
          }
          use(of_token, rows[i]);
        }
      }
    };
    visit(std::integral_constant<std::size_t, MostAbreast>());
    if constexpr (MostAbreast > rows_abreast) {
      visit(std::integral_constant<std::size_t, rows_abreast>());
    }
    visit(std::integral_constant<std::size_t, 1>());
  }
}

/// The same for every token of x, on the threads of a device. make_source() gives each of them a
/// source of its own; it is asked once for all batch rows where `shared` says that they agree.
template <std::size_t MostAbreast = rows_abreast, Device D, class T, class MakeSource, class Use>
void visit_all_rows(const D& device, EmbeddingsView<T> x, bool shared,
                    const MakeSource& make_source, const Use& use) {
  if (x.empty()) return;  // without rows of P, which need memory
  const double bytes = static_cast<double>(x.dim) * sizeof(T);
  if (shared) {
    parallel_for(device, x.seq, bytes * static_cast<double>(x.batch), bytes / 8,
                 [&](Index begin, Index end) {
                   visit_rows<MostAbreast>(x, 0, x.batch, begin, end, make_source(), use);
                 });
  } else {
    parallel_for(device, x.batch, bytes * static_cast<double>(x.seq),
                 bytes / 8 * static_cast<double>(x.seq), [&](Index begin, Index end) {
                   auto source = make_source();
                   for (Index b = begin; b < end; ++b) {
                     visit_rows<MostAbreast>(x, b, b + 1, 0, x.seq, source, use);
                   }
                 });
  }
}

/// x += P (Add) or x = P, where write(b, s, row) writes a row of P to C row[D].
template <bool Add, Device D, Scalar T, class Write>
void store_written_rows(const D& device, EmbeddingsView<T> x, bool shared, const Write& write) {
  using C = Compute<T>;
  visit_all_rows(
      device, x, shared, [&] { return WrittenRows<C, Write>(write, x.dim); },
      [&x](const auto& out, const C* row) { store_rows<Add>(out, row, x.dim); });
}

/// The same, where make(b, s, part) calls part(first, values, count) for channels that cover [0, D). With more
/// batch rows abreast there is more memory to wait for while the next part is computed.
template <bool Add, Device D, class C, class Make>
void store_made_rows(const D& device, EmbeddingsView<C> x, bool shared, const Make& make) {
  visit_all_rows<2 * rows_abreast>(
      device, x, shared, [&] { return MadeRows<C, Make>(make, x.dim, shared ? x.batch : 1); },
      [](const auto& out, auto& row) { row.template store_to<Add>(out); });
}

/// Checks shared by all additive encodings, before anything is written.
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
