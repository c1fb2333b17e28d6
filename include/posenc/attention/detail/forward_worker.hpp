// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/attention/detail/forward_strategy.hpp>
#include <posenc/attention/detail/output_writer.hpp>
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/attention/detail/scores.hpp>
#include <posenc/attention/detail/tile_dropout.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/row_products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kernels/weighted_sum_kernel.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Data that all workers of a forward call share.
template <class Tier, Scalar T, class Source>
struct ForwardCall {
  const AttentionPlan<T>& plan;
  const ForwardStrategy& strategy;
  const ErasedBias<T>& bias;
  const OutputWriter<T>& outputs;
  const Source& source;
};

/// State of a thread in a forward call. It merges tiles into the softmax state of a block, in one
/// of two ways:
///   - packed: a tile of one KV head is packed, and used strip by strip. The scores of a strip stay
///     in L1
///   - in pieces, for few queries: a block has rows of several KV heads. A few keys of each head
///     come before the next keys. So memory is read as a few ascending streams, which hardware
///     prefetchers follow: keys of a single head lie pages apart, and reading one head after the
///     other takes twice as long. The scores of all rows are kept for a tile
///   Bits: both ways have the same dependency chains
template <class Tier, Scalar T, class Source>
class ForwardWorker {
 public:
  using Real = Compute<T>;
  using Stored = typename Source::Stored;
  using Block = QueryBlock<Tier, T, Stored>;
  using Call = ForwardCall<Tier, T, Source>;
  /// True if the source provides pieces of the elements that kernels read. A QueryBias reads packed
  /// keys, so a call with one uses no pieces.
  static constexpr bool can_use_pieces = std::is_same_v<Stored, Real> && requires {
    requires Source::has_pieces;
  };

  POSENC_COLD ForwardWorker(const Call& call, ArenaAllocator& allocator)
      : call_(call),
        sums_(SoftmaxState<Real>::allocate(allocator, rows(), value_dim())),
        block_(call.plan, rows(), allocator),
        scores_(call.plan, call.bias, rows(), call.strategy.queries_per_block, allocator,
                uses_pieces()),
        key_position_buffer_(allocator.allocate<double>(tile_keys)),
        dropout_(call.plan.options.dropout, allocator),
        lanes_(allocator.allocate<ActiveLanes>(Block::strips(rows()))),
        source_scratch_(call.source.allocate(allocator)) {
    if (uses_pieces()) {
      tile_state_ = SoftmaxState<Real>::allocate(allocator, rows(), value_dim());
    }
  }

  /// Loads the queries of a block.
  void load(const BlockQueries& queries) {
    block_.load_queries(queries, uses_pieces() ? RowsInPlace::Dense : RowsInPlace::Padded);
    call_.plan.returned.fill_masked(block_);
    scores_.begin(block_);
  }
  /// Prepares add_tile() for a block that another worker has loaded.
  void begin(const Block& block) { scores_.begin(block); }

  const Block& block() const noexcept { return block_; }
  const SoftmaxState<Real>& sums() const noexcept { return sums_; }

  /// Computes the loaded block: merges the tiles that it sees, in ascending order of keys, and
  /// writes its outputs.
  void run() {
    const KeyRange keys = block_.visible_keys();
    if (keys.empty()) {
      sums_.clear(block_.rows(), value_dim());
      return write(block_, {0, block_.rows()}, sums_);
    }
    const Index first = keys.begin / tile_keys;
    for (Index tile = first; tile * tile_keys < keys.end; ++tile) {
      add_tile(block_, tile, sums_, tile == first, (tile + 1) * tile_keys >= keys.end);
    }
  }

