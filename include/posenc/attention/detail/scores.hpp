// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/bias_stage.hpp>
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/attention/detail/unless_zero.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/concepts.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/tanh.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <limits>

POSENC_BEGIN
namespace detail {

/// Score stage: computes scores of a block's rows and a tile's keys, with scale, temperature, soft
/// cap, bias and masks. It does not depend on the stages that read them.
///   Order: begin_tile(), then compute_strip() for each strip that sees keys. If pieces of a tile
///          are read, multiply() and apply_pre_bias_epilogue() for every strip, then add_bias() and
///          apply_post_bias_epilogue() for every strip. Scores of all rows are kept if there is a
///          bias, in a backward call, and if pieces are read; otherwise those of one strip
template <class Tier, Scalar T, class S>
class Scores {
 public:
  using Real = Compute<T>;
  using Block = QueryBlock<Tier, T, S>;

  /// Allocates memory for blocks of up to `rows` rows, which are of `queries` queries.
  ///   keeps_all: scores of all rows are kept
  Scores(const AttentionPlan<T>& plan, const ErasedBias<T>& bias, Index rows, Index queries,
         ArenaAllocator& allocator, bool keeps_all = false)
      : plan_(plan),
        keeps_block_scores_(plan.has_bias || plan.is_backward || keeps_all),
        scores_(
            allocator.allocate<Real>((keeps_block_scores_ ? rows : Block::strip_rows) * tile_keys)),
        softcap_slopes_(plan.is_backward && plan.options.softcap != 0
                            ? allocator.allocate<Real>(rows * tile_keys)
                            : nullptr),
        bias_(plan, bias, rows, queries, !(plan.is_backward || keeps_all), allocator) {}

  /// Resets per-block state. Call it before the first tile of a block.
  void begin(const Block& block) { bias_.begin(block); }

  /// Returns the scores of a strip, [rows, tile_keys].
  Real* strip_scores(const Strip& strip) const noexcept {
    return keeps_block_scores_ ? scores_ + strip.first * tile_keys : scores_;
  }

  /// Prepares compute_strip() for the strips of a packed tile. Returns true if each strip gets its
  /// bias separately, while its scores are in L1. Otherwise the tile's biased scores are computed.
  ///   key_positions: positions of the tile's keys, read if there is a bias
  bool begin_tile(const Block& block, const TileVisibility& seen, const KvTile<S>& tile,
                  const double* key_positions) const {
    if (!plan_.has_bias || bias_.prepare(block, seen, key_positions)) return true;
    block.for_visible_strips(seen, [&](const Strip& strip, const ActiveLanes&) {
      compute_unbiased(block, seen, tile, strip);
    });
    add_bias(block, seen, tile.keys, key_positions);
    return false;
  }
  /// Computes the masked scores of a strip that sees keys of a packed tile.
  ///   by_strip: result of begin_tile()
  void compute_strip(const Block& block, const TileVisibility& seen, const KvTile<S>& tile,
                     const Strip& strip, bool by_strip) const noexcept {
    if (by_strip) {
      compute_unbiased(block, seen, tile, strip);
      if (plan_.has_bias) {
        bias_.add_to_strip(block, Block::active_lanes(seen, strip), strip, strip_scores(strip));
      }
    }
    apply_post_bias_epilogue(block, seen, strip);
  }

  /// Computes scale * q k for some lanes of a strip.
  ///   is_cached: the tile has just been read
  void multiply(const Block& block, const KvTile<S>& tile, const Strip& strip,
                const ActiveLanes& lanes, bool is_cached) const noexcept {
    for_register_tiles<Tier>(strip.rows, PanelDotKernel<Tier, Real, S, typename Block::Row>{
                                             .rows = block.packed(strip.first),
                                             .panels = tile.keys,
                                             .dim = plan_.q.dim,
                                             .factor = plan_.scale,
                                             .lanes = lanes,
                                             .out = strip_scores(strip),
                                             .ahead = {.next_region = tile.values,
                                                       .is_cached = is_cached,
                                                       .is_stored = tile.is_stored},
                                             .row_padding = block.row_padding()});
  }
  /// Applies temperature and soft cap, if they come before the bias.
  void apply_pre_bias_epilogue(const Block& block, const TileVisibility& seen,
                               const Strip& strip) const noexcept {
    const ActiveLanes lanes = Block::active_lanes(seen, strip);
    Real* scores = strip_scores(strip);
    store_returned(ReturnedScores::Scaled, block, seen, strip);
    apply_temperature(TemperatureOf::ScaledScores, block, lanes, strip, scores);
    if (plan_.options.softcap_order == SoftcapOrder::BeforeBias) {
      apply_softcap(lanes, strip, scores);
      apply_temperature(TemperatureOf::CappedScores, block, lanes, strip, scores);
    }
    store_returned(ReturnedScores::Capped, block, seen, strip);
  }

