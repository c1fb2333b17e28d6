// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/panel.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

// The stage of kernels: products of a strip of rows with the panels of a tile, and with the matrix that
// lies beside them. Each number is one chain of fma, over the channels or over the lanes: how many rows
// and lanes go side by side changes no bit.
POSENC_BEGIN
namespace detail {

/// Rows of a strip, the most that go side by side: with two accumulators each and what they are multiplied
/// with, 12 fill 32 registers, and 6 fill 16.
template <class Tier>
inline constexpr Index kernel_rows = Tier::registers >= 32 ? 12 : 6;

/// Accumulators per row. Few rows take more of them, so that enough chains are under way.
template <class Tier>
constexpr Index kernel_columns(Index rows) noexcept {
  const Index most = 2 * kernel_rows<Tier> / rows;
  return most >= 8 ? 8 : most >= 4 ? 4 : 2;
}

/// Few rows are done with a tile before memory has brought the next one, so it asks for it early.
template <class Tier, Index Rows>
inline constexpr bool small_bundle = Rows < kernel_rows<Tier>;

/// Cuts `rows` rows into bundles, whose sums a kernel holds in registers at once, and calls
/// kernel.run<Rows>(first) for each, Rows being 12 (where the registers allow), 6, 4, 2 or 1.
template <class Tier, class Kernel>
POSENC_ALWAYS_INLINE void for_bundles(Index rows, const Kernel& kernel) noexcept {
  Index r = 0;
  if constexpr (kernel_rows<Tier> >= 12) {
    for (; r + 12 <= rows; r += 12) kernel.template run<12>(r);
  }
  for (; r + 6 <= rows; r += 6) kernel.template run<6>(r);
  for (; r + 4 <= rows; r += 4) kernel.template run<4>(r);
  for (; r + 2 <= rows; r += 2) kernel.template run<2>(r);
  for (; r < rows; ++r) kernel.template run<1>(r);
}

/// Whether rows of T meet panels of S in products of pairs, both in bfloat16.
template <class Tier, class T, class S>
inline constexpr bool pair_products = in_pairs<T>&& in_pairs<S>&& requires(Pack<float, Tier> p) {
  add_pair_products(p, p, p);
};

/// Whether S is multiplied on matrix tiles, see matrix_kernels.hpp.
template <class S>
inline constexpr bool is_matrix_number = false;

/// What rows of T become before they meet panels of S.
template <class Tier, class T, class S>
using PackedRow = std::conditional_t<is_matrix_number<S>, S,
                                     std::conditional_t<pair_products<Tier, T, S>, T, Compute<T>>>;

/// out(r, lane) <- factor * row(r) . lane, for the panels that count. Lanes up to the last one that counts
/// are written, and whole vectors.
///   Q: Real, or bfloat16 in pairs as the panels are where pair_products
template <class Tier, class Real, class S, class Q = Real>
struct PanelProducts {
  using P = Pack<Real, Tier>;

  const Q* rows;  ///< [rows, stored_dim<S>(dim)]
  const S* panels;
  Index dim;
  Real factor;
  Lanes lanes;
  Real* out;              ///< [rows, tile_lanes]
  const S* ahead;         ///< what is read after the panels
  Index row_padding = 0;  ///< numbers between the end of a row and the next one

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    constexpr Index of_panel = panel_lanes / P::width;
    constexpr Index columns = (std::min)(kernel_columns<Tier>(Rows), Index{4});
    // A bundle of many rows goes over part of a panel, one of few over several panels.
    constexpr Index panels_at_once = columns > of_panel ? columns / of_panel : 1;
    constexpr Index in_panel = columns > of_panel ? of_panel : columns;
    for (Index n = 0; n < tile_panels; ++n) {
      if (!lanes.panel(n)) continue;
      if constexpr (panels_at_once > 1) {
        constexpr unsigned all = (1u << panels_at_once) - 1;
        if (n % panels_at_once == 0 && (lanes.panels >> n & all) == all) {
          multiply<Rows, panels_at_once, in_panel>(r, n, 0);
          n += panels_at_once - 1;
          continue;
        }
      }
      const Index count = (std::min)(panel_lanes, lanes.end - n * panel_lanes);
      Index lane = 0;
      for (; lane + in_panel / 2 * P::width < count; lane += in_panel * P::width) {
        multiply<Rows, 1, in_panel>(r, n, lane);
      }
      // Where half of a kernel's width will do; the lanes beyond do not count.
      if (lane < count) multiply<Rows, 1, in_panel / 2>(r, n, lane);
    }
  }

