// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/check_call.hpp>
#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/attention/detail/forward_schedule.hpp>
#include <posenc/attention/detail/output_writer.hpp>
#include <posenc/attention/detail/tensor_kv_source.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/core/detail/compiled.hpp>
#include <posenc/tensor/detail/erased_device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

POSENC_BEGIN
namespace detail {

/// Common part of attention() over tensors and over a cache. The shapes of q, out and the keys are
/// checked already.
///   source: provides tiles, see tensor_kv_source.hpp
///   key_count: number of keys of the longest batch row
template <class Tier, Scalar T, class Source>
void attend(const ErasedDevice& device, const HeadsView<const T>& q, const Source& source,
            Index key_count, Index value_dim, const HeadsView<T>& out,
            const AttentionOptions<T>& options, const ErasedBias<T>& bias,
            const AttentionMemory<T>& memory, const InternalOptions& internal) {
  const bool has_rows = q.batch != 0 && q.seq != 0 && q.heads != 0;
  const bool returns_weights = memory.weights.data != nullptr && !memory.weights.empty();
  const bool has_results = value_dim != 0 || memory.lse.data != nullptr || returns_weights;
  const AttentionPlan<T> plan({.q = q,
                               .kv_heads = source.heads(),
                               .keys = key_count,
                               .stored_keys = source.stored(),
                               .is_empty = !has_rows || (q.dim == 0 && !has_results),
                               .is_backward = false,
                               .has_bfloat16_values = has_paired_channels<typename Source::Element>,
                               .options = options,
                               .memory = memory,
                               .internal = internal},
                              bias);
  if (!has_rows || !has_results) return;
  const OutputWriter<T> outputs{.plan = plan, .out = out, .value_dim = padded_value_dim(value_dim)};
  using Schedule = ForwardSchedule<Tier, T, Source>;
  const bool can_use_pieces = Schedule::Worker::can_use_pieces && !bias.reads_queries();
  const ForwardStrategy strategy = choose_strategy<Tier>(plan, can_use_pieces, device.numThreads());
  AttentionWorkspace local_workspace;
  Schedule(device,
           {.plan = plan, .strategy = strategy, .bias = bias, .outputs = outputs, .source = source})
      .run(arenas_of(memory.workspace == nullptr ? local_workspace : *memory.workspace));
}

/// Runs attention() over tensors on the tier `Tier`.
///   S:    type of keys and values, with the Compute type of T
///   bias: from bias_for_tensors()
template <class Tier, Scalar T, Scalar S>
void attend_to_tensors(const ErasedDevice& device, const HeadsView<const T>& q,
                       const HeadsView<const S>& k, const HeadsView<const S>& v,
                       const HeadsView<T>& out, const AttentionOptions<T>& options,
                       const ErasedBias<T>& bias, const AttentionMemory<T>& memory,
                       const InternalOptions& internal) {
  check_tensors<T, S>(internal.function, q, k, v);
  check_out(internal.function, q, out, v.dim);
  attend<Tier>(device, q, TensorKvSource<Tier, T, S>(k, v), k.seq, v.dim, out, options, bias,
               memory, internal);
}

/// Returns a bias without its type, for attend_to_tensors() of the same types.
template <class Tier, Scalar T, Scalar S = T, class Bias>
ErasedBias<T> bias_for_tensors(const Bias& bias) {
  return erase_bias<Tier, typename TensorKvSource<Tier, T, S>::Stored, T>(bias);
}

#define POSENC_DETAIL_ATTEND(EXTERN, T, S)                                        \
  EXTERN template void attend_to_tensors<tier::Best, T, S>(                       \
      const ErasedDevice&, const HeadsView<const T>&, const HeadsView<const S>&,  \
      const HeadsView<const S>&, const HeadsView<T>&, const AttentionOptions<T>&, \
      const ErasedBias<T>&, const AttentionMemory<T>&, const InternalOptions&);
#define POSENC_DETAIL_ATTEND_SAME(EXTERN, T) POSENC_DETAIL_ATTEND(EXTERN, T, T)
POSENC_DETAIL_DECLARE_COMPILED(POSENC_DETAIL_ATTEND_SAME)
POSENC_DETAIL_DECLARE_COMPILED_MIXED(POSENC_DETAIL_ATTEND)

}  // namespace detail
POSENC_END
