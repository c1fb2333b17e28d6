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
struct WrittenKeys {
  Index sequence;
  KeyRange keys;
  KeyRange old;    ///< keys that the sequence holds before the call
  bool keeps_old;  ///< true if `old` must be preserved in tiles that both share

  KeyRange kept() const noexcept { return keeps_old ? old : KeyRange{}; }
};

/// Returns the range of tiles that contain the keys; empty for no keys.
inline KeyRange tiles_of(const KeyRange& keys) noexcept {
  if (keys.empty()) return {};
  return {keys.begin / tile_keys, (keys.end + tile_keys - 1) / tile_keys};
}

/// True if `tile` uses the same memory as one of the tiles of `keys`, in a sequence with memory for
/// `capacity` tiles.
inline bool meets(const KeyRange& keys, Index tile, Index capacity) noexcept {
  const KeyRange tiles = tiles_of(keys);
  const Index from_first = tile % capacity - tiles.begin % capacity;
  return (from_first < 0 ? from_first + capacity : from_first) < tiles.end - tiles.begin;
}

/// Block tables of the caches on a KvBlockPool: the block of each tile of each sequence. Sequences,
/// and copies of a cache, share blocks until one of them is written. Threads may use different
/// sequences concurrently.
class KvBlocks {
 public:
  /// Constructs tables without blocks and without a pool.
  KvBlocks() = default;
  /// Constructs tables for sequences of up to `most_tiles` tiles, with a block of `bytes` for each
  /// tile.
  KvBlocks(const KvBlockPool& pool, Index sequences, Index most_tiles, std::size_t bytes)
      : account_(pool.account_),
        tables_(static_cast<std::size_t>(sequences)),
        slots_(most_tiles),
        bytes_(bytes) {}

