// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/backward_queue.hpp>
#include <posenc/attention/detail/backward_rows.hpp>
#include <posenc/attention/detail/bias_gradients.hpp>
#include <posenc/attention/detail/bias_stage.hpp>
#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/attention/detail/kernel_tile.hpp>
#include <posenc/attention/detail/kv_gradients.hpp>
#include <posenc/attention/detail/mask_gradient.hpp>
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/attention/detail/score_gradients.hpp>
#include <posenc/attention/detail/scores.hpp>
#include <posenc/attention/detail/tensor_kv_source.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kernels/weighted_sum_kernel.hpp>
#include <posenc/tensor/detail/erased_device.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <cstddef>

POSENC_BEGIN
namespace detail {

/// Backward schedule: one call of attention_backward(), cut into blocks of queries. Each block
/// visits the tiles that it sees, and recomputes their scores by the forward stages.
template <class Tier, Scalar T>
class BackwardSchedule {
 public:
  using Real = Compute<T>;
  using Stored = PackedRowElement<Tier, T, T>;
  using Block = QueryBlock<Tier, T, Stored>;
  using ScoresOfCall = Scores<Tier, T, Stored>;

  /// Data that all parts of the call share.
  struct Call {
    const AttentionPlan<T>& plan;
    const ErasedBias<T>& bias;
    typename BackwardRows<Tier, T, Stored>::CallContext gradient_rows;
    HeadsView<const T> k, v;
    HeadsView<T> grad_q, grad_k, grad_v;
    MaskGradient<T> mask;
  };

  BackwardSchedule(const ErasedDevice& device, const Call& call, BiasGradients<T>& bias_gradients)
      : device_(device), call_(call), bias_gradients_(bias_gradients) {
    const Index queries = geometry().max_queries();
    queries_per_block_ =
        (std::clamp)(max_rows_of_block / group(), Index{1}, (std::max)(queries, Index{1}));
  }

  void run(ScratchArenas& workspace) {
    const Index threads = (std::max)(Index{1}, device_.numThreads());
    const Index active_heads = (std::min)(threads, geometry().sequences() * call_.k.heads);
    BackwardQueue queue({.sequences = geometry().sequences(),
                         .heads = call_.k.heads,
                         .max_blocks = blocks_of(geometry().max_queries()),
                         .threads = active_heads,
                         .serializes_blocks = bias_gradients_.serializes_blocks(),
                         .serializes_heads = call_.mask.is_shared_by_heads()});
    ArenaAllocator measure(nullptr);
    (void)ThreadState(*this, measure);
    const std::size_t state_bytes = measure.bytes_used();
    const Index count = (std::max)(arena_count(device_), active_heads);
    const KvGradients<Tier, T> sums = sums_of(measure);
    (void)sums;
    workspace.reserve(count, measure.bytes_used());
    const auto run_blocks = [&](Index, Index) {
      const Index thread = arena_index(device_);
      ArenaAllocator allocator(workspace.arena(thread));
      ThreadState state(*this, allocator);
      state.thread = thread;
      const auto describe = [&](Index n) { return geometry().sequence(n); };
      const auto blocks = [&](const AttentionSequence& s) { return blocks_of(s.queries); };
      BackwardQueue::Head* last = nullptr;
      for (;;) {
        const BackwardQueue::Task task = queue.next_task(last, describe, blocks);
        if (task.head == nullptr) return;
        last = task.head;
        // A head's accumulators follow the thread state in some arena.
        ArenaAllocator head_allocator(workspace.arena(task.head->accumulator_index) + state_bytes);
        const KvGradients<Tier, T> kv_gradients = sums_of(head_allocator);
        run_block(task, state, kv_gradients);
        queue.finish(task, [&](const BackwardQueue::Head& head) {
          kv_gradients.write(head.sequence, head.kv_head, call_.grad_k, call_.grad_v);
        });
      }
    };
    const double cycles = estimated_cycles() / static_cast<double>(threads);
    device_.parallelFor(threads, {.bytes_read = 0, .bytes_written = 0, .cycles = cycles},
                        run_blocks);
  }

