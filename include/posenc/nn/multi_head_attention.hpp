// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attend.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/detail/append_transaction.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/kv/kv_format.hpp>
#include <posenc/nn/detail/multi_head_backward.hpp>
#include <posenc/nn/detail/multi_head_forward.hpp>
#include <posenc/nn/detail/multi_head_parts.hpp>
#include <posenc/nn/detail/qk_norms.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/nn/multi_head_config.hpp>
#include <posenc/nn/multi_head_gradients.hpp>
#include <posenc/nn/multi_head_tape.hpp>
#include <posenc/nn/multi_head_workspace.hpp>
#include <posenc/nn/parameter_matrix.hpp>
#include <posenc/tensor/detail/erased_device.hpp>
#include <posenc/tensor/detail/token_runs.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

POSENC_BEGIN

/// Multi-head attention with projections, a rotary encoding and a score bias. Each part may be
/// empty: with NoRotation and NoBias the module uses no positions (NoPE).
///   Types:      T is float or double
///   Rotary:     a model of RotaryEncoding: Rope, NoRotation, or a user's type
///   Bias:       a model of ScoreBias, TokenBias or QueryBias: Alibi, NoBias, RelativeBias, or a
///               user's type. A RelativeBias is multiplied with the rotated queries unless it has
///               queries of its own
///   Projection: a model of LinearProjection: Linear, FixedOrderLinear, or a user's type
///   Scale:      options.scale or 1 / sqrt(head_dim), times rotary.softmax_scale_multiplier(),
///               which options.softmax_scale_multiplier may repeat. If that of the encoding is 1,
///               the options' applies; two that differ are a ConfigError
///   Norm:       config.qk_norm normalises queries and keys between projection and rotation; see
///               QkNorm
///   Positions:  [B or 1, S], for the rotary encoding, and for bias, dropout, temperature (of the
///               queries alone) and Causal::ByPosition. Positions on several axes, as of M-RoPE,
///               serve the rotary encoding. A bias and Causal::ByPosition reject them; dropout and
///               temperature count tokens instead
///   Training:   call forward() with a MultiHeadTape, then backward(). Rotary must model
///               DifferentiableRotary, and Projection DifferentiableProjection. A bias with
///               zero_gradient() is trained
///   Memory:     log-sum-exps and scores of the heads are written to `memory`. forward() allocates
///               from the workspace in `memory`, if there is one, which keeps the allocation
///   Device:     attention runs on its threads, and so do projections and rotations that take a
///               device
///   Threads:    const calls may run concurrently, each with its own workspace
///   Accuracy:   a token's output is bit-identical alone over a cache and among others if the
///               projection gives bit-identical q, k and v, as FixedOrderLinear does. With Linear
///               each number of q, k and v moves by d <= 2 (in + 2) u (sum |w x| + |b|), u = 2^-24
///               (2^-53 for double); a score by ds <= scale (|dq| |k| + |q| |dk|); and an output,
///               to first order, by sum |w_out| (2 ds max |v| + dv), a d of the output projection,
///               and attention's rounding. A qk_norm turns a change dx of n numbers x into one of
///               |dy| <= max |factor| |dx| / sqrt(mean(x^2) + epsilon), to first order. With
///               random weights of width 64 to 2048 the measured difference is at most 14 u of the
///               largest output, without a norm
///   Source:     arXiv 1706.03762, section 3.2.2; weights have the layout of torch.nn.Linear
template <class T, class Rotary = NoRotation, class Bias = NoBias, class Projection = Linear<T>>
class MultiHeadAttention : detail::ModuleDiagnostics {
  static_assert(std::same_as<T, float> || std::same_as<T, double>,
                "posenc::MultiHeadAttention: T must be float or double, as projections are");
  static_assert(
      RotaryEncoding<Rotary, T>,
      "posenc::MultiHeadAttention: Rotary must provide rotate_queries(x, positions), rotate_keys "
      "and softmax_scale_multiplier(); see posenc/concepts.hpp");
  static_assert(detail::AttentionBias<Bias, T>,
                "posenc::MultiHeadAttention: Bias must provide add(head, query_positions, "
                "key_positions, tile) const, add(tokens, tile) const or add(tile, scores) const, "
                "with the tile of scores by value; see ScoreBias, TokenBias and QueryBias in "
                "posenc/concepts.hpp");
  static_assert(LinearProjection<Projection, T>,
                "posenc::MultiHeadAttention: Projection must provide a constructor (in, out, "
                "with_bias), in_dim(), out_dim(), apply(x, out), parameter_count() and "
                "randomize(seed); see posenc/nn/linear.hpp");

