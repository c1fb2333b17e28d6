// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/backward_queue.hpp>
#include <posenc/attention/detail/gradient_rows.hpp>
#include <posenc/attention/detail/key_gradients.hpp>
#include <posenc/attention/detail/mask_gradient.hpp>
#include <posenc/attention/detail/parameter_gradients.hpp>
#include <posenc/attention/detail/places.hpp>
#include <posenc/attention/detail/relative_gradients.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/score_gradients.hpp>
#include <posenc/attention/detail/scores.hpp>
#include <posenc/attention/detail/tensor_source.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Backward schedule: one call of attention_backward(), cut into blocks of queries. Each block
/// visits the tiles that it sees, and recomputes their scores by the forward stages.
template <class Tier, Device D, Scalar T, class Bias, class BiasGradient>
class BackwardSchedule {
 public:
  using Real = Compute<T>;
  using Stored = PackedRowElement<Tier, T, T>;
  using Block = RowBlock<Tier, T, Stored>;
  using ScoresOfCall = Scores<Tier, T, Bias, Stored>;
  using ParametersOfCall = ParameterGradients<T, Bias, BiasGradient>;

  /// Data that all parts of the call share.
  struct Call {
    const AttentionPlan<T>& plan;
    const Bias& bias;
    typename GradientRows<Tier, T, Stored>::Setting gradient_rows;
    HeadsView<const T> k, v;
    HeadsView<T> grad_q, grad_k, grad_v;
    MaskGradient<T> mask;
  };

  BackwardSchedule(const D& device, const Call& call, ParametersOfCall& parameters)
      : device_(device), call_(call), parameters_(parameters) {
    const Index queries = places().most_queries();
    per_block_ =
        (std::clamp)(most_rows_of_block / group(), Index{1}, (std::max)(queries, Index{1}));
  }

  void run(Slots& workspace) {
    const Index threads = (std::max)(Index{1}, static_cast<Index>(device_.numThreads()));
    const Index heads_at_work = (std::min)(threads, places().sequences() * call_.k.heads);
    BackwardQueue queue({.sequences = places().sequences(),
                         .heads = call_.k.heads,
                         .most_blocks = blocks_of(places().most_queries()),
                         .threads = heads_at_work,
                         .in_order = ParametersOfCall::in_order,
                         .one_by_one = call_.mask.is_shared_by_heads()});
    Carver measure(nullptr);
    (void)Slot(*this, measure);
    const std::size_t of_slot = measure.used();
    const Index count = (std::max)(arena_count(device_), heads_at_work);
    const KeyGradients<Tier, T> sums = sums_of(measure);
    (void)sums;
    workspace.reserve(count, measure.used());
    const auto run_blocks = [&](Index, Index) {
      const Index thread = arena_index(device_);
      Carver carver(workspace.slot(thread));
      Slot slot(*this, carver);
      slot.thread = thread;
      const auto describe = [&](Index n) { return places().sequence(n); };
      const auto blocks = [&](const AttentionSequence& s) { return blocks_of(s.queries); };
      BackwardQueue::Head* last = nullptr;
      for (;;) {
        const BackwardQueue::Task task = queue.take(last, describe, blocks);
        if (task.head == nullptr) return;
        last = task.head;
        // A head's accumulators follow the thread state in some slot.
        Carver of_head(workspace.slot(task.head->place) + of_slot);
        const KeyGradients<Tier, T> of_keys = sums_of(of_head);
        run_block(task, slot, of_keys);
        queue.finish(task, [&](const BackwardQueue::Head& head) {
          of_keys.write(head.sequence, head.key_head, call_.grad_k, call_.grad_v);
        });
      }
    };
    parallel_for(device_, threads, 0, cycles() / static_cast<double>(threads), run_blocks);
  }

 private:
  static constexpr bool is_relative = ParametersOfCall::of_tables;

