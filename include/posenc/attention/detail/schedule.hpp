// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/forward_strategy.hpp>
#include <posenc/attention/detail/outputs.hpp>
#include <posenc/attention/detail/places.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/scores.hpp>
#include <posenc/attention/detail/tile_dropout.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Forward schedule: one call of attention(), cut into blocks of queries, or into tiles of keys if
/// there are fewer blocks than threads. It calls the other stages in order; they do not depend on
/// it.
///   Reader: PackedTiles or UnpackedTiles
template <class Tier, Device D, Scalar T, class Bias, class Reader>
class Schedule {
 public:
  using Real = Compute<T>;
  using Stored = typename Reader::Stored;
  using Block = RowBlock<Tier, T, Stored>;
  using ScoresOfCall = Scores<Tier, T, Bias, Stored>;

  Schedule(const D& device, const AttentionPlan<T>& plan, const ForwardStrategy& strategy,
           const Bias& bias, const Outputs<T>& outputs, const Reader& reader)
      : device_(device),
        plan_(plan),
        strategy_(strategy),
        bias_(bias),
        outputs_(outputs),
        reader_(reader) {}

  void run(Slots& workspace) const {
    const auto threads = static_cast<Index>(device_.numThreads());
    const Index blocks = strategy_.blocks, parts = strategy_.split_tiles;
    Carver measure(nullptr);
    (void)Slot(*this, measure);
    const std::size_t of_slot = measure.used();
    (void)parts_of(measure, parts);
    workspace.reserve(arena_count(device_), of_slot, measure.used());
    if (parts > 0) {
      Cursor cursor;
      for (Index n = 0; n < blocks; ++n) run_split(n, cursor, parts, workspace);
      return;
    }
    // Blocks differ in cost, so each thread claims its next block when it has finished one. Half of
    // the threads start at the end. In a batch of single tokens and a prompt, one thread then reads
    // memory while another multiplies; otherwise all would compete for the same resource.
    std::atomic<Index> comers{0}, taken{0}, front{0}, back{blocks};
    const auto run_blocks = [&](Index, Index) {
      Carver carver(workspace.slot(arena_index(device_)));
      Slot slot(*this, carver);
      Cursor cursor;
      const bool from_back = comers.fetch_add(1) % 2 == 1;
      while (taken.fetch_add(1) < blocks) {
        run_block(from_back ? back.fetch_sub(1) - 1 : front.fetch_add(1), cursor, slot);
      }
    };
    const Index workers = (std::max)(Index{1}, (std::min)(threads, blocks));
    parallel_for(device_, workers, 0, cycles() / static_cast<double>(workers), run_blocks);
  }

 private:
  /// State of a thread, in its slot of the workspace.
  struct Slot {
    Slot(const Schedule& schedule, Carver& carver) noexcept
        : block(schedule.plan_, schedule.rows(), carver),
          sums(SoftmaxState<Real>::carve(carver, schedule.rows(), schedule.value_dim())),
          scores(schedule.plan_, schedule.bias_, schedule.rows(),
                 schedule.strategy_.queries_per_block, carver, Reader::is_unpacked),
          run_of_positions(carver.take<double>(tile_keys)),
          dropout(schedule.plan_.options.dropout, carver),
          lanes(carver.take<ActiveLanes>(Block::strips(schedule.rows()))),
          of_reader(schedule.reader_.carve(carver, schedule.rows())) {}

    Block block;
    SoftmaxState<Real> sums;
    ScoresOfCall scores;
    double* run_of_positions;  ///< buffer for the positions of a tile's keys
    TileDropout dropout;
    ActiveLanes* lanes;  ///< one entry per strip
    POSENC_NO_UNIQUE_ADDRESS typename Reader::Scratch of_reader;
  };

  /// Estimated multiply-adds per cycle, for Eigen's cost model: one AVX-512 vector of floats.
  static constexpr double products_per_cycle = 16;

  Index value_dim() const noexcept { return outputs_.value_dim; }
  Index group() const noexcept { return plan_.group; }
  const Places<T>& places() const noexcept { return plan_.places; }
  Index rows() const noexcept { return strategy_.rows_per_block; }

