// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/options.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/index_span.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/detail/check_offsets.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

// Geometry stage: which key each query is aligned with, and thus which range of keys is visible to
// it. It reads causal rules, windows, packing, lengths and positions, and no scores.
POSENC_BEGIN
namespace detail {

/// Extents of one attention call.
struct AttentionShape {
  Index batch, heads, queries, keys;
  /// True if no number is read and none is written. Rows of such a call have no memory, so there
  /// may be any number of them, and no check may visit them one by one.
  bool is_empty = false;

  bool has_scores() const noexcept {
    return !is_empty && batch != 0 && heads != 0 && queries != 0 && keys != 0;
  }
};

/// Queries and keys that may see each other: a batch row, or one of the sequences packed into
/// it. Query and key indices count from the sequence's start.
struct AttentionSequence {
  Index sequence_index;  ///< index among the call's sequences
  Index batch;
  Index first_query, queries;  ///< first_query counts in the batch row
  Index first_key;             ///< counts in the batch row
  Index begin, end;            ///< range of valid keys, counted from first_key
  Index stored;                ///< end of the keys in memory, counted from first_key
  Index query_offset;          ///< key index that query 0 is aligned with
  Index kv_index = 0;          ///< batch row of its keys; in a cache the index in the call's list
};

/// Ranges of keys in memory: one range for all batch rows of a tensor, or one per sequence of the
/// call's list in a cache.
class StoredKeyRanges {
 public:
  explicit StoredKeyRanges(Index keys) noexcept : common_range_{0, keys} {}
  StoredKeyRanges(const KeyRange* sequence_ranges, std::span<const Index> sequences) noexcept
      : in_cache_(true), sequence_ranges_(sequence_ranges), sequences_(sequences) {}

  bool in_cache() const noexcept { return in_cache_; }
  KeyRange range_of_row(Index n) const noexcept {
    if (!in_cache_) return common_range_;
    return sequence_ranges_[sequences_[static_cast<std::size_t>(n)]];
  }

 private:
  bool in_cache_ = false;
  KeyRange common_range_{0, 0};
  const KeyRange* sequence_ranges_ = nullptr;
  std::span<const Index> sequences_;
};

/// Positions that the caller passed, in the options or beside them; null if they are implied.
struct ExplicitPositions {
  const Positions* queries = nullptr;
  const Positions* keys = nullptr;
};

/// Sequences, visible key ranges and positions of one call's queries and keys.
template <Scalar T>
class AttentionGeometry {
 public:
  ///   Throws: ShapeError, ConfigError, PositionError
  POSENC_COLD AttentionGeometry(const char* function, const AttentionOptions<T>& options,
                                const AttentionShape& shape, const StoredKeyRanges& keys,
                                const ExplicitPositions& positions)
      : function_(function), shape_(shape), options_(options), keys_(keys), explicit_(positions) {
    check_lengths();
    check_packing();
    check_explicit_positions("query_positions", explicit_.queries, shape.batch, shape.queries);
    check_explicit_positions("key_positions", explicit_.keys, has_packed_keys() ? 1 : sequences(),
                             shape.keys);
    if (options.causal == Causal::ByPosition &&
        (explicit_.queries == nullptr || explicit_.keys == nullptr)) {
      fail<ConfigError>(function, "Causal::ByPosition needs query_positions and key_positions");
    }
    check_alignment();
    are_positions_sorted_ = options.causal == Causal::ByPosition && are_positions_sorted();
  }

  Index sequences() const noexcept { return is_packed() ? packed_count() : shape_.batch; }

  /// Returns the number of queries of the longest sequence.
  Index max_queries() const noexcept {
    if (!is_packed()) return shape_.queries;
    Index max_count = 0;
    for (Index n = 0; n < packed_count(); ++n) {
      max_count =
          (std::max)(max_count, at(options_.cu_seqlens_q, n + 1) - at(options_.cu_seqlens_q, n));
    }
    return max_count;
  }
  /// Returns the largest number of stored keys of any sequence.
  Index max_keys() const noexcept {
    Index max_count = 0;
    for (Index n = 0; n < sequences(); ++n) max_count = (std::max)(max_count, sequence(n).stored);
    return max_count;
  }

