// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/kernels/panel.hpp>
#include <posenc/simd/detail/loaded_once.hpp>
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
inline constexpr Index kernel_rows = Tier::registers >= 32 ? 12 : 6;

/// Returns the number of accumulators per row. With few rows it is larger, so that enough
/// dependency chains are in flight.
template <class Tier>
constexpr Index kernel_columns(Index rows) noexcept {
  const Index most = 2 * kernel_rows<Tier> / rows;
  return most >= 8 ? 8 : most >= 4 ? 4 : 2;
}

/// True if a pass has fewer rows than kernel_rows. With few rows the kernel is memory-bound: it
/// reads a tile in address order, panel after panel, and prefetches ahead. Hardware prefetchers
/// follow such a single stream as well.
template <class Tier, Index Rows>
inline constexpr bool small_bundle = Rows < kernel_rows<Tier>;

/// Prefetch addresses of passes with few rows while they read the panels of a tile.
template <class S>
struct Ahead {
  const S* after;  ///< memory that is read after the tile
  /// True if other rows have just read the tile. Then only memory after it is prefetched.
  bool brought = false;

  /// Returns the address to prefetch at a panel of `size` numbers: the first panel at least 16 KiB
  /// ahead, or a tile ahead if that is less.
  const S* at(Index panel, const S* first, Index size, const Lanes& lanes) const noexcept {
    // Heads without channels have panels of size 0.
    if (brought || size == 0) return after + panel * size;
    constexpr Index early = 16384 / Index{sizeof(S)};
    const Index panels = (lanes.end - 1) / panel_lanes + 1;
    const Index asked = panel + (std::min)((early - 1) / size + 1, panels);
    return asked < panels ? first + asked * size : after + (asked - panels) * size;
  }
};