  /// Merges a tile into `sums`, the softmax state of a block.
  ///   first: true for the block's first tile; `sums` is uninitialised and is overwritten
  ///   last:  true for the block's last tile; outputs are written, strip by strip so that stores
  ///          overlap arithmetic
  void add_tile(const Block& block, Index tile, const SoftmaxState<Real>& sums, bool first,
                bool last) {
    const TileVisibility seen = block.visibility_of(tile, lanes_);
    if (first) sums.reset_stats(block.rows());
    if (seen.keys.empty()) {
      if (first) sums.zero_accumulators({0, block.rows()}, value_dim());
      if (last) write(block, {0, block.rows()}, sums);
      return;
    }
    prepare_positions(block, seen);
    if constexpr (can_use_pieces) {
      if (uses_pieces()) return add_pieces(block, seen, sums, first, last);
    }
    add_packed(block, seen, sums, first, last);
  }

  void write(const Block& block, const Strip& rows, const SoftmaxState<Real>& sums) const noexcept {
    call_.outputs.template write<Tier>(block, rows, sums);
  }

 private:
  bool uses_pieces() const noexcept { return call_.strategy.reads_pieces; }
  Index value_dim() const noexcept { return call_.outputs.value_dim; }
  Index rows() const noexcept { return call_.strategy.rows_per_block; }

  /// Computes positions of the tile's keys if a bias or dropout reads them. (A temperature reads
  /// those of queries.)
  void prepare_positions(const Block& block, const TileVisibility& seen) noexcept {
    key_positions_ = nullptr;
    if (!call_.plan.has_bias && !dropout_.is_enabled()) return;
    const Index count = seen.keys.end - seen.first_key();
    key_positions_ = call_.plan.geometry.key_positions(block.sequence(), seen.first_key(), count,
                                                       key_position_buffer_);
    if (dropout_.is_enabled()) dropout_.begin(key_positions_, count);
  }

  /// Replaces biased scores by weights, and stores the maxima and sums of the rows.
  ///   marks: weights of masked keys are masked_weight, else 0
  void compute_weights(const Block& block, const Strip& strip, const ActiveLanes& lanes, bool marks,
                       Real* row_max, Real* sum) const noexcept {
    Real* const weights = scores_.strip_scores(strip);
    exponentiate_strip<Tier>(lanes, strip.rows, marks, weights, row_max, sum);
    if (dropout_.is_enabled()) dropout_.apply(block, strip, lanes, weights);
  }

  // ---- packed tiles

  POSENC_NOINLINE void add_packed(const Block& block, const TileVisibility& seen,
                                  const SoftmaxState<Real>& sums, bool first, bool last) {
    const KvTile<Stored> tile =
        call_.source.tile(block.sequence(), block.kv_head(), seen.tile, seen.keys, source_scratch_);
    const bool by_strip = scores_.begin_tile(block, seen, tile, key_positions_);
    block.for_strips([&](const Strip& strip) {
      const ActiveLanes lanes = Block::active_lanes(seen, strip);
      if (!lanes.empty()) {
        scores_.compute_strip(block, seen, tile, strip, by_strip);
        add_values(block, tile, strip, lanes, sums, first);
      } else if (first) {
        sums.zero_accumulators(strip, value_dim());
      }
      if (last) write(block, strip, sums);
    });
  }

