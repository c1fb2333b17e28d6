// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kernels/tile.hpp>

#include <algorithm>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Settings of a KvCache. Exactly one of `capacity` and `window` must be given.
struct KvCacheConfig {
  Index sequences = 1;  ///< number of sequences, at least 1
  Index kv_heads = 0;   ///< required
  Index head_dim = 0;   ///< required
  Index value_dim = 0;  ///< head_dim if omitted
  /// Maximum number of keys per sequence. It is rounded up to complete tiles of 128 keys, and
  /// KvCache::capacity() returns the rounded number, which append() accepts.
  Index capacity = 0;
  /// Window size in keys, the query's own key included; 0: no ring. A cache with a window is a ring
  /// of fixed size: a new key that begins a tile of 128 overwrites the oldest tile, which evicts
  /// its 128 keys together. Each of the max_append newest queries finds its full window, however
  /// long the sequence grows.
  Index window = 0;
  Index max_append = 1;  ///< in a ring, the most keys per append
};

static_assert(std::is_trivially_copyable_v<KvCacheConfig>);

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {

/// Returns the number of keys per sequence that memory is allocated for: whole tiles.
///   Throws: ConfigError
inline Index cache_capacity(const KvCacheConfig& config) {
  constexpr auto function = "KvCache";
  const auto require = [&](bool met, const char* name, const char* rule, Index value) {
    if (!met) fail<ConfigError>(function, name, rule, " but is ", value);
  };
  // With this bound, sums and products below stay far from the end of Index.
  constexpr Index max_value = Index{1} << 40;
  const auto in_range = [&](const char* name, Index min_value, Index value) {
    require(value >= min_value, name,
            min_value == 0 ? " must not be negative" : " must be positive", value);
    require(value <= max_value, name, " must be at most 2^40", value);
  };
  in_range("sequences", 1, config.sequences);
  in_range("kv_heads", 1, config.kv_heads);
  in_range("head_dim", 1, config.head_dim);
  in_range("value_dim", 0, config.value_dim);
  in_range("capacity", 0, config.capacity);
  in_range("window", 0, config.window);
  in_range("max_append", 1, config.max_append);
  if ((config.capacity == 0) == (config.window == 0)) {
    fail<ConfigError>(function, "either capacity or window must be set, but they are ",
                      config.capacity, " and ", config.window);
  }
  const auto whole_tiles = [](Index keys) {
    return (keys + tile_keys - 1) / tile_keys * tile_keys;
  };
  const Index capacity = config.window == 0
                             ? whole_tiles(config.capacity)
                             : whole_tiles(config.window + config.max_append - 1) + tile_keys;
  const double numbers = static_cast<double>(config.sequences) *
                         static_cast<double>(config.kv_heads) * static_cast<double>(capacity) *
                         static_cast<double>((std::max)(config.head_dim, config.value_dim) + 16);
  if (numbers > 0x1p56) {
    fail<ConfigError>(function, config.sequences, " sequences of ", capacity, " keys with ",
                      config.kv_heads, " heads of ", config.head_dim, " and ", config.value_dim,
                      " values must fit into memory");
  }
  return capacity;
}

/// Limits that follow from a cache's settings.
struct CacheLimits {
  Index capacity, window, max_append;

  ///   Throws: ConfigError
  explicit CacheLimits(const KvCacheConfig& config)
      : capacity(cache_capacity(config)), window(config.window), max_append(config.max_append) {}

  /// Returns the oldest key that is not overwritten when the last key is end - 1.
  Index first_kept(Index end) const noexcept {
    const Index end_tile = (end + tile_keys - 1) / tile_keys;
    return (std::max)(Index{0}, end_tile * tile_keys - capacity);
  }

  /// Throws ShapeError unless a sequence of `length` keys has capacity for `count` more.
  void check_end(const char* function, Index sequence, Index length, Index count) const {
    if (count > max_keys - length) {
      fail<ShapeError>(function, "sequence ", sequence, " cannot have ", count, " keys from key ",
                       length, " on: positions are doubles, which are exact up to 2^53");
    }
    if (window == 0 && count > capacity - length) {
      fail<ShapeError>(function, "sequence ", sequence, " holds ", length, " keys, and with ",
                       count, " more would exceed the capacity of ", capacity);
    }
  }
  /// Throws ShapeError unless append() may add `count` keys to a sequence of `length` keys.
  void check_append(const char* function, Index sequence, Index length, Index count) const {
    if (window != 0 && count > max_append) {
      fail<ShapeError>(function, "a ring (window ", window,
                       ") accepts at most max_append = ", max_append, " keys per call but got ",
                       count);
    }
    check_end(function, sequence, length, count);
  }

 private:
  /// Positions are doubles, which count integers exactly up to this limit.
  static constexpr Index max_keys = Index{1} << 53;
};

}  // namespace detail
POSENC_END