  /// Sequence of the block that was located last. The next block of a thread is close to it.
  struct Cursor {
    Index sequence = 0;
    Index first_block = 0;  ///< number of its first block
  };

  /// Allocates the softmax states of single tiles, at a stride of rows() + stats_rows rows.
  SoftmaxState<Real> parts_of(Carver& carver, Index parts) const noexcept {
    return SoftmaxState<Real>::carve(carver, (rows() + stats_rows) * parts, value_dim());
  }
  SoftmaxState<Real> part(const SoftmaxState<Real>& parts, Index n) const noexcept {
    const Index first = n * (rows() + stats_rows);
    return {parts.row_max + first, parts.sum + first, parts.out + first * value_dim()};
  }

  /// Loads the queries of block n.
  void take(Index n, Cursor& cursor, Block& block) const noexcept {
    AttentionSequence s = places().sequence(cursor.sequence);
    const auto blocks = [&] { return strategy_.blocks_of(s); };
    while (n < cursor.first_block) {
      s = places().sequence(--cursor.sequence);
      cursor.first_block -= blocks();
    }
    while (n - cursor.first_block >= blocks()) {
      cursor.first_block += blocks();
      s = places().sequence(++cursor.sequence);
    }
    const Index of_head = strategy_.query_blocks(s);
    n -= cursor.first_block;
    const Index queries = strategy_.queries_per_block, heads = strategy_.kv_heads_per_block;
    const Index first = n % of_head * queries, head = n / of_head * heads;
    block.take(s, head, first, (std::min)(queries, s.queries - first),
               (std::min)(heads, plan_.kv_heads - head), Reader::rows_in_place);
    plan_.returned.hide(block);
  }

  /// Merges a tile into the softmax state of a block.
  ///   first: the block's first tile; `sums` is uninitialised and is overwritten
  ///   last:  the block's last tile; outputs are written batch by batch, so that stores overlap
  ///       arithmetic
  void add_tile(const Block& block, Index tile, const Slot& slot, const SoftmaxState<Real>& sums,
                bool first, bool last = false) const {
    const SeenTile seen = block.look_at(tile, slot.lanes);
    if (first) sums.reset_stats(block.rows());
    if (seen.keys.empty()) {
      if (first) sums.zero_accumulators({0, block.rows()}, value_dim());
      if (last) write_rows(block, sums);
      return;
    }
    const KeyTile<Stored> keys = reader_.tile(block, seen, slot.of_reader);
    const double* const key_positions = prepare_positions(block, seen, slot);
    const bool bias_by_batch = prepare_bias(block, seen, key_positions, slot);
    if constexpr (ScoresOfCall::has_bias) {
      if (!bias_by_batch) {
        reader_.for_batches(block, seen, [&](const Strip& batch, bool sees) {
          if (sees) reader_.multiply(block, seen, keys, batch, slot.scores);
        });
        slot.scores.add_bias(block, seen, keys, key_positions);
      }
    }
    reader_.for_batches(block, seen, [&](const Strip& batch, bool sees) {
      if (sees) {
        if (bias_by_batch) {
          reader_.multiply(block, seen, keys, batch, slot.scores);
          slot.scores.add_bias_of(block, seen, batch);
        }
        add_batch(block, seen, keys, batch, slot, sums, first);
      } else if (first) {
        sums.zero_accumulators(batch, value_dim());
      }
      if (last) outputs_.template write<Tier>(block, batch, sums);
    });
  }
  void write_rows(const Block& block, const SoftmaxState<Real>& sums) const {
    outputs_.template write<Tier>(block, {0, block.rows()}, sums);
  }

  /// Returns positions of the tile's keys if a bias or dropout reads them. (A temperature reads
  /// those of queries.)
  const double* prepare_positions(const Block& block, const SeenTile& seen,
                                  const Slot& slot) const noexcept {
    if (!ScoresOfCall::has_bias && !slot.dropout.drops()) return nullptr;
    const Index count = seen.keys.end - seen.first_key();
    const double* const positions =
        places().key_positions(block.sequence(), seen.first_key(), count, slot.run_of_positions);
    if (slot.dropout.drops()) slot.dropout.begin(positions, count);
    return positions;
  }
  /// True if each batch may be finished before the next one is multiplied.
  static bool prepare_bias(const Block& block, const SeenTile& seen, const double* key_positions,
                           const Slot& slot) noexcept {
    if constexpr (Reader::is_unpacked) {
      return !ScoresOfCall::has_bias;
    } else {
      return slot.scores.prepare_bias(block, seen, key_positions);
    }
  }