  /// Computes the weights of a strip, and merges them and the weighted values into `sums`.
  void add_values(const Block& block, const KvTile<Stored>& tile, const Strip& strip,
                  const ActiveLanes& lanes, const SoftmaxState<Real>& sums,
                  bool first) const noexcept {
    StripStats<Real> stats;
    compute_weights(block, strip, lanes, !tile.finite, stats.row_max, stats.sum);
    alignas(64) Real accumulator_scale[stats_rows], tile_scale[stats_rows];
    update_softmax_stats<Tier>(stats.row_max, stats.sum, sums.row_max + strip.first,
                               sums.sum + strip.first, accumulator_scale, tile_scale);
    Real* const weights = scores_.strip_scores(strip);
    const auto add = [&](const auto* factors) {
      using W = std::remove_cvref_t<decltype(*factors)>;
      dispatch_skip_weights<SkipWeights::Marked>(
          tile.finite, [&]<SkipWeights Weights>(std::integral_constant<SkipWeights, Weights>) {
            for_register_tiles<Tier>(strip.rows,
                                     WeightedSumKernel<Tier, Real, Stored, Weights, W>{
                                         .weights = factors,
                                         .values = tile.values,
                                         .stride = tile.value_stride,
                                         .dim = tile.value_stride,
                                         .lanes = lanes,
                                         .accumulator_scale = first ? nullptr : accumulator_scale,
                                         .tile_scale = tile_scale,
                                         .out = sums.out + strip.first * tile.value_stride,
                                         .ahead = {.next_region = tile.prefetch_hint,
                                                   .is_cached = !block.is_first_of_kv_head(strip),
                                                   .is_stored = tile.is_stored}});
          });
    };
    if (call_.plan.rounds_probabilities) {
      if constexpr (pair_products<Tier, Stored, Stored>) {
        alignas(64) Stored pairs[Block::strip_rows * tile_lanes];
        store_bfloat16_weights<Tier>(lanes, strip.rows, weights, pairs);
        return add(pairs);
      } else if constexpr (std::is_same_v<Real, float>) {
        round_weights_to_bfloat16<Tier>(lanes, strip.rows, weights);
      }
    }
    add(weights);
  }

  // ---- pieces of a tile

  POSENC_NOINLINE void add_pieces(const Block& block, const TileVisibility& seen,
                                  const SoftmaxState<Real>& sums, bool first, bool last) {
    multiply_key_pieces(block, seen);
    const auto for_rows = [&](const auto& visit) {
      block.for_uniform_rows([&](const Strip& strip) {
        const ActiveLanes lanes = Block::active_lanes(seen, strip);
        if (!lanes.empty()) visit(strip, lanes);
      });
    };
    for_rows([&](const Strip& strip, const ActiveLanes&) {
      scores_.apply_pre_bias_epilogue(block, seen, strip);
    });
    if (call_.plan.has_bias) scores_.add_bias(block, seen, nullptr, key_positions_);
    const SoftmaxState<Real>& tile_state = first ? sums : tile_state_;
    tile_state.clear(block.rows(), value_dim());
    bool has_marks = false;
    for_rows([&](const Strip& strip, const ActiveLanes& lanes) {
      scores_.apply_post_bias_epilogue(block, seen, strip);
      const bool marks = has_masked(lanes, strip.rows, scores_.strip_scores(strip));
      has_marks = has_marks || marks;
      compute_weights(block, strip, lanes, marks, tile_state.row_max + strip.first,
                      tile_state.sum + strip.first);
      if constexpr (std::is_same_v<Real, float>) {
        if (call_.plan.rounds_probabilities) {
          round_weights_to_bfloat16<Tier>(lanes, strip.rows, scores_.strip_scores(strip));
        }
      }
    });
    add_value_pieces(block, seen, false, tile_state.out);
    // Values of masked keys may be NaN, which the weight -0 does not hide.
    if (has_marks && !all_finite<Tier>(tile_state.out, block.rows() * value_dim())) {
      tile_state.zero_accumulators({0, block.rows()}, value_dim());
      add_value_pieces(block, seen, true, tile_state.out);
    }
    if (!first) merge_softmax_states<Tier>(sums, tile_state, block.rows(), value_dim());
    if (last) write(block, {0, block.rows()}, sums);
  }

  /// Keys of a KV head in a tile, which are read before those of the next KV head.
  struct Piece {
    Index head, heads;  ///< first of the block's KV heads, and their number
    Index first_lane;   ///< counted from the tile's first key; a multiple of the piece's size
    KeyRange lanes;     ///< lanes that some row sees
    Index next_head, next_lane;  ///< those of the piece to prefetch; next_lane is -1 without one
  };

