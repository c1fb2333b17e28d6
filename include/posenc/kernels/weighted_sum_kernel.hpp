// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/products.hpp>
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

// Weighted sums of the rows of a tile, such as values, and the weights that contribute nothing.
// Each number is one dependency chain of FMAs over the lanes. So the number of rows and lanes per
// pass changes no bit.
POSENC_BEGIN
namespace detail {

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
#if defined(__clang__)  // which would load the weights of eight lanes at once, and spill them
#pragma clang loop unroll(disable)
#endif
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

/// Adds weights [rows, tile_lanes] times the values of the active lanes, [tile_lanes, dim], to the
/// sums [rows, dim]. Zeros among the weights hide values that are not finite.
///   finite: all values are finite
///   ones:   at least `rows` ones
template <class Tier, class Real, class S>
void add_weighted_sums(bool finite, Index rows, const Real* weights, const S* values, Index dim,
                       const ActiveLanes& lanes, const Real* ones, Real* sums) noexcept {
  const auto add = [&]<SkipWeights Weights>(std::integral_constant<SkipWeights, Weights>) {
    for_register_tiles<Tier>(
        rows, WeightedSumKernel<Tier, Real, S, Weights>{.weights = weights,
                                                        .values = values,
                                                        .stride = dim,
                                                        .dim = dim,
                                                        .lanes = lanes,
                                                        .accumulator_scale = ones,
                                                        .tile_scale = ones,
                                                        .out = sums,
                                                        .ahead = {.next_region = values}});
  };
  dispatch_skip_weights<SkipWeights::Zero>(finite, add);
}

}  // namespace detail
POSENC_END
