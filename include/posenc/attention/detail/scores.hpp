// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/bias_stage.hpp>
#include <posenc/attention/detail/kernels.hpp>
#include <posenc/attention/detail/relative_stage.hpp>
#include <posenc/attention/detail/returned_scores.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/slots.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/concepts.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/tanh.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <limits>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// The stage of scores: from a block's rows and a tile's keys to scores, scaled, tempered, capped, biased and masked.
/// It knows nothing of what becomes of them.
///   Order: multiply() for every strip, then add_bias() once for the tile, then finish() strip by
///          strip. Without a bias, a strip may be finished before the next one is multiplied: scores of
///          one strip alone are kept then, which stay in the first-level cache.
template <class Tier, Scalar T, class Bias, class S>
class Scores {
 public:
  using Real = Compute<T>;
  using Block = RowBlock<Tier, T, S>;
  /// A bias wants as many of a head's rows at once as there are: it computes once for all of them what
  /// depends on keys alone.
  static constexpr bool has_bias = !std::is_same_v<Bias, NoBias>;

  /// What all scores of a call have in common.
  struct Setting {
    const AttentionOptions<T>& options;
    const Bias& bias;
    const ReturnedWeights<T>& returned;
    Real scale;
  };

  /// For blocks of up to `rows` rows, which are of `queries` queries.
  Scores(const Setting& setting, Index rows, Index queries, Carver& carver) noexcept
      : setting_(setting),
        scores_(carver.take<Real>((has_bias ? rows : Block::strip_rows) * tile_keys)),
        bias_(setting.bias, setting.scale, rows, queries, carver) {}

  /// Before the first tile of a block.
  void begin(const Block& block) noexcept { bias_.begin(block); }

  /// Of a strip, [rows, tile_keys].
  Real* of(const Strip& strip) const noexcept {
    return has_bias ? scores_ + strip.first * tile_keys : scores_;
  }

  /// scale * q k for what the strip sees, and the soft cap, where that comes before the bias.
  void multiply(const Block& block, const SeenTile& seen, const KeyTile<S>& keys,
                const Strip& strip) const noexcept {
    const Lanes lanes = Block::lanes_of(seen, strip);
    Real* scores = of(strip);
    for_bundles<Tier>(strip.rows, PanelProducts<Tier, Real, S, typename Block::Row>{
                                      block.packed(strip.first), keys.keys, block.setting().q.dim,
                                      setting_.scale, lanes, scores, keys.values});
    give(ReturnedScores::Scaled, block, seen, strip);
    temper(TemperatureOf::ScaledScores, block, lanes, strip, scores);
    if (setting_.options.softcap_order == SoftcapOrder::BeforeBias) {
      cap(lanes, strip, scores);
      temper(TemperatureOf::CappedScores, block, lanes, strip, scores);
    }
    give(ReturnedScores::Capped, block, seen, strip);
  }

  /// Adds the bias, to what the strips see: strips that see the same lanes get theirs in one piece, which
  /// is the whole block but where a rule or a mask ends.
  ///   key_positions: of the tile's keys
  void add_bias(const Block& block, const SeenTile& seen, const KeyTile<S>& keys,
                const double* key_positions) const {
    for (Index first = 0; first < block.rows();) {
      const Lanes lanes = Block::lanes_of(seen, {first, 0});
      Index end = first + Block::strip_rows;
      while (end < block.rows() && Block::lanes_of(seen, {end, 0}) == lanes) {
        end += Block::strip_rows;
      }
      end = (std::min)(end, block.rows());
      if (!lanes.empty()) {
        add_bias(block, seen.first_key(), keys, lanes, key_positions, {first, end - first});
      }
      first = end;
    }
  }

