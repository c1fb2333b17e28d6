// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/slots.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/attention/kv_cache.hpp>
#include <posenc/core/config.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <span>

POSENC_BEGIN
namespace detail {

/// An append to a cache that is taken back unless keep() is called: for callers that may fail after it. In a
/// ring it sets aside the tiles whose memory new keys take, one in 128 tokens of a decoder.
template <Scalar S>
class RevocableAppend {
 public:
  /// Appends as KvCache::append() does.
  ///   Throws: ShapeError, std::bad_alloc, and nothing is appended then
  template <Device D, class T>
  RevocableAppend(const D& device, KvCache<S>& cache, std::span<const Index> sequences,
                  const HeadsView<T>& k, const HeadsView<T>& v, Slots& memory)
      : cache_(cache), sequences_(sequences) {
    cache.template check_append<T>(sequences, k, v);
    Index tiles = 0;
    for (const Index sequence : sequences_) tiles += tiles_lost(sequence, k.seq);
    Carver measure(nullptr);
    carve(measure, tiles);
    memory.reserve(1, measure.used());
    Carver carver(memory.slot(0));
    carve(carver, tiles);
    for (std::size_t b = 0; b < sequences_.size(); ++b) {
      old_[b] = range(sequences_[b]);
      lost_[b] = tiles_lost(sequences_[b], k.seq);
    }
    for_lost_tiles([&](Index sequence, Index tile, const KeptTile<S>& kept) {
      cache_.storage_.keep_tile(sequence, tile, kept);
    });
    cache.template append_checked<T>(device, sequences, k, v);
  }
  RevocableAppend(const RevocableAppend&) = delete;
  RevocableAppend& operator=(const RevocableAppend&) = delete;

  ~RevocableAppend() {
    if (kept_) return;
    for_lost_tiles([&](Index sequence, Index tile, const KeptTile<S>& kept) {
      cache_.storage_.put_back_tile(sequence, tile, kept);
    });
    for (std::size_t b = 0; b < sequences_.size(); ++b) {
      KeyRange& now = range(sequences_[b]);
      for (Index head = 0; head < cache_.kv_heads(); ++head) {
        cache_.storage_.cut_values(sequences_[b], head, old_[b].end, now.end);
      }
      now = old_[b];
    }
  }

  /// What was appended stays.
  void keep() noexcept { kept_ = true; }

 private:
  KeyRange& range(Index sequence) noexcept {
    return cache_.ranges_[static_cast<std::size_t>(sequence)];
  }

  /// Tiles whose memory `count` new keys take.
  Index tiles_lost(Index sequence, Index count) const {
    return cache_.first_after(sequence, count) / tile_keys - cache_.first(sequence) / tile_keys;
  }

  void carve(Carver& carver, Index tiles) noexcept {
    const auto rows = static_cast<Index>(sequences_.size());
    old_ = carver.take<KeyRange>(rows);
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
        visit(sequences_[b], old_[b].begin / tile_keys + n, kept);
        kept.keys += cache_.storage_.keys_of_tile();
        kept.values += cache_.storage_.values_of_tile();
        kept.finite += cache_.kv_heads();
      }
    }
  }

  KvCache<S>& cache_;
  std::span<const Index> sequences_;
  KeyRange* old_ = nullptr;
  Index* lost_ = nullptr;  ///< tiles of each sequence
  KeptTile<S> tiles_{};
  bool kept_ = false;
};

}  // namespace detail
POSENC_END