  /// Computes weights from a batch's biased products, and merges their sums and outputs into
  /// `sums`.
  void add_batch(const Block& block, const SeenTile& seen, const KeyTile<Stored>& keys,
                 const Strip& batch, const Slot& slot, const SoftmaxState<Real>& sums,
                 bool first) const {
    bool hides = !keys.finite;
    reader_.for_uniform_rows(block, seen, batch, [&](const Strip& strip, const ActiveLanes& lanes) {
      slot.scores.finish(block, seen, strip);
      if constexpr (Reader::is_unpacked) {
        hides = hides || has_masked(lanes, strip.rows, slot.scores.of(strip));
      }
    });
    auto of_tile = reader_.stats(batch, sums, first, slot.of_reader);
    reader_.for_uniform_rows(block, seen, batch, [&](const Strip& strip, const ActiveLanes& lanes) {
      const Index r = strip.first - batch.first;
      Real* const weights = slot.scores.of(strip);
      exponentiate_strip<Tier>(lanes, strip.rows, hides, weights, of_tile.row_max + r,
                               of_tile.sum + r);
      if (slot.dropout.drops()) slot.dropout.apply(block, strip, lanes, weights);
    });
    reader_.add_values(block, seen, keys, batch, slot.scores, hides, of_tile, sums, first);
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
      add_tile(slot.block, tile, slot, slot.sums, tile == first, last);
    }
  }

  /// Runs block n by split-K: its tiles are distributed over threads, each yields a softmax state,
  /// and the states are merged in key order, as in run_block().
  void run_split(Index n, Cursor& cursor, Index parts, Slots& workspace) const {
    Carver carver(workspace.slot(0));
    Slot shared(*this, carver);
    const SoftmaxState<Real> of_tiles = parts_of(carver, parts);
    take(n, cursor, shared.block);
    const Index rows = shared.block.rows();
    shared.sums.clear(rows, value_dim());
    const KeyRange keys = shared.block.keys();
    for (Index first = keys.begin / tile_keys; first * tile_keys < keys.end; first += parts) {
      const Index end = (std::min)(first + parts, (keys.end + tile_keys - 1) / tile_keys);
      const auto run_tiles = [&](Index from, Index to) {
        Carver own(workspace.slot(arena_index(device_)));
        Slot slot(*this, own);
        slot.scores.begin(shared.block);
        for (Index i = from; i < to; ++i) {
          add_tile(shared.block, first + i, slot, part(of_tiles, i), true);
        }
      };
      parallel_for(device_, end - first, 0, cycles_of_tile(), run_tiles);
      for (Index i = 0; i < end - first; ++i) {
        merge_softmax_states<Tier>(shared.sums, part(of_tiles, i), rows, value_dim());
      }
    }
    write_rows(shared.block, shared.sums);
  }

  /// Returns the estimated cycles of the call, for Eigen's cost model.
  double cycles() const noexcept {
    double row_tiles = 0;
    for (Index n = 0; n < places().sequences(); ++n) {
      const AttentionSequence s = places().sequence(n);
      const Index tiles = (s.stored - s.begin + tile_keys - 1) / tile_keys;
      row_tiles += static_cast<double>(s.queries * group()) * static_cast<double>(tiles);
    }
    const auto heads = static_cast<double>(plan_.kv_heads);
    return row_tiles * heads / static_cast<double>(rows()) * cycles_of_tile();
  }
  /// Returns the estimated cycles of one tile of one block.
  double cycles_of_tile() const noexcept {
    return static_cast<double>(rows() * tile_keys * (plan_.q.dim + value_dim())) /
           products_per_cycle;
  }

  const D& device_;
  const AttentionPlan<T>& plan_;
  const ForwardStrategy& strategy_;
  const Bias& bias_;
  const Outputs<T>& outputs_;
  const Reader& reader_;
};

}  // namespace detail
POSENC_END
