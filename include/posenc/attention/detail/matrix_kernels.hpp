// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kernels.hpp>
#include <posenc/attention/detail/matrix_tiles.hpp>
#include <posenc/attention/detail/panel.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// The kernels on matrix tiles (Products::AmxBfloat16). A source that stores MatrixNumbers gets them, and no
// other stage knows of it: panels in pairs of channels are what a tile of keys has to look like.
POSENC_BEGIN
namespace detail {

/// A bfloat16 that is multiplied in Tiles.
template <class Tiles>
class MatrixNumber {
 public:
  MatrixNumber() = default;
  explicit MatrixNumber(float value) noexcept {
    Pack<float, tier::Scalar>::broadcast(value).store_bfloat16(&bits_);
  }
  template <class T>
  requires(storage_format<T> == StorageFormat::Bfloat16) MatrixNumber(const T& value)
  noexcept : bits_(std::bit_cast<std::uint16_t>(value)) {}

 private:
  std::uint16_t bits_;
};

template <class Tiles>
inline constexpr StorageFormat storage_format<MatrixNumber<Tiles>> = StorageFormat::Bfloat16;
template <class Tiles>
inline constexpr bool is_matrix_number<MatrixNumber<Tiles>> = true;

/// Channels that a register's row has of rows, and pairs of them that a register of panels has.
inline constexpr Index tile_channels = 32;
inline constexpr Index tile_pairs = tile_channels / 2;
/// Floats, or pairs, of a register's row.
inline constexpr Index tile_columns = 16;
inline constexpr Index tile_row_bytes = 64;

template <class Tier, class Tiles>
struct PanelProducts<Tier, float, MatrixNumber<Tiles>, MatrixNumber<Tiles>> {
  using P = Pack<float, Tier>;
  using S = MatrixNumber<Tiles>;

  const S* rows;
  const S* panels;
  Index dim;
  float factor;
  Lanes lanes;
  float* out;
  [[maybe_unused]] Ahead<S> ahead;
  [[maybe_unused]] Index row_padding = 0;  ///< always 0: rows of matrix numbers are packed

  template <Index Rows>
  void run(Index first_row) const noexcept {
    const Index row_size = stored_dim<S>(dim);
    const Index whole = row_size / tile_channels * tile_channels, rest = row_size - whole;
    TileShapes shapes;
    shapes.set(0, Rows, tile_row_bytes);  // sums of the panel's first half of lanes
    shapes.set(1, Rows, tile_row_bytes);  // of its second
    shapes.set(2, Rows, tile_row_bytes);  // rows
    shapes.set(3, tile_pairs, tile_row_bytes);
    if (rest > 0) {
      shapes.set(4, Rows, rest * Index{sizeof(S)});
      shapes.set(5, rest / 2, tile_row_bytes);
    }
    Tiles tiles(shapes);
    const S* const x = rows + first_row * row_size;
    float* const to = out + first_row * tile_lanes;
    constexpr Index half = panel_lanes / 2;
    constexpr Index pair_stride = panel_lanes * 2 * Index{sizeof(S)};
    constexpr Index out_stride = tile_lanes * Index{sizeof(float)};
    const Index x_stride = row_size * Index{sizeof(S)};
    for (Index n = 0; n < tile_panels; ++n) {
      if (!lanes.panel(n)) continue;
      const S* const panel = panels + n * row_size * panel_lanes;
      tiles.template zero<0>();
      tiles.template zero<1>();
      for (Index d = 0; d < whole; d += tile_channels) {
        tiles.template load<2>(x + d, x_stride);
        tiles.template load<3>(panel + d * panel_lanes, pair_stride);
        tiles.template add_products<0, 2, 3>();
        tiles.template load<3>(panel + d * panel_lanes + 2 * half, pair_stride);
        tiles.template add_products<1, 2, 3>();
      }
      if (rest > 0) {
        tiles.template load<4>(x + whole, x_stride);
        tiles.template load<5>(panel + whole * panel_lanes, pair_stride);
        tiles.template add_products<0, 4, 5>();
        tiles.template load<5>(panel + whole * panel_lanes + 2 * half, pair_stride);
        tiles.template add_products<1, 4, 5>();
      }
      tiles.template store<0>(to + n * panel_lanes, out_stride);
      tiles.template store<1>(to + n * panel_lanes + half, out_stride);
      const P by = P::broadcast(factor);
      for (Index r = 0; r < Rows; ++r) {
        float* const scores = to + r * tile_lanes + n * panel_lanes;
        for (Index j = 0; j < panel_lanes; j += P::width) {
          (P::load(scores + j) * by).store(scores + j);
        }
      }
    }
  }
};

/// Weights are rounded to bfloat16. Values that are not finite meet those of the rows that see them alone,
/// by the kernel that looks at every weight.
template <class Tier, class Tiles>
struct WeightedSums<Tier, float, MatrixNumber<Tiles>, Skipped::None> {
  using P = Pack<float, Tier>;
  using S = MatrixNumber<Tiles>;

  const float* weights;
  const S* values;
  Index stride, dim;
  Lanes lanes;
  const float* old_factor;
  const float* new_factor;
  float* out;
  [[maybe_unused]] Ahead<S> ahead;

