// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attend.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/detail/revocable_append.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/detail/multi_head_backward.hpp>
#include <posenc/nn/detail/multi_head_forward.hpp>
#include <posenc/nn/detail/multi_head_parts.hpp>
#include <posenc/nn/detail/refused_calls.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/nn/multi_head_config.hpp>
#include <posenc/nn/multi_head_gradients.hpp>
#include <posenc/nn/multi_head_tape.hpp>
#include <posenc/nn/multi_head_workspace.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

POSENC_BEGIN

/// Multi-head attention with projections, a rotary encoding, and a score bias, any of which may be
/// nothing: with NoRotation and NoBias it knows no positions at all (NoPE).
///   T:          float or double
///   Rotary:     models RotaryEncoding: Rope, NoRotation, a user's own
///   Bias:       models ScoreBias or TokenBias: Alibi, NoBias, a user's own; or a RelativeBias, whose
///               products are with the rotated queries where it has none of its own
///   Projection: models LinearProjection: Linear, FixedOrderLinear, a user's own
///   Scale:      options.scale or 1 / sqrt(head_dim), times options.softmax_scale_multiplier, times
///               rotary.softmax_scale_multiplier()
///   Positions:  [B or 1, S], for the rotary encoding, and for bias, dropout and Causal::ByPosition.
///               On several axes, as M-RoPE has them, they are for the rotary encoding alone;
///               what else reads positions refuses them
///   Training:   forward() with a MultiHeadTape, then backward(); Rotary models DifferentiableRotary then, and
///               Projection DifferentiableProjection. A bias that has zero_gradient() learns
///   Memory:     log-sum-exps and scores of the heads go where it says; what forward() needs is taken from its
///               workspace, where it has one, and stays there
///   Device:     attention, and the projections and rotations that take one, run on its threads
///   Accuracy:   a token's output has the same bits alone over a cache and among others, where the
///               projection gives its q, k and v the same bits, as FixedOrderLinear does. With Linear
///               each of their numbers moves by d <= 2 (in + 2) u (sum |w x| + |b|), u = 2^-24 (2^-53
///               for double), a score by ds <= scale (|dq| |k| + |q| |dk|), and an output to first
///               order by sum |w_out| (2 ds max |v| + dv), a d of its own projection, and attention's
///               rounding. Random weights of width 64 to 2048: at most 14 u of the largest output
///   Source:     arXiv 1706.03762, section 3.2.2; weights laid out as in torch.nn.Linear
/// Const calls may run on several threads at once, each with a workspace of its own.
template <class T, class Rotary = NoRotation, class Bias = NoBias, class Projection = Linear<T>>
class MultiHeadAttention : detail::RefusedForward<T> {
  static_assert(std::same_as<T, float> || std::same_as<T, double>,
                "posenc::MultiHeadAttention: T must be float or double, as projections are");
  static_assert(
      RotaryEncoding<Rotary, T>,
      "posenc::MultiHeadAttention: Rotary must provide rotate_queries(x, positions), rotate_keys "
      "and softmax_scale_multiplier(); see posenc/concepts.hpp");
  static_assert(detail::AttentionBias<Bias, T>,
                "posenc::MultiHeadAttention: Bias must provide add(head, query_positions, "
                "key_positions, tile), or add(tokens, tile), or be a RelativeBias; see "
                "ScoreBias and TokenBias in posenc/concepts.hpp");
  static_assert(LinearProjection<Projection, T>,
                "posenc::MultiHeadAttention: Projection must provide a constructor (in, out, "
                "with_bias), in_dim(), out_dim(), apply(x, out), parameter_count() and "
                "randomize(seed); see posenc/nn/linear.hpp");

 public:
  using Gradients = MultiHeadGradients<T, detail::GradientOf<Projection>, detail::GradientOf<Bias>>;

  using detail::RefusedForward<T>::backward;
  using detail::RefusedForward<T>::forward;

  /// Parameters are zero until they are set or randomize()d.
  ///   Throws: ConfigError.
  explicit MultiHeadAttention(const MultiHeadAttentionConfig& config, Rotary rotary = {},
                              Bias bias = {})
      : config_(detail::completed<T>(config)),
        rotary_(std::move(rotary)),
        bias_(std::move(bias)),
        query_projection(config_.model_dim, config_.heads * config_.head_dim,
                         config_.projection_bias),
        key_projection(config_.key_input_dim, config_.kv_heads * config_.head_dim,
                       config_.projection_bias),
        value_projection(config_.value_input_dim, config_.kv_heads * config_.value_dim,
                         config_.projection_bias),
        output_projection(config_.heads * config_.value_dim, config_.model_dim,
                          config_.projection_bias) {}

