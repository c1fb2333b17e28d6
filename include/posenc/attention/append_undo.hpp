// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/key_tile.hpp>
#include <posenc/attention/kv_cache.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/core/config.hpp>
#include <posenc/tensor/scalar.hpp>

#include <cstddef>
#include <span>

POSENC_BEGIN
namespace detail {

/// Takes an append to a cache back unless keep() is called: for callers that may fail after it. In a ring
/// it sets aside the tiles whose place new keys take, one in 128 tokens of a decoder.
template <Scalar S>
class AppendUndo {
 public:
  /// Before `count` keys are appended to each of the sequences, which check_append() has passed.
  ///   Throws: std::bad_alloc
  AppendUndo(KvCache<S>& cache, std::span<const Index> sequences, Index count,
             AttentionWorkspace& memory)
      : cache_(cache), sequences_(sequences) {
    Index tiles = 0;
    for (const Index sequence : sequences_) {
      tiles += cache_.first_after(sequence, count) / tile_keys - cache_.first(sequence) / tile_keys;
    }
    Carver measure(nullptr);
    carve(measure, tiles);
    memory.reserve(1, measure.used());
    Carver carver(memory.slot(0));
    carve(carver, tiles);
    for (std::size_t b = 0; b < sequences_.size(); ++b) {
      const Index sequence = sequences_[b];
      old_[b] = {cache_.first(sequence), cache_.length(sequence)};
      const Index first = old_[b].first / tile_keys;
      lost_[b] = cache_.first_after(sequence, count) / tile_keys - first;
    }
    for_lost_tiles([&](Index sequence, Index tile, const KeptTile<S>& kept) {
      cache_.storage_.keep_tile(sequence, tile, kept);
    });
  }
  AppendUndo(const AppendUndo&) = delete;
  AppendUndo& operator=(const AppendUndo&) = delete;

  ~AppendUndo() {
    if (kept_) return;
    for_lost_tiles([&](Index sequence, Index tile, const KeptTile<S>& kept) {
      cache_.storage_.put_back_tile(sequence, tile, kept);
    });
    for (std::size_t b = 0; b < sequences_.size(); ++b) {
      auto& range = cache_.ranges_[static_cast<std::size_t>(sequences_[b])];
      for (Index head = 0; head < cache_.kv_heads(); ++head) {
        cache_.storage_.cut_values(sequences_[b], head, old_[b].end, range.end);
      }
      range = old_[b];
    }
  }

  /// What was appended stays.
  void keep() noexcept { kept_ = true; }

 private:
  using Range = typename KvCache<S>::Range;

  void carve(Carver& carver, Index tiles) noexcept {
    const auto rows = static_cast<Index>(sequences_.size());
    old_ = carver.take<Range>(rows);
    lost_ = carver.take<Index>(rows);
    tiles_.keys = carver.take<S>(tiles * cache_.storage_.keys_of_tile());
    tiles_.values = carver.take<S>(tiles * cache_.storage_.values_of_tile());
    tiles_.finite = carver.take<char>(tiles * cache_.kv_heads());
  }

  template <class Visit>
  void for_lost_tiles(const Visit& visit) noexcept {
    KeptTile<S> kept = tiles_;
    for (std::size_t b = 0; b < sequences_.size(); ++b) {
      for (Index n = 0; n < lost_[b]; ++n) {
        visit(sequences_[b], old_[b].first / tile_keys + n, kept);
        kept.keys += cache_.storage_.keys_of_tile();
        kept.values += cache_.storage_.values_of_tile();
        kept.finite += cache_.kv_heads();
      }
    }
  }

  KvCache<S>& cache_;
  std::span<const Index> sequences_;
  Range* old_ = nullptr;
  Index* lost_ = nullptr;  ///< tiles of each sequence
  KeptTile<S> tiles_{};
  bool kept_ = false;
};

}  // namespace detail
POSENC_END
