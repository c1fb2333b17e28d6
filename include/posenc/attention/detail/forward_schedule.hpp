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
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/detail/erased_device.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
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
template <class Tier, Scalar T, class Reader>
class ForwardSchedule {
 public:
  using Real = Compute<T>;
  using Stored = typename Reader::Stored;
  using Block = QueryBlock<Tier, T, Stored>;
  using ScoresOfCall = Scores<Tier, T, Stored>;

  ForwardSchedule(const ErasedDevice& device, const AttentionPlan<T>& plan,
                  const ForwardStrategy& strategy, const ErasedBias<T>& bias,
                  const OutputWriter<T>& outputs, const Reader& reader)
      : device_(device),
        plan_(plan),
        strategy_(strategy),
        bias_(bias),
        outputs_(outputs),
        reader_(reader) {}

  void run(ScratchArenas& workspace) const {
    const Index threads = device_.numThreads();
    const Index blocks = strategy_.blocks, num_splits = strategy_.split_tiles;
    ArenaAllocator measure(nullptr);
    (void)ThreadState(*this, measure);
    const std::size_t state_bytes = measure.bytes_used();
    (void)split_k_states(measure, num_splits);
    workspace.reserve(arena_count(device_), state_bytes, measure.bytes_used());
    if (num_splits > 0) {
      Cursor cursor;
      for (Index n = 0; n < blocks; ++n) run_split_k(n, cursor, num_splits, workspace);
      return;
    }
    // Blocks differ in cost, so each thread claims its next block when it has finished one. Half of
    // the threads start at the end. In a batch of single tokens and a prompt, one thread then reads
    // memory while another multiplies; otherwise all would compete for the same resource.
    std::atomic<Index> arrivals{0}, claimed{0}, front{0}, back{blocks};
    const auto run_blocks = [&](Index, Index) {
      ArenaAllocator allocator(workspace.arena(arena_index(device_)));
      ThreadState state(*this, allocator);
      Cursor cursor;
      const bool from_back = arrivals.fetch_add(1) % 2 == 1;
      while (claimed.fetch_add(1) < blocks) {
        run_block(from_back ? back.fetch_sub(1) - 1 : front.fetch_add(1), cursor, state);
      }
    };
    const Index workers = (std::max)(Index{1}, (std::min)(threads, blocks));
    parallel_for(device_, workers, 0, estimated_cycles() / static_cast<double>(workers),
                 run_blocks);
  }

 private:
  /// State of a thread, in its arena of the workspace.
  struct ThreadState {
    ThreadState(const ForwardSchedule& schedule, ArenaAllocator& allocator)
        : block(schedule.plan_, schedule.rows(), allocator),
          sums(SoftmaxState<Real>::allocate(allocator, schedule.rows(), schedule.value_dim())),
          scores(schedule.plan_, schedule.bias_, schedule.rows(),
                 schedule.strategy_.queries_per_block, allocator, Reader::is_unpacked),
          key_position_buffer(allocator.allocate<double>(tile_keys)),
          dropout(schedule.plan_.options.dropout, allocator),
          lanes(allocator.allocate<ActiveLanes>(Block::strips(schedule.rows()))),
          reader_scratch(schedule.reader_.allocate(allocator, schedule.rows())) {}

    Block block;
    SoftmaxState<Real> sums;  ///< of the tiles so far
    ScoresOfCall scores;
    double* key_position_buffer;  ///< buffer for the positions of a tile's keys
    TileDropout dropout;
    ActiveLanes* lanes;  ///< one entry per strip
    POSENC_NO_UNIQUE_ADDRESS typename Reader::Scratch reader_scratch;
  };

  /// Estimated multiply-adds per cycle, for Eigen's cost model: one AVX-512 vector of floats.
  static constexpr double fmas_per_cycle = 16;

  Index value_dim() const noexcept { return outputs_.value_dim; }
  Index group() const noexcept { return plan_.group; }
  const AttentionGeometry<T>& geometry() const noexcept { return plan_.geometry; }
  Index rows() const noexcept { return strategy_.rows_per_block; }

  /// Sequence of the block that was located last. The next block of a thread is close to it.
  struct Cursor {
    Index sequence = 0;
    Index first_block = 0;  ///< number of its first block
  };