  /// Backward of a RelativeBias, if there is one.
  struct NoRelativeBias {
    NoRelativeBias(const Call&, const LearnedTables&, Index, Index, Carver&) noexcept {}
  };
  struct SomeRelativeBias : RelativeGradients<Tier, T, Stored> {
    SomeRelativeBias(const Call& call, const LearnedTables& learned, Index rows, Index queries,
                     Carver& carver) noexcept
        : RelativeGradients<Tier, T, Stored>(call.bias, learned, call.plan.scale, rows, queries,
                                             carver) {}
  };
  using OfRelativeBias = std::conditional_t<is_relative, SomeRelativeBias, NoRelativeBias>;

  /// State of a thread, in its slot of the workspace.
  struct Slot {
    Slot(const BackwardSchedule& schedule, Carver& carver) noexcept
        : block(schedule.call_.plan, schedule.rows(), carver),
          gradients(schedule.call_.gradient_rows, schedule.rows(), carver),
          scores(schedule.call_.plan, schedule.call_.bias, schedule.rows(), schedule.per_block_,
                 carver),
          of_scores(schedule.call_.plan.options, schedule.rows(), carver),
          keys(carver.take<Stored>(tile_keys * stored_dim<Stored>(schedule.call_.k.dim))),
          values(carver.take<Stored>(tile_keys * stored_dim<Stored>(schedule.call_.v.dim))),
          key_rows(carver.take<Stored>(tile_keys * padded_value_dim(schedule.call_.k.dim))),
          run_of_positions(carver.take<double>(tile_keys)),
          lanes(carver.take<ActiveLanes>(Block::strips(schedule.rows()))),
          of_masks(carver.take<Real>(schedule.rows())),
          relative(schedule.call_, schedule.parameters_.learned_tables(), schedule.rows(),
                   schedule.per_block_, carver) {
      std::fill(std::begin(ones), std::end(ones), Real{1});
    }

    Block block;
    GradientRows<Tier, T, Stored> gradients;
    ScoresOfCall scores;
    ScoreGradients<Tier, T, Stored> of_scores;
    Stored* keys;                           ///< keys of the tile, as panels
    Stored* values;                         ///< values of the tile, as panels
    Stored* key_rows;                       ///< [tile_keys, padded head_dim]
    double* run_of_positions;               ///< buffer for the positions of a tile's keys
    const double* key_positions = nullptr;  ///< positions of the tile's keys, if they are read
    ActiveLanes* lanes;                     ///< one entry per strip
    Real* of_masks;  ///< [rows]: sums over keys, for a mask that is broadcast over keys
    POSENC_NO_UNIQUE_ADDRESS OfRelativeBias relative;
    Real ones[stats_rows];
    Index thread = 0;
  };

  /// Maximum rows of a block. Their scores, gradients, queries and outputs, 0.6 MiB of floats with
  /// 128 channels, stay in L2 beside a tile and its sums. It is a multiple of the strip size of
  /// every tier.
  static constexpr Index most_rows_of_block = 192;
  /// Estimated multiply-adds per cycle, for Eigen's cost model.
  static constexpr double products_per_cycle = 16;

  Index group() const noexcept { return call_.plan.group; }
  const Places<T>& places() const noexcept { return call_.plan.places; }
  Index rows() const noexcept { return per_block_ * group(); }
  /// Returns the number of blocks, at least one: keys without queries have gradients, too.
  Index blocks_of(Index queries) const noexcept {
    return (std::max)(Index{1}, (queries + per_block_ - 1) / per_block_);
  }

  KeyGradients<Tier, T> sums_of(Carver& carver) const noexcept {
    Index most = 0;
    for (Index n = 0; n < places().sequences(); ++n) {
      most = (std::max)(most, places().sequence(n).stored);
    }
    const bool of_keys = call_.grad_k.data != nullptr, of_values = call_.grad_v.data != nullptr;
    return {most, of_keys ? call_.k.dim : 0, of_values ? call_.v.dim : 0, carver};
  }

