// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attend_backward.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/nn/detail/linear_passes.hpp>
#include <posenc/nn/detail/multi_head_parts.hpp>
#include <posenc/nn/detail/qk_norms.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/nn/multi_head_tape.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <span>
#include <type_traits>
#include <utility>

POSENC_BEGIN
namespace detail {

/// Output views for the gradients of a module's inputs. A view without data is not computed.
template <class T>
struct InputGradients {
  EmbeddingsView<T> x, keys_from = {}, values_from = {};
  bool sums_into_x = false;  ///< self attention: x gets the sum of all three
};

/// Backward pass of MultiHeadAttention: the steps of the forward pass in reverse order.
template <class Module, Device D, class T, class Gradients>
class MultiHeadBackward {
  using Rotary = std::remove_cvref_t<decltype(std::declval<const Module&>().rotary())>;
  using Projection = decltype(Module::query_projection);
  static_assert(DifferentiableRotary<Rotary, T>,
                "posenc::MultiHeadAttention::backward: Rotary must provide adjoint_queries(grad, "
                "positions) and adjoint_keys; see DifferentiableRotary in posenc/concepts.hpp");
  static_assert(DifferentiableProjection<Projection, T>,
                "posenc::MultiHeadAttention::backward: Projection must provide backward(x, "
                "grad_out, grad_x, gradient) and zero_gradient(); see posenc/nn/linear.hpp");

 public:
  static constexpr auto name = "MultiHeadAttention::backward";

  /// Checks all arguments.
  ///   Throws: ShapeError, ConfigError
  MultiHeadBackward(const D& device, const Module& module, const MultiHeadTape<T>& tape,
                    const EmbeddingsView<const T>& grad_out, const InputGradients<T>& inputs,
                    Gradients& gradients)
      : device_(device),
        module_(module),
        pass_(checked(TapeAccess::pass_to_read(tape), module, inputs)),
        grad_out_(grad_out),
        inputs_(inputs),
        gradients_(gradients) {
    check_shape(name, "grad_out", grad_out,
                std::array<Index, 3>{pass_.x.batch, pass_.x.seq, module.config().model_dim});
    check_input("grad_x", inputs.x, pass_.x);
    check_input("grad_keys_from", inputs.keys_from, pass_.keys_from);
    check_input("grad_values_from", inputs.values_from, pass_.values_from);
    check_gradient("gradients.query_projection", module.query_projection,
                   gradients.query_projection);
    check_gradient("gradients.key_projection", module.key_projection, gradients.key_projection);
    check_gradient("gradients.value_projection", module.value_projection,
                   gradients.value_projection);
    check_gradient("gradients.output_projection", module.output_projection,
                   gradients.output_projection);
    const auto& config = module.config();
    check_qk_norms(name, module);
    check_qk_norm(name, "gradients.query_norm", config, config.heads, gradients.query_norm, true);
    check_qk_norm(name, "gradients.key_norm", config, config.kv_heads, gradients.key_norm, true);
    check_rotary();
  }

  const ForwardPass<T>& pass() const noexcept { return pass_; }

  /// Runs the backward pass. No output of the caller is written before attention's backward pass.
  ///   internal: internal options of the forward pass
  void run(ScratchArenas& memory, AttentionWorkspace& workspace, const InternalOptions& internal) {
    lay_out(memory);
    workspace_ = &workspace;
    const ModuleHeads<T>& heads = pass_.heads;
    decltype(gradients_.output_projection) nothing{};
    backpropagate(module_.output_projection, tokens(heads.mixed), grad_out_, tokens(grad_.mixed),
                  nothing);
    const AttentionGradients<T> attention_gradients{.q = grad_.q,
                                                    .k = grad_.k,
                                                    .v = grad_.v,
                                                    .additive = gradients_.additive,
                                                    .sinks = gradients_.sinks};
    attend_backward_to_tensors<tier::Best, D, T>(device_,
                                                 {.q = heads.q,
                                                  .k = heads.k,
                                                  .v = heads.v,
                                                  .out = heads.mixed,
                                                  .lse = pass_.lse,
                                                  .grad_out = grad_.mixed,
                                                  .gradients = attention_gradients},
                                                 pass_.options, module_.bias(), gradients_.bias,
                                                 workspace_, internal);
    backprop_rotation();
    backprop_norms();
    backpropagate(module_.output_projection, tokens(heads.mixed), grad_out_, {},
                  gradients_.output_projection);
    backpropagate(module_.query_projection, pass_.x, tokens(grad_.q), inputs_.x,
                  gradients_.query_projection);
    backprop_projection(module_.key_projection, pass_.keys_from, grad_.k, inputs_.keys_from,
                        gradients_.key_projection);
    backprop_projection(module_.value_projection, pass_.values_from, grad_.v, inputs_.values_from,
                        gradients_.value_projection);
  }