 public:
  /// Type of the gradients that zero_gradients() returns and backward() adds to.
  using Gradients = MultiHeadGradients<T, detail::GradientOf<Projection>, detail::GradientOf<Bias>>;

  using detail::ModuleDiagnostics::backward;
  using detail::ModuleDiagnostics::forward;

  /// Constructs a module whose projections are zero and whose norms have the factor 1; load
  /// parameters or call randomize().
  ///   Throws: ConfigError, also if a head has fewer channels than the encoding rotates
  explicit MultiHeadAttention(const MultiHeadAttentionConfig& config, Rotary rotary = {},
                              Bias bias = {})
      : config_(detail::with_defaults<T>(config)),
        rotary_(detail::checked_rotary("MultiHeadAttention", std::move(rotary), config_.head_dim)),
        bias_(std::move(bias)),
        query_projection(config_.model_dim, config_.heads * config_.head_dim,
                         config_.projection_bias),
        key_projection(config_.key_input_dim, config_.kv_heads * config_.head_dim,
                       config_.projection_bias),
        value_projection(config_.value_input_dim, config_.kv_heads * config_.value_dim,
                         config_.projection_bias),
        output_projection(config_.heads * config_.value_dim, config_.model_dim,
                          config_.projection_bias),
        query_norm(detail::identity_norm<T>(config_, config_.heads)),
        key_norm(detail::identity_norm<T>(config_, config_.kv_heads)) {}

  /// Computes self attention, out <- attention of x with itself.
  ///   Shapes:   x, out [B, S, model_dim]; positions [B or 1, S]
  ///   Aliasing: out may be x
  ///   Throws:   ShapeError, ConfigError, PositionError, before out is written; std::bad_alloc.
  ///             After std::bad_alloc out is unchanged, unless a user's output projection failed
  ///             after it had begun to write
  template <Device D = detail::CallingThread>
  void forward(EmbeddingsView<const T> x, const Positions& positions, EmbeddingsView<T> out,
               const AttentionOptions<T>& options, const MultiHeadMemory<T>& memory = {},
               const D& device = {}) const {
    forward(x, positions, x, x, positions, out, options, memory, device);
  }

  /// Computes cross attention. Queries are projected from x, keys and values from other tensors.
  ///   Shapes: x, out [B, Sq, model_dim]; keys_from [B, Sk, key_input_dim]; values_from [B, Sk,
  ///           value_input_dim]; query_positions [B or 1, Sq]; key_positions [B or 1, Sk]
  template <Device D = detail::CallingThread>
  void forward(EmbeddingsView<const T> x, const Positions& query_positions,
               EmbeddingsView<const T> keys_from, EmbeddingsView<const T> values_from,
               const Positions& key_positions, EmbeddingsView<T> out,
               const AttentionOptions<T>& options, const MultiHeadMemory<T>& memory = {},
               const D& device = {}) const {
    const Inputs inputs{x, keys_from, values_from};
    detail::check_forward(config_, inputs, query_positions, key_positions, out, options);
    detail::check_qk_norms(forward_name, *this);
    MultiHeadWorkspace local_workspace;
    MultiHeadWorkspace& workspace =
        memory.workspace == nullptr ? local_workspace : *memory.workspace;
    const Heads heads = lay_out(workspace, inputs);
    detail::project(device, workspace.attention_, *this, inputs, query_positions, key_positions,
                    {heads.q, heads.k}, heads);
    detail::attend_to_tensors<tier::Best, T, T>(
        detail::ErasedDevice(device), heads.q, heads.k, heads.v, heads.mixed, options,
        detail::bias_for_tensors<tier::Best, T>(bias_), attention_memory(memory, workspace),
        internal_options("attention", options, &query_positions, &key_positions));
    detail::apply_projection<D, Projection, T>(device, workspace.attention_, output_projection,
                                               detail::tokens(heads.mixed), out);
  }

  /// Overload of forward() for self attention that records a tape for backward(). The output is
  /// bit-identical. The tape holds the tensors that the workspace holds otherwise. A call that
  /// throws leaves no pass in the tape.
  template <Device D = detail::CallingThread>
  void forward(EmbeddingsView<const T> x, const Positions& positions, EmbeddingsView<T> out,
               MultiHeadTape<T>& tape, const AttentionOptions<T>& options,
               const MultiHeadMemory<T>& memory = {}, const D& device = {}) const {
    record(device, {x, x, x}, positions, nullptr, out, tape, options, memory);
  }
  /// Overload of forward() for cross attention that records a tape for backward().
  template <Device D = detail::CallingThread>
  void forward(EmbeddingsView<const T> x, const Positions& query_positions,
               EmbeddingsView<const T> keys_from, EmbeddingsView<const T> values_from,
               const Positions& key_positions, EmbeddingsView<T> out, MultiHeadTape<T>& tape,
               const AttentionOptions<T>& options, const MultiHeadMemory<T>& memory = {},
               const D& device = {}) const {
    record(device, {x, keys_from, values_from}, query_positions, &key_positions, out, tape, options,
           memory);
  }