  KvBlocks(const KvBlocks& other)
      : account_(other.account_),
        tables_(other.tables_),
        slots_(other.slots_),
        bytes_(other.bytes_) {
    for (const Table& table : tables_) hold(table);
  }
  KvBlocks(KvBlocks&&) noexcept = default;
  KvBlocks& operator=(KvBlocks other) noexcept {
    // Old blocks are returned to the old pool, with their own size, while that pool is still alive.
    std::swap(account_, other.account_);
    std::swap(tables_, other.tables_);
    std::swap(slots_, other.slots_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~KvBlocks() {
    for (const Table& table : tables_) drop(table);
  }

  bool used() const noexcept { return static_cast<bool>(account_); }

  /// Returns the bytes of the tables.
  std::size_t bytes() const noexcept {
    std::size_t sum = tables_.capacity() * sizeof(Table);
    for (const Table& table : tables_) {
      sum += table.blocks.capacity() * sizeof(void*);
    }
    return sum;
  }
  std::size_t bytes_of_block() const noexcept { return sizeof(KvBlock) + bytes_; }

  /// Returns the memory of a tile that the sequence holds.
  std::byte* data(Index sequence, Index tile) const noexcept {
    return table(sequence).blocks[slot(tile)]->data();
  }

  /// Allocates zeroed blocks for the tiles without one in the sequences of written(0) ..
  /// written(count - 1), no two the same. Returns the blocks that replace_shared() needs for shared
  /// tiles.
  ///   Throws: MemoryLimitError in the name of `function`, std::bad_alloc; nothing has changed then
  template <class Written>
  [[nodiscard]] SpareBlocks prepare(const char* function, Index count, const Written& written) {
    Index needed = 0;
    for (Index n = 0; n < count; ++n) {
      const WrittenKeys of_sequence = written(n);
      Table& entry = table(of_sequence.sequence);
      const KeyRange tiles = tiles_of(of_sequence.keys), kept = tiles_of(of_sequence.kept());
      const auto held = static_cast<std::size_t>((std::min)(tiles.end, slots_));
      if (entry.blocks.size() < held) entry.blocks.resize(held);
      entry.shares_kept = false;
      for (Index tile = tiles.begin; tile < tiles.end; ++tile) {
        if (is_own(entry.blocks[slot(tile)])) continue;
        entry.shares_kept = entry.shares_kept || (tile >= kept.begin && tile < kept.end);
        if (needs_block(n, slot(tile), written)) ++needed;
      }
    }
    if (needed == 0) return {};
    SpareBlocks spare(function, *account_, needed, bytes_of_block());
    for_written(count, written, [&](KvBlock*& block, bool) {
      if (block != nullptr) return;
      block = spare.pop();
      std::memset(block->data(), 0, bytes_);
    });
    return spare;
  }
  /// Replaces shared blocks of these sequences by exclusive ones: copies if keys are preserved,
  /// otherwise zeros.
  template <class Written>
  void replace_shared(SpareBlocks& spare, Index count, const Written& written) noexcept {
    if (spare.empty()) return;
    for_written(count, written, [&](KvBlock*& block, bool is_kept) {
      // Another holder may have released the block since prepare() counted. The spare block is
      // returned then.
      if (is_own(block)) return;
      KvBlock* const fresh = spare.pop();
      if (is_kept) {
        std::memcpy(fresh->data(), block->data(), bytes_);
      } else {
        std::memset(fresh->data(), 0, bytes_);
      }
      drop(block);
      block = fresh;
    });
  }
  /// True if the last prepare() found preserved keys of the sequence in shared blocks.
  bool shares_kept(Index sequence) const noexcept { return table(sequence).shares_kept; }

  /// Releases the blocks of all tiles except those of these keys.
  void keep_only(Index sequence, const KeyRange& keys) noexcept {
    auto& blocks = table(sequence).blocks;
    for (std::size_t n = 0; n < blocks.size(); ++n) {
      if (meets(keys, static_cast<Index>(n), slots_)) continue;
      drop(blocks[n]);
      blocks[n] = nullptr;
    }
    if (keys.empty()) table(sequence).filled = 0;
  }

  /// Makes sequence `to` hold the blocks of `from` and no others.
  ///   Throws: std::bad_alloc; nothing has changed then
  void share(Index from, Index to) {
    Table copy = table(from);
    hold(copy);
    drop(table(to));
    table(to) = std::move(copy);
  }

  /// True if the tile's block has another holder.
  bool shared(Index sequence, Index tile) const noexcept {
    return !is_own(table(sequence).blocks[slot(tile)]);
  }

  /// Returns the end of stale values after the sequence's last key: values of keys that were
  /// removed while their block was shared.
  Index filled(Index sequence) const noexcept { return table(sequence).filled; }
  void set_filled(Index sequence, Index end) noexcept { table(sequence).filled = end; }

 private:
  struct Table {
    std::vector<KvBlock*> blocks;  ///< grows with demand; nullptr: no block
    Index filled = 0;
    bool shares_kept = false;
  };

  /// True if sequence n of a call needs a new block for a table index. If all other holders of a
  /// block precede n in the same call, each of them gets a new block, and n keeps this one.
  template <class Written>
  bool needs_block(Index n, std::size_t slot, const Written& written) const noexcept {
    const auto block_of = [&](Index m) -> const KvBlock* {
      const auto& blocks = table(written(m).sequence).blocks;
      return slot < blocks.size() ? blocks[slot] : nullptr;
    };
    const KvBlock* const block = block_of(n);
    if (block == nullptr) return true;
    Index others = block->holders.load(std::memory_order_acquire) - 1;
    for (Index m = 0; m < n && others > 0; ++m) {
      if (block_of(m) == block && meets(written(m).keys, static_cast<Index>(slot), slots_))
        --others;
    }
    return others > 0;
  }
  /// Calls visit(block, is_kept) for each tile that the call writes.
  template <class Written, class Visit>
  void for_written(Index count, const Written& written, const Visit& visit) noexcept {
    for (Index n = 0; n < count; ++n) {
      const WrittenKeys of_sequence = written(n);
      const KeyRange tiles = tiles_of(of_sequence.keys), kept = tiles_of(of_sequence.kept());
      for (Index tile = tiles.begin; tile < tiles.end; ++tile) {
        visit(table(of_sequence.sequence).blocks[slot(tile)],
              tile >= kept.begin && tile < kept.end);
      }
    }
  }

  const Table& table(Index sequence) const noexcept {
    return tables_[static_cast<std::size_t>(sequence)];
  }
  Table& table(Index sequence) noexcept { return tables_[static_cast<std::size_t>(sequence)]; }
  std::size_t slot(Index tile) const noexcept { return static_cast<std::size_t>(tile % slots_); }

  static bool is_own(const KvBlock* block) noexcept {
    return block != nullptr && block->holders.load(std::memory_order_acquire) == 1;
  }
  static void hold(const Table& table) noexcept {
    for (KvBlock* const block : table.blocks) {
      if (block != nullptr) block->holders.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void drop(KvBlock* block) const noexcept {
    if (block == nullptr || block->holders.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    SpareBlocks::destroy(block);
    account_->strike(1, bytes_of_block());
  }
  void drop(const Table& table) const noexcept {
    for (KvBlock* const block : table.blocks) drop(block);
  }

  SharedAccount account_;
  std::vector<Table> tables_;
  Index slots_ = 1;
  std::size_t bytes_ = 0;
};

}  // namespace detail
POSENC_END
