// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/dropout.hpp>
#include <posenc/attention/kernels.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/attention/pack_keys.hpp>
#include <posenc/attention/row_sums.hpp>
#include <posenc/attention/visibility.hpp>
#include <posenc/concepts.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/simd/prefetch.hpp>
#include <posenc/simd/tanh.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// What all parts of one call of attention() share.
template <Scalar T, class Bias>
struct AttentionCall {
  HeadsView<const T> q;
  HeadsView<T> out;
  const AttentionOptions<T>& options;
  const Visibility<T>& visible;
  const Bias& bias;
  Compute<T> scale;
  Index group;      ///< query heads a key head
  Index value_dim;  ///< padded
};

/// Some queries of a sequence, for all heads that share a key head, and their way through attention.
/// Row r is query first + r / group, head r % group of the key head's: rows that share keys and see
/// nearly the same ones are neighbours. S is what keys are stored as.
template <Scalar T, class Bias, class S>
class QueryBlock {
 public:
  using Real = Compute<T>;
  using Call = AttentionCall<T, Bias>;

  /// Rows that are worth packing a tile for; fewer where there are fewer queries.
  static constexpr Index most_rows = 288;

  /// Memory of a thread that computes tiles.
  struct Scratch {
    Real* scores;           ///< [kernel_rows, tile_keys]
    double* key_positions;  ///< [tile_keys]
    VisibleKeys* visible;   ///< of each strip of kernel_rows

    static Scratch carve(Carver& carver, Index rows) noexcept {
      return {carver.take<Real>(strip_rows * tile_keys), carver.take<double>(tile_keys),
              carver.take<VisibleKeys>((rows + strip_rows - 1) / strip_rows)};
    }
  };

  QueryBlock(const Call& call, Index rows, Carver& carver) noexcept
      : call_(call),
        q_(carver.take<Query>(rows * query_dim())),
        ranges_(carver.take<KeyRange>(rows)),
        query_positions_(carver.take<double>(rows)) {}

  /// Takes queries first .. first + count - 1 of a sequence, and key head kv.
  void begin(const AttentionSequence& sequence, Index kv, Index first, Index count) noexcept {
    sequence_ = sequence;
    kv_ = kv;
    first_ = first;
    rows_ = count * call_.group;
    keys_ = {sequence.end, sequence.begin};
    for (Index r = 0; r < rows_; ++r) {
      const Index i = query(r);
      prefetch(q_row((std::min)(r + rows_ahead, rows_ - 1)), call_.q.dim * Index{sizeof(T)});
      pack_query(q_row(r), call_.q.dim, q_ + r * query_dim(), query_dim());
      ranges_[r] = call_.visible.range(sequence, i);
      if (ranges_[r].begin >= ranges_[r].end) continue;
      keys_.begin = (std::min)(keys_.begin, ranges_[r].begin);
      keys_.end = (std::max)(keys_.end, ranges_[r].end);
    }
    if (needs_positions()) {
      for (Index n = 0; n < count; ++n) {
        query_positions_[n] = call_.visible.query_position(sequence, first + n);
      }
    }
    if (wants_all_scores()) keys_ = {sequence.begin, sequence.stored};
    if (call_.options.weights.data != nullptr) hide_weights();
  }

  Index rows() const noexcept { return rows_; }
  const AttentionSequence& sequence() const noexcept { return sequence_; }
  Index key_head() const noexcept { return kv_; }
  /// Keys that some row sees, counted from the sequence's first; empty where begin >= end.
  KeyRange keys() const noexcept { return keys_; }

  /// The keys of a tile that some row sees, counted from the sequence's first; what each strip sees is
  /// noted for add_tile().
  KeyRange look_at(Index tile, const Scratch& scratch) const noexcept {
    KeyRange seen{tile_keys, 0};
    for (Index r = 0; r < rows_; r += strip_rows) {
      const VisibleKeys visible =
          visible_keys(tile * tile_keys, r, (std::min)(strip_rows, rows_ - r));
      scratch.visible[r / strip_rows] = visible;
      if (visible.blocks == 0) continue;
      seen.begin = (std::min)(seen.begin, visible.begin);
      seen.end = (std::max)(seen.end, visible.end);
    }
    return {tile * tile_keys + seen.begin, tile * tile_keys + seen.end};
  }

