// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/block_rows.hpp>
#include <posenc/attention/detail/kernels.hpp>
#include <posenc/attention/detail/masks.hpp>
#include <posenc/attention/detail/outputs.hpp>
#include <posenc/attention/detail/places.hpp>
#include <posenc/attention/detail/returned_scores.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/scores.hpp>
#include <posenc/attention/detail/slots.hpp>
#include <posenc/attention/detail/softmax.hpp>
#include <posenc/attention/detail/streamed_rows.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/attention/detail/tile_dropout.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// The stage of the schedule: one call of attention(), cut into blocks of queries; and where there are
/// fewer of them than threads, into tiles of keys. It puts the other stages in order, and they know
/// nothing of it.
template <class Tier, Device D, Scalar T, class Bias, class Source>
class Schedule {
 public:
  using Real = Compute<T>;
  using Stored = typename Source::Stored;
  using Block = RowBlock<Tier, T, Stored>;
  using ScoresOfCall = Scores<Tier, T, Bias, Stored>;

  /// What all parts of the call share.
  struct Call {
    typename Block::Setting rows;
    typename ScoresOfCall::Setting scores;
    Outputs<T> outputs;
    const Dropout& dropout;
  };

  Schedule(const D& device, const Call& call, const Source& source)
      : device_(device), call_(call), source_(source) {
    const auto threads = static_cast<Index>(device.numThreads());
    cut(rows_of_long_block);
    if (ScoresOfCall::has_bias || blocks_ < 4 * threads) cut(rows_of_block);
    // Few blocks: smaller ones may do for all threads, and bound what a split over keys has to keep.
    if (blocks_ < threads) cut(rows_of_split);
    if constexpr (can_stream) {
      streams_ = Streamed::serves(places().most_queries(), group());
      if (streams_) join_heads(threads);
    }
  }

  void run(Slots& workspace) const {
    const auto threads = static_cast<Index>(device_.numThreads());
    const Index tiles = (places().most_keys() + tile_keys - 1) / tile_keys;
    const Index parts =
        blocks_ < threads && tiles > 1 ? (std::min)(tiles, rows_of_parts / rows()) : 0;
    Carver measure(nullptr);
    (void)Slot(*this, measure);
    const std::size_t of_slot = measure.used();
    (void)parts_of(measure, parts);
    workspace.reserve(slot_count(device_), of_slot, measure.used());
    if (parts > 1) {
      Cursor cursor;
      for (Index n = 0; n < blocks_; ++n) run_split(n, cursor, parts, workspace);
      return;
    }
    // Blocks differ in what they cost, so each thread takes another one when it is done with one. Half of the
    // threads begin at the end: of a batch of single tokens and a prompt, one reads memory while another
    // multiplies, where all at one kind would wait for the same.
    std::atomic<Index> comers{0}, taken{0}, front{0}, back{blocks_};
    const auto run_blocks = [&](Index, Index) {
      Carver carver(workspace.slot(slot_index(device_)));
      Slot slot(*this, carver);
      Cursor cursor;
      const bool from_back = comers.fetch_add(1) % 2 == 1;
      while (taken.fetch_add(1) < blocks_) {
        run_block(from_back ? back.fetch_sub(1) - 1 : front.fetch_add(1), cursor, slot);
      }
    };
    const Index workers = (std::max)(Index{1}, (std::min)(threads, blocks_));
    parallel_for(device_, workers, 0, cycles() / static_cast<double>(workers), run_blocks);
  }

 private:
  /// True if few queries may read keys and values unpacked. A RelativeBias multiplies packed keys.
  static constexpr bool can_stream = std::is_same_v<Stored, Real> && StreamedSource<Source> &&
                                     !std::is_same_v<Bias, RelativeBias<T>>;
  using OfSource = typename Source::Scratch;
  using Streamed = std::conditional_t<can_stream, StreamedRows<Tier, T>, NotStreamed>;