 private:
  /// What one load of a panel brings.
  static constexpr Index channels = in_pairs<S> ? 2 : 1;

  // Not inlined: what surrounds it must not take its registers.
  template <Index Rows, Index Panels, Index InPanel>
  POSENC_NOINLINE void multiply(Index first_row, Index panel, Index lane) const noexcept {
    constexpr Index columns = Panels * InPanel;
    const Index row_size = stored_dim<S>(dim), panel_size = row_size * panel_lanes;
    const Index row_stride = row_size + row_padding;
    const S* k = panels + panel * panel_size + lane * channels;
    const Q* x = rows + first_row * row_stride;
    P sums[std::size_t{Rows}][std::size_t{columns}];
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<columns>([&](Index c) POSENC_INLINE_LAMBDA { sums[r][c] = P::zero(); });
    });
    const S* next = ahead + (k - panels);
    for (Index d = 0; d < row_size; d += channels) {
      if constexpr (small_bundle<Tier, Rows>) {
        for (Index n = 0; n < Panels; ++n) {
          prefetch_far(next + n * panel_size, channels * InPanel * P::width * Index{sizeof(S)});
        }
        next += channels * panel_lanes;
      }
      P first[std::size_t{columns}], second[std::size_t{columns}];
      unrolled<columns>([&](Index c) POSENC_INLINE_LAMBDA {
        load(k + c / InPanel * panel_size + c % InPanel * P::width * channels, first[c], second[c]);
      });
      unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
        if constexpr (in_pairs<Q>) {
          const P pair = P::broadcast_pair(x + r * row_stride);
          unrolled<columns>([&](Index c) POSENC_INLINE_LAMBDA {
            sums[r][c] = add_pair_products(sums[r][c], pair, first[c]);
          });
        } else {
          const P value = P::broadcast(x[r * row_stride]);
          unrolled<columns>([&](Index c) POSENC_INLINE_LAMBDA {
            sums[r][c] = mul_add(value, first[c], sums[r][c]);
          });
        }
      });
      if constexpr (channels > 1 && !in_pairs<Q>) {
        unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
          const P value = P::broadcast(x[r * row_stride + 1]);
          unrolled<columns>([&](Index c) POSENC_INLINE_LAMBDA {
            sums[r][c] = mul_add(value, second[c], sums[r][c]);
          });
        });
      }
      k += channels * panel_lanes;
      x += channels;
    }
    Real* to = out + first_row * tile_lanes + panel * panel_lanes + lane;
    const P by = P::broadcast(factor);
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<columns>([&](Index c) POSENC_INLINE_LAMBDA {
        (sums[r][c] * by).store(to + r * tile_lanes + c * P::width);
      });
    });
  }

  /// One channel, or two as a pair in `first`, or one each in `first` and `second`.
  POSENC_ALWAYS_INLINE static void load(const S* k, P& first, [[maybe_unused]] P& second) noexcept {
    if constexpr (in_pairs<Q>) {
      first = P::load_pairs(k);
    } else if constexpr (in_pairs<S>) {
      P::load_bfloat16_pairs(k, second, first);
    } else {
      first = load_as<P>(k);
    }
  }
};

/// Weights of which nothing may come, not even the NaN of what they are multiplied with.
enum class Skipped { None, Negative, Zero };

template <Skipped Weights, class Real>
POSENC_ALWAYS_INLINE bool is_skipped([[maybe_unused]] Real weight) noexcept {
  if constexpr (Weights == Skipped::Negative) return weight < 0;
  if constexpr (Weights == Skipped::Zero) return weight == 0;
  return false;
}

/// Calls work(which weights are skipped): none where what they are multiplied with is finite, else `Weights`.
template <Skipped Weights, class Work>
void skip_unless_finite(bool finite, const Work& work) {
  if (finite) {
    work(std::integral_constant<Skipped, Skipped::None>());
  } else {
    work(std::integral_constant<Skipped, Weights>());
  }
}

