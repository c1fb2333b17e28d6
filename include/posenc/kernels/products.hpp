// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/detail/pin_in_register.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <cmath>
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
  const S* next_region;  ///< memory that is read after the tile; null for no prefetches
  /// True if other rows have just read the tile. Then only memory after it is prefetched.
  bool is_cached = false;
  /// True if the tile was stored by an earlier call, so that its first rows read it from memory.
  bool is_stored = false;

  /// True if passes prefetch. Passes of register_tile_rows do so only for tiles from memory: their
  /// arithmetic covers the latency of all caches.
  ///   is_partial: is_partial_register_tile of the pass
  bool is_used(bool is_partial) const noexcept {
    return next_region != nullptr && (is_partial || (is_stored && !is_cached));
  }

  /// Returns the address to prefetch at a panel of `size` numbers. For few rows it is the first
  /// panel at least 16 KiB ahead, or a tile ahead if that is less. For register_tile_rows it is a
  /// tile ahead, because reads spread evenly over their arithmetic take the least time.
  const S* address(bool is_partial, Index panel, const S* first, Index size,
                   const ActiveLanes& lanes) const noexcept {
    // Heads without channels have panels of size 0.
    if (!is_partial || is_cached || size == 0) return next_region + panel * size;
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

/// out(r, lane) <- factor * row(r) . lane, for the active panels. Lanes beyond the last active one
/// may be written, too.
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
  void run(Index r) const noexcept {
    constexpr Index vectors_per_panel = panel_lanes / P::width;
    constexpr Index columns = (std::min)(register_tile_columns<Tier>(Rows), Index{4});
    // A register tile of many rows covers part of a panel. A register tile of few rows covers
    // several panels, for more dependency chains.
    constexpr Index per_pass = (std::max)(columns / vectors_per_panel, Index{1});
    constexpr Index in_panel = (std::min)(columns, vectors_per_panel);
    // Narrower passes for the last lanes gain 20 % with up to 16 keys, but not on shorter vectors.
    constexpr Index half = in_panel * P::width == panel_lanes ? in_panel / 2 : in_panel;
    const Pass pass{r, is_partial_register_tile<Tier, Rows>, Rows * channels < 8};
    const auto multiply_all = [&]<bool Prefetches>(std::bool_constant<Prefetches>) {
      multiply_panels(pass, per_pass, in_panel, multiply<Rows, per_pass, in_panel, Prefetches>,
                      multiply<Rows, 1, in_panel, Prefetches>, half,
                      multiply<Rows, 1, half, Prefetches>);
    };
    // Full register tiles have no register left for a test per channel: 3 to 5 % of a prompt.
    if (pass.is_partial || ahead.is_used(false)) return multiply_all(std::true_type());
    if constexpr (!is_partial_register_tile<Tier, Rows>) multiply_all(std::false_type());
  }

 private:
  /// Channels per load of a panel.
  static constexpr Index channels = has_paired_channels<S> ? 2 : 1;

  /// A pass of a register tile over the panels.
  struct Pass {
    Index first_row;
    bool is_partial;     ///< is_partial_register_tile
    bool is_load_bound;  ///< it has so few rows that loads take longer than arithmetic
  };
  using Multiply = void (*)(const PanelDotKernel&, const Pass&, Index panel, Index lane) noexcept;

  /// Calls the functions of a register tile for all active panels.
  ///   all: multiplies `per_pass` panels; one: `in_panel` vectors of lanes; last: `half` vectors
  POSENC_NOINLINE void multiply_panels(const Pass& pass, Index per_pass, Index in_panel,
                                       Multiply all, Multiply one, Index half,
                                       Multiply last) const noexcept {
    // If the loads miss the cache, one panel at a time is faster.
    const bool is_memory_bound = pass.is_load_bound && pass.first_row == 0 && !ahead.is_cached;
    const unsigned mask = (1u << per_pass) - 1;
    for (Index n = 0; n < tile_panels; ++n) {
      if (!lanes.has_panel(n)) continue;
      if (per_pass > 1 && !is_memory_bound && n % per_pass == 0 &&
          (lanes.panel_mask >> n & mask) == mask) {
        all(*this, pass, n, 0);
        n += per_pass - 1;
        continue;
      }
      const Index count = (std::min)(panel_lanes, lanes.end - n * panel_lanes);
      Index lane = 0;
      for (; lane + half * P::width < count; lane += in_panel * P::width) {
        one(*this, pass, n, lane);
      }
      if (lane < count) last(*this, pass, n, lane);
    }
  }

  // Not inlined, because the caller would otherwise compete for registers.
  template <Index Rows, Index Panels, Index InPanel, bool Prefetches>
  POSENC_NOINLINE static void multiply(const PanelDotKernel& kernel, const Pass& pass, Index panel,
                                       Index lane) noexcept {
    constexpr Index columns = Panels * InPanel;
    const Index first_row = pass.first_row;
    const Index row_size = packed_dim<S>(kernel.dim), panel_size = row_size * panel_lanes;
    const Index row_stride = row_size + kernel.row_padding;
    const S* k = kernel.panels + panel * panel_size + lane * channels;
    const Q* x = kernel.rows + first_row * row_stride;
    P sums[std::size_t{Rows}][std::size_t{columns}];
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<columns>([&](Index c) POSENC_INLINE_LAMBDA { sums[r][c] = P::zero(); });
    });
    [[maybe_unused]] const S* next =
        kernel.ahead.address(pass.is_partial, panel, kernel.panels, panel_size, kernel.lanes) +
        lane * row_size;
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
    Real* to = kernel.out + first_row * tile_lanes + panel * panel_lanes + lane;
    const P by = P::broadcast(kernel.factor);
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