  /// Adds what one tile gives to `sums`, after look_at() of the same tile.
  void add_tile(Index tile, const KeyTile<S>& keys, const Scratch& scratch,
                const RowSums<Real>& sums) const {
    const Index first_key = tile * tile_keys;
    if (needs_positions()) {
      const Index end = (std::min)(tile_keys, keys_.end - first_key);
      for (Index j = 0; j < end; ++j) {
        scratch.key_positions[j] = call_.visible.key_position(sequence_, first_key + j);
      }
    }
    for (Index r = 0; r < rows_; r += strip_rows) {
      add_strip(first_key, keys, scratch, sums, r, (std::min)(strip_rows, rows_ - r));
    }
  }

  /// Writes outputs and log-sum-exps, and normalises returned weights.
  void finish(const RowSums<Real>& sums) const noexcept {
    for (Index r = 0; r < rows_; ++r) {
      Real highest = sums.highest[r], sum = sums.sum[r], factor = 1;
      if (!call_.options.sinks.empty()) {
        const Real sink = call_.options.sinks[static_cast<std::size_t>(head(r))];
        const Real top = sink > highest ? sink : highest;
        factor = highest == lowest ? 0 : std::exp(highest - top);
        sum = mul_add(sum, factor, sink == lowest ? Real{0} : std::exp(sink - top));
        highest = top;
      }
      const Index b = sequence_.batch, h = head(r), i = sequence_.first_query + query(r);
      // Adding 0 makes one zero of two: keys that are hidden must not show in the sign.
      Real* out = sums.out + r * call_.value_dim;
      using P = Pack<Real, tier::Best>;
      const P scale = P::broadcast(sum == 0 ? Real{0} : factor / sum);
      for (Index d = 0; d < call_.value_dim; d += P::width) {
        (P::load(out + d) * scale + P::zero()).store(out + d);
      }
      prefetch_to_write(out_row((std::min)(r + rows_ahead, rows_ - 1)),
                        call_.out.dim * Index{sizeof(T)});
      convert_row(out, call_.out.dim, out_row(r));
      if (call_.options.lse.data != nullptr) {
        call_.options.lse(b, h, i) = sum == 0 ? lowest : highest + std::log(sum);
      }
      if (wants(ReturnedScores::Probabilities)) normalise_weights(r, highest, sum);
    }
  }

 private:
  using Query = PackedQuery<tier::Best, T, S>;

  static constexpr Index strip_rows = kernel_rows<tier::Best>;
  static constexpr Real lowest = -std::numeric_limits<Real>::infinity();

  Index query_dim() const noexcept { return stored_dim<S>(call_.q.dim); }
  Index query(Index r) const noexcept { return first_ + r / call_.group; }
  Index head(Index r) const noexcept { return kv_ * call_.group + r % call_.group; }

  const T* q_row(Index r) const noexcept {
    return call_.q.row(sequence_.batch, sequence_.first_query + query(r), head(r));
  }
  T* out_row(Index r) const noexcept {
    return call_.out.row(sequence_.batch, sequence_.first_query + query(r), head(r));
  }

  bool needs_positions() const noexcept {
    return !std::is_same_v<Bias, NoBias> || call_.options.dropout.probability > 0;
  }
  bool wants(ReturnedScores stage) const noexcept {
    return call_.options.weights.data != nullptr && call_.options.returned == stage;
  }
  /// Whether scores are returned that masks do not hide.
  bool wants_all_scores() const noexcept {
    return wants(ReturnedScores::Scaled) || wants(ReturnedScores::Capped);
  }

