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

/// A number that only grows, and that threads wait for.
class Milestone {
 public:
  void reset() noexcept { value_.store(0, std::memory_order_relaxed); }
  void reach(Index value) noexcept {
    value_.store(value, std::memory_order_release);
    value_.notify_all();
  }
  /// Until it is beyond `value`.
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

/// Deals the blocks of queries of all heads out to threads, and keeps what blocks add to the same sums in
/// one order whatever the threads: a block adds to a tile's keys after the block before it has.
///   A thread keeps to a head of its own while there are enough of them; where there are not, threads
///   share one, a tile behind each other. Heads of which some block is at work have sums of their own, so
///   there are never more of them than threads.
/// Blocks are dealt out in order, so the first of those at work waits for none: no thread waits for ever.
class BackwardQueue {
 public:
  /// The blocks of one key head of a sequence.
  struct Head {
    AttentionSequence sequence{};
    Index key_head = 0;
    Index blocks = 0;
    Index place = 0;                  ///< among the heads at work, whose sums it uses
    Milestone* tiles_done = nullptr;  ///< of block n - 1; of the first, all

    // The queue's own:
    Index next = 0, finished = 0;  ///< blocks
    bool at_work = false;
  };

  /// A block of a head, and how many were dealt out before it; no head if there is nothing left.
  struct Task {
    Head* head = nullptr;
    Index block = 0;
    Index number = 0;

    bool is_first() const noexcept { return block == 0; }
  };

  /// What is dealt out.
  struct Setting {
    Index sequences, heads, most_blocks;
    Index threads;
    bool in_order;    ///< blocks one after the other, so that their numbers have an order
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

  /// The next block for a thread whose last one was of `last`.
  ///   describe: sequence number -> AttentionSequence; blocks_of: its blocks, at least 1
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

  /// Until all blocks before this one are done with a tile of its head.
  static void wait_for_turn(const Task& task, Index tile) noexcept {
    task.head->tiles_done[task.block].wait_beyond(tile);
  }
  /// This block is done with a tile, after its turn.
  static void done_with(const Task& task, Index tile) noexcept {
    task.head->tiles_done[task.block + 1].reach(tile + 1);
  }
  /// Until all blocks before this one are done.
  static void wait_for_last_turn(const Task& task) noexcept { wait_for_turn(task, all - 1); }

  /// This block is done, after its last turn. Calls close(head) if it was the head's last.
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

  /// The head at work that was begun first among those that have blocks to deal out.
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
  std::vector<Milestone> tiles_done_;  ///< [heads at work][blocks + 1]
  Mutex mutex_;
  std::atomic<Index> closed_ = 0;  ///< heads; changes under the mutex
  Index next_head_ = 0, dealt_ = 0;
};

}  // namespace detail
POSENC_END