 private:
  /// State of a thread, in its arena of the workspace.
  struct ThreadState {
    ThreadState(const BackwardSchedule& schedule, ArenaAllocator& allocator)
        : block(schedule.call_.plan, schedule.rows(), allocator),
          gradients(schedule.call_.gradient_rows, schedule.rows(), allocator),
          scores(schedule.call_.plan, schedule.call_.bias, schedule.rows(),
                 schedule.queries_per_block_, allocator),
          score_grads(schedule.call_.plan.options, schedule.rows(), allocator),
          keys(allocator.allocate<Stored>(tile_keys * packed_dim<Stored>(schedule.call_.k.dim))),
          values(allocator.allocate<Stored>(tile_keys * packed_dim<Stored>(schedule.call_.v.dim))),
          key_rows(allocator.allocate<Stored>(tile_keys * padded_value_dim(schedule.call_.k.dim))),
          key_position_buffer(allocator.allocate<double>(tile_keys)),
          lanes(allocator.allocate<ActiveLanes>(Block::strips(schedule.rows()))),
          mask_row_sums(allocator.allocate<Real>(schedule.rows())) {
      if (schedule.call_.bias.reads_queries()) {
        set_up_block(schedule.call_.plan, schedule.queries_per_block_, schedule.bias_gradients_,
                     allocator, bias_block);
        bias_grad_q = allocator.allocate<Real>(schedule.rows() * gradients.query_dim());
      }
      std::fill(std::begin(ones), std::end(ones), Real{1});
    }

    Block block;
    BackwardRows<Tier, T, Stored> gradients;
    ScoresOfCall scores;
    ScoreGradients<Tier, T, Stored> score_grads;
    Stored* keys;                           ///< keys of the tile, as panels
    Stored* values;                         ///< values of the tile, as panels
    Stored* key_rows;                       ///< [tile_keys, padded head_dim]
    double* key_position_buffer;            ///< buffer for the positions of a tile's keys
    const double* key_positions = nullptr;  ///< positions of the tile's keys, if they are read
    ActiveLanes* lanes;                     ///< one entry per strip
    Real* mask_row_sums;  ///< [rows]: sums over keys, for a mask that is broadcast over keys
    KernelBlock<Tier, T, Stored> bias_block;  ///< of the gradient of a QueryBias
    Real* bias_grad_q = nullptr;  ///< its gradient of the queries, [rows, query_dim], head by head
    Real ones[stats_rows];
    Index thread = 0;
  };

  /// Maximum rows of a block. Their scores, gradients, queries and outputs, 0.6 MiB of floats with
  /// 128 channels, stay in L2 beside a tile and its sums. It is a multiple of the strip size of
  /// every tier.
  static constexpr Index max_rows_of_block = 192;

  Index group() const noexcept { return call_.plan.group; }
  const AttentionGeometry<T>& geometry() const noexcept { return call_.plan.geometry; }
  Index rows() const noexcept { return queries_per_block_ * group(); }
  /// Returns the number of blocks, at least one: keys without queries have gradients, too.
  Index blocks_of(Index queries) const noexcept {
    return (std::max)(Index{1}, (queries + queries_per_block_ - 1) / queries_per_block_);
  }

  KvGradients<Tier, T> sums_of(ArenaAllocator& allocator) const noexcept {
    Index max_stored = 0;
    for (Index n = 0; n < geometry().sequences(); ++n) {
      max_stored = (std::max)(max_stored, geometry().sequence(n).stored);
    }
    const bool has_grad_k = call_.grad_k.data != nullptr;
    const bool has_grad_v = call_.grad_v.data != nullptr;
    return {max_stored, has_grad_k ? Index{call_.k.dim} : 0, has_grad_v ? Index{call_.v.dim} : 0,
            allocator};
  }