  void add_strip(Index first_key, const KeyTile<S>& keys, const Scratch& scratch,
                 const RowSums<Real>& sums, Index first_row, Index rows) const {
    const VisibleKeys visible = scratch.visible[first_row / strip_rows];
    if (visible.blocks == 0) return;
    for_row_groups<tier::Best>(rows, ScoreKernel<tier::Best, Real, S, Query>{
                                         q_ + first_row * query_dim(), keys.keys, call_.q.dim,
                                         call_.scale, visible, scratch.scores, keys.values});
    finish_scores(first_key, visible, scratch, first_row, rows);

    alignas(64) Real highest[rows_at_once], sum[rows_at_once], old_factor[rows_at_once],
        tile_factor[rows_at_once];
    std::fill_n(highest, rows_at_once, lowest);
    std::fill_n(sum, rows_at_once, Real{0});
    // First all maxima, so that no exponential waits for its row's.
    for (Index r = 0; r < rows; ++r)
      highest[r] = maximum_of(visible, scratch.scores + r * tile_keys);
    for (Index r = 0; r < rows; ++r) {
      Real* scores = scratch.scores + r * tile_keys;
      sum[r] = keys.finite ? exponentials(visible, highest[r], scores)
                           : marked_exponentials(visible, highest[r], scores);
    }
    if (call_.options.dropout.probability > 0) drop(visible, scratch, first_row, rows);
    merge_group<tier::Best>(highest, sum, sums.highest + first_row, sums.sum + first_row,
                            old_factor, tile_factor);
    const auto add_values = [&]<bool Select>(std::bool_constant<Select>) {
      for_row_groups<tier::Best>(rows, ValueKernel<tier::Best, Real, S, Select>{
                                           scratch.scores, keys.values, keys.value_stride,
                                           call_.value_dim, visible, old_factor, tile_factor,
                                           sums.out + first_row * call_.value_dim, keys.next_keys});
    };
    if (keys.finite) {
      add_values(std::false_type());
    } else {
      add_values(std::true_type());
    }
  }

  /// What the rows of a strip see of a tile.
  VisibleKeys visible_keys(Index first_key, Index first_row, Index rows) const noexcept {
    VisibleKeys visible{tile_keys, 0, 0};
    for (Index r = first_row; r < first_row + rows; ++r) {
      const KeyRange range = in_tile(ranges_[r], first_key);
      if (range.begin >= range.end) continue;
      visible.begin = (std::min)(visible.begin, range.begin);
      visible.end = (std::max)(visible.end, range.end);
    }
    if (wants_all_scores()) visible = {0, in_tile(keys_, first_key).end, 0};
    for (Index n = visible.begin / tile_lanes; n * tile_lanes < visible.end; ++n) {
      if (wants_all_scores() || block_is_seen(first_key, n, first_row, rows)) {
        visible.blocks |= 1u << n;
      }
    }
    if (visible.blocks != 0) {
      const auto first = static_cast<Index>(std::countr_zero(visible.blocks));
      const auto end = static_cast<Index>(std::bit_width(visible.blocks));
      visible.begin = (std::max)(visible.begin, first * tile_lanes);
      visible.end = (std::min)(visible.end, end * tile_lanes);
    }
    return visible;
  }

  /// Whether the masks show anything of a block of keys.
  bool block_is_seen(Index first_key, Index block, Index first_row, Index rows) const noexcept {
    if (!call_.visible.has_cells()) return true;
    for (Index r = first_row; r < first_row + rows; ++r) {
      const KeyRange range = in_tile(ranges_[r], first_key);
      const Index begin = (std::max)(range.begin, block * tile_lanes);
      const Index end = (std::min)(range.end, (block + 1) * tile_lanes);
      if (begin < end &&
          call_.visible.any_cell(sequence_, head(r), query(r), first_key + begin, end - begin)) {
        return true;
      }
    }
    return false;
  }

  static KeyRange in_tile(KeyRange range, Index first_key) noexcept {
    return {(std::clamp)(range.begin - first_key, Index{0}, tile_keys),
            (std::clamp)(range.end - first_key, Index{0}, tile_keys)};
  }

