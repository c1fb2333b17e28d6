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
  std::atomic<Index> holders{1};
  KvBlock* next = nullptr;  ///< next block of a SpareBlocks list

  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

/// Bytes and blocks that a pool has in use. Threads book and strike concurrently.
class BlockAccount {
 public:
  explicit BlockAccount(std::size_t limit) noexcept : limit_(limit) {}

  std::size_t limit() const noexcept { return limit_; }
  std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  Index blocks() const noexcept { return blocks_.load(std::memory_order_relaxed); }

  /// Books `count` blocks of `bytes` each, all of them or none.
  ///   Throws: MemoryLimitError in the name of `function`
  void book(const char* function, Index count, std::size_t bytes) {
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
  void strike(Index count, std::size_t bytes) noexcept {
    blocks_.fetch_sub(count, std::memory_order_relaxed);
    bytes_.fetch_sub(static_cast<std::size_t>(count) * bytes, std::memory_order_relaxed);
  }

  void hold() noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
  /// Drops a reference. Returns true if it was the last one.
  bool drop() noexcept { return holders_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> bytes_{0};
  std::atomic<Index> blocks_{0};
  std::atomic<Index> holders_{1};
};

/// Reference-counted pointer to the account of a pool, or null. The last pointer deletes the
/// account. It replaces std::shared_ptr, whose header takes long to compile.
class SharedAccount {
 public:
  SharedAccount() = default;
  ///   Throws: std::bad_alloc
  explicit SharedAccount(std::size_t limit) : account_(new BlockAccount(limit)) {}
  SharedAccount(const SharedAccount& other) noexcept : account_(other.account_) {
    if (account_ != nullptr) account_->hold();
  }
  SharedAccount(SharedAccount&& other) noexcept
      : account_(std::exchange(other.account_, nullptr)) {}
  SharedAccount& operator=(SharedAccount other) noexcept {
    std::swap(account_, other.account_);
    return *this;
  }
  ~SharedAccount() {
    if (account_ != nullptr && account_->drop()) delete account_;
  }

  explicit operator bool() const noexcept { return account_ != nullptr; }
  BlockAccount& operator*() const noexcept { return *account_; }
  BlockAccount* operator->() const noexcept { return account_; }

 private:
  BlockAccount* account_ = nullptr;
};

/// List of allocated blocks of one size, header included, that no table holds yet.
class SpareBlocks {
 public:
  ///   Throws: MemoryLimitError, std::bad_alloc; no block is booked or allocated then
  SpareBlocks(const char* function, BlockAccount& account, Index count, std::size_t bytes)
      : SpareBlocks(account, bytes) {
    account_->book(function, count, bytes);
    booked_ = count;
    // If an allocation throws from here on, the destructor returns the blocks so far.
    for (Index n = 0; n < count; ++n) {
      void* const memory = ::operator new (bytes, std::align_val_t{alignof(KvBlock)});
      auto* const block = ::new (memory) KvBlock;
      block->next = first_;
      first_ = block;
    }
  }
  /// Constructs an empty list.
  SpareBlocks() = default;
  SpareBlocks(SpareBlocks&& other) noexcept
      : account_(other.account_),
        bytes_(other.bytes_),
        booked_(std::exchange(other.booked_, 0)),
        first_(std::exchange(other.first_, nullptr)) {}
  SpareBlocks& operator=(SpareBlocks&&) = delete;
  ~SpareBlocks() {
    if (booked_ > 0) account_->strike(booked_, bytes_);
    while (first_ != nullptr) destroy(pop());
  }

  bool empty() const noexcept { return first_ == nullptr; }

  /// Removes a block from the list and returns it. The caller owns it.
  KvBlock* pop() noexcept {
    KvBlock* const block = first_;
    first_ = block->next;
    --booked_;
    return block;
  }

  static void destroy(KvBlock* block) noexcept {
    block->~KvBlock();
    ::operator delete (block, std::align_val_t{alignof(KvBlock)});
  }

 private:
  SpareBlocks(BlockAccount& account, std::size_t bytes) noexcept
      : account_(&account), bytes_(bytes) {}

  BlockAccount* account_ = nullptr;
  std::size_t bytes_ = 0;
  Index booked_ = 0;  ///< blocks booked for this list
  KvBlock* first_ = nullptr;
};

}  // namespace detail
POSENC_END
