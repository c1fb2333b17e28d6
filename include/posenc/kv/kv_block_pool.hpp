// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kv/detail/kv_block.hpp>

#include <cstddef>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Settings of a KvBlockPool.
struct KvBlockPoolConfig {
  std::size_t byte_limit = 0;  ///< required: the most bytes that all blocks together may use
};

static_assert(std::is_trivially_copyable_v<KvBlockPoolConfig>);

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {
class KvBlockTables;
}  // namespace detail

/// Memory shared by the caches of many sequences and layers. A KvCache with a pool allocates a
/// block for each 128 keys of a sequence and returns the block when the sequence drops these keys.
/// A block is one tile of one layer: keys and values of all its heads. Blocks are written, shared
/// and released as a unit. Layers whose heads differ in number, width or type can use one pool.
/// Blocks are allocated by operator new and returned to it.
///   Copies:  refer to the same pool; a cache keeps the pool that it was constructed with
///   Threads: any number of threads may use a pool concurrently, through different caches or
///            different sequences
class KvBlockPool {
 public:
  // Both are declared so that a move is a copy as well.

  /// Constructs another object for the same pool.
  KvBlockPool(const KvBlockPool&) = default;
  /// Refers to the pool of the other object from now on.
  KvBlockPool& operator=(const KvBlockPool&) = default;

  /// Constructs a pool without blocks.
  ///   Throws: ConfigError if byte_limit is 0, std::bad_alloc
  explicit KvBlockPool(const KvBlockPoolConfig& config) : budget_(checked_limit(config)) {}

  /// Returns the most bytes that all blocks together may use.
  std::size_t byte_limit() const noexcept { return budget_->limit(); }
  /// Returns the bytes of all blocks in use. A shared block counts once.
  std::size_t bytes() const noexcept { return budget_->bytes(); }
  Index blocks() const noexcept { return budget_->blocks(); }  ///< blocks in use

 private:
  friend class detail::KvBlockTables;

  static std::size_t checked_limit(const KvBlockPoolConfig& config) {
    if (config.byte_limit == 0) {
      detail::fail<ConfigError>("KvBlockPool", "byte_limit must be set");
    }
    return config.byte_limit;
  }

  detail::PoolBudgetPtr budget_;
};

POSENC_END
