// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/concepts.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>

POSENC_BEGIN
namespace detail {

/// Block of a QueryBias, with the types that kernels need.
template <class TheTier, Scalar T, class S>
struct KernelBlock : QueryBiasBlock<T> {
  using Tier = TheTier;
  using Stored = S;
};

/// Tile of a QueryBias, with the packed keys that kernels read.
template <class TheTier, Scalar T, class S>
struct KernelTile : QueryBiasTile<T> {
  using Tier = TheTier;
  using Stored = S;

  const S* panels;              ///< all keys of the tile
  Compute<T>* unpacked;         ///< memory for [tile_keys, D] if the bias reads keys as rows
  const S* rows = nullptr;      ///< in a backward pass, [tile_keys, padded D]
  bool rows_are_finite = true;  ///< these rows and the queries are finite

  /// Returns the lane of the tile's first key.
  Index first_lane() const noexcept { return this->tokens.first_key % tile_keys; }
};

/// True if a QueryBias reads keys as rows.
template <class Bias>
inline constexpr bool reads_keys = requires {
  requires Bias::reads_keys;
};

/// Conversion of blocks and tiles whose types are erased: to those of kernels, or for biases that
/// do not take these, to those of the concept.
template <class Tier, Scalar T, class S>
struct KernelTypes {
  using Block = KernelBlock<Tier, T, S>;
  using Tile = KernelTile<Tier, T, S>;

  static const Block& block_of(const QueryBiasBlock<T>& block) noexcept {
    return static_cast<const Block&>(block);
  }

  /// Calls the optional functions of a bias. The arguments after the block are the gradient's.
  template <class Bias, class... Gradient>
  static std::size_t scratch_bytes(const Bias& bias, const QueryBiasBlock<T>& block,
                                   Gradient&... gradient) {
    std::size_t bytes = 0;
    if constexpr (requires { bias.scratch_bytes(block_of(block), gradient...); }) {
      bytes = bias.scratch_bytes(block_of(block), gradient...);
    }
    return bytes;
  }
  template <class Bias, class... Gradient>
  static void begin(const Bias& bias, const QueryBiasBlock<T>& block, Gradient&... gradient) {
    if constexpr (requires { bias.begin(block_of(block), gradient...); }) {
      bias.begin(block_of(block), gradient...);
    }
  }

  /// Returns the tile of a bias, with its keys as rows if the bias reads them.
  template <class Bias>
  static Tile tile_of(const QueryBiasTile<T>& erased) noexcept {
    Tile tile = static_cast<const Tile&>(erased);
    if constexpr (reads_keys<Bias>) {
      const Index dim = tile.block.q.dim,
                  keys = static_cast<Index>(tile.tokens.key_positions.size());
      const Index first = tile.first_lane(), size = panel_lanes * packed_dim<S>(dim);
      for_aligned_chunks({first, first + keys}, panel_lanes, [&](Index lane, Index count) {
        unpack_panel<Tier>(tile.panels + lane / panel_lanes * size, lane % panel_lanes, count, dim,
                           tile.unpacked + (lane - first) * dim, dim);
      });
      tile.keys = {tile.unpacked, keys, dim};
    }
    return tile;
  }
};

}  // namespace detail
POSENC_END