 private:
  static const ForwardPass<T>& checked(const ForwardPass<T>* pass, const Module& module,
                                       const InputGradients<T>& inputs) {
    if (pass == nullptr) {
      fail<ConfigError>(name, "the tape must have a forward pass: call forward(..., tape) first");
    }
    if (inputs.sums_into_x && !pass->is_self) {
      fail<ConfigError>(name,
                        "the tape is of cross attention, so backward() requires grad_keys_from and "
                        "grad_values_from besides grad_x");
    }
    const auto& config = module.config();
    const auto widths = [](Index x, Index keys, Index values, Index heads, Index kv_heads,
                           Index head_dim, Index value_dim) {
      return std::array{x, keys, values, heads, kv_heads, head_dim, value_dim};
    };
    const auto& heads = pass->heads;
    const auto pass_widths = widths(pass->x.dim, pass->keys_from.dim, pass->values_from.dim,
                                    heads.q.heads, heads.k.heads, heads.q.dim, heads.v.dim);
    const auto module_widths =
        widths(config.model_dim, config.key_input_dim, config.value_input_dim, config.heads,
               config.kv_heads, config.head_dim, config.value_dim);
    if (pass_widths != module_widths) {
      fail<ShapeError>(name,
                       "the tape is of another module: model_dim, key_input_dim, "
                       "value_input_dim, heads, kv_heads, head_dim and value_dim are ",
                       pass_widths, ", of this one ", module_widths);
    }
    const bool pass_has_norm = pass->projected.q.data != heads.q.data;
    if (pass_has_norm != has_qk_norm(config) && !heads.q.empty()) {
      fail<ConfigError>(name, "the tape is of another module, ", pass_has_norm ? "with" : "without",
                        " a qk_norm");
    }
    return *pass;
  }

  static void check_input(const char* argument, const EmbeddingsView<T>& gradient,
                          const EmbeddingsView<T>& input) {
    if (gradient.data == nullptr) return check_optional_extents(name, argument, gradient);
    check_shape(name, argument, gradient, input.extents());
    check_output(name, argument, gradient);
  }
  /// Checks the gradient of a linear layer. A user's projection checks its own gradient.
  template <class Gradient>
  static void check_gradient(const char* argument, const Projection& projection,
                             const Gradient& gradient) {
    if constexpr (std::is_base_of_v<LinearParameters<T>, Projection> &&
                  std::is_same_v<Gradient, LinearParameters<T>>) {
      check_linear_gradient<T>(name, argument, projection, gradient);
    }
  }
  void check_rotary() const {
    if (gradients_.rotary.empty()) return;
    if constexpr (has_frequencies) {
      const auto count = module_.rotary().zero_frequency_gradient().size();
      if (gradients_.rotary.size() != count) {
        fail<ShapeError>(name, "gradients.rotary must have a value for each of the ", count,
                         " frequencies, or none, but has ", gradients_.rotary.size());
      }
    } else {
      fail<ConfigError>(
          name,
          "gradients.rotary must be empty: this rotary encoding has no learnable frequencies");
    }
  }

