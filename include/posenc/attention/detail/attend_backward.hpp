// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/backward_schedule.hpp>
#include <posenc/attention/detail/bias_gradients.hpp>
#include <posenc/attention/detail/check_call.hpp>
#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/attention/detail/mask_gradient.hpp>
#include <posenc/attention/gradients.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/detail/compiled.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/erased_device.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Tensors of attention_backward(), without the gradient of a bias.
template <Scalar T>
struct BackwardTensors {
  HeadsView<const T> q, k, v, out;
  LseView<const Compute<T>> lse;
  HeadsView<const T> grad_out;
  const AttentionGradients<T>& gradients;
};

template <Scalar T>
void check_backward(const char* function, const BackwardTensors<T>& x,
                    const AttentionOptions<T>& options) {
  const auto check_like = [function](const char* name, const char* other_name,
                                     const HeadsView<const T>& view,
                                     const HeadsView<const T>& other) {
    check_extents(function, name, view);
    if (view.extents() != other.extents()) {
      fail<ShapeError>(function, name, " ", view.extents(), " must have the shape of ", other_name,
                       " ", other.extents());
    }
  };
  check_tensors<T>(function, x.q, x.k, x.v);
  check_like("out", "q, but for the channels of v,", x.out,
             {x.out.data, x.q.batch, x.q.seq, x.q.heads, x.v.dim});
  check_like("grad_out", "out", x.grad_out, x.out);
  const auto check_gradient = [&](const char* name, const char* of, const HeadsView<T>& gradient,
                                  const HeadsView<const T>& tensor) {
    if (gradient.data == nullptr) return;
    check_like(name, of, gradient, tensor);
    check_output(function, name, gradient);
  };
  check_gradient("gradients.q", "q", x.gradients.q, x.q);
  check_gradient("gradients.k", "k", x.gradients.k, x.k);
  check_gradient("gradients.v", "v", x.gradients.v, x.v);
  const auto sinks = x.gradients.sinks.size();
  if (sinks != 0 && sinks != options.sinks.size()) {
    fail<ShapeError>(function, "gradients.sinks must have as many numbers as options.sinks, ",
                     options.sinks.size(), ", but have ", sinks);
  }
  check_lse(function, x.lse, {x.q.batch, x.q.heads, x.q.seq});
  if (x.lse.data == nullptr && x.q.batch > 0 && x.q.heads > 0 && x.q.seq > 0) {
    fail<ConfigError>(function, "lse must have the log-sum-exps that attention() wrote");
  }
}

/// Adds the gradients of the sinks' logits to gradients.sinks. Each row's probability of the sink
/// contributes.
template <Scalar T>
void add_sink_gradients(const BackwardTensors<T>& x, const AttentionOptions<T>& options) {
  for (Index h = 0; h < static_cast<Index>(x.gradients.sinks.size()); ++h) {
    double sum = 0;
    const auto sink = static_cast<double>(options.sinks[static_cast<std::size_t>(h)]);
    for (Index b = 0; b < x.q.batch; ++b) {
      for (Index i = 0; i < x.q.seq; ++i) {
        const auto lse = static_cast<double>(x.lse(b, h, i));
        if (lse == -std::numeric_limits<double>::infinity()) continue;
        const T *out = x.out.row(b, i, h), *grad = x.grad_out.row(b, i, h);
        double delta = 0;
        for (Index d = 0; d < x.out.dim; ++d) {
          // A row without visible keys contributes nothing, whatever its gradient.
          const auto value = static_cast<double>(out[d]);
          if (value != 0) delta += value * static_cast<double>(grad[d]);
        }
        sum -= std::exp(sink - lse) * delta;
      }
    }
    x.gradients.sinks[static_cast<std::size_t>(h)] += static_cast<Compute<T>>(sum);
  }
}

