// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/broadcast_mask.hpp>
#include <posenc/attention/key_tile.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Queries and keys that see each other: a batch row, or one of the sequences packed into it. Places
/// of queries and keys count from the sequence's start.
struct AttentionSequence {
  Index batch;
  Index first_query, queries;  ///< in the batch row
  Index first_key;             ///< in the batch row
  Index begin, end;            ///< keys that count, counted from first_key
  Index stored;                ///< the end of those in memory
  Index place;                 ///< of query 0 among the keys
};

/// Keys from begin to end - 1, counted from the sequence's first one.
struct KeyRange {
  Index begin, end;
};

/// Which keys each query sees, and at which positions queries and keys stand.
template <Scalar T>
class Visibility {
 public:
  using Real = Compute<T>;

  /// keys_of_row gives the keys that batch row b has as a KeyRange.
  template <class KeysOfRow>
  Visibility(const char* function, const AttentionOptions<T>& options, const AttentionShape& shape,
             const KeysOfRow& keys_of_row)
      : function_(function),
        shape_(shape),
        options_(options),
        keep_(function, "keep", options.keep, shape),
        masked_(function, "masked", options.masked, shape),
        additive_(function, "additive", options.additive, shape) {
    check_lengths();
    check_packing();
    check_given("query_positions", options.query_positions, shape.queries);
    check_given("key_positions", options.key_positions, shape.keys);
    if (options.causal == Causal::ByPosition &&
        !(options.query_positions && options.key_positions)) {
      fail<ConfigError>(function, "Causal::ByPosition needs query_positions and key_positions");
    }
    check_places(keys_of_row);
    positions_ascend_ = options.causal == Causal::ByPosition && do_positions_ascend();
  }

  Index sequences() const noexcept { return packed() ? packed_count() : shape_.batch; }

  /// Of the longest sequence.
  Index most_queries() const noexcept {
    if (!packed()) return shape_.queries;
    Index most = 0;
    for (Index n = 0; n < packed_count(); ++n) {
      most = (std::max)(most, at(options_.cu_seqlens_q, n + 1) - at(options_.cu_seqlens_q, n));
    }
    return most;
  }

  /// keys_of_row as in the constructor.
  template <class KeysOfRow>
  AttentionSequence sequence(Index n, const KeysOfRow& keys_of_row) const noexcept {
    AttentionSequence s{};
    if (packed()) {
      s.first_query = at(options_.cu_seqlens_q, n);
      s.queries = at(options_.cu_seqlens_q, n + 1) - s.first_query;
      s.first_key = at(options_.cu_seqlens_k, n);
      s.end = s.stored = at(options_.cu_seqlens_k, n + 1) - s.first_key;
    } else {
      s.batch = n;
      s.queries = shape_.queries;
      const KeyRange keys = keys_of_row(n);
      s.begin = keys.begin;
      s.stored = keys.end;
      s.end = options_.key_lengths.empty() ? keys.end : at(options_.key_lengths, n);
    }
    const auto& starts = options_.query_starts;
    if (options_.causal == Causal::BottomRight) {
      s.place = s.end - s.queries;
    } else if (options_.causal != Causal::TopLeft && !starts.empty()) {
      s.place = at(starts, starts.size() == 1 ? 0 : n);
    }
    return s;
  }

  /// The keys outside of which query i of a sequence sees nothing.
  KeyRange range(const AttentionSequence& s, Index i) const noexcept {
    if (options_.causal == Causal::ByPosition) return range_by_position(s, i);
    const Index place = s.place + i;
    const Window& window = options_.window;
    KeyRange range{s.begin, s.end};
    if (options_.causal != Causal::No) range.end = (std::min)(range.end, place + 1);
    if (window.right >= 0 && window.right < range.end - place) range.end = place + window.right + 1;
    if (window.left >= 0 && window.left < place - range.begin) {
      range.begin = place - window.left;
    }
    return range;
  }

