// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/check_bias.hpp>
#include <posenc/attention/detail/check_call.hpp>
#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/attention/detail/masks.hpp>
#include <posenc/attention/detail/returned_scores_writer.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <optional>

POSENC_BEGIN
namespace detail {

/// Settings of posenc's own callers, such as a cache or a module. Users do not set them.
struct InternalOptions {
  const char* function = "attention";  ///< function name in exceptions
  double encoding_multiplier = 1;  ///< softmax_scale_multiplier() of the caller's rotary encoding
  ExplicitPositions positions = {};
};

/// Returns the positions of the options, or internal ones if the options have none.
template <Scalar T>
ExplicitPositions positions_of(const AttentionOptions<T>& options,
                               const ExplicitPositions& internal) {
  const auto given = [](const std::optional<Positions>& in_options, const Positions* other) {
    return in_options ? &*in_options : other;
  };
  return {given(options.query_positions, internal.queries),
          given(options.key_positions, internal.keys)};
}

/// Estimated multiply-adds per cycle, for Eigen's cost model: one AVX-512 vector of floats.
inline constexpr double fmas_per_cycle = 16;

/// Call whose tensors fit each other; its options are not checked yet.
template <Scalar T>
struct AttentionCall {
  HeadsView<const T> q;
  Index kv_heads;
  Index keys;  ///< number of keys of the longest batch row
  StoredKeyRanges stored_keys;
  bool is_empty;  ///< no number is read and none is written
  bool is_backward;
  bool has_bfloat16_values;
  const AttentionOptions<T>& options;
  const AttentionMemory<T>& memory;  ///< its workspace is not read; backward has none
  const InternalOptions& internal;
};

/// Geometry and settings of a call of attention() or its backward. They are checked and computed
/// once, before anything is written, and all stages read them.
template <Scalar T>
struct AttentionPlan {
  using Real = Compute<T>;

  const char* function;  ///< function name in exceptions
  const AttentionOptions<T>& options;
  LseView<Real> lse;  ///< written if it has data
  HeadsView<const T> q;
  AttentionShape shape;
  Index kv_heads;
  Index group;       ///< query heads per KV head
  bool is_backward;  ///< true for attention_backward()
  Real scale;        ///< factor of q k
  AttentionGeometry<T> geometry;
  Masks<T> masks;
  ReturnedScoresWriter<T> returned;
  bool keeps_masked_scores;  ///< returned scores include those of masked keys
  bool has_bias;
  bool has_dropout;           ///< dropout is enabled
  bool uses_positions;        ///< a bias, dropout or a temperature reads positions of queries
  bool rounds_probabilities;  ///< to bfloat16

  ///   Throws: ShapeError, ConfigError, PositionError
  POSENC_COLD AttentionPlan(const AttentionCall<T>& call, const ErasedBias<T>& bias)
      : function(call.internal.function),
        options(call.options),
        lse(call.memory.lse),
        q(call.q),
        shape{.batch = q.batch,
              .heads = q.heads,
              .queries = q.seq,
              .keys = call.keys,
              .is_empty = call.is_empty},
        kv_heads(call.kv_heads),
        group(kv_heads == 0 ? 1 : q.heads / kv_heads),
        is_backward(call.is_backward),
        scale(scale_after_checks(call)),
        geometry(function, options, shape, call.stored_keys,
                 positions_of(options, call.internal.positions)),
        masks(function, options, shape, geometry),
        returned(options, call.memory),
        keeps_masked_scores(returned.keeps_masked_scores()),
        has_bias(bias.is_present()),
        has_dropout(options.dropout.probability > 0),
        uses_positions(has_bias || has_dropout || options.temperature),
        rounds_probabilities(options.probabilities == Probabilities::RoundedToBfloat16) {
    check_bias<T>(function, bias, {q, shape, geometry, masks});
    if (has_dropout) geometry.require_query_positions("dropout");
    if (options.temperature) geometry.require_query_positions("temperature");
  }
  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;

 private:
  /// Returns the scale, after checks of all settings except geometry and masks.
  Real scale_after_checks(const AttentionCall<T>& call) const {
    const double scale_in_double =
        checked_scale<T>(function, options, call.internal.encoding_multiplier, q.dim);
    check_options<T>(function, options, shape);
    check_probabilities(function, options.probabilities, call.has_bfloat16_values);
    check_memory<T>(function, options, call.memory, shape);
    return static_cast<Real>(scale_in_double);
  }
};

}  // namespace detail
POSENC_END