  /// What a thread keeps in its slot of the workspace.
  struct Slot {
    Slot(const Schedule& schedule, Carver& carver) noexcept
        : block(schedule.call_.rows, schedule.rows(), carver),
          sums(RowSums<Real>::carve(carver, schedule.rows(), schedule.value_dim())),
          scores(schedule.call_.scores, schedule.rows(), schedule.per_block_, carver,
                 schedule.streams_),
          run_of_positions(carver.take<double>(tile_keys)),
          dropout(schedule.call_.dropout, carver),
          lanes(carver.take<Lanes>(Block::strips(schedule.rows()))),
          of_source(schedule.streams_ ? OfSource{} : schedule.source_.carve(carver)),
          streamed(schedule.source_, schedule.streams_ ? schedule.rows() : 0, carver) {}

    Block block;
    RowSums<Real> sums;
    ScoresOfCall scores;
    double* run_of_positions;  ///< memory for those of a tile's keys
    TileDropout dropout;
    Lanes* lanes;  ///< of each strip
    OfSource of_source;
    POSENC_NO_UNIQUE_ADDRESS Streamed streamed;
  };

  /// Multiply-adds in a cycle, about, for Eigen to weigh what threads cost: one AVX-512 vector of floats.
  static constexpr double products_per_cycle = 16;

  Index value_dim() const noexcept { return call_.outputs.value_dim; }
  Index group() const noexcept { return call_.rows.group; }
  const Places<T>& places() const noexcept { return call_.rows.places; }
  Index rows() const noexcept { return per_block_ * group() * heads_per_block_; }

  /// Makes blocks of about `rows`.
  void cut(Index rows) noexcept {
    const Index queries = (std::max)(places().most_queries(), Index{1});
    const Index most = (std::clamp)(rows / group(), Index{1}, queries);
    per_block_ = Block::even_share(queries, most, group());
    count_blocks();
  }
  /// Makes blocks of as many key heads as leave one for each thread.
  void join_heads(Index threads) noexcept {
    if (blocks_ == 0) return;
    heads_per_block_ =
        (std::clamp)(rows_of_block / rows(), Index{1}, (std::max)(blocks_ / threads, Index{1}));
    heads_per_block_ = (std::min)(heads_per_block_, source_.heads());
    count_blocks();
  }
  void count_blocks() noexcept {
    blocks_ = 0;
    for (Index n = 0; n < places().sequences(); ++n) {
      blocks_ += head_blocks() * blocks_of_head(places().sequence(n));
    }
  }
  /// Key heads, as many as a block has at a time.
  Index head_blocks() const noexcept {
    return (source_.heads() + heads_per_block_ - 1) / heads_per_block_;
  }
  Index blocks_of_head(const AttentionSequence& s) const noexcept {
    return (s.queries + per_block_ - 1) / per_block_;
  }

  /// The sequence of the block that was looked for last: a thread's next one is not far from it.
  struct Cursor {
    Index sequence = 0;
    Index first_block = 0;  ///< of the sequence
  };

  /// Sums of single tiles, rows_at_once rows apart.
  RowSums<Real> parts_of(Carver& carver, Index parts) const noexcept {
    return RowSums<Real>::carve(carver, (rows() + rows_at_once) * parts, value_dim());
  }
  RowSums<Real> part(const RowSums<Real>& parts, Index n) const noexcept {
    const Index first = n * (rows() + rows_at_once);
    return {parts.highest + first, parts.sum + first, parts.out + first * value_dim()};
  }

  /// Takes the queries of block n.
  void take(Index n, Cursor& cursor, Block& block) const noexcept {
    AttentionSequence s = places().sequence(cursor.sequence);
    const auto blocks = [&] { return head_blocks() * blocks_of_head(s); };
    while (n < cursor.first_block) {
      s = places().sequence(--cursor.sequence);
      cursor.first_block -= blocks();
    }
    while (n - cursor.first_block >= blocks()) {
      cursor.first_block += blocks();
      s = places().sequence(++cursor.sequence);
    }
    const Index of_head = blocks_of_head(s);
    n -= cursor.first_block;
    const Index first = n % of_head * per_block_;
    const Index head = n / of_head * heads_per_block_;
    block.take(s, head, first, (std::min)(per_block_, s.queries - first),
               (std::min)(heads_per_block_, source_.heads() - head), !streams_);
    call_.scores.returned.hide(block);
  }