  /// Self attention: out <- attention of x with itself.
  ///   Shapes:   x, out [B, S, model_dim]; positions [B or 1, S]
  ///   Aliasing: out may be x
  ///   Throws:   ShapeError, ConfigError, PositionError, before out is written; std::bad_alloc, and
  ///             out is as it was then unless its own projection failed midway, as a user's may
  template <Device D = detail::CallingThread>
  void forward(EmbeddingsView<const T> x, const Positions& positions, EmbeddingsView<T> out,
               const AttentionOptions<T>& options = {}, const MultiHeadMemory<T>& memory = {},
               const D& device = {}) const {
    forward(x, positions, x, x, positions, out, options, memory, device);
  }

  /// Cross attention: out <- attention of queries made from x with keys and values made from other
  /// tensors.
  ///   Shapes: x, out [B, Sq, model_dim]; keys_from [B, Sk, key_input_dim]; values_from [B, Sk,
  ///           value_input_dim]; query_positions [B or 1, Sq]; key_positions [B or 1, Sk]
  template <Device D = detail::CallingThread>
  void forward(EmbeddingsView<const T> x, const Positions& query_positions,
               EmbeddingsView<const T> keys_from, EmbeddingsView<const T> values_from,
               const Positions& key_positions, EmbeddingsView<T> out,
               const AttentionOptions<T>& options = {}, const MultiHeadMemory<T>& memory = {},
               const D& device = {}) const {
    const Inputs inputs{x, keys_from, values_from};
    detail::check_forward(config_, inputs, query_positions, key_positions, out, options);
    MultiHeadWorkspace own;
    MultiHeadWorkspace& workspace = memory.workspace == nullptr ? own : *memory.workspace;
    const Heads heads = lay_out(workspace, inputs);
    detail::project(device, workspace.attention_, *this, inputs, query_positions, key_positions,
                    heads);
    detail::attend_to_tensors<tier::Best, D, T>(
        device, heads.q, heads.k, heads.v, heads.mixed, options, bias_,
        attention_memory(memory, workspace),
        beside("attention", options, &query_positions, &key_positions));
    detail::apply_projection<D, Projection, T>(device, workspace.attention_, output_projection,
                                               detail::tokens(heads.mixed), out);
  }

  /// The same with a tape, from which backward() goes back: the same bits, and the tape's memory for what the
  /// workspace holds otherwise. A call that throws leaves no pass in the tape.
  template <Device D = detail::CallingThread>
  void forward(EmbeddingsView<const T> x, const Positions& positions, EmbeddingsView<T> out,
               MultiHeadTape<T>& tape, const AttentionOptions<T>& options = {},
               const MultiHeadMemory<T>& memory = {}, const D& device = {}) const {
    record(device, {x, x, x}, positions, nullptr, out, tape, options, memory);
  }
  template <Device D = detail::CallingThread>
  void forward(EmbeddingsView<const T> x, const Positions& query_positions,
               EmbeddingsView<const T> keys_from, EmbeddingsView<const T> values_from,
               const Positions& key_positions, EmbeddingsView<T> out, MultiHeadTape<T>& tape,
               const AttentionOptions<T>& options = {}, const MultiHeadMemory<T>& memory = {},
               const D& device = {}) const {
    record(device, {x, keys_from, values_from}, query_positions, &key_positions, out, tape, options,
           memory);
  }

  /// What backward() adds to: zeros of the shapes of all parameters, see MultiHeadGradients.
  Gradients zero_gradients() const {
    return {detail::zero_gradient_of(query_projection), detail::zero_gradient_of(key_projection),
            detail::zero_gradient_of(value_projection), detail::zero_gradient_of(output_projection),
            detail::zero_gradient_of(bias_)};
  }

  /// Backward of self attention: grad_x <- the gradient of x, gradients += those of all that is learned, for the
  /// gradient of out and the parameters that forward() saw.
  ///   Shapes:   grad_x, which is left out where it has no data, and grad_out [B, S, model_dim]; gradients as
  ///             zero_gradients() makes them, and as MultiHeadGradients says
  ///   Aliasing: grad_x may be grad_out
  ///   Throws:   ShapeError, ConfigError, PositionError, before anything is written; std::bad_alloc, and then
  ///             gradients may have been added to in part, and grad_x be half written
  ///   Device:   as forward()
  ///   Bits:     the same for any number of threads
  ///   Cost:     twice the products of forward's projections, and attention_backward()
  template <Device D = detail::CallingThread>
  void backward(const MultiHeadTape<T>& tape, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, Gradients& gradients,
                MultiHeadWorkspace* workspace = nullptr, const D& device = {}) const {
    go_back(device, tape, grad_out, {.x = grad_x, .all_into_x = true}, gradients, workspace);
  }