  /// Whether something besides range() hides keys or adds to scores.
  bool has_cells() const noexcept {
    return keep_.given() || masked_.given() || additive_.given() || by_cell();
  }

  /// Whether query i may see one of the `count` keys from local key j on at all, by has_cells().
  bool any_cell(const AttentionSequence& s, Index h, Index i, Index j, Index count) const noexcept {
    const Index b = s.batch, row = s.first_query + i, column = s.first_key + j;
    const auto has = [count](const bool* cells, bool value) {
      return std::memchr(cells, value ? 1 : 0, static_cast<std::size_t>(count)) != nullptr;
    };
    // A boolean mask by itself is searched a block at a time.
    if (!additive_.given() && !by_cell() && keep_.given() != masked_.given()) {
      const BroadcastMask<bool>& mask = keep_.given() ? keep_ : masked_;
      if (mask.key_stride() == 1) return has(mask.row(b, h, row, column), keep_.given());
    }
    for (Index n = 0; n < count; ++n) {
      if (shows(b, h, row, column + n)) return true;
    }
    return false;
  }

  /// Adds the additive mask to the scores of query i from local key j on, at most a tile, and makes
  /// those of hidden keys -inf, whatever they were.
  void apply_cells(const AttentionSequence& s, Index h, Index i, Index j, Index count,
                   Real* scores) const noexcept {
    const Index b = s.batch, row = s.first_query + i, column = s.first_key + j;
    if (additive_.given()) {
      const Real* mask = additive_.row(b, h, row, column);
      const Index stride = additive_.key_stride();
      for (Index n = 0; n < count; ++n) {
        const Real added = mask[n * stride];
        scores[n] = added == lowest ? lowest : scores[n] + added;
      }
    }
    if (keep_.given()) hide<false>(keep_, b, h, row, column, count, scores);
    if (masked_.given()) hide<true>(masked_, b, h, row, column, count, scores);
    if (by_cell()) {
      for (Index n = 0; n < count; ++n) {
        if (!shows_position(b, row, column + n)) scores[n] = lowest;
      }
    }
  }

  double query_position(const AttentionSequence& s, Index i) const noexcept {
    return options_.query_positions ? options_.query_positions->at(s.batch, s.first_query + i)
                                    : static_cast<double>(s.first_key + s.place + i);
  }

  double key_position(const AttentionSequence& s, Index j) const noexcept {
    return options_.key_positions ? options_.key_positions->at(s.batch, s.first_key + j)
                                  : static_cast<double>(s.first_key + j);
  }

  /// The queries' positions, which `reader` needs, must be given, or implied by the alignment or by
  /// there being as many queries as keys.
  void require_query_positions(const char* reader) const {
    if (options_.query_positions) return;
    if (options_.key_positions) {
      fail<ConfigError>(function_, reader, " needs query_positions where key_positions are given");
    }
    if (!has_places()) {
      fail<ConfigError>(function_, reader, " needs query_positions or query_starts where ",
                        shape_.queries, " queries meet ", shape_.keys,
                        " keys without a causal alignment");
    }
  }

 private:
  static constexpr Real lowest = -std::numeric_limits<Real>::infinity();

  static Index at(std::span<const Index> values, Index n) noexcept {
    return values[static_cast<std::size_t>(n)];
  }
  bool packed() const noexcept { return !options_.cu_seqlens_q.empty(); }
  Index packed_count() const noexcept {
    return static_cast<Index>(options_.cu_seqlens_q.size()) - 1;
  }
  bool windowed() const noexcept { return options_.window.left >= 0 || options_.window.right >= 0; }

  /// Whether a query's place among the keys is known.
  bool has_places() const noexcept {
    if (options_.causal == Causal::No) return !options_.query_starts.empty() || square();
    return options_.causal != Causal::ByPosition;
  }
  bool square() const noexcept {
    if (!packed()) return shape_.queries == shape_.keys;
    return std::equal(options_.cu_seqlens_q.begin(), options_.cu_seqlens_q.end(),
                      options_.cu_seqlens_k.begin());
  }