  template <Index Rows>
  void run(Index first_row) const noexcept {
    TileShapes shapes;
    for (std::size_t sum = 0; sum < 4; ++sum) shapes.set(sum, Rows, tile_row_bytes);
    shapes.set(4, Rows, tile_row_bytes);        // weights of a panel
    shapes.set(5, tile_pairs, tile_row_bytes);  // pairs of its values
    Tiles tiles(shapes);
    alignas(64) std::uint16_t narrow[tile_panels][std::size_t{Rows}][panel_lanes];
    for (Index n = 0; n < tile_panels; ++n) {
      if (!lanes.panel(n)) continue;
      for (Index r = 0; r < Rows; ++r) {
        round_weights(weights + (first_row + r) * tile_lanes, n, narrow[n][r]);
      }
    }
    for (Index first = 0; first < dim; first += 4 * tile_columns) {
      const Index blocks = (std::min)((dim - first) / tile_columns, Index{4});
      // The factor says which of the registers take part.
      const auto of_blocks = [&](const auto& work) {
        work.template operator()<0>();
        if (blocks > 1) work.template operator()<1>();
        if (blocks > 2) work.template operator()<2>();
        if (blocks > 3) work.template operator()<3>();
      };
      of_blocks([&]<int Block>() { tiles.template zero<Block>(); });
      for (Index n = 0; n < tile_panels; ++n) {
        if (!lanes.panel(n)) continue;
        tiles.template load<4>(narrow[n], tile_row_bytes);
        of_blocks([&]<int Block>() {
          alignas(64) std::uint16_t pairs[tile_pairs][2 * tile_columns];
          pack_values(n, first + Block * tile_columns, pairs);
          tiles.template load<5>(pairs, tile_row_bytes);
          tiles.template add_products<Block, 4, 5>();
        });
      }
      of_blocks([&]<int Block>() {
        alignas(64) float sums[std::size_t{Rows}][tile_columns];
        tiles.template store<Block>(sums, tile_row_bytes);
        for (Index r = 0; r < Rows; ++r) {
          merge(first_row + r, first + Block * tile_columns, sums[r]);
        }
      });
    }
  }

 private:
  bool counts(Index lane) const noexcept { return lane >= lanes.begin && lane < lanes.end; }

  /// Lanes that do not count may hold anything, and become zero.
  void round_weights(const float* row, Index panel, std::uint16_t* to) const noexcept {
    const Index first = panel * panel_lanes;
    for (Index j = 0; j < panel_lanes; j += P::width) {
      P::load(row + first + j).store_bfloat16(to + j);
    }
    for (Index j = 0; j < panel_lanes; ++j) {
      if (!counts(first + j)) to[j] = 0;
    }
  }

  /// tile_columns channels of a panel's values, as pairs of neighbouring keys.
  void pack_values(Index panel, Index first_channel,
                   std::uint16_t (&pairs)[tile_pairs][2 * tile_columns]) const noexcept {
    const auto load = [&](Index lane, Index c) {
      if (!counts(lane)) return P::zero();
      return P::load_bfloat16(values + lane * stride + first_channel + c);
    };
    for (Index i = 0; i < tile_pairs; ++i) {
      const Index lane = panel * panel_lanes + 2 * i;
      for (Index c = 0; c < tile_columns; c += P::width) {
        P::store_bfloat16_pairs(pairs[i] + 2 * c, load(lane, c), load(lane + 1, c));
      }
    }
  }

  void merge(Index row, Index first_channel, const float* sums) const noexcept {
    float* const to = out + row * dim + first_channel;
    const bool adds = old_factor != nullptr;
    const P old = adds ? P::broadcast(old_factor[row]) : P::zero();
    const P fresh = P::broadcast(new_factor[row]);
    for (Index c = 0; c < tile_columns; c += P::width) {
      const P before = adds ? P::load(to + c) : P::zero();
      mul_add(before, old, P::load(sums + c) * fresh).store(to + c);
    }
  }
};

/// Calls call(std::type_identity<S>) for the numbers in which a source has keys and values: Exact, or those that are
/// multiplied on tiles where a call wants them, q being T and keys S.
///   Throws: ConfigError where tiles cannot be had
template <class T, class S, class Exact, class Call>
void with_products(const char* function, Products products, const Call& call) {
  if (products == Products::Exact) return call(std::type_identity<Exact>());
  constexpr const char* name = "Products::AmxBfloat16 ";
  if constexpr (storage_format<T> != StorageFormat::Bfloat16 ||
                storage_format<S> != StorageFormat::Bfloat16) {
    fail<ConfigError>(function, name, "multiplies bfloat16 alone: q, k, v and out");
  } else {
#if POSENC_HAS_AMX
    if (!amx_is_permitted()) {
      fail<ConfigError>(function, name,
                        "needs a processor with AMX_BF16 and the system's permission");
    }
    call(std::type_identity<MatrixNumber<AmxTiles>>());
#else
    fail<ConfigError>(function, name, "needs a build for Linux with -mamx-tile -mamx-bf16");
#endif
  }
}

}  // namespace detail
POSENC_END