  /// Adds what a tile gives to the sums of a block.
  ///   first: none came before, so the sums may hold anything
  ///   last:  no other follows, so outputs are written, strip by strip while memory has time to take them
  void add_tile(const Block& block, Index tile, const Slot& slot, const RowSums<Real>& sums,
                bool first, bool last = false) const {
    const SeenTile seen = block.look_at(tile, slot.lanes);
    if (first) sums.clear_sums(block.rows());
    if (first && (streams_ || seen.keys.empty())) sums.clear_out({0, block.rows()}, value_dim());
    if (seen.keys.empty()) return last ? write_rows(block, sums) : void();
    KeyTile<Stored> keys{};
    if (!streams_) {
      keys = source_.tile(block.sequence(), block.key_head(), tile, seen.keys, slot.of_source);
    }
    // Those of queries are read by a temperature, too.
    const double* key_positions = nullptr;
    if (ScoresOfCall::has_bias || slot.dropout.drops()) {
      const Index count = seen.keys.end - seen.first_key();
      key_positions =
          places().key_positions(block.sequence(), seen.first_key(), count, slot.run_of_positions);
      if (slot.dropout.drops()) slot.dropout.begin(key_positions, count);
    }
    if constexpr (can_stream) {
      if (streams_) return add_streamed(block, seen, key_positions, slot, sums);
    }
    const auto sees = [&](const Strip& strip) { return !Block::lanes_of(seen, strip).empty(); };
    const bool strip_by_strip = slot.scores.prepare_bias(block, seen, key_positions);
    if constexpr (ScoresOfCall::has_bias) {
      if (!strip_by_strip) {
        block.for_strips([&](const Strip& strip) {
          if (sees(strip)) slot.scores.multiply(block, seen, keys, strip);
        });
        slot.scores.add_bias(block, seen, keys, key_positions);
      }
    }
    block.for_strips([&](const Strip& strip) {
      if (sees(strip)) {
        if (strip_by_strip) {
          slot.scores.multiply(block, seen, keys, strip);
          slot.scores.add_bias_of(block, seen, strip);
        }
        slot.scores.finish(block, seen, strip);
        add_strip(block, strip, Block::lanes_of(seen, strip), keys, slot, sums, first);
      } else if (first) {
        sums.clear_out(strip, value_dim());
      }
      if (last) call_.outputs.template write<Tier>(block, strip, sums);
    });
  }
  void write_rows(const Block& block, const RowSums<Real>& sums) const {
    call_.outputs.template write<Tier>(block, {0, block.rows()}, sums);
  }

  /// The same from the rows of the source, for all strips at a time.
  void add_streamed(const Block& block, const SeenTile& seen, const double* key_positions,
                    const Slot& slot, const RowSums<Real>& sums) const {
    const auto for_seeing = [&](const auto& work) {
      block.for_alike([&](const Strip& strip) {
        const Lanes lanes = Block::lanes_of(seen, strip);
        if (!lanes.empty()) work(strip, lanes);
      });
    };
    slot.streamed.multiply(block, seen, slot.scores);
    for_seeing(
        [&](const Strip& strip, const Lanes&) { slot.scores.finish_products(block, seen, strip); });
    if constexpr (ScoresOfCall::has_bias) {
      slot.scores.add_bias(block, seen, {}, key_positions);
    }
    bool hides = false;
    for_seeing([&](const Strip& strip, const Lanes& lanes) {
      slot.scores.finish(block, seen, strip);
      hides = hides || hides_any(lanes, strip.rows, slot.scores.of(strip));
    });
    slot.streamed.begin_tile(block);
    for_seeing([&](const Strip& strip, const Lanes& lanes) {
      make_weights(block, strip, lanes, hides, slot, slot.streamed.highest(strip.first),
                   slot.streamed.sum(strip.first));
    });
    // Values that hidden keys have may be NaN: that shows when they are read.
    skip_unless_finite<Skipped::Negative>(
        !hides, [&]<Skipped Weights>(std::integral_constant<Skipped, Weights>) {
          slot.streamed.template add_values<Weights>(block, seen, slot.scores, sums);
        });
  }

  /// From a strip's scores to weights, and their maxima and sums.
  void make_weights(const Block& block, const Strip& strip, const Lanes& lanes, bool marks,
                    const Slot& slot, Real* highest, Real* sum) const {
    Real* const weights = slot.scores.of(strip);
    exponentials_of_strip<Tier>(lanes, strip.rows, marks, weights, highest, sum);
    if (slot.dropout.drops()) slot.dropout.apply(block, strip, lanes, weights);
  }