  /// Returns zero gradients of all parameters, for backward() to add to; see MultiHeadGradients.
  Gradients zero_gradients() const {
    return {.query_projection = detail::zero_gradient_of(query_projection),
            .key_projection = detail::zero_gradient_of(key_projection),
            .value_projection = detail::zero_gradient_of(value_projection),
            .output_projection = detail::zero_gradient_of(output_projection),
            .bias = detail::zero_gradient_of(bias_),
            .query_norm = ParameterMatrix<T>(query_norm.rows(), query_norm.cols()),
            .key_norm = ParameterMatrix<T>(key_norm.rows(), key_norm.cols())};
  }

  /// Computes the backward pass of self attention. Writes the gradient of x to grad_x and adds the
  /// gradients of all learned parameters to `gradients`. The parameters must be those that
  /// forward() used.
  ///   Shapes:   grad_x, grad_out [B, S, model_dim]; grad_x is not computed if it has no data;
  ///             gradients from zero_gradients(), see MultiHeadGradients
  ///   Aliasing: grad_x may be grad_out
  ///   Throws:   ShapeError, ConfigError, PositionError, before anything is written;
  ///             std::bad_alloc, after which gradients may be partly added and grad_x partly
  ///             written
  ///   Device:   as for forward()
  ///   Bits:     the same for any number of threads
  ///   Cost:     twice the products of forward's projections, and attention_backward()
  template <Device D = detail::CallingThread>
  void backward(const MultiHeadTape<T>& tape, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, Gradients& gradients,
                MultiHeadWorkspace* workspace = nullptr, const D& device = {}) const {
    backpropagate(device, tape, grad_out, {.x = grad_x, .sums_into_x = true}, gradients, workspace);
  }

  /// Computes the backward pass of cross attention. A gradient of an input without data is not
  /// computed.
  ///   Shapes: grad_out, grad_x [B, Sq, model_dim]; grad_keys_from [B, Sk, key_input_dim];
  ///           grad_values_from [B, Sk, value_input_dim]. If keys and values were projected from
  ///           one tensor, its gradient is the sum of both
  template <Device D = detail::CallingThread>
  void backward(const MultiHeadTape<T>& tape, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, EmbeddingsView<T> grad_keys_from,
                EmbeddingsView<T> grad_values_from, Gradients& gradients,
                MultiHeadWorkspace* workspace = nullptr, const D& device = {}) const {
    backpropagate(device, tape, grad_out,
                  {.x = grad_x, .keys_from = grad_keys_from, .values_from = grad_values_from},
                  gradients, workspace);
  }