  /// Calls work(piece) for pieces of `size` keys: one of each `heads` KV heads, then the next keys.
  template <class Work>
  static void for_pieces(Index size, Index heads, const Block& block, const TileVisibility& seen,
                         const Work& work) noexcept {
    const Index kv_heads = block.rows() / block.rows_per_kv_head();
    const Index begin = seen.keys.begin - seen.first_key(), end = seen.keys.end - seen.first_key();
    for (Index lane = begin / size * size; lane < end; lane += size) {
      const KeyRange lanes{(std::max)(lane, begin), (std::min)(lane + size, end)};
      for (Index h = 0; h < kv_heads;) {
        const Index count = h + heads <= kv_heads ? heads : 1;
        const Index prefetched = h + 2, next = lane + prefetched / kv_heads * size;
        work(Piece{.head = h,
                   .heads = count,
                   .first_lane = lane,
                   .lanes = lanes,
                   .next_head = prefetched % kv_heads,
                   .next_lane = next + size <= end ? next : -1});
        h += count;
      }
    }
  }

  /// Calls work(strip, lanes of a piece that are active) for the strips of a KV head.
  template <class Work>
  static void for_strips_of_head(const Block& block, const TileVisibility& seen, Index head,
                                 const KeyRange& piece, const Work& work) noexcept {
    const Index first = head * block.rows_per_kv_head();
    for (Index r = 0; r < block.rows_per_kv_head();) {
      const Strip strip{first + r, block.strip_size_at(r)};
      ActiveLanes lanes = Block::active_lanes(seen, strip);
      lanes.panel_mask &= 1u << piece.begin / panel_lanes;
      lanes.begin = (std::max)(lanes.begin, piece.begin);
      lanes.end = (std::min)(lanes.end, piece.end);
      if (!lanes.empty() && lanes.begin < lanes.end) work(strip, lanes);
      r += strip.rows;
    }
  }

  template <class Element>
  static const Element* row_of(const HeadsView<const Element>& x, const Block& block,
                               const TileVisibility& seen, Index head, Index lane) noexcept {
    const AttentionSequence& s = block.sequence();
    if (lane < 0) return nullptr;
    return x.row(s.batch, s.first_key + seen.first_key() + lane, block.kv_head() + head);
  }

  /// scores of all rows <- scale * q k for the active lanes.
  void multiply_key_pieces(const Block& block, const TileVisibility& seen) const noexcept {
    const auto& k = call_.source.keys();
    using Kernel = RowDotKernel<Tier, Real, typename Source::Element>;
    const Index rows = block.rows_per_kv_head();
    if (rows > Kernel::max_rows) {
      return for_pieces(panel_lanes, 1, block, seen, [&](const Piece& piece) {
        multiply_packed_piece(block, seen, piece.head, piece.lanes.begin);
      });
    }
    const Index begin = seen.keys.begin - seen.first_key(), end = seen.keys.end - seen.first_key();
    clear_lanes({0, block.rows()}, 1, {begin / panel_lanes * panel_lanes, begin});
    const bool interleaves = rows == 1 && block.has_uniform_visibility();
    for_pieces(
        keys_per_piece, interleaves ? Kernel::heads_per_pass : 1, block, seen,
        [&](const Piece& piece) {
          const Strip strip{piece.head * rows, rows};
          const ActiveLanes lanes = Block::active_lanes(seen, strip);
          if (!lanes.has_panel(piece.lanes.begin / panel_lanes)) return;
          // Kernels read full pieces. The first and the last one of a sequence overlap others.
          const Index first = piece.lanes.begin == begin ? begin : piece.lanes.end - keys_per_piece;
          if (first < begin || first + keys_per_piece > end) {
            for (Index h = 0; h < piece.heads; ++h) {
              multiply_packed_piece(block, seen, piece.head + h, piece.lanes.begin);
            }
            return;
          }
          using P = typename Kernel::P;
          const Kernel kernel{.rows = block.packed(strip.first),
                              .keys = row_of(k, block, seen, piece.head, first),
                              .head_stride = k.head_stride,
                              .seq_stride = k.seq_stride,
                              .dim = k.dim,
                              .factor = call_.plan.scale,
                              .out = scores_.strip_scores(strip) + first,
                              .next = row_of(k, block, seen, piece.next_head, piece.next_lane)};
          for (Index n = 0; n < keys_per_piece; n += P::width) {
            Kernel part = kernel;
            part.keys += n * k.seq_stride;
            part.out += n;
            if (kernel.next != nullptr) part.next += n * k.seq_stride;
            part.run(rows, piece.heads);
          }
          clear_lanes(strip, piece.heads, {piece.lanes.end, piece.first_lane + keys_per_piece});
        });
  }
  static constexpr Index keys_per_piece = 16;