  /// From scaled products to masked scores.
  void finish_scores(Index first_key, const VisibleKeys& visible, const Scratch& scratch,
                     Index first_row, Index rows) const {
    const SoftcapOrder order = call_.options.softcap_order;
    give(ReturnedScores::Scaled, first_key, visible, scratch, first_row, rows);
    if (order == SoftcapOrder::BeforeBias) cap(visible, scratch.scores, rows);
    give(ReturnedScores::Capped, first_key, visible, scratch, first_row, rows);
    if constexpr (!std::is_same_v<Bias, NoBias>) {
      add_bias(visible, scratch, first_row, rows);
    }
    if (order == SoftcapOrder::AfterBias) cap(visible, scratch.scores, rows);
    for (Index r = 0; r < rows; ++r) {
      hide(first_key, visible, first_row + r, scratch.scores + r * tile_keys);
    }
    give(ReturnedScores::Masked, first_key, visible, scratch, first_row, rows);
    give(ReturnedScores::Probabilities, first_key, visible, scratch, first_row, rows);
  }

  void cap(const VisibleKeys& visible, Real* scores, Index rows) const noexcept {
    using P = Pack<Real, tier::Best>;
    const auto limit = static_cast<Real>(call_.options.softcap);
    const P cap = P::broadcast(limit), inverse = P::broadcast(1 / limit);
    for (Index r = 0; r < rows; ++r) {
      for_visible_vectors(visible, scores + r * tile_keys,
                          [&](Real* p) { (cap * tanh(P::load(p) * inverse)).store(p); });
    }
  }

  /// A head's rows are `group` rows apart; each head gets its own tile.
  void add_bias(const VisibleKeys& visible, const Scratch& scratch, Index first_row,
                Index rows) const {
    const Index begin = visible.begin / tile_lanes * tile_lanes;
    const Index end = visible.end;
    for (Index r = 0; r < (std::min)(rows, call_.group); ++r) {
      const Index count = (rows - r + call_.group - 1) / call_.group;
      const Index first_query = query(first_row + r) - first_;
      call_.bias.add(
          head(first_row + r),
          std::span<const double>(query_positions_ + first_query, static_cast<std::size_t>(count)),
          std::span<const double>(scratch.key_positions + begin,
                                  static_cast<std::size_t>(end - begin)),
          MatrixView<Real>{scratch.scores + r * tile_keys + begin, count, end - begin,
                           call_.group * tile_keys});
    }
  }

  /// Makes the scores of keys that row r does not see -inf, whatever they were.
  void hide(Index first_key, const VisibleKeys& visible, Index row, Real* scores) const noexcept {
    const KeyRange range = in_tile(ranges_[row], first_key);
    const Index begin = visible.begin / tile_lanes * tile_lanes;
    const Index end = (visible.end + tile_lanes - 1) / tile_lanes * tile_lanes;
    const Index seen_end = (std::max)(range.begin, range.end);
    if (call_.visible.has_cells() && range.begin < seen_end) {
      call_.visible.apply_cells(sequence_, head(row), query(row), first_key + range.begin,
                                seen_end - range.begin, scores + range.begin);
    }
    if (begin < range.begin)
      std::fill(scores + begin, scores + (std::min)(range.begin, end), lowest);
    if (seen_end < end) std::fill(scores + (std::max)(seen_end, begin), scores + end, lowest);
  }

  /// Whole vectors, up to the last key that is seen: kernels write no further.
  template <class Work>
  static void for_visible_vectors(const VisibleKeys& visible, Real* scores, const Work& work) {
    for (Index n = 0; n < tile_blocks; ++n) {
      if (!visible.block(n)) continue;
      const Index end = (std::min)((n + 1) * tile_lanes, visible.end);
      for (Index j = n * tile_lanes; j < end; j += Pack<Real, tier::Best>::width) work(scores + j);
    }
  }