/// Cuts `rows` rows into bundles, whose sums fit in registers, and calls kernel.run<Rows>(first)
/// for each. Rows is 12 (if registers allow), 6, 4, 2 or 1. For a kernel with is_rare it is always
/// 1, which keeps programs small.
template <class Tier, class Kernel>
POSENC_ALWAYS_INLINE void for_bundles(Index rows, const Kernel& kernel) noexcept {
  constexpr bool is_rare = requires { requires Kernel::is_rare; };
  Index r = 0;
  if constexpr (!is_rare) {
    if constexpr (kernel_rows<Tier> >= 12) {
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
inline constexpr bool pair_products = in_pairs<T>&& in_pairs<S>&& requires(Pack<float, Tier> p) {
  add_pair_products(p, p, p);
};

/// Element type of a packed row of T that is multiplied with panels of S.
template <class Tier, class T, class S>
using PackedRow = std::conditional_t<pair_products<Tier, T, S>, T, Compute<T>>;

/// out(r, lane) <- factor * row(r) . lane, for the active panels. Full vectors up to the last
/// active lane are written.
///   Q: Real, or if pair_products, bfloat16 with interleaved channels as in the panels
template <class Tier, class Real, class S, class Q = Real>
struct PanelProducts {
  using P = Pack<Real, Tier>;

  const Q* rows;  ///< [rows, stored_dim<S>(dim)]
  const S* panels;
  Index dim;
  Real factor;
  Lanes lanes;
  Real* out;  ///< [rows, tile_lanes]
  Ahead<S> ahead;
  Index row_padding = 0;  ///< elements between the end of a row and the next row

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    constexpr Index of_panel = panel_lanes / P::width;
    constexpr Index columns = (std::min)(kernel_columns<Tier>(Rows), Index{4});
    // A bundle of many rows covers part of a panel. A bundle of few rows covers several panels, for
    // more dependency chains; if the loads miss the cache, one panel at a time is faster.
    [[maybe_unused]] const bool waits = Rows * channels < 8 && r == 0 && !ahead.brought;
    constexpr Index panels_at_once = columns > of_panel ? columns / of_panel : 1;
    constexpr Index in_panel = columns > of_panel ? of_panel : columns;
    for (Index n = 0; n < tile_panels; ++n) {
      if (!lanes.panel(n)) continue;
      if constexpr (panels_at_once > 1) {
        constexpr unsigned all = (1u << panels_at_once) - 1;
        if (!waits && n % panels_at_once == 0 && (lanes.panels >> n & all) == all) {
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
      // Half of the kernel's width suffices; lanes beyond `count` are inactive.
      if (lane < count) multiply<Rows, 1, in_panel / 2>(r, n, lane);
    }
  }

 private:
  /// Channels per load of a panel.
  static constexpr Index channels = in_pairs<S> ? 2 : 1;

  // Not inlined, because the caller would otherwise compete for registers.
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
    const S* next = ahead.at(panel, panels, panel_size, lanes) + lane * row_size;
    for (Index d = 0; d < row_size; d += channels) {
      if constexpr (small_bundle<Tier, Rows>) {
        constexpr Index step = channels * columns * P::width;
        prefetch(next, step * Index{sizeof(S)});
        next += step;
      }
      P first[std::size_t{columns}], second[std::size_t{columns}];
      unrolled<columns>([&](Index c) POSENC_INLINE_LAMBDA {
        load(k + c / InPanel * panel_size + c % InPanel * P::width * channels, first[c], second[c]);
        if constexpr (Rows > 1 && std::is_same_v<S, Real>) first[c] = loaded_once(first[c]);
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

  /// Loads one channel, or a pair of channels into `first`, or two channels into `first` and
  /// `second`.
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

/// Weights that contribute nothing, even if the other factor is NaN or infinite.
enum class Skipped { None, Negative, Zero };

template <Skipped Weights, class Real>
POSENC_ALWAYS_INLINE bool is_skipped([[maybe_unused]] Real weight) noexcept {
  if constexpr (Weights == Skipped::Negative) return weight < 0;
  if constexpr (Weights == Skipped::Zero) return weight == 0;
  return false;
}

/// Calls work(skipped weights): None if `finite` says that the other factors are finite, else
/// `Weights`.
template <Skipped Weights, class Work>
void skip_unless_finite(bool finite, const Work& work) {
  if (finite) {
    work(std::integral_constant<Skipped, Skipped::None>());
  } else {
    work(std::integral_constant<Skipped, Weights>());
  }
}

/// out(r) <- old_factor(r) * out(r) + new_factor(r) * sum over the active lanes of weights(r, lane)
/// values(lane). A null old_factor means that `out` is uninitialised and counts as 0.
template <class Tier, class Real, class S, Skipped Weights>
struct WeightedSums {
  using P = Pack<Real, Tier>;
  static constexpr bool is_rare = Weights != Skipped::None;

  const Real* weights;  ///< [rows, tile_lanes]
  const S* values;      ///< [tile_lanes, stride]
  Index stride, dim;
  Lanes lanes;
  const Real* old_factor;  ///< [rows], or null
  const Real* new_factor;
  Real* out;  ///< [rows, dim]; dim is a multiple of the vector width
  Ahead<S> ahead;

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    if constexpr (small_bundle<Tier, Rows>) {
      for (Index d = 0; d < dim; d += channels_in_order) {
        multiply_in_order<Rows>(r, d, (std::min)(channels_in_order, dim - d));
      }
    } else {
      for_columns<Rows>(
          dim, [&]<Index Columns>(Length<Columns>, Index d) { multiply<Rows, Columns>(r, d); });
    }
  }

 private:
  /// Maximum number of channels that few rows read of a panel before they continue with the next
  /// panel.
  static constexpr Index channels_in_order = 256;

  template <Index Columns>
  using Length = std::integral_constant<Index, Columns>;

  /// Calls visit(Length<Columns>(), d) for each group of channels of a kernel pass, from channel 0
  /// up to `channels`.
  template <Index Rows, class Visit>
  POSENC_ALWAYS_INLINE static void for_columns(Index channels, const Visit& visit) noexcept {
    constexpr Index most = kernel_columns<Tier>(Rows);
    Index d = 0;
    for (; d + most * P::width <= channels; d += most * P::width) visit(Length<most>(), d);
    if constexpr (most > 2) {
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
      add_panel<Rows, Columns>(n, first_row, channel, nullptr, sums);
    });
    merge<Rows, Columns>(first_row, channel, sums);
  }

  /// Sums `channels` channels panel by panel.
  template <Index Rows>
  POSENC_NOINLINE void multiply_in_order(Index first_row, Index first_channel,
                                         Index channels) const noexcept {
    P sums[std::size_t{Rows * channels_in_order / P::width}];
    const auto sums_of = [&](Index d) { return sums + d / P::width * Rows; };
    std::fill(sums, sums_of(channels), P::zero());
    for_panels([&](Index n) {
      const S* next = ahead.at(n, values, panel_lanes * stride, lanes);
      for_columns<Rows>(channels, [&]<Index Columns>(Length<Columns>,
                                                     Index d) POSENC_INLINE_LAMBDA {
        const Index channel = first_channel + d;
        add_panel<Rows, Columns>(n, first_row, channel, next + channel * panel_lanes, sums_of(d));
      });
    });
    for_columns<Rows>(channels, [&]<Index Columns>(Length<Columns>, Index d) POSENC_INLINE_LAMBDA {
      merge<Rows, Columns>(first_row, first_channel + d, sums_of(d));
    });
  }

  template <class Visit>
  POSENC_ALWAYS_INLINE void for_panels(const Visit& visit) const noexcept {
    for (Index n = lanes.begin / panel_lanes; n * panel_lanes < lanes.end; ++n) {
      if (lanes.panel(n)) visit(n);
    }
  }

  /// Vectors of values per load. A single row is bound by loads of values: two vectors of bfloat16
  /// are loaded as one, and split into even and odd channels.
  template <Index Rows, Index Columns>
  static constexpr Index together = in_pairs<S>&& Rows == 1 && Columns % 2 == 0 ? 2 : 1;

  ///   next: address that few rows prefetch
  ///   all: [Rows][Columns] sums
  template <Index Rows, Index Columns>
  POSENC_ALWAYS_INLINE void add_panel(Index panel, Index first_row, Index channel,
                                      [[maybe_unused]] const S* next, P* all) const noexcept {
    const Index begin = (std::max)(panel * panel_lanes, lanes.begin);
    const Index end = (std::min)((panel + 1) * panel_lanes, lanes.end);
    const Real* w = weights + first_row * tile_lanes + begin;
    const S* v = values + begin * stride + channel;
    P sums[std::size_t{Rows}][std::size_t{Columns}];
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<Columns>([&](Index c) POSENC_INLINE_LAMBDA { sums[r][c] = all[r * Columns + c]; });
    });
    for (Index j = begin; j < end; ++j) {
      if constexpr (small_bundle<Tier, Rows>) {
        prefetch(next, Columns * P::width * Index{sizeof(S)});
        next += Columns * P::width;
      }
      P value[std::size_t{Columns}];
      constexpr Index at_once = together<Rows, Columns>;
      unrolled<Columns / at_once>([&](Index i) POSENC_INLINE_LAMBDA {
        const Index c = i * at_once;
        if constexpr (at_once == 2) {
          P::load_bfloat16_pairs(v + c * P::width, value[c], value[c + 1]);
        } else {
          value[c] = load_as<P>(v + c * P::width);
          if constexpr (Rows > 1 && std::is_same_v<S, Real>) value[c] = loaded_once(value[c]);
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
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      unrolled<Columns>([&](Index c) POSENC_INLINE_LAMBDA { all[r * Columns + c] = sums[r][c]; });
    });
  }

  template <Index Rows, Index Columns>
  POSENC_ALWAYS_INLINE void merge(Index first_row, Index channel, const P* sums) const noexcept {
    constexpr Index at_once = together<Rows, Columns>;
    const bool adds = old_factor != nullptr;
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      const Index row = first_row + r;
      const P* of_row = sums + r * Columns;
      Real* to = out + row * dim + channel;
      const P old = adds ? P::broadcast(old_factor[row]) : P::zero();
      const P fresh = P::broadcast(new_factor[row]);
      const auto put = [&](Index c, P sum) POSENC_INLINE_LAMBDA {
        const P before = adds ? P::load(to + c * P::width) : P::zero();
        mul_add(before, old, sum * fresh).store(to + c * P::width);
      };
      unrolled<Columns / at_once>([&](Index i) POSENC_INLINE_LAMBDA {
        const Index c = i * at_once;
        if constexpr (at_once == 2) {
          P low, high;
          interleave(of_row[c], of_row[c + 1], low, high);
          put(c, low);
          put(c + 1, high);
        } else {
          put(c, of_row[c]);
        }
      });
    });
  }
};

}  // namespace detail
POSENC_END
