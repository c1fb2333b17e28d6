// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/detail/kv_storage.hpp>
#include <posenc/kv/detail/kv_tokens.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>

POSENC_BEGIN
namespace detail {

/// Append to a cache that is rolled back unless keep() is called, for callers that may fail after
/// it. In a ring it saves the tiles whose memory new keys overwrite: one in 128 tokens of a
/// decoder.
template <Scalar S>
class RevocableAppend {
 public:
  /// Appends as KvCache::append() does.
  ///   Throws: ShapeError, std::bad_alloc; nothing is appended then
  template <Device D, class T>
  RevocableAppend(const D& device, KvCache<S>& cache, const TokenRuns& runs, const HeadsView<T>& k,
                  const HeadsView<T>& v, Slots& memory)
      : cache_(cache), runs_(runs) {
    cache.template check_append<T>(runs, k, v);
    Index tiles = 0;
    for (Index n = 0; n < runs_.size(); ++n) tiles += tiles_lost(n);
    Carver measure(nullptr);
    carve(measure, tiles);
    memory.reserve(1, measure.used());
    Carver carver(memory.slot(0));
    carve(carver, tiles);
    for (Index n = 0; n < runs_.size(); ++n) {
      old_[n] = range(n);
      lost_[n] = tiles_lost(n);
    }
    for_lost_tiles([&](Index sequence, Index tile, const TilePlace<S>& kept) {
      cache_.storage_.keep_tile(sequence, tile, kept);
    });
    cache.template append_checked<T>(device, runs, k, v);
  }
  RevocableAppend(const RevocableAppend&) = delete;
  RevocableAppend& operator=(const RevocableAppend&) = delete;

  ~RevocableAppend() {
    if (kept_) return;
    for_lost_tiles([&](Index sequence, Index tile, const TilePlace<S>& kept) {
      cache_.storage_.put_back_tile(sequence, tile, kept);
    });
    for (Index n = 0; n < runs_.size(); ++n) {
      cache_.storage_.cut_values(runs_.sequence(n), old_[n].end, range(n).end);
      cache_.hold(runs_.sequence(n), old_[n]);
    }
  }

  /// Makes the append permanent.
  void keep() noexcept { kept_ = true; }

 private:
  const KeyRange& range(Index n) const noexcept { return cache_.ranges_[runs_.sequence(n)]; }

  /// Returns the number of tiles whose memory the new keys of run n overwrite.
  Index tiles_lost(Index n) const {
    const KeyRange after = cache_.ranges_.after(runs_.sequence(n), runs_.count(n));
    return after.begin / tile_keys - range(n).begin / tile_keys;
  }

  void carve(Carver& carver, Index tiles) noexcept {
    old_ = carver.take<KeyRange>(runs_.size());
    lost_ = carver.take<Index>(runs_.size());
    tiles_.keys = carver.take<S>(tiles * cache_.storage_.keys_of_tile());
    tiles_.values = carver.take<S>(tiles * cache_.storage_.values_of_tile());
    tiles_.special = carver.take<char>(tiles * cache_.kv_heads());
  }

  template <class Visit>
  void for_lost_tiles(const Visit& visit) noexcept {
    TilePlace<S> kept = tiles_;
    for (Index n = 0; n < runs_.size(); ++n) {
      for (Index i = 0; i < lost_[n]; ++i) {
        visit(runs_.sequence(n), old_[n].begin / tile_keys + i, kept);
        kept.keys += cache_.storage_.keys_of_tile();
        kept.values += cache_.storage_.values_of_tile();
        kept.special += cache_.kv_heads();
      }
    }
  }

  KvCache<S>& cache_;
  TokenRuns runs_;
  KeyRange* old_ = nullptr;
  Index* lost_ = nullptr;  ///< overwritten tiles of each run
  TilePlace<S> tiles_{};
  bool kept_ = false;
};

}  // namespace detail
POSENC_END