  void run_block(const BackwardQueue::Task& task, ThreadState& state,
                 const KvGradients<Tier, T>& sums) {
    const AttentionSequence& s = task.head->sequence;
    const Index first = task.block * queries_per_block_;
    state.block.load_queries({.sequence = s,
                              .first_kv_head = task.head->kv_head,
                              .first_query = first,
                              .queries = (std::min)(queries_per_block_, s.queries - first)});
    state.gradients.load_rows(state.block);
    state.scores.begin(state.block);
    std::fill_n(state.mask_row_sums, state.block.rows(), Real{0});
    begin_bias_gradient(state);
    if (task.is_first()) sums.clear(s.stored);
    const KeyRange keys = state.block.visible_keys();
    for (Index tile = keys.begin / tile_keys; tile * tile_keys < keys.end; ++tile) {
      add_tile(task, tile, state, sums);
    }
    if (call_.grad_q.data != nullptr) {
      state.gradients.write(state.block, call_.grad_q, state.bias_grad_q);
    }
    add_in_block_order(task, [&] { bias_gradients_.add_block(state.thread, state.bias_block); });
    BackwardQueue::wait_for_all_earlier_blocks(task);
    call_.mask.add_sums(state.block, state.mask_row_sums);
  }

  void begin_bias_gradient(ThreadState& state) {
    if (!bias_gradients_.is_present()) return;
    if (state.bias_grad_q != nullptr) {
      describe_block(state.block, state.bias_block);
      std::fill_n(state.bias_grad_q, state.block.rows() * state.gradients.query_dim(), Real{0});
    }
    bias_gradients_.begin_block(state.thread, state.bias_block);
  }

  /// Calls add() in the order in which blocks were dealt out, if parameters need that order.
  template <class Add>
  void add_in_block_order(const BackwardQueue::Task& task, const Add& add) {
    if (!bias_gradients_.serializes_blocks()) return;
    added_blocks_.wait_until_above(task.number - 1);
    add();
    added_blocks_.advance_to(task.number + 1);
  }

  void add_tile(const BackwardQueue::Task& task, Index tile, ThreadState& state,
                const KvGradients<Tier, T>& sums) {
    const Block& block = state.block;
    const TileVisibility seen = block.visibility_of(tile, state.lanes);
    if (seen.keys.empty()) return;
    const bool finite = pack_tile(task, tile, seen, state);
    compute_score_gradients(seen, finite, state);
    if (call_.mask.is_present()) {
      BackwardQueue::wait_for_earlier_blocks(task, tile);
      call_.mask.add(block, seen, state.score_grads.all(), state.mask_row_sums);
    }
    block.for_visible_strips(seen, [&](const Strip& strip, const ActiveLanes& lanes) {
      state.scores.backprop_post_bias_epilogue(block, lanes, strip,
                                               state.score_grads.strip_gradients(strip));
    });
    if (bias_gradients_.is_present()) {
      if (bias_gradients_.waits_per_tile()) BackwardQueue::wait_for_earlier_blocks(task, tile);
      add_bias_gradient(seen, finite, state, sums);
    }
    block.for_visible_strips(seen, [&](const Strip& strip, const ActiveLanes& lanes) {
      state.scores.backprop_pre_bias_epilogue(block, lanes, strip,
                                              state.score_grads.strip_gradients(strip));
      add_weighted_sums<Tier>(finite, strip.rows, state.score_grads.strip_gradients(strip),
                              state.key_rows, state.gradients.query_dim(), lanes, state.ones,
                              state.gradients.grad_q(strip.first));
    });
    BackwardQueue::wait_for_earlier_blocks(task, tile);
    sums.add(seen.first_key(), seen.keys, rows_of_panels(block, seen), state.gradients,
             state.scores.strip_scores({0, 0}), state.score_grads.all());
    BackwardQueue::mark_tile_done(task, tile);
  }

  /// Adds the gradients of a tile's bias.
  void add_bias_gradient(const TileVisibility& seen, bool finite, ThreadState& state,
                         const KvGradients<Tier, T>& sums) {
    const Index dim = state.gradients.query_dim(), queries = state.block.rows() / group();
    const auto add = [&](auto tile, const MatrixView<const Real>& grad) {
      QueryBiasGradients<T> to;
      if (state.bias_grad_q != nullptr) {
        tile.rows = state.key_rows;
        tile.rows_are_finite = finite;
        const Index head = tile.tokens.head - state.block.first_head();
        to.queries = {state.bias_grad_q + head * queries * dim, queries, call_.k.dim, dim};
        if (sums.has_keys()) {
          to.keys = {sums.key_gradient(seen.keys.begin), grad.cols, call_.k.dim, dim};
        }
      }
      bias_gradients_.add(state.thread, tile, grad, to);
    };
    state.scores.for_score_gradients(state.block, seen, state.keys, state.key_positions,
                                     state.score_grads.all(), state.bias_block, add);
  }