  /// Writes zeros to the scores of lanes without keys.
  void clear_lanes(const Strip& strip, Index heads, const KeyRange& lanes) const noexcept {
    if (lanes.empty()) return;
    for (Index r = strip.first; r < strip.first + heads * strip.rows; ++r) {
      Real* const scores = scores_.strip_scores({r, 1});
      std::fill(scores + lanes.begin, scores + lanes.end, Real{0});
    }
  }

  /// Multiplies the keys of a panel that the tile's rows see. They are packed first.
  void multiply_packed_piece(const Block& block, const TileVisibility& seen, Index head,
                             Index lane) const noexcept {
    const Index first = seen.first_key(), panel = lane / panel_lanes * panel_lanes;
    const KeyRange keys{(std::max)(seen.keys.begin, first + panel),
                        (std::min)(seen.keys.end, first + panel + panel_lanes)};
    const Stored* const panels = call_.source.key_piece(block.sequence(), block.kv_head() + head,
                                                        seen.tile, keys, source_scratch_);
    for_strips_of_head(block, seen, head, {keys.begin - first, keys.end - first},
                       [&](const Strip& strip, const ActiveLanes& lanes) {
                         scores_.multiply(block, {.keys = panels, .values = panels}, strip, lanes,
                                          true);
                       });
  }

  /// sums of all rows <- sums + weights times values.
  ///   skips_masked: values of masked keys are not multiplied
  POSENC_NOINLINE void add_value_pieces(const Block& block, const TileVisibility& seen,
                                        bool skips_masked, Real* sums) const noexcept {
    for_pieces(panel_lanes, 1, block, seen, [&](const Piece& piece) {
      const Index begin = piece.lanes.begin;
      const KvTile<Stored> values = call_.source.value_piece(
          block.sequence(), block.kv_head() + piece.head,
          {seen.first_key() + begin, seen.first_key() + piece.lanes.end},
          row_of(call_.source.values(), block, seen, piece.next_head, piece.next_lane),
          source_scratch_);
      for_strips_of_head(
          block, seen, piece.head, piece.lanes, [&](const Strip& strip, const ActiveLanes& lanes) {
            const auto add =
                [&]<SkipWeights Weights>(std::integral_constant<SkipWeights, Weights>) {
                  for_register_tiles<Tier>(strip.rows,
                                           WeightedSumKernel<Tier, Real, Stored, Weights>{
                                               .weights = scores_.strip_scores(strip) + begin,
                                               .values = values.values,
                                               .stride = values.value_stride,
                                               .dim = value_dim(),
                                               .lanes = {lanes.begin - begin, lanes.end - begin, 1},
                                               .accumulator_scale = nullptr,
                                               .tile_scale = nullptr,
                                               .out = sums + strip.first * value_dim(),
                                               .ahead = {.next_region = values.prefetch_hint,
                                                         .is_stored = values.is_stored}});
                };
            dispatch_skip_weights<SkipWeights::Marked>(!skips_masked, add);
          });
    });
  }

  const Call& call_;
  SoftmaxState<Real> sums_;  ///< of the tiles so far
  Block block_;
  Scores<Tier, T, Stored> scores_;
  double* key_position_buffer_;
  const double* key_positions_ = nullptr;  ///< of the tile's keys
  TileDropout dropout_;
  ActiveLanes* lanes_;  ///< one entry per strip
  POSENC_NO_UNIQUE_ADDRESS typename Source::Scratch source_scratch_;
  SoftmaxState<Real> tile_state_{};  ///< of a tile, for pieces
};

}  // namespace detail
POSENC_END
