// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/kernels/convert_row.hpp>
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

// Register tiles, the passes that all kernels make over the rows of a strip, and PanelDotKernel,
// which multiplies these rows with the panels of a tile. Each product is one dependency chain of
// FMAs over the channels. So the number of rows and lanes per pass changes no bit.
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

/// Packs the channels of a row as PanelDotKernel reads them, and fills up to out_dim with zeros.
/// out_dim is dim or the next even number.
template <class Tier, class Q, class T>
void pack_row(const T* in, Index dim, Q* out, Index out_dim) noexcept {
  if constexpr (has_paired_channels<Q>) {
    if (dim != out_dim) out[dim - 1] = Q(0.0F);
    for (Index d = 0; d < dim; ++d) out[d ^ 1] = in[d];
  } else {
    convert_row<Tier>(in, dim, out);
    std::fill(out + dim, out + out_dim, Q{0});
  }
}

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

}  // namespace detail
POSENC_END
