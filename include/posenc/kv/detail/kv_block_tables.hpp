// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/detail/kv_block.hpp>
#include <posenc/kv/kv_block_pool.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Keys of a sequence that a call is about to write.
struct PendingWrite {
  Index sequence;
  KeyRange keys;
  KeyRange old;        ///< keys that the sequence holds before the call
  bool preserves_old;  ///< true if `old` must be preserved in tiles that both share

  KeyRange preserved() const noexcept { return preserves_old ? old : KeyRange{}; }
};

/// Returns the range of tiles that contain the keys; empty for no keys.
inline KeyRange tiles_of(const KeyRange& keys) noexcept {
  if (keys.empty()) return {};
  return {keys.begin / tile_keys, (keys.end + tile_keys - 1) / tile_keys};
}

/// True if `tile` uses the same memory as one of the tiles of `keys`, in a sequence with memory for
/// `capacity` tiles.
inline bool overlaps_in_memory(const KeyRange& keys, Index tile, Index capacity) noexcept {
  const KeyRange tiles = tiles_of(keys);
  const Index from_first = tile % capacity - tiles.begin % capacity;
  return (from_first < 0 ? from_first + capacity : from_first) < tiles.end - tiles.begin;
}

/// Block tables of the caches on a KvBlockPool: the block of each tile of each sequence. Sequences,
/// and copies of a cache, share blocks until one of them is written. Threads may use different
/// sequences concurrently. Without a pool make_writable(), replace_shared() and release_except() do
/// nothing, because all memory is present.
class KvBlockTables {
 public:
  /// Constructs tables without blocks and without a pool.
  KvBlockTables() = default;
  /// Constructs tables for sequences of up to `max_tiles` tiles, with a block of `bytes` for each
  /// tile.
  KvBlockTables(const KvBlockPool& pool, Index sequences, Index max_tiles, std::size_t bytes)
      : budget_(pool.budget_),
        tables_(static_cast<std::size_t>(sequences)),
        blocks_per_sequence_(max_tiles),
        bytes_(bytes) {}