  /// Backward of cross attention, of which any input's gradient may be left out.
  ///   Shapes: grad_out, grad_x [B, Sq, model_dim]; grad_keys_from [B, Sk, key_input_dim]; grad_values_from [B,
  ///           Sk, value_input_dim]: where keys and values were made from one tensor, its gradient is their sum
  template <Device D = detail::CallingThread>
  void backward(const MultiHeadTape<T>& tape, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, EmbeddingsView<T> grad_keys_from,
                EmbeddingsView<T> grad_values_from, Gradients& gradients,
                MultiHeadWorkspace* workspace = nullptr, const D& device = {}) const {
    go_back(device, tape, grad_out,
            {.x = grad_x, .keys_from = grad_keys_from, .values_from = grad_values_from}, gradients,
            workspace);
  }

  /// Self attention of new tokens with all of their sequences so far: rotates their keys, appends keys
  /// and values to the cache, and attends to what is there then. One token or many, with the same
  /// result; see Accuracy above.
  ///   Shapes:    x, out [B, S, model_dim]; positions [B or 1, S]; batch row b continues
  ///              sequences[b] of the cache; no sequence is named twice
  ///   Packed:    with options.cu_seqlens_q [N + 1] and B = 1, sequences[n] is continued by tokens
  ///              cu_seqlens_q[n] .. cu_seqlens_q[n + 1] - 1, as in a call for itself; or by none
  ///   Options:   Causal::BottomRight is what a decoder takes. Keys stand at 0, 1, ... unless
  ///              options.key_positions [B or N or 1, longest sequence] says otherwise; they have to be
  ///              given where a bias, dropout or Causal::ByPosition reads them and `positions` are
  ///              not the tokens' places in their sequences
  ///   Aliasing:  out may be x
  ///   Throws:    ShapeError, ConfigError, PositionError, before the cache or out is written;
  ///              std::bad_alloc, or what a user's bias or projection throws: the cache is as it was
  ///              then, and so is out, unless its own projection failed midway, as a user's may
  template <Scalar S, Device D = detail::CallingThread>
  requires std::same_as<Compute<S>, T>
  void forward(EmbeddingsView<const T> x, const Positions& positions, KvCache<S>& cache,
               ListView<Index> sequences, EmbeddingsView<T> out, const AttentionOptions<T>& options,
               const MultiHeadMemory<T>& memory = {}, const D& device = {}) const {
    detail::check_forward<T>(config_, x, out, options);
    detail::check_positions_fit(forward_name, "positions", positions, x);
    MultiHeadWorkspace own;
    MultiHeadWorkspace& workspace = memory.workspace == nullptr ? own : *memory.workspace;
    const Heads heads = lay_out(workspace, {x, x, x});
    detail::project(device, workspace.attention_, *this, Inputs{x, x, x}, positions, positions,
                    heads);
    (void)detail::check_cache<T>(forward_name, heads.q, cache, sequences, heads.mixed, options);
    const detail::TokenRuns runs{sequences, options.cu_seqlens_q, x.seq};
    if (positions_are_read(options, positions) && !options.key_positions) {
      detail::check_places(positions, cache, runs);
    }
    detail::check_projection<Projection, T>(forward_name, output_projection,
                                            detail::tokens(heads.mixed), out);
    // Whatever fails from here on, in attention's checks, for want of memory or in a user's code, leaves
    // the cache as it was.
    detail::RevocableAppend<S> append(device, cache, runs, heads.k, heads.v, workspace.undo_);
    detail::attend_to_cache<tier::Best, D, T>(device, heads.q, cache, sequences, heads.mixed,
                                              options, bias_, attention_memory(memory, workspace),
                                              beside(forward_name, options, &positions, nullptr));
    detail::apply_projection<D, Projection, T>(device, workspace.attention_, output_projection,
                                               detail::tokens(heads.mixed), out);
    append.keep();
  }

  /// Fills all projections with random weights that depend on the seed alone.
  void randomize(std::uint64_t seed) {
    query_projection.randomize(4 * seed);
    key_projection.randomize(4 * seed + 1);
    value_projection.randomize(4 * seed + 2);
    output_projection.randomize(4 * seed + 3);
  }

  Index parameter_count() const noexcept {
    return query_projection.parameter_count() + key_projection.parameter_count() +
           value_projection.parameter_count() + output_projection.parameter_count();
  }

  /// The settings with every default filled in.
  const MultiHeadAttentionConfig& config() const noexcept { return config_; }
  const Rotary& rotary() const noexcept { return rotary_; }
  const Bias& bias() const noexcept { return bias_; }
  /// Puts another in its place: of an encoding that learns, that with the parameters of the next step.
  void set_rotary(Rotary rotary) { rotary_ = std::move(rotary); }
  void set_bias(Bias bias) { bias_ = std::move(bias); }

