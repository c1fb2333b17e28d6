// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/kernels/panel.hpp>
#include <posenc/simd/detail/pin_in_register.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

// Micro-kernels: products of a strip of rows with the panels of a tile, and with a matrix in rows.
// Each number is one dependency chain of FMAs, over the channels or over the lanes. So the number
// of rows and lanes per pass changes no bit.
POSENC_BEGIN
namespace detail {

/// Maximum number of rows per kernel pass. With two accumulators each, and the vectors that they
/// are multiplied with, 12 rows fill 32 registers and 6 fill 16.
template <class Tier>
inline constexpr Index register_tile_rows = Tier::registers >= 32 ? 12 : 6;

/// Returns the number of accumulators per row. With few rows it is larger, so that enough
/// dependency chains are in flight.
template <class Tier>
constexpr Index register_tile_columns(Index rows) noexcept {
  const Index columns = 2 * register_tile_rows<Tier> / rows;
  return columns >= 8 ? 8 : columns >= 4 ? 4 : 2;
}

/// True if a pass has fewer rows than register_tile_rows. With few rows the kernel is memory-bound:
/// it reads a tile in address order, panel after panel, and prefetches ahead. Hardware prefetchers
/// follow such a single stream as well.
template <class Tier, Index Rows>
inline constexpr bool is_partial_register_tile = Rows < register_tile_rows<Tier>;

/// Prefetch addresses of passes over the panels of a tile.
template <class S>
struct PanelPrefetch {
  const S* next_region;  ///< memory that is read after the tile
  /// True if other rows have just read the tile. Then only memory after it is prefetched.
  bool is_cached = false;
  /// True if the tile was stored by an earlier call, so that its first rows read it from memory.
  bool is_stored = false;

  /// True if a pass of `Rows` rows prefetches. A pass of register_tile_rows does so only for tiles
  /// from memory: its arithmetic covers the latency of all caches.
  template <class Tier, Index Rows>
  POSENC_ALWAYS_INLINE bool is_used() const noexcept {
    return is_partial_register_tile<Tier, Rows> || (is_stored && !is_cached);
  }

  /// Returns the address to prefetch at a panel of `size` numbers. For few rows it is the first
  /// panel at least 16 KiB ahead, or a tile ahead if that is less. For register_tile_rows it is a
  /// tile ahead, because reads spread evenly over their arithmetic take the least time.
  template <class Tier, Index Rows>
  const S* address(Index panel, const S* first, Index size,
                   const ActiveLanes& lanes) const noexcept {
    // Heads without channels have panels of size 0.
    if (!is_partial_register_tile<Tier, Rows> || is_cached || size == 0) {
      return next_region + panel * size;
    }
    constexpr Index early = 16384 / Index{sizeof(S)};
    const Index panels = (lanes.end - 1) / panel_lanes + 1;
    const Index target = panel + (std::min)((early - 1) / size + 1, panels);
    return target < panels ? first + target * size : next_region + (target - panels) * size;
  }
};

/// Cuts `rows` rows into register tiles, whose sums fit in registers, and calls
/// kernel.run<Rows>(first) for each. Rows is 12 (if registers allow), 6, 4, 2 or 1. For a kernel
/// with is_rare it is always 1, which keeps programs small.
template <class Tier, class Kernel>
POSENC_ALWAYS_INLINE void for_register_tiles(Index rows, const Kernel& kernel) noexcept {
  constexpr bool is_rare = requires { requires Kernel::is_rare; };
  Index r = 0;
  if constexpr (!is_rare) {
    if constexpr (register_tile_rows<Tier> >= 12) {
      for (; r + 12 <= rows; r += 12) kernel.template run<12>(r);
    }
    for (; r + 6 <= rows; r += 6) kernel.template run<6>(r);
    for (; r + 4 <= rows; r += 4) kernel.template run<4>(r);
    for (; r + 2 <= rows; r += 2) kernel.template run<2>(r);
  }
  for (; r < rows; ++r) kernel.template run<1>(r);
}

/// True if rows of T and panels of S, both bfloat16, are multiplied by pair instructions.
template <class Tier, class T, class S>
inline constexpr bool pair_products =
    has_paired_channels<T>&& has_paired_channels<S>&& requires(Pack<float, Tier> p) {
  add_pair_products(p, p, p);
};

/// Element type of a packed row of T that is multiplied with panels of S.
template <class Tier, class T, class S>
using PackedRowElement = std::conditional_t<pair_products<Tier, T, S>, T, Compute<T>>;

/// out(r, lane) <- factor * row(r) . lane, for the active panels. Full vectors up to the last
/// active lane are written.
///   Types: Q is Real, or if pair_products, bfloat16 with interleaved channels as in the panels
template <class Tier, class Real, class S, class Q = Real>
struct PanelDotKernel {
  using P = Pack<Real, Tier>;