  KvBlockTables(const KvBlockTables& other)
      : budget_(other.budget_),
        tables_(other.tables_),
        blocks_per_sequence_(other.blocks_per_sequence_),
        bytes_(other.bytes_) {
    for (const BlockTable& table : tables_) add_refs(table);
  }
  KvBlockTables(KvBlockTables&&) noexcept = default;
  KvBlockTables& operator=(KvBlockTables other) noexcept {
    // Old blocks are returned to the old pool, with their own size, while that pool is still alive.
    std::swap(budget_, other.budget_);
    std::swap(tables_, other.tables_);
    std::swap(blocks_per_sequence_, other.blocks_per_sequence_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~KvBlockTables() {
    for (const BlockTable& table : tables_) release_refs(table);
  }

  /// True if the cache is on a pool, so that a copy of a sequence shares its blocks.
  bool has_pool() const noexcept { return static_cast<bool>(budget_); }

  /// Returns the bytes of the tables.
  std::size_t bytes() const noexcept {
    std::size_t sum = tables_.capacity() * sizeof(BlockTable);
    for (const BlockTable& table : tables_) {
      sum += table.blocks.capacity() * sizeof(void*);
    }
    return sum;
  }
  std::size_t bytes_per_block() const noexcept { return sizeof(KvBlock) + bytes_; }

  /// Returns the memory of a tile that the sequence holds.
  std::byte* data(Index sequence, Index tile) const noexcept {
    return table(sequence).blocks[table_index(tile)]->data();
  }

  /// Allocates zeroed blocks for the tiles without one in the sequences of written(0) ..
  /// written(count - 1), no two the same. Returns the blocks that replace_shared() needs for shared
  /// tiles.
  ///   Throws: MemoryLimitError in the name of `function`, std::bad_alloc; nothing has changed then
  template <class Written>
  [[nodiscard]] UnassignedBlocks make_writable(const char* function, Index count,
                                               const Written& written) {
    if (!has_pool()) return {};
    Index needed = 0;
    for (Index n = 0; n < count; ++n) {
      const PendingWrite write = written(n);
      BlockTable& entry = table(write.sequence);
      const KeyRange tiles = tiles_of(write.keys), preserved = tiles_of(write.preserved());
      const auto table_size = static_cast<std::size_t>((std::min)(tiles.end, blocks_per_sequence_));
      if (entry.blocks.size() < table_size) entry.blocks.resize(table_size);
      entry.shares_preserved = false;
      for (Index tile = tiles.begin; tile < tiles.end; ++tile) {
        if (is_exclusive(entry.blocks[table_index(tile)])) continue;
        entry.shares_preserved =
            entry.shares_preserved || (tile >= preserved.begin && tile < preserved.end);
        if (needs_block(n, table_index(tile), written)) ++needed;
      }
    }
    if (needed == 0) return {};
    UnassignedBlocks spare(function, *budget_, needed, bytes_per_block());
    for_written(count, written, [&](KvBlock*& block, bool) {
      if (block != nullptr) return;
      block = spare.take_block();
      std::memset(block->data(), 0, bytes_);
    });
    return spare;
  }
  /// Replaces shared blocks of these sequences by exclusive ones: copies if keys are preserved,
  /// otherwise zeros.
  template <class Written>
  void replace_shared(UnassignedBlocks& spare, Index count, const Written& written) noexcept {
    if (spare.empty()) return;
    for_written(count, written, [&](KvBlock*& block, bool is_preserved) {
      // Another holder may have released the block since make_writable() counted. The spare block
      // is returned then.
      if (is_exclusive(block)) return;
      KvBlock* const exclusive = spare.take_block();
      if (is_preserved) {
        std::memcpy(exclusive->data(), block->data(), bytes_);
      } else {
        std::memset(exclusive->data(), 0, bytes_);
      }
      release_refs(block);
      block = exclusive;
    });
  }
  /// True if the last make_writable() found preserved keys of the sequence in shared blocks.
  bool shares_preserved(Index sequence) const noexcept { return table(sequence).shares_preserved; }

  /// Releases the blocks of all tiles except those of these keys.
  void release_except(Index sequence, const KeyRange& keys) noexcept {
    if (!has_pool()) return;
    auto& blocks = table(sequence).blocks;
    for (std::size_t n = 0; n < blocks.size(); ++n) {
      if (overlaps_in_memory(keys, static_cast<Index>(n), blocks_per_sequence_)) continue;
      release_refs(blocks[n]);
      blocks[n] = nullptr;
    }
    if (keys.empty()) table(sequence).stale_end = 0;
  }

  /// Makes sequence `to` hold the blocks of `from` and no others.
  ///   Throws: std::bad_alloc; nothing has changed then
  void share(Index from, Index to) {
    BlockTable copy = table(from);
    add_refs(copy);
    release_refs(table(to));
    table(to) = std::move(copy);
  }

  /// True if the tile's block has another holder.
  bool shared(Index sequence, Index tile) const noexcept {
    return !is_exclusive(table(sequence).blocks[table_index(tile)]);
  }

  /// Returns the end of stale values after the sequence's last key: values of keys that were
  /// removed while their block was shared.
  Index stale_end(Index sequence) const noexcept { return table(sequence).stale_end; }
  void set_stale_end(Index sequence, Index end) noexcept {
    if (has_pool()) table(sequence).stale_end = end;
  }

 private:
  struct BlockTable {
    std::vector<KvBlock*> blocks;  ///< grows with demand; nullptr: no block
    Index stale_end = 0;
    bool shares_preserved = false;
  };

  /// True if sequence n of a call needs a new block for a table index. If all other holders of a
  /// block precede n in the same call, each of them gets a new block, and n keeps this one.
  template <class Written>
  bool needs_block(Index n, std::size_t table_index, const Written& written) const noexcept {
    const auto block_of = [&](Index m) -> const KvBlock* {
      const auto& blocks = table(written(m).sequence).blocks;
      return table_index < blocks.size() ? blocks[table_index] : nullptr;
    };
    const KvBlock* const block = block_of(n);
    if (block == nullptr) return true;
    Index others = block->ref_count.load(std::memory_order_acquire) - 1;
    for (Index m = 0; m < n && others > 0; ++m) {
      if (block_of(m) == block &&
          overlaps_in_memory(written(m).keys, static_cast<Index>(table_index),
                             blocks_per_sequence_))
        --others;
    }
    return others > 0;
  }
  /// Calls visit(block, is_preserved) for each tile that the call writes.
  template <class Written, class Visit>
  void for_written(Index count, const Written& written, const Visit& visit) noexcept {
    for (Index n = 0; n < count; ++n) {
      const PendingWrite write = written(n);
      const KeyRange tiles = tiles_of(write.keys), preserved = tiles_of(write.preserved());
      for (Index tile = tiles.begin; tile < tiles.end; ++tile) {
        visit(table(write.sequence).blocks[table_index(tile)],
              tile >= preserved.begin && tile < preserved.end);
      }
    }
  }

  const BlockTable& table(Index sequence) const noexcept {
    return tables_[static_cast<std::size_t>(sequence)];
  }
  BlockTable& table(Index sequence) noexcept { return tables_[static_cast<std::size_t>(sequence)]; }
  std::size_t table_index(Index tile) const noexcept {
    return static_cast<std::size_t>(tile % blocks_per_sequence_);
  }

  static bool is_exclusive(const KvBlock* block) noexcept {
    return block != nullptr && block->ref_count.load(std::memory_order_acquire) == 1;
  }
  static void add_refs(const BlockTable& table) noexcept {
    for (KvBlock* const block : table.blocks) {
      if (block != nullptr) block->ref_count.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void release_refs(KvBlock* block) const noexcept {
    if (block == nullptr || block->ref_count.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    UnassignedBlocks::destroy(block);
    budget_->release(1, bytes_per_block());
  }
  void release_refs(const BlockTable& table) const noexcept {
    for (KvBlock* const block : table.blocks) release_refs(block);
  }

  PoolBudgetPtr budget_;
  std::vector<BlockTable> tables_;
  Index blocks_per_sequence_ = 1;
  std::size_t bytes_ = 0;
};

}  // namespace detail
POSENC_END