  /// Adds the bias to the active panels. Strips with equal active panels are processed as one
  /// range, which is the complete block except at the edge of a causal rule or a mask. A bias
  /// computes terms that depend on keys alone once for all rows of a call.
  ///   panels: keys of the tile, which only a QueryBias reads
  ///   key_positions: positions of the tile's keys
  void add_bias(const Block& block, const TileVisibility& seen, const S* panels,
                const double* key_positions) const {
    for (Index first = 0, rows = block.rows_per_kv_head(); first < block.rows();) {
      ActiveLanes lanes = Block::active_lanes(seen, {first, 0});
      const Index end_of_head = (first / rows + 1) * rows;
      Index end = first + block.strip_size_at(first % rows);
      for (; end < end_of_head; end += block.strip_size_at(end % rows)) {
        const ActiveLanes next = Block::active_lanes(seen, {end, 0});
        if (next.panel_mask != lanes.panel_mask) break;
        lanes.end = (std::max)(lanes.end, next.end);
      }
      if (!lanes.empty()) {
        add_bias(block, seen.first_key(), panels, lanes, key_positions, {first, end - first});
      }
      first = end;
    }
  }

  /// Applies temperature and soft cap, if they come after the bias, and the masks: scores of keys
  /// that are invisible to a row become -inf.
  void apply_post_bias_epilogue(const Block& block, const TileVisibility& seen,
                                const Strip& strip) const noexcept {
    const ActiveLanes lanes = Block::active_lanes(seen, strip);
    Real* scores = strip_scores(strip);
    apply_temperature(TemperatureOf::BiasedScores, block, lanes, strip, scores);
    if (plan_.options.softcap_order == SoftcapOrder::AfterBias) {
      apply_softcap(lanes, strip, scores);
      apply_temperature(TemperatureOf::CappedScores, block, lanes, strip, scores);
    }
    if (!block.is_fully_visible(seen.first_key())) {
      for (Index i = 0; i < strip.rows; ++i) {
        mask_row(block, seen.first_key(), lanes, strip.first + i, scores + i * tile_keys);
      }
    }
    store_returned(ReturnedScores::Masked, block, seen, strip);
    store_returned(ReturnedScores::Probabilities, block, seen, strip);
  }

  // ---- backward, from the gradient of a strip's masked scores to that of scale * q k

  /// Backward of apply_post_bias_epilogue() before its masks: converts `grad` to the gradient of
  /// the biased scores.
  void backprop_post_bias_epilogue(const Block& block, const ActiveLanes& lanes, const Strip& strip,
                                   Real* grad) const noexcept {
    if (plan_.options.softcap_order == SoftcapOrder::AfterBias)
      backprop_softcap(block, lanes, strip, grad);
    backprop_temperature(TemperatureOf::BiasedScores, block, lanes, strip, grad);
  }

  /// Calls add(tile, gradients) for each head of a tile, with the gradients of its scores, from
  /// those of the tile, [rows, tile_keys]. These are 0 for invisible keys.
  ///   of_gradient: block of the bias's gradient
  template <class Add>
  void for_score_gradients(const Block& block, const TileVisibility& seen, const S* panels,
                           const double* key_positions, const Real* grad,
                           const QueryBiasBlock<T>& of_gradient, const Add& add) const {
    const Index group = block.plan().group;
    const Index begin = seen.keys.begin - seen.first_key(), keys = seen.keys.end - seen.keys.begin;
    for (Index i = 0; i < (std::min)(block.rows(), group); ++i) {
      const Index queries = block.rows() / group;
      const MatrixView<const Real> head_gradients{grad + i * tile_keys + begin, queries, keys,
                                                  group * tile_keys};
      const BiasTile<const Real> tile{.first_row = i,
                                      .queries = queries,
                                      .first_lane = begin,
                                      .keys = keys,
                                      .key_positions = key_positions + begin,
                                      .scores = head_gradients};
      add(bias_.query_tile(of_gradient, bias_.tokens_of(block, seen.first_key(), tile), panels),
          head_gradients);
    }
  }

  /// Backward of apply_pre_bias_epilogue(): converts `grad` to the gradient of scale * q k.
  void backprop_pre_bias_epilogue(const Block& block, const ActiveLanes& lanes, const Strip& strip,
                                  Real* grad) const noexcept {
    if (plan_.options.softcap_order == SoftcapOrder::BeforeBias) {
      backprop_softcap(block, lanes, strip, grad);
    }
    backprop_temperature(TemperatureOf::ScaledScores, block, lanes, strip, grad);
  }

 private:
  static constexpr Real neg_infinity = -std::numeric_limits<Real>::infinity();

  /// Computes the scores of a strip before the bias.
  void compute_unbiased(const Block& block, const TileVisibility& seen, const KvTile<S>& tile,
                        const Strip& strip) const noexcept {
    multiply(block, tile, strip, Block::active_lanes(seen, strip),
             !block.is_first_of_kv_head(strip));
    apply_pre_bias_epilogue(block, seen, strip);
  }

