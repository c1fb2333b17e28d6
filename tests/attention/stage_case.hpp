// SPDX-License-Identifier: MIT
#pragma once

#include "attention_case.hpp"
#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/attention/detail/scores.hpp>
#include <posenc/kernels/scratch_arenas.hpp>

// Lower stages of a call without a schedule, so that a test can run one stage separately.
namespace attention_test {

/// Returns the result of make(allocator), in memory of `arenas`. make() is called twice: to measure its
/// size, and to allocate.
template <class Make>
auto allocate_from(posenc::detail::ScratchArenas& arenas, const Make& make) {
  posenc::detail::ArenaAllocator measure(nullptr);
  (void)make(measure);
  arenas.reserve(1, measure.bytes_used());
  posenc::detail::ArenaAllocator allocator(arenas.arena(0));
  return make(allocator);
}

/// Tensors whose products are exact, and the stages of a call up to its rows and their scores.
template <class TheTier, class T>
class StageCase {
 public:
  using Tier = TheTier;
  using Scores = posenc::detail::Scores<Tier, T, T>;
  using Block = typename Scores::Block;

  Case<T> tensors;
  const posenc::AttentionOptions<T> options;
  const posenc::detail::ErasedBias<T> call_bias;
  const posenc::detail::InternalOptions internal{.function = "stage"};
  posenc::detail::AttentionPlan<T> plan;

  /// `bias` must outlive the case.
  template <class Bias = posenc::NoBias>
  StageCase(const Shape& shape, const posenc::AttentionOptions<T>& call, const Bias& bias = {},
            const posenc::AttentionMemory<T>& memory = {}, support::Layout layout = {})
      : tensors(shape, 3, layout),
        options(with_scale(call)),
        call_bias(bias),
        plan({.q = tensors.q.view(),
              .kv_heads = shape.kv_heads,
              .keys = shape.keys,
              .stored_keys = posenc::detail::StoredKeyRanges(shape.keys),
              .is_empty = false,
              .is_backward = false,
              .has_bfloat16_values = posenc::detail::has_paired_channels<T>,
              .options = options,
              .memory = memory,
              .internal = internal},
             call_bias) {
    plan.uses_positions = true;
    support::Random random(5);
    tensors.v.for_each([&](T& value) {
      value = static_cast<T>(0.25 * static_cast<double>(random.integer(-9, 9)));
    });
  }
  StageCase(const StageCase&) = delete;
  StageCase& operator=(const StageCase&) = delete;

  Index group() const { return tensors.shape.heads / tensors.shape.kv_heads; }
  Index queries() const { return tensors.shape.queries; }
  Index keys() const { return tensors.shape.keys; }
  /// Returns the number of rows of all queries and `kv_heads` KV heads.
  Index rows(Index kv_heads = 1) const { return queries() * group() * kv_heads; }
  posenc::detail::AttentionSequence sequence() const { return plan.geometry.sequence(0); }
  Index tiles() const {
    return (keys() + posenc::detail::tile_keys - 1) / posenc::detail::tile_keys;
  }

  /// True if a key is visible to a query, for one batch row and a mask that all heads share.
  bool sees(Index query, Index key) const {
    const auto range = plan.geometry.visible_range(sequence(), query);
    return range.begin <= key && key < range.end &&
           (options.keep.data == nullptr || options.keep(0, 0, query, key));
  }

  /// Returns the exact product of query and key, times the scale.
  double score(Index query, Index head, Index key) {
    const T* const q = tensors.q.view().row(0, query, head);
    const T* const k = tensors.k.view().row(0, key, head / group());
    double sum = 0;
    for (Index d = 0; d < tensors.shape.dim; ++d) {
      sum += static_cast<double>(q[d]) * static_cast<double>(k[d]);
    }
    return 0.5 * sum;
  }

 private:
  static posenc::AttentionOptions<T> with_scale(posenc::AttentionOptions<T> options) {
    options.scale = 0.5;
    return options;
  }
};

}  // namespace attention_test