  /// Positions that do not ascend show and hide keys one by one.
  bool by_cell() const noexcept {
    return options_.causal == Causal::ByPosition && !positions_ascend_;
  }

  bool shows(Index b, Index h, Index row, Index column) const noexcept {
    return (!keep_.given() || *keep_.row(b, h, row, column)) &&
           (!masked_.given() || !*masked_.row(b, h, row, column)) &&
           (!additive_.given() || *additive_.row(b, h, row, column) != lowest) &&
           (!by_cell() || shows_position(b, row, column));
  }

  bool shows_position(Index b, Index row, Index column) const noexcept {
    const double query = options_.query_positions->at(b, row);
    const double key = options_.key_positions->at(b, column);
    const Window& window = options_.window;
    return key <= query && (window.left < 0 || key >= query - static_cast<double>(window.left));
  }

  template <bool Hidden>
  static void hide(const BroadcastMask<bool>& mask, Index b, Index h, Index row, Index column,
                   Index count, Real* scores) noexcept {
    const bool* cells = mask.row(b, h, row, column);
    // First widened, then compared: compilers make good vectors of either, not of both at once.
    using Flag = std::conditional_t<sizeof(Real) == 8, std::int64_t, std::int32_t>;
    std::array<Flag, static_cast<std::size_t>(tile_keys)> flags;
    if (mask.key_stride() == 1) {
      for (Index n = 0; n < count; ++n) flags[static_cast<std::size_t>(n)] = cells[n];
    } else {
      for (Index n = 0; n < count; ++n) {
        flags[static_cast<std::size_t>(n)] = cells[n * mask.key_stride()];
      }
    }
    for (Index n = 0; n < count; ++n) {
      scores[n] = flags[static_cast<std::size_t>(n)] == Flag{Hidden} ? lowest : scores[n];
    }
  }