  AttentionSequence sequence(Index n) const noexcept {
    AttentionSequence s{};
    s.sequence_index = n;
    if (is_packed()) {
      s.first_query = at(options_.cu_seqlens_q, n);
      s.queries = at(options_.cu_seqlens_q, n + 1) - s.first_query;
    } else {
      s.batch = n;
      s.queries = shape_.queries;
    }
    if (has_packed_keys()) {
      s.first_key = at(options_.cu_seqlens_k, n);
      s.end = s.stored = at(options_.cu_seqlens_k, n + 1) - s.first_key;
    } else {
      s.kv_index = n;
      const KeyRange keys = keys_.range_of_row(n);
      s.begin = keys.begin;
      s.stored = keys.end;
      s.end = options_.key_lengths.empty() ? keys.end : at(options_.key_lengths, n);
    }
    const IndexSpan starts = options_.query_starts;
    if (options_.causal == Causal::BottomRight) {
      s.query_offset = s.end - s.queries;
    } else if (options_.causal != Causal::TopLeft && !starts.empty()) {
      s.query_offset = at(starts, starts.size() == 1 ? 0 : n);
    }
    return s;
  }

  /// Returns the visible key range of query i of a sequence; masks may hide keys inside it.
  POSENC_NOINLINE KeyRange visible_range(const AttentionSequence& s, Index i) const noexcept {
    if (options_.causal == Causal::ByPosition) return visible_range_by_position(s, i);
    const Index aligned_key = s.query_offset + i;
    const Window& window = options_.window;
    KeyRange range{s.begin, s.end};
    if (options_.causal != Causal::No) range.end = (std::min)(range.end, aligned_key + 1);
    if (window.right >= 0 && window.right < range.end - aligned_key)
      range.end = aligned_key + window.right + 1;
    if (window.left >= 0 && window.left < aligned_key - range.begin) {
      range.begin = aligned_key - window.left;
    }
    return range;
  }

  POSENC_NOINLINE double query_position(const AttentionSequence& s, Index i) const noexcept {
    return explicit_.queries != nullptr ? explicit_.queries->at(s.batch, s.first_query + i)
                                        : static_cast<double>(s.first_key + s.query_offset + i);
  }

  double key_position(const AttentionSequence& s, Index j) const noexcept {
    return explicit_.keys != nullptr ? explicit_.keys->at(s.kv_index, s.first_key + j)
                                     : static_cast<double>(s.first_key + j);
  }

  /// Returns the positions of keys first .. first + count - 1 of a sequence: a pointer to the
  /// caller's values, or ids or consecutive integers that are written to `memory`.
  const double* key_positions(const AttentionSequence& s, Index first, Index count,
                              double* memory) const noexcept {
    if (explicit_.keys != nullptr && explicit_.keys->is_view()) {
      explicit_.keys->copy(s.kv_index, s.first_key + first, count, memory);
      return memory;
    }
    const auto ids = explicit_.keys != nullptr ? explicit_.keys->explicit_values(s.kv_index)
                                               : std::span<const double>();
    if (!ids.empty()) return ids.data() + (s.first_key + first);
    const double begin = key_position(s, first);
    for (std::int32_t j = 0; j < count; ++j) memory[j] = begin + j;
    return memory;
  }

  /// True if the causal rule by position needs a test per key, is_visible_by_position(), because
  /// positions do not ascend. visible_range() then returns all keys.
  bool needs_per_key_test() const noexcept {
    return options_.causal == Causal::ByPosition && !are_positions_sorted_;
  }
  bool is_visible_by_position(const AttentionSequence& s, Index i, Index j) const noexcept {
    const double query = query_position(s, i), key = key_position(s, j);
    const Window& window = options_.window;
    return key <= query && (window.left < 0 || key >= query - static_cast<double>(window.left));
  }

  /// True if each query has an aligned key.
  bool has_query_offset() const noexcept {
    if (options_.causal == Causal::No) return !options_.query_starts.empty() || has_equal_lengths();
    return options_.causal != Causal::ByPosition;
  }