  /// The soft cap, where that comes after the bias, and the masks: scores of keys that a row does not
  /// see become -inf, whatever they were.
  void finish(const Block& block, const SeenTile& seen, const Strip& strip) const noexcept {
    const Lanes lanes = Block::lanes_of(seen, strip);
    Real* scores = of(strip);
    temper(TemperatureOf::BiasedScores, block, lanes, strip, scores);
    if (setting_.options.softcap_order == SoftcapOrder::AfterBias) {
      cap(lanes, strip, scores);
      temper(TemperatureOf::CappedScores, block, lanes, strip, scores);
    }
    for (Index i = 0; i < strip.rows; ++i) {
      hide(block, seen.first_key(), lanes, strip.first + i, scores + i * tile_keys);
    }
    give(ReturnedScores::Masked, block, seen, strip);
    give(ReturnedScores::Probabilities, block, seen, strip);
  }

 private:
  static constexpr Real lowest = -std::numeric_limits<Real>::infinity();

  /// To rows that see the same lanes, head by head: a head's rows are `group` rows apart.
  void add_bias(const Block& block, Index first_key, const KeyTile<S>& tile, const Lanes& lanes,
                const double* key_positions, const Strip& rows) const {
    const Index group = block.setting().group;
    const Index begin = lanes.begin / panel_lanes * panel_lanes, keys = lanes.end - begin;
    for (Index i = 0; i < (std::min)(rows.rows, group); ++i) {
      const Index r = rows.first + i, queries = (rows.rows - i + group - 1) / group;
      const MatrixView<Real> scores{scores_ + r * tile_keys + begin, queries, keys,
                                    group * tile_keys};
      bias_.add(block, first_key, tile, {r, queries, begin, keys, key_positions + begin, scores});
    }
  }

  void give(ReturnedScores stage, const Block& block, const SeenTile& seen,
            const Strip& strip) const noexcept {
    setting_.returned.give(stage, block, seen.first_key(), strip, Block::lanes_of(seen, strip),
                           of(strip));
  }

  void cap(const Lanes& lanes, const Strip& strip, Real* scores) const noexcept {
    using P = Pack<Real, Tier>;
    const auto limit = static_cast<Real>(setting_.options.softcap);
    const P cap = P::broadcast(limit), inverse = P::broadcast(1 / limit);
    for (Index i = 0; i < strip.rows; ++i) {
      for_vectors<P>(lanes, scores + i * tile_keys,
                     [&](Real* p) { (cap * tanh(P::load(p) * inverse)).store(p); });
    }
  }

  /// Multiplies by the rows' temperatures, where that is what they are of.
  void temper(TemperatureOf stage, const Block& block, const Lanes& lanes, const Strip& strip,
              Real* scores) const noexcept {
    if (setting_.options.temperature_of != stage) return;
    using P = Pack<Real, Tier>;
    for (Index i = 0; i < strip.rows; ++i) {
      const P factor = P::broadcast(block.temperature(strip.first + i));
      for_vectors<P>(lanes, scores + i * tile_keys,
                     [&](Real* p) { (P::load(p) * factor).store(p); });
    }
  }

  /// Masks a row's scores.
  static void hide(const Block& block, Index first_key, const Lanes& lanes, Index r,
                   Real* scores) noexcept {
    const KeyRange range = block.range_in_tile(r, first_key);
    const Index begin = lanes.begin / panel_lanes * panel_lanes;
    const Index end = (lanes.end + panel_lanes - 1) / panel_lanes * panel_lanes;
    const Index seen_end = (std::max)(range.begin, range.end);
    const Masks<T>& masks = block.setting().masks;
    if (masks.any() && range.begin < seen_end) {
      masks.apply(block.sequence(), block.head(r), block.query(r), first_key + range.begin,
                  seen_end - range.begin, scores + range.begin);
    }
    if (begin < range.begin)
      std::fill(scores + begin, scores + (std::min)(range.begin, end), lowest);
    if (seen_end < end) std::fill(scores + (std::max)(seen_end, begin), scores + end, lowest);
  }

  const Setting& setting_;
  Real* scores_;
  BiasStage<Tier, T, S, Bias> bias_;
};

}  // namespace detail
POSENC_END