  static Real maximum_of(const VisibleKeys& visible, Real* scores) noexcept {
    using P = Pack<Real, tier::Best>;
    P high = P::broadcast(lowest);
    for_visible_vectors(visible, scores, [&](const Real* p) { high = larger(P::load(p), high); });
    return maximum(high);
  }

  /// scores <- exp(scores - highest); their sum.
  static Real exponentials(const VisibleKeys& visible, Real highest, Real* scores) noexcept {
    using P = Pack<Real, tier::Best>;
    // Where no score is finite, -inf - -inf would be NaN.
    const P top = P::broadcast((std::max)(highest, std::numeric_limits<Real>::lowest()));
    P total = P::zero();
    for_visible_vectors(visible, scores, [&](Real* p) {
      const P e = exp_nonpositive(P::load(p) - top);
      e.store(p);
      total = total + e;
    });
    return sum(total);
  }

  /// The same, but -1 for keys that are not seen.
  static Real marked_exponentials(const VisibleKeys& visible, Real highest, Real* scores) noexcept {
    std::array<bool, static_cast<std::size_t>(tile_keys)> hidden{};
    for (Index j = 0; j < tile_keys; ++j) {
      hidden[static_cast<std::size_t>(j)] = !visible.block(j / tile_lanes) || scores[j] == lowest;
    }
    const Real total = exponentials(visible, highest, scores);
    for (Index j = 0; j < tile_keys; ++j) {
      if (hidden[static_cast<std::size_t>(j)]) scores[j] = -1;
    }
    return total;
  }

  void drop(const VisibleKeys& visible, const Scratch& scratch, Index first_row,
            Index rows) const noexcept {
    for (Index r = 0; r < rows; ++r) {
      Real* scores = scratch.scores + r * tile_keys;
      const Index row = first_row + r;
      const double position = query_positions_[query(row) - first_];
      for (Index j = visible.begin; j < visible.end; ++j) {
        if (!visible.block(j / tile_lanes) || !(scores[j] > 0)) continue;
        scores[j] *= static_cast<Real>(dropout_factor(
            call_.options.dropout, sequence_.batch, head(row), position, scratch.key_positions[j]));
      }
    }
  }

  // ---- returned weights

  void hide_weights() const noexcept {
    for (Index r = 0; r < rows_; ++r) {
      for (Index j = 0; j < call_.options.weights.keys; ++j) weight(r, j) = lowest;
    }
  }

  Real& weight(Index r, Index j) const noexcept {
    return call_.options.weights(sequence_.batch, head(r), sequence_.first_query + query(r), j);
  }

  void give(ReturnedScores stage, Index first_key, const VisibleKeys& visible,
            const Scratch& scratch, Index first_row, Index rows) const noexcept {
    if (!wants(stage)) return;
    for (Index r = 0; r < rows; ++r) {
      for (Index j = visible.begin; j < visible.end; ++j) {
        if (!visible.block(j / tile_lanes)) continue;
        weight(first_row + r, sequence_.first_key + first_key + j) =
            scratch.scores[r * tile_keys + j];
      }
    }
  }

  void normalise_weights(Index r, Real highest, Real sum) const noexcept {
    using One = Pack<Real, tier::Scalar>;
    for (Index j = 0; j < call_.options.weights.keys; ++j) {
      Real& p = weight(r, j);
      if (p == lowest) {
        p = 0;
        continue;
      }
      p = exp_nonpositive(One{p - highest}).v / sum;
      if (call_.options.dropout.probability > 0) {
        const double key = call_.visible.key_position(sequence_, j - sequence_.first_key);
        p *= static_cast<Real>(dropout_factor(call_.options.dropout, sequence_.batch, head(r),
                                              query_positions_[query(r) - first_], key));
      }
    }
  }

  const Call& call_;
  Query* q_;
  KeyRange* ranges_;
  double* query_positions_;
  AttentionSequence sequence_{};
  Index kv_ = 0, first_ = 0, rows_ = 0;
  KeyRange keys_{};
};

}  // namespace detail
POSENC_END