  /// True if the caller passed positions of queries or keys.
  bool has_explicit_positions() const noexcept {
    return explicit_.queries != nullptr || explicit_.keys != nullptr;
  }

  /// Throws ConfigError unless the queries' positions, which `reader` needs, are given or implied.
  /// They are implied by the alignment, or by equal numbers of queries and keys.
  POSENC_COLD void require_query_positions(const char* reader) const {
    if (explicit_.queries != nullptr) return;
    if (explicit_.keys != nullptr) {
      fail<ConfigError>(function_, reader, " requires query_positions if key_positions are set");
    }
    if (!has_query_offset()) {
      fail<ConfigError>(function_, reader, " requires query_positions or query_starts for ",
                        shape_.queries, " queries and ", shape_.keys,
                        " keys without a causal alignment");
    }
  }

 private:
  static Index at(IndexSpan values, Index n) noexcept {
    return values[static_cast<std::size_t>(n)];
  }
  bool is_packed() const noexcept { return !options_.cu_seqlens_q.empty(); }
  /// True if keys are packed. A cache stores the keys of each sequence separately, even in a
  /// packed call.
  bool has_packed_keys() const noexcept { return is_packed() && !keys_.in_cache(); }
  Index packed_count() const noexcept {
    return static_cast<Index>(options_.cu_seqlens_q.size()) - 1;
  }
  bool has_window() const noexcept {
    return options_.window.left >= 0 || options_.window.right >= 0;
  }

  bool has_equal_lengths() const noexcept {
    if (!is_packed()) return shape_.queries == shape_.keys;
    if (!has_packed_keys()) return all_have_equal_lengths();
    for (Index n = 0; n <= packed_count(); ++n) {
      if (at(options_.cu_seqlens_q, n) != at(options_.cu_seqlens_k, n)) return false;
    }
    return true;
  }

  /// True if each sequence with queries has as many queries as keys.
  bool all_have_equal_lengths() const noexcept {
    for (Index n = 0; n < packed_count(); ++n) {
      const AttentionSequence s = sequence(n);
      if (s.queries != 0 && s.queries != s.stored) return false;
    }
    return true;
  }

  POSENC_NOINLINE KeyRange visible_range_by_position(const AttentionSequence& s,
                                                     Index i) const noexcept {
    if (!are_positions_sorted_) return {s.begin, s.end};
    const double query = query_position(s, i);
    // Returns the first key, starting at `begin`, for which beyond(position) is true.
    const auto first_beyond = [&](auto&& beyond) {
      Index low = s.begin, high = s.end;
      while (low < high) {
        const Index middle = low + (high - low) / 2;
        if (beyond(key_position(s, middle))) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      return low;
    };
    const Index end = first_beyond([&](double key) { return key > query; });
    const Index left = options_.window.left;
    if (left < 0) return {s.begin, end};
    return {first_beyond([&](double key) { return key >= query - static_cast<double>(left); }),
            end};
  }

  POSENC_COLD bool are_positions_sorted() const noexcept {
    const Positions& keys = *explicit_.keys;
    // Implicit positions are consecutive. Such Positions may have any number of rows.
    if (keys.count() == 0 || keys.batch() == 0) return true;
    if (keys.explicit_values(0).empty() && !keys.is_view()) return true;
    for (Index b = 0; b < keys.batch(); ++b) {
      const IndexSpan starts = options_.cu_seqlens_k;
      std::size_t next = 0;
      for (Index j = 0; j < keys.count(); ++j) {
        // Positions may restart with each packed sequence.
        const bool is_start = j == 0 || (next != starts.size() && starts[next] == j);
        while (next != starts.size() && starts[next] <= j) ++next;
        if (!is_start && !(keys.at(b, j - 1) <= keys.at(b, j))) return false;
      }
    }
    return true;
  }

  POSENC_COLD void check_lengths() const {
    const IndexSpan lengths = options_.key_lengths;
    if (!lengths.empty() && static_cast<Index>(lengths.size()) != shape_.batch) {
      fail<ShapeError>(function_, "key_lengths must have one entry for each of the ", shape_.batch,
                       " batch rows but has ", lengths.size());
    }
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      if (lengths[b] < 0 || lengths[b] > shape_.keys) {
        fail<ShapeError>(function_, "key_lengths must lie between 0 and the ", shape_.keys,
                         " keys but one is ", lengths[b]);
      }
    }
  }

