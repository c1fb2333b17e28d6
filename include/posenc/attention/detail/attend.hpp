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
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <type_traits>

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
  Schedule(device, {plan, strategy, bias, outputs, source})
      .run(arenas_of(memory.workspace == nullptr ? local_workspace : *memory.workspace));
}

/// Part of attend_to_tensors() that does not depend on the types of device and bias.
template <class Tier, Scalar T, Scalar S>
void attend_to_tensors_erased(const ErasedDevice& device, const HeadsView<const T>& q,
                              const HeadsView<const S>& k, const HeadsView<const S>& v,
                              const HeadsView<T>& out, const AttentionOptions<T>& options,
                              const ErasedBias<T>& bias, const AttentionMemory<T>& memory,
                              const InternalOptions& internal) {
  check_tensors<T, S>(internal.function, q, k, v);
  check_out(internal.function, q, out, v.dim);
  attend<Tier>(device, q, TensorKvSource<Tier, T, S>(k, v), k.seq, v.dim, out, options, bias,
               memory, internal);
}

/// Runs attention() over tensors on the tier `Tier`.
///   S: type of keys and values, with the Compute type of T
template <class Tier, Device D, Scalar T, Scalar S = T, class Bias>
void attend_to_tensors(const D& device, const HeadsView<const T>& q,
                       const HeadsView<const std::type_identity_t<S>>& k,
                       const HeadsView<const std::type_identity_t<S>>& v, const HeadsView<T>& out,
                       const AttentionOptions<T>& options, const Bias& bias,
                       const AttentionMemory<T>& memory, const InternalOptions& internal = {}) {
  using Stored = typename TensorKvSource<Tier, T, S>::Stored;
  attend_to_tensors_erased<Tier, T, S>(ErasedDevice(device), q, k, v, out, options,
                                       erase_bias<Tier, Stored, T>(bias), memory, internal);
}

#define POSENC_DETAIL_ATTEND(EXTERN, T, S)                                        \
  EXTERN template void attend_to_tensors_erased<tier::Best, T, S>(                \
      const ErasedDevice&, const HeadsView<const T>&, const HeadsView<const S>&,  \
      const HeadsView<const S>&, const HeadsView<T>&, const AttentionOptions<T>&, \
      const ErasedBias<T>&, const AttentionMemory<T>&, const InternalOptions&);
#define POSENC_DETAIL_ATTEND_SAME(EXTERN, T) POSENC_DETAIL_ATTEND(EXTERN, T, T)
POSENC_DETAIL_DECLARE_COMPILED(POSENC_DETAIL_ATTEND_SAME)
POSENC_DETAIL_DECLARE_COMPILED_MIXED(POSENC_DETAIL_ATTEND)

}  // namespace detail
POSENC_END