/// out(r) <- old_factor(r) * out(r) + new_factor(r) * sum over the lanes that count of weights(r, lane)
/// values(lane). Where old_factor is null, out counts as 0, whatever it holds.
template <class Tier, class Real, class S, Skipped Weights>
struct WeightedSums {
  using P = Pack<Real, Tier>;

  const Real* weights;  ///< [rows, tile_lanes]
  const S* values;      ///< [tile_lanes, stride]
  Index stride, dim;
  Lanes lanes;
  const Real* old_factor;  ///< [rows], or null
  const Real* new_factor;
  Real* out;       ///< [rows, dim], which is whole vectors
  const S* ahead;  ///< what is read after the values

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    constexpr Index columns = kernel_columns<Tier>(Rows);
    Index d = 0;
    for (; d + columns * P::width <= dim; d += columns * P::width) multiply<Rows, columns>(r, d);
    if constexpr (columns > 2) {
      for (; d + 2 * P::width <= dim; d += 2 * P::width) multiply<Rows, 2>(r, d);
    }
    for (; d < dim; d += P::width) multiply<Rows, 1>(r, d);
  }

 private:
  template <Index Rows, Index Columns>
  POSENC_NOINLINE void multiply(Index first_row, Index first_channel) const noexcept {
    // One row alone waits for its values: two vectors of bfloat16 are loaded as one, the even channels
    // and the odd ones.
    constexpr Index together = in_pairs<S> && Rows == 1 && Columns % 2 == 0 ? 2 : 1;
    P sums[std::size_t{Rows}][std::size_t{Columns}];
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<Columns>([&](Index c) POSENC_INLINE_LAMBDA { sums[r][c] = P::zero(); });
    });
    const Index steps = lanes.end - lanes.begin;
    const S* next = ahead + lanes.begin * stride + first_channel * steps;
    for (Index n = lanes.begin / panel_lanes; n * panel_lanes < lanes.end; ++n) {
      if (!lanes.panel(n)) continue;
      const Index begin = n * panel_lanes > lanes.begin ? n * panel_lanes : lanes.begin;
      const Index end = (n + 1) * panel_lanes < lanes.end ? (n + 1) * panel_lanes : lanes.end;
      const Real* w = weights + first_row * tile_lanes + begin;
      const S* v = values + begin * stride + first_channel;
      for (Index j = begin; j < end; ++j) {
        if constexpr (small_bundle<Tier, Rows>) {
          prefetch_streams<Columns * P::width * Index{sizeof(S)}>(next, steps);
          next += cache_line / Index{sizeof(S)};
        }
        P value[std::size_t{Columns}];
        unrolled<Columns / together>([&](Index i) POSENC_INLINE_LAMBDA {
          const Index c = i * together;
          if constexpr (together == 2) {
            P::load_bfloat16_pairs(v + c * P::width, value[c], value[c + 1]);
          } else {
            value[c] = load_as<P>(v + c * P::width);
          }
        });
        unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
          if (is_skipped<Weights>(w[r * tile_lanes])) return;
          const P weight = P::broadcast(w[r * tile_lanes]);
          unrolled<Columns>([&](Index c) POSENC_INLINE_LAMBDA {
            sums[r][c] = mul_add(weight, value[c], sums[r][c]);
          });
        });
        ++w;
        v += stride;
      }
    }
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      const Index row = first_row + r;
      Real* to = out + row * dim + first_channel;
      const bool adds = old_factor != nullptr;
      const P old = adds ? P::broadcast(old_factor[row]) : P::zero();
      const P fresh = P::broadcast(new_factor[row]);
      const auto merge = [&](Index c, P sum) POSENC_INLINE_LAMBDA {
        const P before = adds ? P::load(to + c * P::width) : P::zero();
        mul_add(before, old, sum * fresh).store(to + c * P::width);
      };
      unrolled<Columns / together>([&](Index i) POSENC_INLINE_LAMBDA {
        const Index c = i * together;
        if constexpr (together == 2) {
          P low, high;
          interleave(sums[r][c], sums[r][c + 1], low, high);
          merge(c, low);
          merge(c + 1, high);
        } else {
          merge(c, sums[r][c]);
        }
      });
    });
  }
};

}  // namespace detail
POSENC_END