  /// Computes self attention of new tokens with their complete sequences: normalises and rotates
  /// their keys, appends keys and values to the cache, and attends to the cache. The result does
  /// not depend on the number of tokens per call; see Accuracy above.
  ///   Shapes:   x, out [B, S, model_dim]; positions [B or 1, S]; batch row b continues
  ///             sequences[b] of the cache, no two the same
  ///   Packed:   with options.cu_seqlens_q [N + 1] and B = 1, tokens cu_seqlens_q[n] ..
  ///             cu_seqlens_q[n + 1] - 1 continue sequences[n], as in a separate call; a sequence
  ///             may get no token
  ///   Options:  use Causal::BottomRight for decoding. Key positions are 0, 1, ... unless
  ///             options.key_positions [B or N or 1, longest sequence] is given. It must be given
  ///             if a bias, dropout or Causal::ByPosition reads key positions and `positions` are
  ///             not the tokens' key numbers
  ///   Aliasing: out may be x
  ///   Throws:   ShapeError, ConfigError, PositionError, before the cache or out is written;
  ///             std::bad_alloc, or what a user's bias or projection throws. The cache is unchanged
  ///             then, and so is out, unless a user's output projection failed after it had begun
  ///             to write. On a thread of Eigen's pool an exception ends the program instead
  template <KvFormat S, Device D = detail::CallingThread>
  requires std::same_as<typename KvCache<S>::Real, T>
  void forward(EmbeddingsView<const T> x, const Positions& positions, KvCache<S>& cache,
               ListView<Index> sequences, EmbeddingsView<T> out, const AttentionOptions<T>& options,
               const MultiHeadMemory<T>& memory = {}, const D& device = {}) const {
    detail::check_forward<T>(config_, x, out, options);
    detail::check_positions_fit(forward_name, "positions", positions, x);
    detail::check_qk_norms(forward_name, *this);
    MultiHeadWorkspace local_workspace;
    MultiHeadWorkspace& workspace =
        memory.workspace == nullptr ? local_workspace : *memory.workspace;
    const Heads heads = lay_out(workspace, {x, x, x});
    detail::project(device, workspace.attention_, *this, Inputs{x, x, x}, positions, positions,
                    {heads.q, heads.k}, heads);
    detail::check_cache<T>(forward_name, heads.q, cache, sequences, heads.mixed, options);
    const detail::TokenRuns runs{sequences, options.cu_seqlens_q, x.seq};
    if (reads_key_positions(options, positions) && !options.key_positions) {
      detail::check_key_numbers(positions, cache, runs);
    }
    detail::check_projection<Projection, T>(forward_name, output_projection,
                                            detail::tokens(heads.mixed), out);
    // A failure from here on (a check of attention, lack of memory, a user's code) leaves the cache
    // unchanged.
    detail::AppendTransaction<S> append(device, cache, runs, heads.k, heads.v, workspace.rollback_);
    detail::attend_to_cache<tier::Best, D, T>(
        device, heads.q, cache, sequences, heads.mixed, options, bias_,
        attention_memory(memory, workspace),
        internal_options(forward_name, options, &positions, nullptr));
    detail::apply_projection<D, Projection, T>(device, workspace.attention_, output_projection,
                                               detail::tokens(heads.mixed), out);
    append.commit();
  }

  /// Fills all projections with random weights that depend on the seed alone, and sets the factors
  /// of the norms to 1.
  void randomize(std::uint64_t seed) {
    query_projection.randomize(4 * seed);
    key_projection.randomize(4 * seed + 1);
    value_projection.randomize(4 * seed + 2);
    output_projection.randomize(4 * seed + 3);
    query_norm = detail::identity_norm<T>(config_, config_.heads);
    key_norm = detail::identity_norm<T>(config_, config_.kv_heads);
  }

  /// Returns the number of parameters of all projections.
  Index parameter_count() const noexcept {
    return query_projection.parameter_count() + key_projection.parameter_count() +
           value_projection.parameter_count() + output_projection.parameter_count() +
           query_norm.size() + key_norm.size();
  }

  /// Returns the settings with all defaults filled in.
  const MultiHeadAttentionConfig& config() const noexcept { return config_; }
  /// Returns the rotary encoding.
  const Rotary& rotary() const noexcept { return rotary_; }
  /// Returns the score bias.
  const Bias& bias() const noexcept { return bias_; }
  /// Replaces the rotary encoding, for example by one with the parameters of the next training
  /// step.
  ///   Throws: ConfigError if a head has fewer channels than the encoding rotates
  void set_rotary(Rotary rotary) {
    rotary_ = detail::checked_rotary("MultiHeadAttention::set_rotary", std::move(rotary),
                                     config_.head_dim);
  }
  /// Replaces the score bias, for example by one with the parameters of the next training step.
  void set_bias(Bias bias) { bias_ = std::move(bias); }

 private:
  MultiHeadAttentionConfig config_;
  POSENC_NO_UNIQUE_ADDRESS Rotary rotary_;
  POSENC_NO_UNIQUE_ADDRESS Bias bias_;

 public:
  // Parameters, to be loaded or trained by their owner. Rows h * head_dim .. (h + 1) * head_dim - 1
  // belong to head h.
  Projection query_projection,  ///< from model_dim to heads * head_dim features, head by head
      key_projection,     ///< from key_input_dim to kv_heads * head_dim features, head by head
      value_projection,   ///< from value_input_dim to kv_heads * value_dim features, head by head
      output_projection;  ///< from heads * value_dim features, head by head, to model_dim
  /// Weights of the norms, as config().qk_norm.weight says: one row of head_dim numbers each, or of
  /// heads * head_dim and kv_heads * head_dim for QkNormOver::AllHeads. Empty without a norm.
  ParameterMatrix<T> query_norm;
  ParameterMatrix<T> key_norm;  ///< weights of the keys' norm

 private:
  static constexpr auto forward_name = detail::module_forward;

  using Heads = detail::ModuleHeads<T>;
  using Inputs = detail::ModuleInputs<T>;