  const Q* rows;  ///< [rows, packed_dim<S>(dim)]
  const S* panels;
  Index dim;
  Real factor;
  ActiveLanes lanes;
  Real* out;  ///< [rows, tile_lanes]
  PanelPrefetch<S> ahead;
  Index row_padding = 0;  ///< elements between the end of a row and the next row

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    if (ahead.template is_used<Tier, Rows>()) return multiply_panels<Rows, true>(r);
    if constexpr (!is_partial_register_tile<Tier, Rows>) multiply_panels<Rows, false>(r);
  }

 private:
  /// Channels per load of a panel.
  static constexpr Index channels = has_paired_channels<S> ? 2 : 1;

  template <Index Rows, bool Prefetches>
  POSENC_ALWAYS_INLINE void multiply_panels(Index r) const noexcept {
    constexpr Index vectors_per_panel = panel_lanes / P::width;
    constexpr Index columns = (std::min)(register_tile_columns<Tier>(Rows), Index{4});
    // A register tile of many rows covers part of a panel. A register tile of few rows covers
    // several panels, for more dependency chains; if the loads miss the cache, one panel at a time
    // is faster.
    [[maybe_unused]] const bool is_memory_bound = Rows * channels < 8 && r == 0 && !ahead.is_cached;
    constexpr Index panels_per_pass = columns > vectors_per_panel ? columns / vectors_per_panel : 1;
    constexpr Index in_panel = columns > vectors_per_panel ? vectors_per_panel : columns;
    for (Index n = 0; n < tile_panels; ++n) {
      if (!lanes.has_panel(n)) continue;
      if constexpr (panels_per_pass > 1) {
        constexpr unsigned all = (1u << panels_per_pass) - 1;
        if (!is_memory_bound && n % panels_per_pass == 0 && (lanes.panel_mask >> n & all) == all) {
          multiply<Rows, panels_per_pass, in_panel, Prefetches>(r, n, 0);
          n += panels_per_pass - 1;
          continue;
        }
      }
      const Index count = (std::min)(panel_lanes, lanes.end - n * panel_lanes);
      Index lane = 0;
      for (; lane + in_panel / 2 * P::width < count; lane += in_panel * P::width) {
        multiply<Rows, 1, in_panel, Prefetches>(r, n, lane);
      }
      // Half of the kernel's width suffices; lanes beyond `count` are inactive.
      if (lane < count) multiply<Rows, 1, in_panel / 2, Prefetches>(r, n, lane);
    }
  }

