// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/dropout.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>

#include <cstddef>
#include <cstdint>

// Dropout stage: applies dropout to the softmax weights of a tile.
POSENC_BEGIN
namespace detail {

/// Dropout of a call, for one thread. Its factors are those of dropout_factor(), but it computes
/// the words of a tile's keys only once for all rows.
class TileDropout {
 public:
  TileDropout(const Dropout& dropout, ArenaAllocator& allocator) noexcept
      : dropout_(dropout), keys_(is_enabled() ? allocator.allocate<Keys>(1) : nullptr) {}

  /// True if dropout is enabled. Otherwise no other member may be called.
  bool is_enabled() const noexcept { return dropout_.probability > 0; }

  /// Computes the words of a tile's keys, of which the first `count` have positions. Call it before
  /// apply() for that tile.
  void begin(const double* key_positions, Index count) const noexcept {
    *keys_ = {};
    for (Index j = 0; j < count; ++j) {
      const std::uint64_t word = dropout_word_of_key(key_positions[j]);
      keys_->low[j] = static_cast<std::uint32_t>(word);
      keys_->high[j] = static_cast<std::uint32_t>(word >> 32);
    }
  }

  /// Multiplies a strip's probabilities by their factors. Values that are not above 0, such as the
  /// mark of masked keys, are not dropped.
  template <class Real, class Block>
  void apply(const Block& block, const Strip& strip, const ActiveLanes& lanes,
             Real* probabilities) const noexcept {
    const std::uint32_t threshold = dropout_threshold(dropout_.probability);
    const auto scale = static_cast<Real>(dropout_scale(dropout_.probability));
    for (Index i = 0; i < strip.rows; ++i) {
      const Index r = strip.first + i;
      const std::uint64_t word =
          dropout_word_of_row(dropout_, block.sequence().batch, block.head(r), block.position(r));
      for (Index n = 0; n < tile_panels; ++n) {
        if (!lanes.has_panel(n)) continue;
        drop_panel(static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32),
                   keys_->low + n * panel_lanes, keys_->high + n * panel_lanes, threshold, scale,
                   probabilities + i * tile_keys + n * panel_lanes);
      }
    }
  }

 private:
  struct Keys {
    std::uint32_t low[std::size_t{tile_keys}], high[std::size_t{tile_keys}];
  };

  /// Scalar integer code: compilers vectorise a loop over this many lanes, and every tier gives the
  /// same bits.
  template <class Real>
  static void drop_panel(std::uint32_t row_low, std::uint32_t row_high, const std::uint32_t* low,
                         const std::uint32_t* high, std::uint32_t threshold, Real scale,
                         Real* probabilities) noexcept {
    for (Index j = 0; j < panel_lanes; ++j) {
      const Real p = probabilities[j];
      const bool dropped = dropout_bits(row_low, row_high, low[j], high[j]) < threshold;
      probabilities[j] = dropped && p > 0 ? Real{0} : p * scale;
    }
  }

  const Dropout& dropout_;
  Keys* keys_;
};

}  // namespace detail
POSENC_END
