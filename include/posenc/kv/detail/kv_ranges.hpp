// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/kv_cache_config.hpp>
#include <posenc/tensor/detail/token_runs.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Ranges of the keys that the sequences of a cache hold, with the cache's limits.
class KvRanges {
 public:
  ///   Throws: ConfigError, std::bad_alloc
  explicit KvRanges(const KvCacheConfig& config)
      : limits_(config), ranges_(static_cast<std::size_t>(config.sequences)) {}

  const CacheLimits& limits() const noexcept { return limits_; }
  Index sequences() const noexcept { return static_cast<Index>(ranges_.size()); }
  std::size_t bytes() const noexcept { return ranges_.capacity() * sizeof(KeyRange); }
  /// Returns the array of ranges, one per sequence.
  const KeyRange* data() const noexcept { return ranges_.data(); }

  const KeyRange& operator[](Index sequence) const noexcept {
    return ranges_[static_cast<std::size_t>(sequence)];
  }
  KeyRange& operator[](Index sequence) noexcept {
    return ranges_[static_cast<std::size_t>(sequence)];
  }

  /// Returns the range of a sequence after an append of `appended` keys, which must pass
  /// check_append().
  KeyRange range_after_append(Index sequence, Index appended) const noexcept {
    const KeyRange& range = (*this)[sequence];
    const Index end = range.end + appended;
    return {(std::max)(range.begin, limits_.first_kept(end)), end};
  }

  // The following checks throw ShapeError in the name of `function`.

  void check_sequence(const char* function, Index sequence) const {
    if (sequence < 0 || sequence >= sequences()) {
      fail<ShapeError>(function, "sequence ", sequence, " must lie within [0, ", sequences(), ")");
    }
  }
  void check_keys(const char* function, Index sequence, Index first, Index count) const {
    const KeyRange range = (*this)[sequence];
    if (first < range.begin || first > range.end || count < 0 || count > range.end - first) {
      fail<ShapeError>(function, count, " keys from key ", first, " on must lie within [",
                       range.begin, ", ", range.end, "), the keys of sequence ", sequence);
    }
  }
  void check_append(const char* function, const TokenRuns& runs) const {
    for (Index n = 0; n < runs.size(); ++n) {
      const Index sequence = runs.sequence(n);
      check_sequence(function, sequence);
      runs.check_unique(function, n);
      limits_.check_append(function, sequence, (*this)[sequence].end, runs.count(n));
    }
  }

 private:
  CacheLimits limits_;
  std::vector<KeyRange> ranges_;
};

}  // namespace detail
POSENC_END
