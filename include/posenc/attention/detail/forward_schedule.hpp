// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/forward_strategy.hpp>
#include <posenc/attention/detail/forward_worker.hpp>
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/detail/erased_device.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>

POSENC_BEGIN
namespace detail {

/// Forward schedule: one call of attention(), cut into blocks of queries, or into tiles of keys if
/// there are fewer blocks than threads. It calls the other stages in order; they do not depend on
/// it.
///   Source: provides tiles, see tensor_kv_source.hpp
template <class Tier, Scalar T, class Source>
class ForwardSchedule {
 public:
  using Real = Compute<T>;
  using Worker = ForwardWorker<Tier, T, Source>;

  ForwardSchedule(const ErasedDevice& device, const typename Worker::Call& call)
      : device_(device), call_(call), plan_(call.plan), strategy_(call.strategy) {}

  void run(ScratchArenas& workspace) const {
    const Index threads = device_.numThreads();
    const Index blocks = strategy_.blocks, split_k_tiles = strategy_.split_k_tiles;
    ArenaAllocator measure(nullptr);
    (void)Worker(call_, measure);
    const std::size_t state_bytes = measure.bytes_used();
    (void)split_k_states(measure, split_k_tiles);
    workspace.reserve(arena_count(device_), state_bytes, measure.bytes_used());
    if (split_k_tiles > 0) {
      Cursor cursor;
      for (Index n = 0; n < blocks; ++n) run_split_k(n, cursor, split_k_tiles, workspace);
      return;
    }
    // Blocks differ in cost, so each thread claims its next block when it has finished one. Half of
    // the threads start at the end. In a batch of single tokens and a prompt, one thread then reads
    // memory while another multiplies; otherwise all would compete for the same resource.
    std::atomic<Index> arrivals{0}, claimed{0}, front{0}, back{blocks};
    const auto run_blocks = [&](Index, Index) {
      ArenaAllocator allocator(workspace.arena(arena_index(device_)));
      Worker worker(call_, allocator);
      Cursor cursor;
      const bool from_back = arrivals.fetch_add(1) % 2 == 1;
      while (claimed.fetch_add(1) < blocks) {
        const Index n = from_back ? back.fetch_sub(1) - 1 : front.fetch_add(1);
        worker.load(queries_of_block(n, cursor));
        worker.run();
      }
    };
    const Index workers = (std::max)(Index{1}, (std::min)(threads, blocks));
    const double cycles = estimated_cycles() / static_cast<double>(workers);
    device_.parallelFor(workers, {.bytes_read = 0, .bytes_written = 0, .cycles = cycles},
                        run_blocks);
  }

 private:
  Index value_dim() const noexcept { return call_.outputs.value_dim; }
  Index group() const noexcept { return plan_.group; }
  const AttentionGeometry<T>& geometry() const noexcept { return plan_.geometry; }
  Index rows() const noexcept { return strategy_.rows_per_block; }

  /// Sequence of the block that was located last. The next block of a thread is close to it.
  struct Cursor {
    Index sequence = 0;
    Index first_block = 0;  ///< number of its first block
  };

  /// Allocates the softmax states of single tiles, at a stride of rows() + stats_rows rows.
  SoftmaxState<Real> split_k_states(ArenaAllocator& allocator, Index split_k_tiles) const noexcept {
    return SoftmaxState<Real>::allocate(allocator, (rows() + stats_rows) * split_k_tiles,
                                        value_dim());
  }
  SoftmaxState<Real> split_k_state(const SoftmaxState<Real>& states, Index n) const noexcept {
    const Index first = n * (rows() + stats_rows);
    return {states.row_max + first, states.sum + first, states.out + first * value_dim()};
  }

  /// Returns the queries of block n.
  BlockQueries queries_of_block(Index n, Cursor& cursor) const {
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
    return {.sequence = s,
            .first_kv_head = head,
            .kv_heads = (std::min)(heads, plan_.kv_heads - head),
            .first_query = first,
            .queries = (std::min)(queries, s.queries - first)};
  }

  /// Computes block n by split-K. Threads compute split_k_tiles tiles at a time, each with a
  /// softmax state of its own. The states are then merged in key order, with the bits of
  /// Worker::run().
  void run_split_k(Index n, Cursor& cursor, Index split_k_tiles, ScratchArenas& workspace) const {
    ArenaAllocator allocator(workspace.arena(0));
    Worker shared(call_, allocator);
    const SoftmaxState<Real> tile_states = split_k_states(allocator, split_k_tiles);
    shared.load(queries_of_block(n, cursor));
    const auto& block = shared.block();
    const Index rows = block.rows();
    shared.sums().clear(rows, value_dim());
    const KeyRange keys = block.visible_keys();
    for (Index first = keys.begin / tile_keys; first * tile_keys < keys.end;
         first += split_k_tiles) {
      const Index end = (std::min)(first + split_k_tiles, (keys.end + tile_keys - 1) / tile_keys);
      const auto run_tiles = [&](Index from, Index to) {
        ArenaAllocator tile_allocator(workspace.arena(arena_index(device_)));
        Worker worker(call_, tile_allocator);
        worker.begin(block);
        for (Index i = from; i < to; ++i) {
          worker.add_tile(block, first + i, split_k_state(tile_states, i), true, false);
        }
      };
      device_.parallelFor(
          end - first, {.bytes_read = 0, .bytes_written = 0, .cycles = estimated_cycles_per_tile()},
          run_tiles);
      for (Index i = 0; i < end - first; ++i) {
        merge_softmax_states<Tier>(shared.sums(), split_k_state(tile_states, i), rows, value_dim());
      }
    }
    shared.write(block, {0, rows}, shared.sums());
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
  const typename Worker::Call call_;
  const AttentionPlan<T>& plan_;
  const ForwardStrategy& strategy_;
};

}  // namespace detail
POSENC_END
