// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/mutex.hpp>

#include <atomic>
#include <cstddef>
#include <limits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Monotonic counter that threads can wait for.
class MonotonicCounter {
 public:
  void reset() noexcept { value_.store(0, std::memory_order_relaxed); }
  void advance_to(Index value) noexcept {
    value_.store(value, std::memory_order_release);
    value_.notify_all();
  }
  /// Waits until the counter exceeds `value`.
  void wait_until_above(Index value) const noexcept {
    Index now = value_.load(std::memory_order_acquire);
    while (now <= value) {
      value_.wait(now, std::memory_order_acquire);
      now = value_.load(std::memory_order_acquire);
    }
  }

 private:
  std::atomic<Index> value_{0};
};

/// Work queue of attention_backward(): assigns blocks of queries of all heads to threads. It makes
/// sums deterministic: a block adds to a tile's keys after the block before it.
/// A thread stays on a head while there are enough heads. Otherwise threads share a head and follow
/// each other tile by tile. Each active head has separate accumulators, so there are never more
/// active heads than threads.
/// Blocks are dealt out in order, so the first active one never waits, and no deadlock is possible.
class BackwardQueue {
 public:
  /// Blocks of one KV head of a sequence.
  struct Head {
    AttentionSequence sequence{};
    Index kv_head = 0;
    Index blocks = 0;
    Index accumulator_index = 0;  ///< index of its accumulators, among those of active heads
    /// Entry n: number of tiles that block n - 1 has finished; entry 0: all.
    MonotonicCounter* tiles_done = nullptr;

    // State of the queue:
    Index next = 0, finished = 0;  ///< blocks
    bool is_active = false;
  };

  /// Block of a head, and the number of blocks that were dealt out before it. The head is null if
  /// no block is left.
  struct Task {
    Head* head = nullptr;
    Index block = 0;
    Index number = 0;

    bool is_first() const noexcept { return block == 0; }
  };

  /// Size of the work, and restrictions of its order.
  struct Setting {
    Index sequences, heads, max_blocks;
    Index threads;
    bool serializes_blocks;  ///< blocks one after the other, so that their numbers are ordered
    bool serializes_heads;   ///< one head after the other
  };

  ///   Throws: std::bad_alloc
  explicit BackwardQueue(const Setting& setting)
      : setting_(setting),
        heads_(static_cast<std::size_t>(setting.serializes_heads ? 1 : setting.threads)),
        tiles_done_(heads_.size() * counters_per_head()) {
    for (std::size_t n = 0; n < heads_.size(); ++n) {
      heads_[n].accumulator_index = static_cast<Index>(n);
      heads_[n].tiles_done = tiles_done_.data() + n * counters_per_head();
    }
  }

  /// Returns the next block for a thread whose last one was of head `last`.
  ///   describe: sequence number -> AttentionSequence; blocks_of: number of its blocks, at least 1
  template <class Describe, class BlocksOf>
  Task next_task(Head* last, const Describe& describe, const BlocksOf& blocks_of) {
    MutexLock lock(mutex_);
    for (;;) {
      if (!setting_.serializes_blocks && last != nullptr && has_more(*last)) return dispatch(*last);
      if (setting_.serializes_blocks) {
        if (Head* head = oldest_active_head()) return dispatch(*head);
      }
      if (next_head_ < setting_.sequences * setting_.heads) {
        if (Head* head = idle_head()) {
          activate(*head, describe, blocks_of);
          return dispatch(*head);
        }
      }
      if (Head* head = oldest_active_head()) return dispatch(*head);
      if (next_head_ == setting_.sequences * setting_.heads) return {};
      const Index closed = completed_heads_.load();
      lock.unlock();
      completed_heads_.wait(closed);
      lock.lock();
    }
  }

  /// Waits until all blocks before this one have finished a tile of its head.
  static void wait_for_earlier_blocks(const Task& task, Index tile) noexcept {
    task.head->tiles_done[task.block].wait_until_above(tile);
  }
  /// Marks a tile as finished by this block. Call it after wait_for_earlier_blocks().
  static void mark_tile_done(const Task& task, Index tile) noexcept {
    task.head->tiles_done[task.block + 1].advance_to(tile + 1);
  }
  /// Waits until all blocks before this one are finished.
  static void wait_for_all_earlier_blocks(const Task& task) noexcept {
    wait_for_earlier_blocks(task, all - 1);
  }

  /// Marks this block as finished. Call it after wait_for_all_earlier_blocks(). Calls close(head)
  /// if it was the head's last block.
  template <class Close>
  void finish(const Task& task, const Close& close) {
    Head& head = *task.head;
    mark_tile_done(task, all - 1);
    {
      const MutexLock lock(mutex_);
      if (++head.finished < head.blocks) return;
    }
    close(head);
    {
      const MutexLock lock(mutex_);
      head.is_active = false;
      ++completed_heads_;
    }
    completed_heads_.notify_all();
  }

 private:
  static constexpr Index all = (std::numeric_limits<Index>::max)() - 1;

  static bool has_more(const Head& head) noexcept {
    return head.is_active && head.next < head.blocks;
  }

  /// Returns the oldest active head that has blocks left, or null.
  Head* oldest_active_head() noexcept {
    Head* first = nullptr;
    for (Head& head : heads_) {
      if (has_more(head) && (first == nullptr || precedes(head, *first))) first = &head;
    }
    return first;
  }
  static bool precedes(const Head& a, const Head& b) noexcept {
    return a.sequence.sequence_index != b.sequence.sequence_index
               ? a.sequence.sequence_index < b.sequence.sequence_index
               : a.kv_head < b.kv_head;
  }
  Head* idle_head() noexcept {
    for (Head& head : heads_) {
      if (!head.is_active) return &head;
    }
    return nullptr;
  }

  template <class Describe, class BlocksOf>
  void activate(Head& head, const Describe& describe, const BlocksOf& blocks_of) {
    head.sequence = describe(next_head_ / setting_.heads);
    head.kv_head = next_head_ % setting_.heads;
    head.blocks = blocks_of(head.sequence);
    head.next = head.finished = 0;
    head.is_active = true;
    for (std::size_t n = 0; n < counters_per_head(); ++n) head.tiles_done[n].reset();
    head.tiles_done[0].advance_to(all);
    ++next_head_;
  }
  Task dispatch(Head& head) noexcept { return {&head, head.next++, dispatched_++}; }

  std::size_t counters_per_head() const noexcept {
    return static_cast<std::size_t>(setting_.max_blocks) + 1;
  }

  Setting setting_;
  std::vector<Head> heads_;
  std::vector<MonotonicCounter> tiles_done_;  ///< [heads][blocks + 1]
  Mutex mutex_;
  std::atomic<Index> completed_heads_ = 0;  ///< number of finished heads; changes under the mutex
  Index next_head_ = 0, dispatched_ = 0;
};

}  // namespace detail
POSENC_END
