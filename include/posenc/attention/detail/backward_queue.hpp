// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/places.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/mutex.hpp>

#include <atomic>
#include <cstddef>
#include <limits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Monotonic counter that threads can wait for.
class Milestone {
 public:
  void reset() noexcept { value_.store(0, std::memory_order_relaxed); }
  void reach(Index value) noexcept {
    value_.store(value, std::memory_order_release);
    value_.notify_all();
  }
  /// Waits until the counter exceeds `value`.
  void wait_beyond(Index value) const noexcept {
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
    Index key_head = 0;
    Index blocks = 0;
    Index place = 0;  ///< index of its accumulators, among those of active heads
    /// Entry n: number of tiles that block n - 1 has finished; entry 0: all.
    Milestone* tiles_done = nullptr;

    // State of the queue:
    Index next = 0, finished = 0;  ///< blocks
    bool at_work = false;
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
    Index sequences, heads, most_blocks;
    Index threads;
    bool in_order;    ///< blocks one after the other, so that their numbers are ordered
    bool one_by_one;  ///< one head after the other
  };

  ///   Throws: std::bad_alloc
  explicit BackwardQueue(const Setting& setting)
      : setting_(setting),
        at_work_(static_cast<std::size_t>(setting.one_by_one ? 1 : setting.threads)),
        tiles_done_(at_work_.size() * milestones_of_head()) {
    for (std::size_t n = 0; n < at_work_.size(); ++n) {
      at_work_[n].place = static_cast<Index>(n);
      at_work_[n].tiles_done = tiles_done_.data() + n * milestones_of_head();
    }
  }

  /// Returns the next block for a thread whose last one was of head `last`.
  ///   describe: sequence number -> AttentionSequence; blocks_of: number of its blocks, at least 1
  template <class Describe, class BlocksOf>
  Task take(Head* last, const Describe& describe, const BlocksOf& blocks_of) {
    MutexLock lock(mutex_);
    for (;;) {
      if (!setting_.in_order && last != nullptr && has_more(*last)) return deal(*last);
      if (setting_.in_order) {
        if (Head* head = begun()) return deal(*head);
      }
      if (next_head_ < setting_.sequences * setting_.heads) {
        if (Head* head = free_place()) {
          begin(*head, describe, blocks_of);
          return deal(*head);
        }
      }
      if (Head* head = begun()) return deal(*head);
      if (next_head_ == setting_.sequences * setting_.heads) return {};
      const Index closed = closed_.load();
      lock.unlock();
      closed_.wait(closed);
      lock.lock();
    }
  }

  /// Waits until all blocks before this one have finished a tile of its head.
  static void wait_for_turn(const Task& task, Index tile) noexcept {
    task.head->tiles_done[task.block].wait_beyond(tile);
  }
  /// Marks a tile as finished by this block. Call it after wait_for_turn().
  static void done_with(const Task& task, Index tile) noexcept {
    task.head->tiles_done[task.block + 1].reach(tile + 1);
  }
  /// Waits until all blocks before this one are finished.
  static void wait_for_last_turn(const Task& task) noexcept { wait_for_turn(task, all - 1); }

  /// Marks this block as finished. Call it after wait_for_last_turn(). Calls close(head) if it was
  /// the head's last block.
  template <class Close>
  void finish(const Task& task, const Close& close) {
    Head& head = *task.head;
    done_with(task, all - 1);
    {
      const MutexLock lock(mutex_);
      if (++head.finished < head.blocks) return;
    }
    close(head);
    {
      const MutexLock lock(mutex_);
      head.at_work = false;
      ++closed_;
    }
    closed_.notify_all();
  }

 private:
  static constexpr Index all = (std::numeric_limits<Index>::max)() - 1;

  static bool has_more(const Head& head) noexcept {
    return head.at_work && head.next < head.blocks;
  }

  /// Returns the oldest active head that has blocks left, or null.
  Head* begun() noexcept {
    Head* first = nullptr;
    for (Head& head : at_work_) {
      if (has_more(head) && (first == nullptr || precedes(head, *first))) first = &head;
    }
    return first;
  }
  static bool precedes(const Head& a, const Head& b) noexcept {
    return a.sequence.number != b.sequence.number ? a.sequence.number < b.sequence.number
                                                  : a.key_head < b.key_head;
  }
  Head* free_place() noexcept {
    for (Head& head : at_work_) {
      if (!head.at_work) return &head;
    }
    return nullptr;
  }

  template <class Describe, class BlocksOf>
  void begin(Head& head, const Describe& describe, const BlocksOf& blocks_of) {
    head.sequence = describe(next_head_ / setting_.heads);
    head.key_head = next_head_ % setting_.heads;
    head.blocks = blocks_of(head.sequence);
    head.next = head.finished = 0;
    head.at_work = true;
    for (std::size_t n = 0; n < milestones_of_head(); ++n) head.tiles_done[n].reset();
    head.tiles_done[0].reach(all);
    ++next_head_;
  }
  Task deal(Head& head) noexcept { return {&head, head.next++, dealt_++}; }

  std::size_t milestones_of_head() const noexcept {
    return static_cast<std::size_t>(setting_.most_blocks) + 1;
  }

  Setting setting_;
  std::vector<Head> at_work_;
  std::vector<Milestone> tiles_done_;  ///< [active heads][blocks + 1]
  Mutex mutex_;
  std::atomic<Index> closed_ = 0;  ///< number of finished heads; changes under the mutex
  Index next_head_ = 0, dealt_ = 0;
};

}  // namespace detail
POSENC_END