  void run_block(const BackwardQueue::Task& task, Slot& slot, const KeyGradients<Tier, T>& sums) {
    const AttentionSequence& s = task.head->sequence;
    const Index first = task.block * per_block_;
    slot.block.take(s, task.head->key_head, first, (std::min)(per_block_, s.queries - first));
    slot.gradients.take(slot.block);
    slot.scores.begin(slot.block);
    std::fill_n(slot.of_masks, slot.block.rows(), Real{0});
    parameters_.begin(slot.thread);
    if constexpr (is_relative) slot.relative.begin(slot.block);
    if (task.is_first()) sums.clear(s.stored);
    const KeyRange keys = slot.block.keys();
    for (Index tile = keys.begin / tile_keys; tile * tile_keys < keys.end; ++tile) {
      add_tile(task, tile, slot, sums);
    }
    write_rows(task, slot);
    parameters_.end(slot.thread, task.number);
    BackwardQueue::wait_for_last_turn(task);
    call_.mask.add_sums(slot.block, slot.of_masks);
  }

  void write_rows(const BackwardQueue::Task& task, Slot& slot) {
    const auto write = [&](const auto& more_of) {
      if (call_.grad_q.data != nullptr) slot.gradients.write(slot.block, call_.grad_q, more_of);
    };
    if constexpr (is_relative) {
      write([&](Index r) { return slot.relative.of_row(r); });
      parameters_.add_in_turn(task.number, [&](const auto& all) {
        slot.relative.write(slot.block, all.queries);
        slot.relative.add_tables(all);
      });
    } else {
      write([](Index) -> const Real* { return nullptr; });
    }
  }

  void add_tile(const BackwardQueue::Task& task, Index tile, Slot& slot,
                const KeyGradients<Tier, T>& sums) {
    const Block& block = slot.block;
    const SeenTile seen = block.look_at(tile, slot.lanes);
    if (seen.keys.empty()) return;
    const bool finite = take_tile(task, tile, seen, slot);
    make_gradients(seen, finite, slot);
    if (call_.mask.given()) {
      BackwardQueue::wait_for_turn(task, tile);
      call_.mask.add(block, seen, slot.of_scores.all(), slot.of_masks);
    }
    for_seen(block, seen, [&](const Strip& strip, const ActiveLanes& lanes) {
      slot.scores.unfinish(block, lanes, strip, slot.of_scores.of(strip));
    });
    const auto add_bias_gradient = [&](auto& gradient) {
      slot.scores.add_bias_gradient(block, seen, slot.key_positions, slot.of_scores.all(),
                                    gradient);
    };
    parameters_.add_to_own(slot.thread, add_bias_gradient);
    if constexpr (ParametersOfCall::of_tokens) {
      BackwardQueue::wait_for_turn(task, tile);
      parameters_.add_to_all(add_bias_gradient);
    }
    if constexpr (is_relative) {
      BackwardQueue::wait_for_turn(task, tile);
      slot.relative.add(block, seen, slot.key_positions, slot.of_scores.all(), slot.key_rows,
                        finite, sums);
    }
    for_seen(block, seen, [&](const Strip& strip, const ActiveLanes& lanes) {
      slot.scores.unmultiply(block, lanes, strip, slot.of_scores.of(strip));
      add_to_queries(strip, lanes, finite, slot);
    });
    BackwardQueue::wait_for_turn(task, tile);
    sums.add(seen.first_key(), seen.keys, rows_of_panels(block, seen), slot.gradients,
             slot.scores.of({0, 0}), slot.of_scores.all());
    BackwardQueue::done_with(task, tile);
  }

  /// Packs a tile. Returns true if the tile and the rows of the block are finite.
  bool take_tile(const BackwardQueue::Task& task, Index tile, const SeenTile& seen,
                 Slot& slot) const noexcept {
    const AttentionSequence& s = task.head->sequence;
    const Index head = task.head->key_head;
    pack_tile_panels<Tier>(call_.k, s, head, tile, seen.keys, slot.keys);
    pack_tile_panels<Tier>(call_.v, s, head, tile, seen.keys, slot.values);
    bool finite = pack_tile_rows<Tier>(call_.k, s, head, tile, seen.keys, slot.key_rows);
    const Index of_panel = panel_lanes * stored_dim<Stored>(call_.v.dim);
    const Index first = (seen.keys.begin - seen.first_key()) / panel_lanes;
    const Index end = (seen.keys.end - seen.first_key() + panel_lanes - 1) / panel_lanes;
    finite &= all_finite<Tier>(slot.values + first * of_panel, (end - first) * of_panel);
    const TileDropout& dropout = slot.of_scores.dropout();
    if (ScoresOfCall::has_bias || dropout.drops()) {
      const Index count = seen.keys.end - seen.first_key();
      slot.key_positions =
          places().key_positions(s, seen.first_key(), count, slot.run_of_positions);
      if (dropout.drops()) dropout.begin(slot.key_positions, count);
    }
    return finite && slot.gradients.finite();
  }

