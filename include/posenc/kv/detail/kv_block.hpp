// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

// Reference-counted blocks of memory that sequences share, and the budget of a pool.
POSENC_BEGIN
namespace detail {

/// Header of a block; the block's memory follows it. Only the holder of a block with one reference
/// may write to it.
struct alignas(64) KvBlock {
  std::atomic<Index> ref_count{1};
  KvBlock* next = nullptr;  ///< next block of an UnassignedBlocks list

  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

/// Bytes and blocks that a pool has in use. Threads reserve and release concurrently.
class PoolBudget {
 public:
  explicit PoolBudget(std::size_t limit) noexcept : limit_(limit) {}

  std::size_t limit() const noexcept { return limit_; }
  std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  Index blocks() const noexcept { return blocks_.load(std::memory_order_relaxed); }

  /// Books `count` blocks of `bytes` each, all of them or none.
  ///   Throws: MemoryLimitError in the name of `function`
  void reserve(const char* function, Index count, std::size_t bytes) {
    std::size_t used = bytes_.load(std::memory_order_relaxed);
    do {
      // This order of operations cannot overflow.
      if (static_cast<std::size_t>(count) > (limit_ - used) / bytes) {
        fail<MemoryLimitError>(function, count, " blocks of ", bytes,
                               " bytes are needed, but of the pool's ", limit_, " bytes ", used,
                               " are in use");
      }
    } while (!bytes_.compare_exchange_weak(used, used + static_cast<std::size_t>(count) * bytes,
                                           std::memory_order_relaxed));
    blocks_.fetch_add(count, std::memory_order_relaxed);
  }
  void release(Index count, std::size_t bytes) noexcept {
    blocks_.fetch_sub(count, std::memory_order_relaxed);
    bytes_.fetch_sub(static_cast<std::size_t>(count) * bytes, std::memory_order_relaxed);
  }

  void add_ref() noexcept { ref_count_.fetch_add(1, std::memory_order_relaxed); }
  /// Drops a reference. Returns true if it was the last one.
  bool release_ref() noexcept { return ref_count_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> bytes_{0};
  std::atomic<Index> blocks_{0};
  std::atomic<Index> ref_count_{1};
};

/// Reference-counted pointer to the budget of a pool, or null. The last pointer deletes the
/// budget. It replaces std::shared_ptr, whose header takes long to compile.
class PoolBudgetPtr {
 public:
  PoolBudgetPtr() = default;
  ///   Throws: std::bad_alloc
  explicit PoolBudgetPtr(std::size_t limit) : budget_(new PoolBudget(limit)) {}
  PoolBudgetPtr(const PoolBudgetPtr& other) noexcept : budget_(other.budget_) {
    if (budget_ != nullptr) budget_->add_ref();
  }
  PoolBudgetPtr(PoolBudgetPtr&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)) {}
  PoolBudgetPtr& operator=(PoolBudgetPtr other) noexcept {
    std::swap(budget_, other.budget_);
    return *this;
  }
  ~PoolBudgetPtr() {
    if (budget_ != nullptr && budget_->release_ref()) delete budget_;
  }

  explicit operator bool() const noexcept { return budget_ != nullptr; }
  PoolBudget& operator*() const noexcept { return *budget_; }
  PoolBudget* operator->() const noexcept { return budget_; }

 private:
  PoolBudget* budget_ = nullptr;
};

/// List of allocated blocks of one size, header included, that no table holds yet.
class UnassignedBlocks {
 public:
  ///   Throws: MemoryLimitError, std::bad_alloc; no block is reserved or allocated then
  UnassignedBlocks(const char* function, PoolBudget& budget, Index count, std::size_t bytes)
      : UnassignedBlocks(budget, bytes) {
    budget_->reserve(function, count, bytes);
    reserved_ = count;
    // If an allocation throws from here on, the destructor returns the blocks so far.
    for (Index n = 0; n < count; ++n) {
      void* const memory = ::operator new (bytes, std::align_val_t{alignof(KvBlock)});
      auto* const block = ::new (memory) KvBlock;
      block->next = first_;
      first_ = block;
    }
  }
  /// Constructs an empty list.
  UnassignedBlocks() = default;
  UnassignedBlocks(UnassignedBlocks&& other) noexcept
      : budget_(other.budget_),
        bytes_(other.bytes_),
        reserved_(std::exchange(other.reserved_, 0)),
        first_(std::exchange(other.first_, nullptr)) {}
  UnassignedBlocks& operator=(UnassignedBlocks&&) = delete;
  ~UnassignedBlocks() {
    if (reserved_ > 0) budget_->release(reserved_, bytes_);
    while (first_ != nullptr) destroy(take_block());
  }

  bool empty() const noexcept { return first_ == nullptr; }

  /// Removes a block from the list and returns it. The caller owns it.
  KvBlock* take_block() noexcept {
    KvBlock* const block = first_;
    first_ = block->next;
    --reserved_;
    return block;
  }

  static void destroy(KvBlock* block) noexcept {
    block->~KvBlock();
    ::operator delete (block, std::align_val_t{alignof(KvBlock)});
  }

 private:
  UnassignedBlocks(PoolBudget& budget, std::size_t bytes) noexcept
      : budget_(&budget), bytes_(bytes) {}

  PoolBudget* budget_ = nullptr;
  std::size_t bytes_ = 0;
  Index reserved_ = 0;  ///< blocks reserved for this list
  KvBlock* first_ = nullptr;
};

}  // namespace detail
POSENC_END