  /// Packs a tile. Returns true if the tile and the rows of the block are finite.
  bool pack_tile(const BackwardQueue::Task& task, Index tile, const TileVisibility& seen,
                 ThreadState& state) const noexcept {
    const AttentionSequence& s = task.head->sequence;
    const Index head = task.head->kv_head;
    pack_tile_panels<Tier>(call_.k, s, head, tile, seen.keys, state.keys);
    pack_tile_panels<Tier>(call_.v, s, head, tile, seen.keys, state.values);
    bool finite = pack_tile_rows<Tier>(call_.k, s, head, tile, seen.keys, state.key_rows);
    const Index panel_elements = panel_lanes * packed_dim<Stored>(call_.v.dim);
    const Index first = (seen.keys.begin - seen.first_key()) / panel_lanes;
    const Index end = (seen.keys.end - seen.first_key() + panel_lanes - 1) / panel_lanes;
    finite &=
        all_finite<Tier>(state.values + first * panel_elements, (end - first) * panel_elements);
    const TileDropout& dropout = state.score_grads.dropout();
    if (call_.plan.has_bias || dropout.is_enabled()) {
      const Index count = seen.keys.end - seen.first_key();
      state.key_positions =
          geometry().key_positions(s, seen.first_key(), count, state.key_position_buffer);
      if (dropout.is_enabled()) dropout.begin(state.key_positions, count);
    }
    return finite && state.gradients.finite();
  }

  /// Replaces scores by probabilities, and computes the gradient of the masked scores.
  void compute_score_gradients(const TileVisibility& seen, bool finite, ThreadState& state) const {
    const Block& block = state.block;
    const KvTile<Stored> tile{.keys = state.keys, .values = state.values};
    const bool by_strip = state.scores.begin_tile(block, seen, tile, state.key_positions);
    block.for_strips([&](const Strip& strip) {
      const ActiveLanes lanes = Block::active_lanes(seen, strip);
      Real* const scores = state.scores.strip_scores(strip);
      if (lanes.empty()) return state.score_grads.clear(strip, scores);
      state.scores.compute_strip(block, seen, tile, strip, by_strip);
      state.score_grads.compute(block, state.gradients, strip, lanes, state.values, call_.v.dim,
                                !finite, scores);
    });
  }

  /// Returns the range of rows that see keys of each panel.
  static typename KvGradients<Tier, T>::PanelRowRanges rows_of_panels(
      const Block& block, const TileVisibility& seen) noexcept {
    typename KvGradients<Tier, T>::PanelRowRanges rows{};
    block.for_visible_strips(seen, [&](const Strip& strip, const ActiveLanes& lanes) {
      for (Index n = 0; n < tile_panels; ++n) {
        PanelRowRange& panel_rows = rows[static_cast<std::size_t>(n)];
        if (lanes.has_panel(n))
          panel_rows = hull(panel_rows, {strip.first, strip.first + strip.rows});
      }
    });
    return rows;
  }

  /// Returns the estimated cycles of the call, for Eigen's cost model: five products, where forward
  /// has two.
  double estimated_cycles() const noexcept {
    double row_tiles = 0;
    for (Index n = 0; n < geometry().sequences(); ++n) {
      const AttentionSequence s = geometry().sequence(n);
      row_tiles += static_cast<double>(s.queries * group()) * static_cast<double>(s.stored);
    }
    return 2.5 * row_tiles * static_cast<double>(call_.k.heads * (call_.k.dim + call_.v.dim)) /
           fmas_per_cycle;
  }

  const ErasedDevice& device_;
  const Call& call_;
  BiasGradients<T>& bias_gradients_;
  Index queries_per_block_ = 0;
  MonotonicCounter added_blocks_;  ///< number of blocks whose parameters are added
};

}  // namespace detail
POSENC_END