  /// Replaces scores by probabilities, and computes the gradient of the masked scores.
  void make_gradients(const SeenTile& seen, bool finite, Slot& slot) const {
    const Block& block = slot.block;
    const KeyTile<Stored> keys{slot.keys, slot.values};
    if constexpr (ScoresOfCall::has_bias) {
      for_seen(block, seen, [&](const Strip& strip, const ActiveLanes&) {
        slot.scores.multiply(block, seen, keys, strip);
      });
      slot.scores.add_bias(block, seen, keys, slot.key_positions);
    }
    block.for_strips([&](const Strip& strip) {
      const ActiveLanes lanes = Block::lanes_of(seen, strip);
      if (lanes.empty()) {
        slot.of_scores.clear(strip, slot.scores.of(strip));
        return;
      }
      if constexpr (!ScoresOfCall::has_bias) slot.scores.multiply(block, seen, keys, strip);
      slot.scores.finish(block, seen, strip);
      slot.of_scores.make(block, slot.gradients, strip, lanes, slot.values, call_.v.dim, !finite,
                          slot.scores.of(strip), slot.scores.slopes(strip));
    });
  }

  void add_to_queries(const Strip& strip, const ActiveLanes& lanes, bool finite,
                      const Slot& slot) const noexcept {
    const auto add = [&]<SkipWeights Weights>(std::integral_constant<SkipWeights, Weights>) {
      const Index dim = slot.gradients.query_dim();
      for_bundles<Tier>(strip.rows, WeightedSumKernel<Tier, Real, Stored, Weights>{
                                        slot.of_scores.of(strip),
                                        slot.key_rows,
                                        dim,
                                        dim,
                                        lanes,
                                        slot.ones,
                                        slot.ones,
                                        slot.gradients.grad_q(strip.first),
                                        {slot.key_rows}});
    };
    dispatch_skip_weights<SkipWeights::Zero>(finite, add);
  }

  template <class Visit>
  static void for_seen(const Block& block, const SeenTile& seen, const Visit& visit) {
    block.for_strips([&](const Strip& strip) {
      const ActiveLanes lanes = Block::lanes_of(seen, strip);
      if (!lanes.empty()) visit(strip, lanes);
    });
  }

  /// Returns the range of rows that see keys of each panel.
  static typename KeyGradients<Tier, T>::RowsOfPanels rows_of_panels(
      const Block& block, const SeenTile& seen) noexcept {
    typename KeyGradients<Tier, T>::RowsOfPanels rows{};
    for_seen(block, seen, [&](const Strip& strip, const ActiveLanes& lanes) {
      for (Index n = 0; n < tile_panels; ++n) {
        PanelRowRange& of_panel = rows[static_cast<std::size_t>(n)];
        if (lanes.has_panel(n)) of_panel = hull(of_panel, {strip.first, strip.first + strip.rows});
      }
    });
    return rows;
  }

  /// Returns the estimated cycles of the call, for Eigen's cost model: five products, where forward
  /// has two.
  double cycles() const noexcept {
    double row_tiles = 0;
    for (Index n = 0; n < places().sequences(); ++n) {
      const AttentionSequence s = places().sequence(n);
      row_tiles += static_cast<double>(s.queries * group()) * static_cast<double>(s.stored);
    }
    return 2.5 * row_tiles * static_cast<double>(call_.k.heads * (call_.k.dim + call_.v.dim)) /
           products_per_cycle;
  }

  const D& device_;
  const Call& call_;
  ParametersOfCall& parameters_;
  Index per_block_ = 0;
};

}  // namespace detail
POSENC_END