  KeyRange range_by_position(const AttentionSequence& s, Index i) const noexcept {
    if (!positions_ascend_) return {s.begin, s.end};
    const double query = query_position(s, i);
    // The first key from `begin` on whose position is beyond a bound.
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

  bool do_positions_ascend() const noexcept {
    const Positions& keys = *options_.key_positions;
    for (Index b = 0; b < keys.batch(); ++b) {
      auto next_start = options_.cu_seqlens_k.begin();
      const auto end = options_.cu_seqlens_k.end();
      for (Index j = 0; j < keys.count(); ++j) {
        // Positions may restart with each packed sequence.
        const bool starts = j == 0 || (next_start != end && *next_start == j);
        while (next_start != end && *next_start <= j) ++next_start;
        if (!starts && !(keys.at(b, j - 1) <= keys.at(b, j))) return false;
      }
    }
    return true;
  }

  void check_lengths() const {
    const auto& lengths = options_.key_lengths;
    if (!lengths.empty() && static_cast<Index>(lengths.size()) != shape_.batch) {
      fail<ShapeError>(function_, "key_lengths must have one entry for each of the ", shape_.batch,
                       " batch rows but has ", lengths.size());
    }
    for (const Index n : lengths) {
      if (n < 0 || n > shape_.keys) {
        fail<ShapeError>(function_, "key_lengths must lie between 0 and the ", shape_.keys,
                         " keys but one is ", n);
      }
    }
  }

  void check_packing() const {
    const auto &of_q = options_.cu_seqlens_q, &of_k = options_.cu_seqlens_k;
    if (of_q.empty() && of_k.empty()) return;
    if (of_q.size() != of_k.size()) {
      fail<ShapeError>(function_,
                       "cu_seqlens_q and cu_seqlens_k must have as many entries as each ",
                       "other but have ", of_q.size(), " and ", of_k.size());
    }
    if (shape_.batch != 1 || !options_.key_lengths.empty()) {
      fail<ConfigError>(function_,
                        "cu_seqlens_q takes one batch row and no key_lengths but there are ",
                        shape_.batch, " rows and ", options_.key_lengths.size(), " key_lengths");
    }
    check_offsets("cu_seqlens_q", of_q, shape_.queries);
    check_offsets("cu_seqlens_k", of_k, shape_.keys);
  }

  void check_offsets(const char* name, std::span<const Index> offsets, Index total) const {
    if (offsets.front() != 0 || offsets.back() != total) {
      fail<ShapeError>(function_, name, " must begin with 0 and end with ", total,
                       " but goes from ", offsets.front(), " to ", offsets.back());
    }
    for (std::size_t n = 1; n < offsets.size(); ++n) {
      if (offsets[n] < offsets[n - 1]) {
        fail<ShapeError>(function_, name, " must not descend but has ", offsets[n], " after ",
                         offsets[n - 1]);
      }
    }
  }

  template <class KeysOfRow>
  void check_places(const KeysOfRow& keys_of_row) const {
    const Window& window = options_.window;
    if (window.left < -1 || window.right < -1) {
      fail<ConfigError>(function_, "window.left and window.right must be at least -1 but are ",
                        window.left, " and ", window.right);
    }
    const auto& starts = options_.query_starts;
    if (!starts.empty()) {
      if (options_.causal != Causal::FromStart && options_.causal != Causal::No) {
        fail<ConfigError>(function_, "query_starts go with Causal::FromStart or Causal::No");
      }
      if (starts.size() != 1 && static_cast<Index>(starts.size()) != sequences()) {
        fail<ShapeError>(function_, "query_starts must have 1 entry or one for each of the ",
                         sequences(), " sequences but has ", starts.size());
      }
      constexpr Index limit = Index{1} << 53;
      for (const Index start : starts) {
        if (start < -limit || start > limit) {
          fail<PositionError>(function_, "query_starts must lie within +-2^53 but one is ", start);
        }
      }
    } else if (options_.causal == Causal::FromStart) {
      fail<ConfigError>(function_, "Causal::FromStart needs query_starts");
    }
    if (windowed() && options_.causal == Causal::No && !has_places()) {
      fail<ConfigError>(function_, "a window without a causal mask needs query_starts where ",
                        shape_.queries, " queries meet ", shape_.keys, " keys");
    }
    check_ring(keys_of_row);
  }

  /// Keys that a ring has lost must lie outside every query's window.
  template <class KeysOfRow>
  void check_ring(const KeysOfRow& keys_of_row) const {
    if (packed() || shape_.queries == 0) return;
    for (Index b = 0; b < shape_.batch; ++b) {
      const AttentionSequence s = sequence(b, keys_of_row);
      if (s.begin == 0) continue;
      const Index left = options_.window.left;
      if (options_.causal == Causal::ByPosition || left < 0 || left > s.place - s.begin) {
        fail<ConfigError>(
            function_, "the keys before ", s.begin,
            " are gone from the cache, but the window of the first query, whose place "
            "is ",
            s.place, ", begins ", left, " before it (-1: nowhere)");
      }
    }
  }

  void check_given(const char* name, const std::optional<Positions>& positions, Index count) const {
    if (!positions) return;
    check_axes(function_, *positions, 1);
    if (positions->count() != count ||
        (positions->batch() != 1 && positions->batch() != shape_.batch)) {
      fail<ShapeError>(function_, name, " [", positions->batch(), ", ", positions->count(),
                       "] must be [1 or ", shape_.batch, ", ", count, "]");
    }
  }

  const char* function_;
  AttentionShape shape_;
  const AttentionOptions<T>& options_;
  BroadcastMask<bool> keep_, masked_;
  BroadcastMask<Real> additive_;
  bool positions_ascend_ = false;
};

}  // namespace detail
POSENC_END