  /// From a strip's scores to its outputs.
  void add_strip(const Block& block, const Strip& strip, const Lanes& lanes,
                 const KeyTile<Stored>& keys, const Slot& slot, const RowSums<Real>& sums,
                 bool first) const {
    alignas(64) Real old_factor[rows_at_once], new_factor[rows_at_once];
    StripSums<Real> of_tile;
    make_weights(block, strip, lanes, !keys.finite, slot, of_tile.highest, of_tile.sum);
    merge_rows<Tier>(of_tile.highest, of_tile.sum, sums.highest + strip.first,
                     sums.sum + strip.first, old_factor, new_factor);
    const auto add_values = [&]<Skipped Weights>(std::integral_constant<Skipped, Weights>) {
      for_bundles<Tier>(strip.rows, WeightedSums<Tier, Real, Stored, Weights>{
                                        slot.scores.of(strip),
                                        keys.values,
                                        keys.value_stride,
                                        value_dim(),
                                        lanes,
                                        first ? nullptr : old_factor,
                                        new_factor,
                                        sums.out + strip.first * value_dim(),
                                        {keys.next_keys, !block.begins_key_head(strip)}});
    };
    skip_unless_finite<Skipped::Negative>(keys.finite, add_values);
  }

  void run_block(Index n, Cursor& cursor, Slot& slot) const {
    take(n, cursor, slot.block);
    slot.scores.begin(slot.block);
    const KeyRange keys = slot.block.keys();
    if (keys.empty()) {
      slot.sums.clear(slot.block.rows(), value_dim());
      return write_rows(slot.block, slot.sums);
    }
    const Index first = keys.begin / tile_keys;
    for (Index tile = first; tile * tile_keys < keys.end; ++tile) {
      const bool last = (tile + 1) * tile_keys >= keys.end;
      add_tile(slot.block, tile, slot, slot.sums, tile == first, last && !streams_);
    }
    if (streams_) write_rows(slot.block, slot.sums);
  }

  /// A block whose tiles are shared out: each yields sums of its own, which are merged in order, as
  /// run_block() does it.
  void run_split(Index n, Cursor& cursor, Index parts, Slots& workspace) const {
    Carver carver(workspace.slot(0));
    Slot shared(*this, carver);
    const RowSums<Real> of_tiles = parts_of(carver, parts);
    take(n, cursor, shared.block);
    const Index rows = shared.block.rows();
    shared.sums.clear(rows, value_dim());
    const KeyRange keys = shared.block.keys();
    for (Index first = keys.begin / tile_keys; first * tile_keys < keys.end; first += parts) {
      const Index end = (std::min)(first + parts, (keys.end + tile_keys - 1) / tile_keys);
      const auto run_tiles = [&](Index from, Index to) {
        Carver own(workspace.slot(slot_index(device_)));
        Slot slot(*this, own);
        slot.scores.begin(shared.block);
        for (Index i = from; i < to; ++i) {
          add_tile(shared.block, first + i, slot, part(of_tiles, i), true);
        }
      };
      parallel_for(device_, end - first, 0, cycles_of_tile(), run_tiles);
      for (Index i = 0; i < end - first; ++i) {
        merge_all<Tier>(shared.sums, part(of_tiles, i), rows, value_dim());
      }
    }
    write_rows(shared.block, shared.sums);
  }

  /// Of the call, about.
  double cycles() const noexcept {
    double row_tiles = 0;
    for (Index n = 0; n < places().sequences(); ++n) {
      const AttentionSequence s = places().sequence(n);
      const Index tiles = (s.stored - s.begin + tile_keys - 1) / tile_keys;
      row_tiles += static_cast<double>(s.queries * group()) * static_cast<double>(tiles);
    }
    const auto heads = static_cast<double>(source_.heads());
    return row_tiles * heads / static_cast<double>(rows()) * cycles_of_tile();
  }
  /// Of one tile for one block, about.
  double cycles_of_tile() const noexcept {
    return static_cast<double>(rows() * tile_keys * (call_.rows.q.dim + value_dim())) /
           products_per_cycle;
  }

  const D& device_;
  const Call& call_;
  const Source& source_;
  Index per_block_ = 0, heads_per_block_ = 1, blocks_ = 0;
  bool streams_ = false;
};

}  // namespace detail
POSENC_END