  POSENC_COLD void check_packing() const {
    const IndexSpan cu_q = options_.cu_seqlens_q, cu_k = options_.cu_seqlens_k;
    // Packing over a cache is checked by the cache.
    if ((cu_q.empty() && cu_k.empty()) || keys_.in_cache()) return;
    if (cu_q.size() != cu_k.size()) {
      fail<ShapeError>(function_,
                       "cu_seqlens_q and cu_seqlens_k must have as many entries as each ",
                       "other but have ", cu_q.size(), " and ", cu_k.size());
    }
    if (shape_.batch != 1 || !options_.key_lengths.empty()) {
      fail<ConfigError>(function_,
                        "cu_seqlens_q requires one batch row and no key_lengths but there are ",
                        shape_.batch, " rows and ", options_.key_lengths.size(), " key_lengths");
    }
    check_offsets(function_, "cu_seqlens_q", cu_q, shape_.queries);
    check_offsets(function_, "cu_seqlens_k", cu_k, shape_.keys);
  }

  POSENC_COLD void check_alignment() const {
    const Window& window = options_.window;
    if (window.left < -1 || window.right < -1) {
      fail<ConfigError>(function_, "window.left and window.right must be at least -1 but are ",
                        window.left, " and ", window.right);
    }
    const IndexSpan starts = options_.query_starts;
    if (!starts.empty()) {
      if (options_.causal != Causal::FromStart && options_.causal != Causal::No) {
        fail<ConfigError>(function_, "query_starts require Causal::FromStart or Causal::No");
      }
      if (starts.size() != 1 && static_cast<Index>(starts.size()) != sequences()) {
        fail<ShapeError>(function_, "query_starts must have 1 entry or one for each of the ",
                         sequences(), " sequences but has ", starts.size());
      }
      constexpr Index limit = Index{1} << 53;
      for (std::size_t n = 0; n < starts.size(); ++n) {
        if (starts[n] < -limit || starts[n] > limit) {
          fail<PositionError>(function_, "query_starts must lie within +-2^53 but one is ",
                              starts[n]);
        }
      }
    } else if (options_.causal == Causal::FromStart) {
      fail<ConfigError>(function_, "Causal::FromStart needs query_starts");
    }
    if (has_window() && options_.causal == Causal::No && !has_query_offset()) {
      fail<ConfigError>(function_, "a window without a causal mask requires query_starts for ",
                        shape_.queries, " queries and ", shape_.keys, " keys");
    }
    check_evicted_keys();
  }

  /// Throws ConfigError unless evicted keys of a ring lie outside every query's window.
  POSENC_COLD void check_evicted_keys() const {
    if (!keys_.in_cache()) return;
    for (Index n = 0; n < sequences(); ++n) {
      const AttentionSequence s = sequence(n);
      if (s.begin == 0 || s.queries == 0) continue;
      const Index left = options_.window.left;
      if (options_.causal == Causal::ByPosition || left < 0 || left > s.query_offset - s.begin) {
        fail<ConfigError>(
            function_, "the keys before ", s.begin,
            " are evicted from the cache, but the window of the first query, whose aligned key is ",
            s.query_offset, ", begins ", left, " before it (-1: unlimited)");
      }
    }
  }

  POSENC_COLD void check_explicit_positions(const char* name, const Positions* positions,
                                            Index rows, Index count) const {
    if (positions == nullptr) return;
    check_axes(function_, *positions, 1);
    if (!positions_fit(*positions, rows, count)) {
      fail<ShapeError>(function_, name, " [", positions->batch(), ", ", positions->count(),
                       "] must be [1 or ", rows, ", ", count, "]");
    }
  }

  const char* function_;
  AttentionShape shape_;
  const AttentionOptions<T>& options_;
  StoredKeyRanges keys_;
  ExplicitPositions explicit_;
  bool are_positions_sorted_ = false;
};

}  // namespace detail
POSENC_END