/// Part of attend_backward_to_tensors() that does not depend on the types of device, bias and
/// gradient.
template <class Tier, Scalar T>
void attend_backward_erased(const ErasedDevice& device, const BackwardTensors<T>& x,
                            const AttentionOptions<T>& options, const ErasedBias<T>& bias,
                            BiasGradients<T>& bias_gradients, AttentionWorkspace* workspace,
                            const InternalOptions& internal) {
  using Run = BackwardSchedule<Tier, T>;
  const char* const function = internal.function;
  check_backward(function, x, options);
  // Without rows, or without channels of both kinds, all gradients are zeros.
  const bool is_zero =
      x.q.batch == 0 || x.q.seq == 0 || x.q.heads == 0 || (x.q.dim == 0 && x.v.dim == 0);
  const AttentionPlan<T> plan({.q = x.q,
                               .kv_heads = x.k.heads,
                               .keys = x.k.seq,
                               .stored_keys = StoredKeyRanges(x.k.seq),
                               .is_empty = is_zero,
                               .is_backward = true,
                               .has_bfloat16_values = has_paired_channels<T>,
                               .options = options,
                               .memory = {},
                               .internal = internal},
                              bias);
  const MaskGradient<T> mask(function, x.gradients.additive, options.additive,
                             plan.geometry.sequences(), x.k.heads);
  bias_gradients.prepare(function, arena_count(device));
  if (is_zero) {
    write_zeros(x.gradients.k);
    write_zeros(x.gradients.v);
    bias_gradients.write_zeros();
    return;
  }
  const typename Run::Call call{.plan = plan,
                                .bias = bias,
                                .gradient_rows = {.q = x.q,
                                                  .out = x.out,
                                                  .grad_out = x.grad_out,
                                                  .lse = x.lse,
                                                  .scale = plan.scale},
                                .k = x.k,
                                .v = x.v,
                                .grad_q = x.gradients.q,
                                .grad_k = x.gradients.k,
                                .grad_v = x.gradients.v,
                                .mask = mask};
  AttentionWorkspace local_workspace;
  Run(device, call, bias_gradients)
      .run(arenas_of(workspace == nullptr ? local_workspace : *workspace));
  add_sink_gradients(x, options);
}

/// Runs attention_backward() on the tier `Tier`.
template <class Tier, Device D, Scalar T, class Bias, class BiasGradient>
void attend_backward_to_tensors(const D& device, const BackwardTensors<T>& x,
                                const AttentionOptions<T>& options, const Bias& bias,
                                BiasGradient& bias_gradient, AttentionWorkspace* workspace,
                                const InternalOptions& internal = {
                                    .function = "attention_backward"}) {
  static_assert(AttentionBias<Bias, T>,
                "posenc::attention_backward: Bias must be one that attention() accepts, see "
                "ScoreBias, TokenBias and QueryBias in posenc/concepts.hpp");
  using Stored = PackedRowElement<Tier, T, T>;
  constexpr bool has_gradient = !std::is_same_v<BiasGradient, NoGradient>;
  const auto run = [&](auto&& bias_gradients) {
    attend_backward_erased<Tier, T>(ErasedDevice(device), x, options,
                                    erase_bias<Tier, Stored, T>(bias), bias_gradients, workspace,
                                    internal);
  };
  if constexpr (QueryBias<Bias, T>) {
    // Queries and keys have a gradient, even if that of the parameters is discarded.
    using Gradient = GradientOf<Bias>;
    static_assert(
        DifferentiableQueryBias<Bias, T, Gradient>,
        "posenc::attention_backward: the bias must provide add_gradient(tile, grad, to, gradient) "
        "const, see DifferentiableQueryBias in posenc/concepts.hpp");
    static_assert(
        !has_gradient || std::is_same_v<BiasGradient, Gradient>,
        "posenc::attention_backward: bias_gradient must be what bias.zero_gradient() returns");
    using Gradients = TypedBiasGradients<KernelTypes<Tier, T, Stored>, T, Bias, Gradient>;
    if constexpr (has_gradient) {
      run(Gradients(bias, bias_gradient));
    } else {
      Gradient discarded = zero_gradient_of(bias);
      run(Gradients(bias, discarded, false));
    }
  } else if constexpr (has_gradient) {
    run(TypedBiasGradients<KernelTypes<Tier, T, Stored>, T, Bias, BiasGradient>(bias,
                                                                                bias_gradient));
  } else {
    run(BiasGradients<T>());
  }
}

#define POSENC_DETAIL_ATTEND_BACKWARD(EXTERN, T)                                  \
  EXTERN template void attend_backward_erased<tier::Best, T>(                     \
      const ErasedDevice&, const BackwardTensors<T>&, const AttentionOptions<T>&, \
      const ErasedBias<T>&, BiasGradients<T>&, AttentionWorkspace*, const InternalOptions&);
POSENC_DETAIL_DECLARE_COMPILED(POSENC_DETAIL_ATTEND_BACKWARD)

}  // namespace detail
POSENC_END
