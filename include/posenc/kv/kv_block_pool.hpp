// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kv/detail/kv_block.hpp>

#include <cstddef>
#include <type_traits>

POSENC_STABLE_BEGIN

struct KvBlockPoolConfig {
  std::size_t byte_limit = 0;  ///< required: the most that all blocks together may take
};

static_assert(std::is_trivially_copyable_v<KvBlockPoolConfig>);

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {
class KvBlocks;
}  // namespace detail

/// Memory that caches of many sequences and layers share: a KvCache made with a pool takes a block of it for
/// each 128 keys that a sequence holds, and gives it back when it forgets them. A block is one tile of
/// one layer, keys and values of all of its heads: these are written, shared and forgotten together, and
/// layers whose heads differ, in number, width or type, live on one pool. Blocks come from operator new and
/// go back there.
///   Copies:  are the same pool; a cache keeps the pool that it was made with
///   Threads: any number may use it at once, through caches of their own or sequences of their own
class KvBlockPool {
 public:
  // A moved one is a copy, too.
  KvBlockPool(const KvBlockPool&) = default;
  KvBlockPool& operator=(const KvBlockPool&) = default;

  ///   Throws: ConfigError, std::bad_alloc
  explicit KvBlockPool(const KvBlockPoolConfig& config) : account_(checked_limit(config)) {}

  std::size_t byte_limit() const noexcept { return account_->limit(); }
  /// Of the blocks that are in use, each counted once however many sequences share it.
  std::size_t bytes() const noexcept { return account_->bytes(); }
  Index blocks() const noexcept { return account_->blocks(); }  ///< in use

 private:
  friend class detail::KvBlocks;

  static std::size_t checked_limit(const KvBlockPoolConfig& config) {
    if (config.byte_limit == 0) {
      detail::fail<ConfigError>("KvBlockPool", "byte_limit must be given");
    }
    return config.byte_limit;
  }

  detail::SharedAccount account_;
};

POSENC_END