  /// Allocates the softmax states of single tiles, at a stride of rows() + stats_rows rows.
  SoftmaxState<Real> split_k_states(ArenaAllocator& allocator, Index num_splits) const noexcept {
    return SoftmaxState<Real>::allocate(allocator, (rows() + stats_rows) * num_splits, value_dim());
  }
  SoftmaxState<Real> split_k_state(const SoftmaxState<Real>& states, Index n) const noexcept {
    const Index first = n * (rows() + stats_rows);
    return {states.row_max + first, states.sum + first, states.out + first * value_dim()};
  }

  /// Loads the queries of block n.
  void load_block(Index n, Cursor& cursor, Block& block) const noexcept {
    AttentionSequence s = geometry().sequence(cursor.sequence);
    const auto blocks = [&] { return strategy_.blocks_of(s); };
    while (n < cursor.first_block) {
      s = geometry().sequence(--cursor.sequence);
      cursor.first_block -= blocks();
    }
    while (n - cursor.first_block >= blocks()) {
      cursor.first_block += blocks();
      s = geometry().sequence(++cursor.sequence);
    }
    const Index blocks_per_head = strategy_.query_blocks(s);
    n -= cursor.first_block;
    const Index queries = strategy_.queries_per_block, heads = strategy_.kv_heads_per_block;
    const Index first = n % blocks_per_head * queries, head = n / blocks_per_head * heads;
    block.load_queries(s, head, first, (std::min)(queries, s.queries - first),
                       (std::min)(heads, plan_.kv_heads - head), Reader::rows_in_place);
    plan_.returned.fill_masked(block);
  }