  // Not inlined, because the caller would otherwise compete for registers.
  template <Index Rows, Index Panels, Index InPanel, bool Prefetches>
  POSENC_NOINLINE void multiply(Index first_row, Index panel, Index lane) const noexcept {
    constexpr Index columns = Panels * InPanel;
    const Index row_size = packed_dim<S>(dim), panel_size = row_size * panel_lanes;
    const Index row_stride = row_size + row_padding;
    const S* k = panels + panel * panel_size + lane * channels;
    const Q* x = rows + first_row * row_stride;
    P sums[std::size_t{Rows}][std::size_t{columns}];
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<columns>([&](Index c) POSENC_INLINE_LAMBDA { sums[r][c] = P::zero(); });
    });
    [[maybe_unused]] const S* next =
        ahead.template address<Tier, Rows>(panel, panels, panel_size, lanes) + lane * row_size;
    for (Index d = 0; d < row_size; d += channels) {
      if constexpr (Prefetches) {
        constexpr Index step = channels * columns * P::width;
        prefetch(next, step * Index{sizeof(S)});
        next += step;
      }
      P first[std::size_t{columns}], second[std::size_t{columns}];
      unrolled<columns>([&](Index c) POSENC_INLINE_LAMBDA {
        load(k + c / InPanel * panel_size + c % InPanel * P::width * channels, first[c], second[c]);
        if constexpr (Rows > 1 && std::is_same_v<S, Real>) first[c] = pin_in_register(first[c]);
      });
      unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
        if constexpr (has_paired_channels<Q>) {
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
      if constexpr (channels > 1 && !has_paired_channels<Q>) {
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

  /// Loads one channel, or a pair of channels into `first`, or two channels into `first` and
  /// `second`.
  POSENC_ALWAYS_INLINE static void load(const S* k, P& first, [[maybe_unused]] P& second) noexcept {
    if constexpr (has_paired_channels<Q>) {
      first = P::load_pairs(k);
    } else if constexpr (has_paired_channels<S>) {
      P::load_bfloat16_pairs(k, second, first);
    } else {
      first = load_as<P>(k);
    }
  }
};

/// Weights that contribute nothing, even if the other factor is NaN or infinite.
enum class SkipWeights { None, Negative, Zero };

template <SkipWeights Weights, class W>
POSENC_ALWAYS_INLINE bool is_skipped([[maybe_unused]] W weight) noexcept {
  // A user's class of 16 bits may lack comparisons.
  if constexpr (Weights == SkipWeights::Negative) return static_cast<Compute<W>>(weight) < 0;
  if constexpr (Weights == SkipWeights::Zero) return static_cast<Compute<W>>(weight) == 0;
  return false;
}

/// Calls work(skipped weights): None if `finite` says that the other factors are finite, else
/// `Weights`.
template <SkipWeights Weights, class Work>
void dispatch_skip_weights(bool finite, const Work& work) {
  if (finite) {
    work(std::integral_constant<SkipWeights, SkipWeights::None>());
  } else {
    work(std::integral_constant<SkipWeights, Weights>());
  }
}

/// out(r) <- accumulator_scale(r) * out(r) + tile_scale(r) * sum over the active lanes of
/// weights(r, lane) values(lane). A null accumulator_scale means that `out` is uninitialised and
/// counts as 0.
///   Types: W is Real, or if pair_products, S: weights of two lanes, 2i + 1 before 2i, multiply two
///          rows of values at once
template <class Tier, class Real, class S, SkipWeights Weights, class W = Real>
struct WeightedSumKernel {
  using P = Pack<Real, Tier>;
  static constexpr bool is_rare = Weights != SkipWeights::None;

  const W* weights;  ///< [rows, tile_lanes]
  const S* values;   ///< [tile_lanes, stride]
  Index stride, dim;
  ActiveLanes lanes;
  const Real* accumulator_scale;  ///< [rows], or null
  const Real* tile_scale;
  Real* out;  ///< [rows, dim]; dim is a multiple of the vector width
  PanelPrefetch<S> ahead;

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    if (ahead.template is_used<Tier, Rows>()) {
      for (Index d = 0; d < dim; d += panel_major_channels) {
        multiply_panel_major<Rows>(r, d, (std::min)(panel_major_channels, dim - d));
      }
    } else if constexpr (!is_partial_register_tile<Tier, Rows>) {
      for_columns<Rows>(
          dim, [&]<Index Columns>(Length<Columns>, Index d) { multiply<Rows, Columns>(r, d); });
    }
  }

 private:
  /// Maximum number of channels that a pass with prefetches reads of a panel before it continues
  /// with the next panel.
  static constexpr Index panel_major_channels = 256;

  template <Index Columns>
  using Length = std::integral_constant<Index, Columns>;

  /// Calls visit(Length<Columns>(), d) for each group of channels of a kernel pass, from channel 0
  /// up to `channels`.
  template <Index Rows, class Visit>
  POSENC_ALWAYS_INLINE static void for_columns(Index channels, const Visit& visit) noexcept {
    constexpr Index max_columns = register_tile_columns<Tier>(Rows);
    Index d = 0;
    for (; d + max_columns * P::width <= channels; d += max_columns * P::width)
      visit(Length<max_columns>(), d);
    if constexpr (max_columns > 2) {
      for (; d + 2 * P::width <= channels; d += 2 * P::width) visit(Length<2>(), d);
    }
    for (; d < channels; d += P::width) visit(Length<1>(), d);
  }

  /// Sums some channels over all panels.
  template <Index Rows, Index Columns>
  POSENC_NOINLINE void multiply(Index first_row, Index channel) const noexcept {
    P sums[std::size_t{Rows * Columns}];
    unrolled<Rows * Columns>([&](Index i) POSENC_INLINE_LAMBDA { sums[i] = P::zero(); });
    for_panels([&](Index n) POSENC_INLINE_LAMBDA {
      add_panel<Rows, Columns, false>(n, first_row, channel, nullptr, sums);
    });
    store_rescaled<Rows, Columns>(first_row, channel, sums);
  }

  /// Sums `channels` channels panel by panel.
  template <Index Rows>
  POSENC_NOINLINE void multiply_panel_major(Index first_row, Index first_channel,
                                            Index channels) const noexcept {
    P sums[std::size_t{Rows * panel_major_channels / P::width}];
    const auto sums_of = [&](Index d) { return sums + d / P::width * Rows; };
    std::fill(sums, sums_of(channels), P::zero());
    for_panels([&](Index n) {
      const S* next = ahead.template address<Tier, Rows>(n, values, panel_lanes * stride, lanes);
      for_columns<Rows>(channels,
                        [&]<Index Columns>(Length<Columns>, Index d) POSENC_INLINE_LAMBDA {
                          const Index channel = first_channel + d;
                          add_panel<Rows, Columns, true>(n, first_row, channel,
                                                         next + channel * panel_lanes, sums_of(d));
                        });
    });
    for_columns<Rows>(channels, [&]<Index Columns>(Length<Columns>, Index d) POSENC_INLINE_LAMBDA {
      store_rescaled<Rows, Columns>(first_row, first_channel + d, sums_of(d));
    });
  }

  template <class Visit>
  POSENC_ALWAYS_INLINE void for_panels(const Visit& visit) const noexcept {
    for (Index n = lanes.begin / panel_lanes; n * panel_lanes < lanes.end; ++n) {
      if (lanes.has_panel(n)) visit(n);
    }
  }

  static constexpr bool multiplies_pairs = !std::is_same_v<W, Real>;

  /// Vectors of values per load. A single row is bound by loads of values: two vectors of bfloat16
  /// are loaded as one, and split into even and odd channels. Pairs of lanes are loaded in two
  /// vectors as well.
  template <Index Rows, Index Columns>
  static constexpr Index vectors_per_load =
      has_paired_channels<S> && (multiplies_pairs || Rows == 1) && Columns % 2 == 0 ? 2 : 1;

  ///   next: address to prefetch, if Prefetches
  ///   all: [Rows][Columns] sums
  template <Index Rows, Index Columns, bool Prefetches>
  POSENC_ALWAYS_INLINE void add_panel(Index panel, Index first_row, Index channel,
                                      [[maybe_unused]] const S* next, P* all) const noexcept {
    const Index begin = (std::max)(panel * panel_lanes, lanes.begin);
    const Index end = (std::min)((panel + 1) * panel_lanes, lanes.end);
    P sums[std::size_t{Rows}][std::size_t{Columns}];
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<Columns>([&](Index c) POSENC_INLINE_LAMBDA { sums[r][c] = all[r * Columns + c]; });
    });
    if constexpr (multiplies_pairs) {
      add_lane_pairs<Rows, Columns, Prefetches>(begin, end, first_row, channel, next, sums);
    } else {
      add_lanes<Rows, Columns, Prefetches>(begin, end, first_row, channel, next, sums);
    }
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<Columns>([&](Index c) POSENC_INLINE_LAMBDA { all[r * Columns + c] = sums[r][c]; });
    });
  }

  template <Index Rows, Index Columns, bool Prefetches>
  POSENC_ALWAYS_INLINE void add_lanes(
      Index begin, Index end, Index first_row, Index channel, [[maybe_unused]] const S* next,
      P (&sums)[std::size_t{Rows}][std::size_t{Columns}]) const noexcept {
    const Real* w = weights + first_row * tile_lanes + begin;
    const S* v = values + begin * stride + channel;
    for (Index j = begin; j < end; ++j) {
      if constexpr (Prefetches) {
        prefetch(next, Columns * P::width * Index{sizeof(S)});
        next += Columns * P::width;
      }
      P value[std::size_t{Columns}];
      constexpr Index vectors = vectors_per_load<Rows, Columns>;
      unrolled<Columns / vectors>([&](Index i) POSENC_INLINE_LAMBDA {
        const Index c = i * vectors;
        if constexpr (vectors == 2) {
          P::load_bfloat16_pairs(v + c * P::width, value[c], value[c + 1]);
        } else {
          value[c] = load_as<P>(v + c * P::width);
          if constexpr (Rows > 1 && std::is_same_v<S, Real>) value[c] = pin_in_register(value[c]);
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

  /// Like add_lanes(), two lanes at a time. A lane that is inactive or skipped counts as a row of
  /// zeros, so that it changes no bit.
  template <Index Rows, Index Columns, bool Prefetches>
  POSENC_ALWAYS_INLINE void add_lane_pairs(
      Index begin, Index end, Index first_row, Index channel, [[maybe_unused]] const S* next,
      P (&sums)[std::size_t{Rows}][std::size_t{Columns}]) const noexcept {
    constexpr Index channels = Columns * P::width;
    const Index even_begin = begin / 2 * 2;
    const W* w = weights + first_row * tile_lanes + even_begin;
    const S* v = values + even_begin * stride + channel;
    for (Index j = even_begin; j < end; j += 2) {
      if constexpr (Prefetches) {
        prefetch(next, 2 * channels * Index{sizeof(S)});
        next += 2 * channels;
      }
      const S *lower = v, *upper = v + stride;
      const bool has_lower = j >= begin && !is_skipped<Weights>(w[1]);
      const bool has_upper = j + 1 < end && !is_skipped<Weights>(w[0]);
      alignas(64) S zeros[std::size_t{channels}];
      if (!(has_lower && has_upper)) [[unlikely]] {
        std::fill_n(zeros, channels, S(0.0F));
        if (!has_lower) lower = zeros;
        if (!has_upper) upper = zeros;
      }
      P value[std::size_t{Columns}];
      constexpr Index vectors = vectors_per_load<Rows, Columns>;
      unrolled<Columns / vectors>([&](Index i) POSENC_INLINE_LAMBDA {
        const Index c = i * vectors;
        if constexpr (vectors == 2) {
          P::load_row_pairs(upper + c * P::width, lower + c * P::width, value[c], value[c + 1]);
        } else {
          value[c] = P::load_row_pairs(upper + c * P::width, lower + c * P::width);
        }
      });
      unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
        const P weight = P::broadcast_pair(w + r * tile_lanes);
        unrolled<Columns>([&](Index c) POSENC_INLINE_LAMBDA {
          sums[r][c] = add_pair_products(sums[r][c], weight, value[c]);
        });
      });
      w += 2;
      v += 2 * stride;
    }
  }

  template <Index Rows, Index Columns>
  POSENC_ALWAYS_INLINE void store_rescaled(Index first_row, Index channel,
                                           const P* sums) const noexcept {
    constexpr Index vectors = vectors_per_load<Rows, Columns>;
    const bool adds = accumulator_scale != nullptr;
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      const Index row = first_row + r;
      const P* row_sums = sums + r * Columns;
      Real* to = out + row * dim + channel;
      const P old_scale = adds ? P::broadcast(accumulator_scale[row]) : P::zero();
      const P new_scale = P::broadcast(tile_scale[row]);
      const auto store = [&](Index c, P sum) POSENC_INLINE_LAMBDA {
        const P before = adds ? P::load(to + c * P::width) : P::zero();
        mul_add(before, old_scale, sum * new_scale).store(to + c * P::width);
      };
      unrolled<Columns / vectors>([&](Index i) POSENC_INLINE_LAMBDA {
        const Index c = i * vectors;
        if constexpr (vectors == 2) {
          P low, high;
          if constexpr (multiplies_pairs) {
            order_row_pairs(row_sums[c], row_sums[c + 1], low, high);
          } else {
            interleave(row_sums[c], row_sums[c + 1], low, high);
          }
          store(c, low);
          store(c + 1, high);
        } else {
          store(c, row_sums[c]);
        }
      });
    });
  }
};

}  // namespace detail
POSENC_END