  void lay_out(ScratchArenas& memory) {
    const bool sums = inputs_.sums_into_x && inputs_.x.data != nullptr;
    const auto allocate = [&](ArenaAllocator allocator) {
      grad_ = allocate_heads<T>(name, allocator, module_.config(),
                                {pass_.x, pass_.keys_from, pass_.values_from});
      if (sums) {
        const auto& x = pass_.x;
        const Index count = checked_mul_or(0, {x.batch, x.seq, x.dim});
        summand_ = {allocator.template allocate<T>(count), x.batch, x.seq, x.dim};
      }
      if (has_qk_norm(module_.config())) {
        query_scales_ = allocator.template allocate<double>(query_norm().rows());
        key_scales_ = allocator.template allocate<double>(key_norm().rows());
      }
      return allocator.bytes_used();
    };
    memory.reserve(1, allocate(ArenaAllocator(nullptr)));
    allocate(ArenaAllocator(memory.arena(0)));
  }

  /// Turns the gradients of rotated queries and keys into those of queries and keys.
  void backprop_rotation() {
    const Rotary& rotary = module_.rotary();
    const ModuleHeads<T>& heads = pass_.heads;
    const Positions &at = *pass_.query_positions, &keys_at = pass_.positions_of_keys();
    if constexpr (has_frequencies) {
      if (!gradients_.rotary.empty()) {
        const std::span<double> sums = gradients_.rotary;
        accumulate_frequency_gradient(rotary, heads.q, grad_.q, at, sums, device_);
        accumulate_frequency_gradient(rotary, heads.k, grad_.k, keys_at, sums, device_);
      }
    }
    if constexpr (requires { rotary.adjoint_queries(grad_.q, at, device_); }) {
      rotary.adjoint_queries(grad_.q, at, device_);
      rotary.adjoint_keys(grad_.k, keys_at, device_);
    } else {
      rotary.adjoint_queries(grad_.q, at);
      rotary.adjoint_keys(grad_.k, keys_at);
    }
  }

  HeadsNorm<T> query_norm() const { return {module_.config(), module_.query_norm, pass_.heads.q}; }
  HeadsNorm<T> key_norm() const { return {module_.config(), module_.key_norm, pass_.heads.k}; }

  /// Turns the gradients of normalised queries and keys into those of their projections.
  void backprop_norms() {
    if (!has_qk_norm(module_.config())) return;
    const ProjectedHeads<T>& projected = pass_.projected;
    query_norm().backward(device_, projected.q, grad_.q, gradients_.query_norm, query_scales_);
    key_norm().backward(device_, projected.k, grad_.k, gradients_.key_norm, key_scales_);
  }

  template <class Gradient>
  void backpropagate(const Projection& projection, const EmbeddingsView<const T>& from,
                     const EmbeddingsView<const T>& grad, const EmbeddingsView<T>& into,
                     Gradient& gradient) const {
    if constexpr (requires {
                    projection.backward(from, grad, into, gradient, workspace_, device_);
                  }) {
      projection.backward(from, grad, into, gradient, workspace_, device_);
    } else {
      projection.backward(from, grad, into, gradient);
    }
  }

  template <class Gradient>
  void backprop_projection(const Projection& projection, const EmbeddingsView<T>& from,
                           const HeadsView<T>& grad, const EmbeddingsView<T>& into,
                           Gradient& gradient) {
    if (!inputs_.sums_into_x) {
      backpropagate(projection, from, tokens(grad), into, gradient);
      return;
    }
    backpropagate(projection, from, tokens(grad), summand_, gradient);
    if (summand_.empty()) return;
    for (Index b = 0; b < summand_.batch; ++b) {
      for (Index s = 0; s < summand_.seq; ++s) {
        const T* part = summand_.row(b, s);
        T* sum = inputs_.x.row(b, s);
        for (Index i = 0; i < summand_.dim; ++i) sum[i] += part[i];
      }
    }
  }

  static constexpr bool has_frequencies = requires(const Rotary& rotary) {
    rotary.zero_frequency_gradient();
  };

  const D& device_;
  const Module& module_;
  const ForwardPass<T>& pass_;
  EmbeddingsView<const T> grad_out_;
  InputGradients<T> inputs_;
  Gradients& gradients_;
  AttentionWorkspace* workspace_ = nullptr;
  ModuleHeads<T> grad_;
  double *query_scales_ = nullptr, *key_scales_ = nullptr;  ///< of each norm
  EmbeddingsView<T> summand_;  ///< has no data if grad_x is not computed
};

}  // namespace detail
POSENC_END