  /// Merges a tile into `sums`, the softmax state of a block. Rows are processed in the reader's
  /// batches: a strip each, or all rows if tiles are unpacked.
  ///   first: true for the block's first tile; `sums` is uninitialised and is overwritten
  ///   last:  true for the block's last tile; outputs are written batch by batch, so that stores
  ///          overlap arithmetic
  void add_tile(const Block& block, Index tile, const ThreadState& state,
                const SoftmaxState<Real>& sums, bool first, bool last = false) const {
    const TileVisibility seen = block.visibility_of(tile, state.lanes);
    if (first) sums.reset_stats(block.rows());
    if (seen.keys.empty()) {
      if (first) sums.zero_accumulators({0, block.rows()}, value_dim());
      if (last) write_rows(block, sums);
      return;
    }
    const KvTile<Stored> keys = reader_.tile(block, seen, state.reader_scratch);
    const double* const key_positions = prepare_positions(block, seen, state);
    const bool bias_by_batch = prepare_strip_bias(block, seen, key_positions, state);
    if (!bias_by_batch) {
      reader_.for_batches(block, seen, [&](const Strip& batch, bool sees) {
        if (sees) reader_.compute_products(block, seen, keys, batch, state.scores);
      });
      state.scores.add_bias(block, seen, keys, key_positions);
    }
    reader_.for_batches(block, seen, [&](const Strip& batch, bool sees) {
      if (sees) {
        if (bias_by_batch) {
          reader_.compute_products(block, seen, keys, batch, state.scores);
          state.scores.add_strip_bias(block, seen, batch);
        }
        add_batch(block, seen, keys, batch, state, sums, first);
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
  const double* prepare_positions(const Block& block, const TileVisibility& seen,
                                  const ThreadState& state) const noexcept {
    if (!plan_.has_bias && !state.dropout.is_enabled()) return nullptr;
    const Index count = seen.keys.end - seen.first_key();
    const double* const positions = geometry().key_positions(block.sequence(), seen.first_key(),
                                                             count, state.key_position_buffer);
    if (state.dropout.is_enabled()) state.dropout.begin(positions, count);
    return positions;
  }
  /// Prepares the bias of a tile. Returns true if each batch may be finished before the next one is
  /// multiplied, so that its scores stay in L1.
  static bool prepare_strip_bias(const Block& block, const TileVisibility& seen,
                                 const double* key_positions, const ThreadState& state) noexcept {
    if constexpr (Reader::is_unpacked) {
      return !state.scores.has_bias();
    } else {
      return state.scores.prepare_strip_bias(block, seen, key_positions);
    }
  }

  /// Computes a batch's weights from its biased scores, and merges their sums and weighted values
  /// into `sums`.
  void add_batch(const Block& block, const TileVisibility& seen, const KvTile<Stored>& keys,
                 const Strip& batch, const ThreadState& state, const SoftmaxState<Real>& sums,
                 bool first) const {
    bool marks_masked = !keys.finite;
    reader_.for_uniform_rows(block, seen, batch, [&](const Strip& strip, const ActiveLanes& lanes) {
      state.scores.apply_post_bias_epilogue(block, seen, strip);
      if constexpr (Reader::is_unpacked) {
        marks_masked =
            marks_masked || has_masked(lanes, strip.rows, state.scores.strip_scores(strip));
      }
    });
    auto tile_state = reader_.stats(batch, sums, first, state.reader_scratch);
    reader_.for_uniform_rows(block, seen, batch, [&](const Strip& strip, const ActiveLanes& lanes) {
      const Index r = strip.first - batch.first;
      Real* const weights = state.scores.strip_scores(strip);
      exponentiate_strip<Tier>(lanes, strip.rows, marks_masked, weights, tile_state.row_max + r,
                               tile_state.sum + r);
      if (state.dropout.is_enabled()) state.dropout.apply(block, strip, lanes, weights);
    });
    reader_.add_values(block, seen, keys, batch, state.scores, marks_masked, tile_state, sums,
                       first);
  }

  /// Computes block n: merges the tiles that it sees, in ascending order of keys, and writes its
  /// outputs.
  void run_block(Index n, Cursor& cursor, ThreadState& state) const {
    load_block(n, cursor, state.block);
    state.scores.begin(state.block);
    const KeyRange keys = state.block.visible_keys();
    if (keys.empty()) {
      state.sums.clear(state.block.rows(), value_dim());
      return write_rows(state.block, state.sums);
    }
    const Index first = keys.begin / tile_keys;
    for (Index tile = first; tile * tile_keys < keys.end; ++tile) {
      const bool last = (tile + 1) * tile_keys >= keys.end;
      add_tile(state.block, tile, state, state.sums, tile == first, last);
    }
  }

  /// Computes block n by split-K. Threads compute num_splits tiles at a time, each with a softmax
  /// state of its own. The states are then merged in key order, with the bits of run_block().
  void run_split_k(Index n, Cursor& cursor, Index num_splits, ScratchArenas& workspace) const {
    ArenaAllocator allocator(workspace.arena(0));
    ThreadState shared(*this, allocator);
    const SoftmaxState<Real> tile_states = split_k_states(allocator, num_splits);
    load_block(n, cursor, shared.block);
    const Index rows = shared.block.rows();
    shared.sums.clear(rows, value_dim());
    const KeyRange keys = shared.block.visible_keys();
    for (Index first = keys.begin / tile_keys; first * tile_keys < keys.end; first += num_splits) {
      const Index end = (std::min)(first + num_splits, (keys.end + tile_keys - 1) / tile_keys);
      const auto run_tiles = [&](Index from, Index to) {
        ArenaAllocator tile_allocator(workspace.arena(arena_index(device_)));
        ThreadState state(*this, tile_allocator);
        state.scores.begin(shared.block);
        for (Index i = from; i < to; ++i) {
          add_tile(shared.block, first + i, state, split_k_state(tile_states, i), true);
        }
      };
      parallel_for(device_, end - first, 0, estimated_cycles_per_tile(), run_tiles);
      for (Index i = 0; i < end - first; ++i) {
        merge_softmax_states<Tier>(shared.sums, split_k_state(tile_states, i), rows, value_dim());
      }
    }
    write_rows(shared.block, shared.sums);
  }

  /// Returns the estimated cycles of the call, for Eigen's cost model.
  double estimated_cycles() const noexcept {
    double row_tiles = 0;
    for (Index n = 0; n < geometry().sequences(); ++n) {
      const AttentionSequence s = geometry().sequence(n);
      const Index tiles = (s.stored - s.begin + tile_keys - 1) / tile_keys;
      row_tiles += static_cast<double>(s.queries * group()) * static_cast<double>(tiles);
    }
    const auto heads = static_cast<double>(plan_.kv_heads);
    return row_tiles * heads / static_cast<double>(rows()) * estimated_cycles_per_tile();
  }
  /// Returns the estimated cycles of one tile of one block.
  double estimated_cycles_per_tile() const noexcept {
    return static_cast<double>(rows() * tile_keys * (plan_.q.dim + value_dim())) / fmas_per_cycle;
  }

  const ErasedDevice& device_;
  const AttentionPlan<T>& plan_;
  const ForwardStrategy& strategy_;
  const ErasedBias<T>& bias_;
  const OutputWriter<T>& outputs_;
  const Reader& reader_;
};

}  // namespace detail
POSENC_END
