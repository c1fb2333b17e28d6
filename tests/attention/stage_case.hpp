// SPDX-License-Identifier: MIT
#pragma once

#include "attention_case.hpp"
#include <posenc/attention/detail/masks.hpp>
#include <posenc/attention/detail/places.hpp>
#include <posenc/attention/detail/returned_scores.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/scores.hpp>
#include <posenc/attention/detail/slots.hpp>

// What stands below a stage, without a schedule, so that a test can ask the stage by itself.
namespace attention_test {

/// What make(carver) gives, in memory of `slots`: asked once for its size, and then for itself.
template <class Make>
auto carved(posenc::detail::Slots& slots, const Make& make) {
  posenc::detail::Carver measure(nullptr);
  (void)make(measure);
  slots.reserve(1, measure.used());
  posenc::detail::Carver carver(slots.slot(0));
  return make(carver);
}

/// Tensors that multiply without rounding, and the stages of a call up to its rows and their scores.
template <class TheTier, class T, class Bias = posenc::NoBias>
class StageCase {
 public:
  using Tier = TheTier;
  using Scores = posenc::detail::Scores<Tier, T, Bias, T>;
  using Block = typename Scores::Block;

  Case<T> tensors;
  const posenc::AttentionOptions<T> options;
  const posenc::detail::Places<T> places;
  const posenc::detail::Masks<T> masks;
  const posenc::detail::ReturnedWeights<T> returned;
  const typename Block::Setting of_rows;
  const typename Scores::Setting of_scores;

  StageCase(const Shape& shape, const posenc::AttentionOptions<T>& call, const Bias& bias = {},
            support::Layout layout = {})
      : tensors(shape, 3, layout),
        options(call),
        places("stage", options, extents(shape), posenc::detail::StoredKeys(shape.keys), {}),
        masks("stage", options, extents(shape), places),
        returned(options, options.weights),
        of_rows{tensors.q.view(), places, masks, group(), true, options.temperature, false},
        of_scores{options, bias, returned, T{0.5}} {
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
  /// Of all queries and `key_heads` key heads.
  Index rows(Index key_heads = 1) const { return queries() * group() * key_heads; }
  posenc::detail::AttentionSequence sequence() const { return places.sequence(0); }
  Index tiles() const {
    return (keys() + posenc::detail::tile_keys - 1) / posenc::detail::tile_keys;
  }

  /// Keys that a query sees, key by key: of one batch row, in a mask that all heads share.
  bool sees(Index query, Index key) const {
    const auto range = places.range(sequence(), query);
    return range.begin <= key && key < range.end &&
           (options.keep.data == nullptr || options.keep(0, 0, query, key));
  }

  /// The product of query and key, exact, times the scale.
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
  static posenc::detail::AttentionShape extents(const Shape& shape) {
    return {shape.batch, shape.heads, shape.queries, shape.keys};
  }
};

}  // namespace attention_test