  Heads lay_out(MultiHeadWorkspace& workspace, const Inputs& inputs) const {
    const auto allocate = [&](detail::ArenaAllocator& allocator) {
      return detail::allocate_heads(forward_name, allocator, config_, inputs);
    };
    detail::ArenaAllocator measure(nullptr);
    (void)allocate(measure);
    workspace.heads_.reserve(1, measure.bytes_used());
    detail::ArenaAllocator allocator(workspace.heads_.arena(0));
    return allocate(allocator);
  }

  static AttentionMemory<T> attention_memory(const MultiHeadMemory<T>& memory,
                                             MultiHeadWorkspace& workspace) noexcept {
    return {.lse = memory.lse,
            .weights = memory.weights,
            .returned = memory.returned,
            .workspace = &workspace.attention_};
  }

  /// Runs forward() with a tape. Without key_positions it is self attention.
  template <Device D>
  void record(const D& device, const Inputs& inputs, const Positions& query_positions,
              const Positions* key_positions, EmbeddingsView<T> out, MultiHeadTape<T>& tape,
              const AttentionOptions<T>& options, const MultiHeadMemory<T>& memory) const {
    MultiHeadWorkspace local_workspace;
    MultiHeadWorkspace& workspace =
        memory.workspace == nullptr ? local_workspace : *memory.workspace;
    detail::ForwardPass<T>& pass = detail::TapeAccess::pass_to_write(tape);
    detail::check_forward(config_, inputs, query_positions,
                          key_positions == nullptr ? query_positions : *key_positions, out,
                          options);
    detail::check_qk_norms(forward_name, *this);
    pass.begin(forward_name, config_, inputs, query_positions, key_positions, options);
    const Positions &at = *pass.query_positions, &keys_at = pass.positions_of_keys();
    const Heads& heads = pass.heads;
    AttentionMemory<T> returned = attention_memory(memory, workspace);
    if (returned.lse.data == nullptr) returned.lse = pass.lse;
    detail::project(device, workspace.attention_, *this,
                    Inputs{pass.x, pass.keys_from, pass.values_from}, at, keys_at, pass.projected,
                    heads);
    detail::attend_to_tensors<tier::Best, T, T>(
        detail::ErasedDevice(device), heads.q, heads.k, heads.v, heads.mixed, pass.options,
        detail::bias_for_tensors<tier::Best, T>(bias_), returned,
        internal_options("attention", pass.options, &at, &keys_at));
    detail::apply_projection<D, Projection, T>(device, workspace.attention_, output_projection,
                                               detail::tokens(heads.mixed), out);
    pass.end(returned.lse);
  }

  template <Device D>
  void backpropagate(const D& device, const MultiHeadTape<T>& tape,
                     EmbeddingsView<const T> grad_out, const detail::InputGradients<T>& inputs,
                     Gradients& gradients, MultiHeadWorkspace* workspace_or_none) const {
    MultiHeadWorkspace local_workspace;
    MultiHeadWorkspace& workspace =
        workspace_or_none == nullptr ? local_workspace : *workspace_or_none;
    detail::MultiHeadBackward<MultiHeadAttention, D, T, Gradients> run(device, *this, tape,
                                                                       grad_out, inputs, gradients);
    const detail::ForwardPass<T>& pass = run.pass();
    run.run(workspace.heads_, workspace.attention_,
            internal_options(run.name, pass.options, &*pass.query_positions,
                             &pass.positions_of_keys()));
  }

  /// Returns the module's additions to the user's options: positions, if anything reads them.
  detail::InternalOptions internal_options(const char* function, const AttentionOptions<T>& options,
                                           const Positions* query_positions,
                                           const Positions* key_positions) const {
    const auto read = [&](const Positions* positions) {
      return positions != nullptr && reads_positions(options, *positions) ? positions : nullptr;
    };
    return {.function = function,
            .encoding_multiplier = rotary_.softmax_scale_multiplier(),
            .positions = {read(query_positions), read(key_positions)}};
  }

  /// True if attention reads the positions of this call's keys. Positions on several axes are not
  /// passed for dropout and temperature, where attention counts tokens instead.
  static bool reads_key_positions(const AttentionOptions<T>& options, const Positions& positions) {
    return !std::same_as<Bias, NoBias> || options.causal == Causal::ByPosition ||
           (options.dropout.probability > 0 && positions.axis_count() == 1);
  }
  /// True if attention reads the positions of this call. A temperature reads those of the queries.
  static bool reads_positions(const AttentionOptions<T>& options, const Positions& positions) {
    return reads_key_positions(options, positions) ||
           (options.temperature && positions.axis_count() == 1);
  }
};

POSENC_END