/// Weight of a masked key: -0. It changes no sum of finite numbers, and no probability is -0.
template <class Real>
inline constexpr Real masked_weight = -Real{0};

/// Weights that contribute nothing, even if the other factor is NaN or infinite. Marked are those
/// equal to masked_weight.
enum class SkipWeights { None, Marked, Zero };

template <SkipWeights Weights, class W>
POSENC_ALWAYS_INLINE bool is_skipped([[maybe_unused]] W weight) noexcept {
  // A user's class of 16 bits may lack comparisons.
  if constexpr (Weights == SkipWeights::Marked) {
    const auto value = static_cast<Compute<W>>(weight);
    return value == 0 && std::signbit(value);
  }
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

/// Vectors per pass over the channels that passes of `columns` vectors leave: first `two`, then
/// `rest`. Two vectors at a time leave a rest on tiers whose vectors are as long as the padding. A
/// pass that never runs has the width of another one, so that it instantiates no kernel.
struct NarrowPasses {
  Index two, rest;
};
template <class P>
constexpr NarrowPasses narrow_passes(Index columns) noexcept {
  const Index two = value_padding % (columns * P::width) == 0 ? columns : 2;
  return {two, value_padding % (2 * P::width) == 0 ? two : 1};
}

/// out(r) <- accumulator_scale(r) * out(r) + tile_scale(r) * sum over the active lanes of
/// weights(r, lane) values(lane). A null accumulator_scale means that `out` is uninitialised and
/// counts as 0. A null tile_scale means that `out` has the sums of earlier lanes, whose dependency
/// chains continue.
///   Types: W is Real, or if pair_products, S: weights of two lanes, 2i + 1 before 2i, multiply two
///          rows of values at once
template <class Tier, class Real, class S, SkipWeights Weights, class W = Real>
struct WeightedSumKernel {
  using P = Pack<Real, Tier>;
  static constexpr bool is_rare = Weights != SkipWeights::None;

  const W* weights;  ///< [rows, tile_lanes]
  const S* values;   ///< [tile_lanes, dim] with row stride `stride`
  Index stride, dim;
  ActiveLanes lanes;
  const Real* accumulator_scale;  ///< [rows], or null
  const Real* tile_scale;         ///< [rows], or null
  Real* out;                      ///< [rows, dim]; dim is a multiple of value_padding
  PanelPrefetch<S> ahead;

  template <Index Rows>
  void run(Index r) const noexcept {
    constexpr Index columns = is_rare ? 2 : register_tile_columns<Tier>(Rows);
    constexpr auto narrow = narrow_passes<P>(columns);
    add_tile(r, is_partial_register_tile<Tier, Rows>, columns, multiply<Rows, columns>,
             multiply<Rows, narrow.two>, multiply<Rows, narrow.rest>);
  }

 private:
  /// Maximum number of channels that a pass with prefetches reads of a panel before it continues
  /// with the next panel.
  static constexpr Index panel_major_channels = 256;

  /// A pass of a register tile over some lanes and up to panel_major_channels channels.
  struct Pass {
    Index first_row;
    Index begin, end;  ///< lanes
    const S* next;     ///< row to prefetch with the first lane, or null
    Real* sums;        ///< sums of earlier lanes, which start with the first channel of the pass
    Index sum_stride;
    Index first_channel;
    bool starts;  ///< there are no earlier lanes
    bool ends;    ///< there are no later lanes, so the sums are added to `out`
  };
  using Multiply = void (*)(const WeightedSumKernel&, const Pass&, Index channel) noexcept;

  /// Calls the functions of a register tile, which multiply `columns`, 2 and 1 vectors of channels,
  /// for all lanes. With prefetches it reads panel by panel, in address order, else all lanes of
  /// some channels, whose sums then stay in registers.
  POSENC_NOINLINE void add_tile(Index first_row, bool is_partial, Index columns, Multiply many,
                                Multiply two, Multiply one) const noexcept {
    alignas(64) Real partial_sums[std::size_t{register_tile_rows<Tier> * panel_major_channels}];
    const bool continues = tile_scale == nullptr, prefetches = ahead.is_used(is_partial);
    for (Index d = 0; d < dim; d += panel_major_channels) {
      const Index end = (std::min)(d + panel_major_channels, dim);
      Pass pass{.first_row = first_row,
                .begin = 0,
                .end = 0,
                .next = nullptr,
                .sums = continues ? out + first_row * dim + d : partial_sums,
                .sum_stride = continues ? dim : panel_major_channels,
                .first_channel = d,
                .starts = !continues,
                .ends = false};
      Index panel = 0;
      do {
        while (panel < tile_panels && !lanes.has_panel(panel)) ++panel;
        const Index first = panel;
        do {
          ++panel;
        } while (lanes.has_panel(panel) && !prefetches);
        pass.begin = (std::max)(first * panel_lanes, lanes.begin);
        pass.end = (std::min)(panel * panel_lanes, lanes.end);
        pass.ends = !continues && lanes.panel_mask >> panel == 0;
        if (prefetches) {
          pass.next = ahead.address(is_partial, first, values, panel_lanes * stride, lanes);
        }
        Index channel = d;
        for (; channel + columns * P::width <= end; channel += columns * P::width) {
          many(*this, pass, channel);
        }
        for (; channel + 2 * P::width <= end; channel += 2 * P::width) two(*this, pass, channel);
        if (channel < end) one(*this, pass, channel);
        pass.starts = false;
      } while (lanes.panel_mask >> panel != 0);
    }
  }

  static constexpr bool multiplies_pairs = !std::is_same_v<W, Real>;

  /// Vectors of values per load. A single row is bound by loads of values: two vectors of bfloat16
  /// are loaded as one, and split into even and odd channels. Pairs of lanes are loaded in two
  /// vectors as well.
  template <Index Rows, Index Columns>
  static constexpr Index vectors_per_load =
      has_paired_channels<S> && (multiplies_pairs || Rows == 1) && Columns % 2 == 0 ? 2 : 1;

  template <Index Rows, Index Columns>
  POSENC_NOINLINE static void multiply(const WeightedSumKernel& kernel, const Pass& pass,
                                       Index channel) noexcept {
    P sums[std::size_t{Rows}][std::size_t{Columns}];
    Real* const partial = pass.sums + (channel - pass.first_channel);
    const Index sum_stride = pass.sum_stride;
    if (pass.starts) {
      unrolled<Rows * Columns>(
          [&](Index i) POSENC_INLINE_LAMBDA { sums[i / Columns][i % Columns] = P::zero(); });
    } else {
      unrolled<Rows * Columns>([&](Index i) POSENC_INLINE_LAMBDA {
        sums[i / Columns][i % Columns] =
            P::load(partial + i / Columns * sum_stride + i % Columns * P::width);
      });
    }
    if constexpr (multiplies_pairs) {
      kernel.template add_lane_pairs<Rows, Columns>(pass, channel, sums);
    } else {
      kernel.template add_lanes<Rows, Columns>(pass, channel, sums);
    }
    if (pass.ends) {
      kernel.template store_rescaled<Rows, Columns>(pass.first_row, channel, sums);
    } else {
      unrolled<Rows * Columns>([&](Index i) POSENC_INLINE_LAMBDA {
        sums[i / Columns][i % Columns].store(partial + i / Columns * sum_stride +
                                             i % Columns * P::width);
      });
    }
  }

  template <Index Rows, Index Columns>
  POSENC_ALWAYS_INLINE void add_lanes(
      const Pass& pass, Index channel,
      P (&sums)[std::size_t{Rows}][std::size_t{Columns}]) const noexcept {
    const Real* w = weights + pass.first_row * tile_lanes + pass.begin;
    const S* v = values + pass.begin * stride + channel;
    const S* next = pass.next == nullptr ? nullptr : pass.next + channel;
    for (Index j = pass.begin; j < pass.end; ++j) {
      if (next != nullptr) {
        prefetch(next, Columns * P::width * Index{sizeof(S)});
        next += stride;
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
  template <Index Rows, Index Columns>
  POSENC_ALWAYS_INLINE void add_lane_pairs(
      const Pass& pass, Index channel,
      P (&sums)[std::size_t{Rows}][std::size_t{Columns}]) const noexcept {
    constexpr Index channels = Columns * P::width;
    const Index begin = pass.begin, end = pass.end;
    const Index even_begin = begin / 2 * 2;
    const W* w = weights + pass.first_row * tile_lanes + even_begin;
    const S* v = values + even_begin * stride + channel;
    const S* next = pass.next == nullptr ? nullptr : pass.next + channel;
    for (Index j = even_begin; j < end; j += 2) {
      if (next != nullptr) {
        prefetch(next, channels * Index{sizeof(S)});
        prefetch(next + stride, channels * Index{sizeof(S)});
        next += 2 * stride;
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
  POSENC_ALWAYS_INLINE void store_rescaled(
      Index first_row, Index channel,
      const P (&sums)[std::size_t{Rows}][std::size_t{Columns}]) const noexcept {
    constexpr Index vectors = vectors_per_load<Rows, Columns>;
    const bool adds = accumulator_scale != nullptr;
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      const Index row = first_row + r;
      const P(&row_sums)[std::size_t{Columns}] = sums[r];
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