  /// Adds the bias to rows with the same active lanes, head by head; rows of a head are `group`
  /// rows apart.
  void add_bias(const Block& block, Index first_key, const S* panels, const ActiveLanes& lanes,
                const double* key_positions, const Strip& rows) const {
    const Index group = block.plan().group;
    const Index begin = lanes.begin / panel_lanes * panel_lanes, keys = lanes.end - begin;
    for (Index i = 0; i < (std::min)(rows.rows, group); ++i) {
      const Index r = rows.first + i, queries = (rows.rows - i + group - 1) / group;
      const MatrixView<Real> scores{scores_ + r * tile_keys + begin, queries, keys,
                                    group * tile_keys};
      bias_.add(block, first_key, panels,
                {.first_row = r,
                 .queries = queries,
                 .first_lane = begin,
                 .keys = keys,
                 .key_positions = key_positions + begin,
                 .scores = scores});
    }
  }

  POSENC_NOINLINE void store_returned(ReturnedScores stage, const Block& block,
                                      const TileVisibility& seen,
                                      const Strip& strip) const noexcept {
    if (!plan_.returned.is_requested(stage)) return;
    plan_.returned.store(block, seen.first_key(), strip, Block::active_lanes(seen, strip),
                         strip_scores(strip));
  }

  POSENC_NOINLINE void apply_softcap(const ActiveLanes& lanes, const Strip& strip,
                                     Real* scores) const noexcept {
    using P = Pack<Real, Tier>;
    const auto limit = static_cast<Real>(plan_.options.softcap);
    const P cap = P::broadcast(limit), inverse = P::broadcast(1 / limit);
    for (Index i = 0; i < strip.rows; ++i) {
      for_active_vectors<P>(lanes, scores + i * tile_keys, [&](Real* p) {
        const P capped = tanh(P::load(p) * inverse);
        (cap * capped).store(p);
        if (softcap_slopes_ != nullptr) {
          mul_add(-capped, capped, P::broadcast(Real{1})).store(softcap_slopes_ + (p - scores_));
        }
      });
    }
  }

  /// Backward of the soft cap, and of the temperature that follows it.
  void backprop_softcap(const Block& block, const ActiveLanes& lanes, const Strip& strip,
                        Real* grad) const noexcept {
    using P = Pack<Real, Tier>;
    backprop_temperature(TemperatureOf::CappedScores, block, lanes, strip, grad);
    const Real* const slopes = softcap_slopes_ + strip.first * tile_keys;
    for (Index i = 0; i < strip.rows; ++i) {
      for_active_vectors<P>(lanes, grad + i * tile_keys, [&](Real* p) {
        const P gradient = P::load(p);
        unless_zero(gradient, gradient * P::load(slopes + (p - grad))).store(p);
      });
    }
  }

  /// Multiplies by the rows' temperatures, if they apply at `stage`.
  void apply_temperature(TemperatureOf stage, const Block& block, const ActiveLanes& lanes,
                         const Strip& strip, Real* scores) const noexcept {
    multiply_by_temperature(stage, block, lanes, strip, scores,
                            [](auto score, auto factor) { return score * factor; });
  }
  /// Backward of apply_temperature(). The gradient of an invisible key stays 0, even if the
  /// temperature is infinite.
  void backprop_temperature(TemperatureOf stage, const Block& block, const ActiveLanes& lanes,
                            const Strip& strip, Real* grad) const noexcept {
    multiply_by_temperature(stage, block, lanes, strip, grad, [](auto gradient, auto factor) {
      return unless_zero(gradient, gradient * factor);
    });
  }
  template <class Multiply>
  POSENC_NOINLINE void multiply_by_temperature(TemperatureOf stage, const Block& block,
                                               const ActiveLanes& lanes, const Strip& strip,
                                               Real* x, const Multiply& multiply) const noexcept {
    if (plan_.options.temperature_of != stage) return;
    using P = Pack<Real, Tier>;
    for (Index i = 0; i < strip.rows; ++i) {
      const P factor = P::broadcast(block.temperature(strip.first + i));
      for_active_vectors<P>(lanes, x + i * tile_keys,
                            [&](Real* p) { multiply(P::load(p), factor).store(p); });
    }
  }

  /// Applies masks to a row's scores.
  POSENC_NOINLINE static void mask_row(const Block& block, Index first_key,
                                       const ActiveLanes& lanes, Index r, Real* scores) noexcept {
    const KeyRange range = block.clamped_range(r, first_key);
    const Index begin = lanes.begin / panel_lanes * panel_lanes;
    const Index end = (lanes.end + panel_lanes - 1) / panel_lanes * panel_lanes;
    const Index visible_end = (std::max)(range.begin, range.end);
    const Masks<T>& masks = block.plan().masks;
    if (masks.is_active() && range.begin < visible_end) {
      masks.apply(block.sequence(), block.head(r), block.query(r), first_key + range.begin,
                  visible_end - range.begin, scores + range.begin);
    }
    if (begin < range.begin)
      std::fill(scores + begin, scores + (std::min)(range.begin, end), neg_infinity);
    if (visible_end < end)
      std::fill(scores + (std::max)(visible_end, begin), scores + end, neg_infinity);
  }

  const AttentionPlan<T>& plan_;
  bool keeps_block_scores_;
  Real* scores_;
  Real* softcap_slopes_;
  BiasStage<Tier, T, S> bias_;
};

}  // namespace detail
POSENC_END
