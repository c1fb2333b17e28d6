// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

// Blocks of memory that sequences share, and the account of them.
POSENC_BEGIN
namespace detail {

/// The head of a block; its memory follows. Who is its only holder may write to it.
struct alignas(64) KvBlock {
  std::atomic<Index> holders{1};
  KvBlock* next = nullptr;  ///< while it is spare

  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
};

/// The account of a pool: threads take from it and give back at the same time.
class BlockAccount {
 public:
  explicit BlockAccount(std::size_t limit) noexcept : limit_(limit) {}

  std::size_t limit() const noexcept { return limit_; }
  std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  Index blocks() const noexcept { return blocks_.load(std::memory_order_relaxed); }

  /// Books `count` blocks of `bytes`, all of them or none.
  ///   Throws: MemoryLimitError in the name of `function`
  void book(const char* function, Index count, std::size_t bytes) {
    std::size_t used = bytes_.load(std::memory_order_relaxed);
    do {
      // In this order nothing overflows.
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
  /// Whether that was the last holder.
  bool drop() noexcept { return holders_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> bytes_{0};
  std::atomic<Index> blocks_{0};
  std::atomic<Index> holders_{1};
};

/// A pool's account, or none: it ends with the last of its holders. Not a std::shared_ptr, whose
/// header takes long to compile.
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

/// Blocks of one size, head included, that were taken and belong to nobody yet.
class SpareBlocks {
 public:
  ///   Throws: MemoryLimitError, std::bad_alloc, and none is taken then
  SpareBlocks(const char* function, BlockAccount& account, Index count, std::size_t bytes)
      : SpareBlocks(account, bytes) {
    account_->book(function, count, bytes);
    booked_ = count;
    // From here on the destructor gives back what was taken.
    for (Index n = 0; n < count; ++n) {
      void* const memory = ::operator new (bytes, std::align_val_t{alignof(KvBlock)});
      auto* const block = ::new (memory) KvBlock;
      block->next = first_;
      first_ = block;
    }
  }
  /// No blocks.
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

  /// One of them, which is the caller's then.
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
  Index booked_ = 0;  ///< of the account, for those that are here
  KvBlock* first_ = nullptr;
};

}  // namespace detail
POSENC_END
