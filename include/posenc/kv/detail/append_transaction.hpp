// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/detail/kv_storage.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/kv/kv_format.hpp>
#include <posenc/tensor/detail/token_runs.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

POSENC_BEGIN
namespace detail {

/// Append to a cache that is rolled back unless commit() is called, for callers that may fail after
/// it. In a ring it saves the tiles whose memory new keys overwrite: one in 128 tokens of a
/// decoder.
template <KvFormat S>
class AppendTransaction {
 public:
  /// Appends as KvCache::append() does.
  ///   Throws: ShapeError, std::bad_alloc; nothing is appended then
  template <Device D, class T>
  AppendTransaction(const D& device, KvCache<S>& cache, const TokenRuns& runs,
                    const HeadsView<T>& k, const HeadsView<T>& v, ScratchArenas& memory)
      : cache_(cache), runs_(runs) {
    cache.template check_append<T>(runs, k, v);
    Index tiles = 0;
    for (Index n = 0; n < runs_.size(); ++n) tiles += overwritten_tiles(n);
    ArenaAllocator measure(nullptr);
    allocate(measure, tiles);
    memory.reserve(1, measure.bytes_used());
    ArenaAllocator allocator(memory.arena(0));
    allocate(allocator, tiles);
    for (Index n = 0; n < runs_.size(); ++n) {
      old_ranges_[n] = range(n);
      overwritten_[n] = overwritten_tiles(n);
    }
    for_overwritten_tiles([&](Index sequence, Index tile, const TilePointers<Element>& saved) {
      cache_.storage_.save_tile(sequence, tile, saved);
    });
    cache.template append_checked<T>(device, runs, k, v);
  }
  AppendTransaction(const AppendTransaction&) = delete;
  AppendTransaction& operator=(const AppendTransaction&) = delete;

  ~AppendTransaction() {
    if (is_committed_) return;
    for_overwritten_tiles([&](Index sequence, Index tile, const TilePointers<Element>& saved) {
      cache_.storage_.restore_tile(sequence, tile, saved);
    });
    for (Index n = 0; n < runs_.size(); ++n) {
      cache_.storage_.truncate_values(runs_.sequence(n), old_ranges_[n].end, range(n).end);
      cache_.set_range(runs_.sequence(n), old_ranges_[n]);
    }
  }

  /// Makes the append permanent.
  void commit() noexcept { is_committed_ = true; }

 private:
  using Element = typename KvStorage<tier::Best, S>::Element;

  const KeyRange& range(Index n) const noexcept { return cache_.ranges_[runs_.sequence(n)]; }

  /// Returns the number of tiles whose memory the new keys of run n overwrite.
  Index overwritten_tiles(Index n) const {
    const KeyRange after = cache_.ranges_.range_after_append(runs_.sequence(n), runs_.count(n));
    return after.begin / tile_keys - range(n).begin / tile_keys;
  }

  void allocate(ArenaAllocator& allocator, Index tiles) noexcept {
    old_ranges_ = allocator.allocate<KeyRange>(runs_.size());
    overwritten_ = allocator.allocate<Index>(runs_.size());
    tiles_.keys = allocator.allocate<Element>(tiles * cache_.storage_.key_elements_per_tile());
    tiles_.values = allocator.allocate<Element>(tiles * cache_.storage_.value_elements_per_tile());
    tiles_.has_nonfinite = allocator.allocate<char>(tiles * cache_.kv_heads());
  }

  template <class Visit>
  void for_overwritten_tiles(const Visit& visit) noexcept {
    TilePointers<Element> saved = tiles_;
    for (Index n = 0; n < runs_.size(); ++n) {
      for (Index i = 0; i < overwritten_[n]; ++i) {
        visit(runs_.sequence(n), old_ranges_[n].begin / tile_keys + i, saved);
        saved.keys += cache_.storage_.key_elements_per_tile();
        saved.values += cache_.storage_.value_elements_per_tile();
        saved.has_nonfinite += cache_.kv_heads();
      }
    }
  }

  KvCache<S>& cache_;
  TokenRuns runs_;
  KeyRange* old_ranges_ = nullptr;
  Index* overwritten_ = nullptr;  ///< overwritten tiles of each run
  TilePointers<Element> tiles_{};
  bool is_committed_ = false;
};

}  // namespace detail
POSENC_END