 private:
  MultiHeadAttentionConfig config_;
  POSENC_NO_UNIQUE_ADDRESS Rotary rotary_;
  POSENC_NO_UNIQUE_ADDRESS Bias bias_;

 public:
  // Parameters, to be loaded or trained by their owner. Rows of head h are h * head_dim .. (h + 1)
  // * head_dim - 1.
  Projection query_projection, key_projection, value_projection, output_projection;

 private:
  static constexpr auto forward_name = detail::module_forward;

  using Heads = detail::ModuleHeads<T>;
  using Inputs = detail::ModuleInputs<T>;

  Heads lay_out(MultiHeadWorkspace& workspace, const Inputs& inputs) const {
    const auto take = [&](detail::Carver& carver) {
      return detail::take_heads(forward_name, carver, config_, inputs);
    };
    detail::Carver measure(nullptr);
    (void)take(measure);
    workspace.heads_.reserve(1, measure.used());
    detail::Carver carver(workspace.heads_.slot(0));
    return take(carver);
  }

  static AttentionMemory<T> attention_memory(const MultiHeadMemory<T>& memory,
                                             MultiHeadWorkspace& workspace) noexcept {
    return {.lse = memory.lse,
            .weights = memory.weights,
            .returned = memory.returned,
            .workspace = &workspace.attention_};
  }

  /// forward() with a tape; without key_positions that of self attention.
  template <Device D>
  void record(const D& device, const Inputs& inputs, const Positions& query_positions,
              const Positions* key_positions, EmbeddingsView<T> out, MultiHeadTape<T>& tape,
              const AttentionOptions<T>& options, const MultiHeadMemory<T>& memory) const {
    MultiHeadWorkspace own;
    MultiHeadWorkspace& workspace = memory.workspace == nullptr ? own : *memory.workspace;
    detail::ForwardPass<T>& pass = detail::pass_to_write(tape);
    detail::check_forward(config_, inputs, query_positions,
                          key_positions == nullptr ? query_positions : *key_positions, out,
                          options);
    pass.begin(forward_name, config_, inputs, query_positions, key_positions, options);
    const Positions &at = *pass.query_positions, &keys_at = pass.positions_of_keys();
    const Heads& heads = pass.heads;
    AttentionMemory<T> of_heads = attention_memory(memory, workspace);
    if (of_heads.lse.data == nullptr) of_heads.lse = pass.lse;
    detail::project(device, workspace.attention_, *this,
                    Inputs{pass.x, pass.keys_from, pass.values_from}, at, keys_at, heads);
    detail::attend_to_tensors<tier::Best, D, T>(device, heads.q, heads.k, heads.v, heads.mixed,
                                                pass.options, bias_, of_heads,
                                                beside("attention", pass.options, &at, &keys_at));
    detail::apply_projection<D, Projection, T>(device, workspace.attention_, output_projection,
                                               detail::tokens(heads.mixed), out);
    pass.end(of_heads.lse);
  }

  template <Device D>
  void go_back(const D& device, const MultiHeadTape<T>& tape, EmbeddingsView<const T> grad_out,
               const detail::InputGradients<T>& inputs, Gradients& gradients,
               MultiHeadWorkspace* workspace_or_none) const {
    MultiHeadWorkspace own;
    MultiHeadWorkspace& workspace = workspace_or_none == nullptr ? own : *workspace_or_none;
    detail::MultiHeadBackward<MultiHeadAttention, D, T, Gradients> run(device, *this, tape,
                                                                       grad_out, inputs, gradients);
    const detail::ForwardPass<T>& pass = run.pass();
    run.run(workspace.heads_, workspace.attention_,
            beside(run.name, pass.options, &*pass.query_positions, &pass.positions_of_keys()));
  }

  /// What this module adds to the options: positions that something reads.
  detail::BesideOptions beside(const char* function, const AttentionOptions<T>& options,
                               const Positions* query_positions,
                               const Positions* key_positions) const {
    const auto read = [&](const Positions* positions) {
      return positions != nullptr && positions_are_read(options, *positions) ? positions : nullptr;
    };
    return {.function = function,
            .scale_multiplier = rotary_.softmax_scale_multiplier(),
            .positions = {read(query_positions), read(key_positions)}};
  }

  /// Attention counts tokens itself where positions of several axes tell it nothing.
  static bool positions_are_read(const AttentionOptions<T>& options, const Positions& positions) {
    return !std::same_as<Bias, NoBias> || options.causal == Causal::ByPosition ||
           ((options.dropout.probability > 0 || options.temperature) &&
            positions.axis_count() == 1);
  }
};

POSENC_END
