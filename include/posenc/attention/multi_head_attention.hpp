// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/cached_attention.hpp>
#include <posenc/attention/detail/attend.hpp>
#include <posenc/attention/detail/refused_calls.hpp>
#include <posenc/attention/detail/revocable_append.hpp>
#include <posenc/attention/kv_cache.hpp>
#include <posenc/attention/linear.hpp>
#include <posenc/attention/multi_head_config.hpp>
#include <posenc/attention/multi_head_workspace.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
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
///   Workspace:  where one is given, the memory that forward() needs is taken from it and stays there
///   Device:     attention, and the projections and rotations that take one, run on its threads;
///               Linear's products, which are Eigen's, stay on the calling thread
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
  static_assert(
      std::same_as<T, float> || std::same_as<T, double>,
      "posenc::MultiHeadAttention: T must be float or double, which Eigen's products need");
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
                "randomize(seed); see posenc/attention/linear.hpp");

 public:
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
  ///             out is as it was then unless its own projection failed midway, as Linear's may
  void forward(EmbeddingsView<const T> x, const Positions& positions, EmbeddingsView<T> out,
               const AttentionOptions<T>& options = {},
               MultiHeadWorkspace* workspace = nullptr) const {
    forward(detail::CallingThread(), x, positions, out, options, workspace);
  }
  template <Device D>
  void forward(const D& device, EmbeddingsView<const T> x, const Positions& positions,
               EmbeddingsView<T> out, const AttentionOptions<T>& options = {},
               MultiHeadWorkspace* workspace = nullptr) const {
    forward(device, x, positions, x, x, positions, out, options, workspace);
  }

  /// Cross attention: out <- attention of queries made from x with keys and values made from other
  /// tensors.
  ///   Shapes: x, out [B, Sq, model_dim]; keys_from [B, Sk, key_input_dim]; values_from [B, Sk,
  ///           value_input_dim]; query_positions [B or 1, Sq]; key_positions [B or 1, Sk]
  void forward(EmbeddingsView<const T> x, const Positions& query_positions,
               EmbeddingsView<const T> keys_from, EmbeddingsView<const T> values_from,
               const Positions& key_positions, EmbeddingsView<T> out,
               const AttentionOptions<T>& options = {},
               MultiHeadWorkspace* workspace = nullptr) const {
    forward(detail::CallingThread(), x, query_positions, keys_from, values_from, key_positions, out,
            options, workspace);
  }
  template <Device D>
  void forward(const D& device, EmbeddingsView<const T> x, const Positions& query_positions,
               EmbeddingsView<const T> keys_from, EmbeddingsView<const T> values_from,
               const Positions& key_positions, EmbeddingsView<T> out,
               const AttentionOptions<T>& options = {},
               MultiHeadWorkspace* workspace = nullptr) const {
    check_call(x, out, options);
    detail::check_extents(forward_name, "keys_from", keys_from);
    detail::check_extents(forward_name, "values_from", values_from);
    if (options.key_positions) fail_positions_twice();
    check_positions("query_positions", query_positions, x);
    check_positions("key_positions", key_positions, keys_from);
    MultiHeadWorkspace own;
    MultiHeadWorkspace& memory = workspace == nullptr ? own : *workspace;
    const Heads heads =
        project(device, memory, x, query_positions, keys_from, values_from, key_positions);
    detail::attend_to_tensors<tier::Best, D, T>(
        device, heads.q, heads.k, heads.v, heads.mixed, options, bias_,
        beside("attention", options, memory, &query_positions, &key_positions));
    apply(device, memory, output_projection, tokens(heads.mixed), out);
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
  ///              then, and so is out, unless its own projection failed midway, as Linear's may
  template <Scalar S>
  requires std::same_as<Compute<S>, T>
  void forward(EmbeddingsView<const T> x, const Positions& positions, KvCache<S>& cache,
               ListView<Index> sequences, EmbeddingsView<T> out, const AttentionOptions<T>& options,
               MultiHeadWorkspace* workspace = nullptr) const {
    forward(detail::CallingThread(), x, positions, cache, sequences, out, options, workspace);
  }
  template <Device D, Scalar S>
  requires std::same_as<Compute<S>, T>
  void forward(const D& device, EmbeddingsView<const T> x, const Positions& positions,
               KvCache<S>& cache, ListView<Index> sequences, EmbeddingsView<T> out,
               const AttentionOptions<T>& options, MultiHeadWorkspace* workspace = nullptr) const {
    check_call(x, out, options);
    check_positions("positions", positions, x);
    MultiHeadWorkspace own;
    MultiHeadWorkspace& memory = workspace == nullptr ? own : *workspace;
    const Heads heads = project(device, memory, x, positions, x, x, positions);
    (void)detail::check_cache<T>(forward_name, heads.q, cache, sequences, heads.mixed, options);
    const detail::TokenRuns runs{sequences, options.cu_seqlens_q, x.seq};
    if (positions_are_read(options, positions) && !options.key_positions) {
      check_places(positions, cache, runs);
    }
    detail::check_projection<Projection, T>(forward_name, output_projection, tokens(heads.mixed),
                                            out);
    // Whatever fails from here on, in attention's checks, for want of memory or in a user's code, leaves
    // the cache as it was.
    detail::RevocableAppend<S> append(device, cache, runs, heads.k, heads.v, memory.undo_);
    detail::attend_to_cache<tier::Best, D, T>(
        device, heads.q, cache, sequences, heads.mixed, options, bias_,
        beside(forward_name, options, memory, &positions, nullptr));
    apply(device, memory, output_projection, tokens(heads.mixed), out);
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

 private:
  MultiHeadAttentionConfig config_;
  POSENC_NO_UNIQUE_ADDRESS Rotary rotary_;
  POSENC_NO_UNIQUE_ADDRESS Bias bias_;

 public:
  // Parameters, to be loaded or trained by their owner. Rows of head h are h * head_dim .. (h + 1)
  // * head_dim - 1.
  Projection query_projection, key_projection, value_projection, output_projection;

 private:
  static constexpr auto forward_name = "MultiHeadAttention::forward";

  /// What a call computes before attention and after it, dense in the workspace.
  struct Heads {
    HeadsView<T> q, k, v, mixed;
  };
  /// The heads of each token side by side, as projections have them.
  static EmbeddingsView<T> tokens(const HeadsView<T>& x) noexcept {
    return {x.data, x.batch, x.seq, x.heads * x.dim};
  }

  Heads lay_out(MultiHeadWorkspace& workspace, EmbeddingsView<const T> x,
                EmbeddingsView<const T> keys_from, EmbeddingsView<const T> values_from) const {
    const auto carve = [&](detail::Carver carver, Heads& all) {
      const auto take = [&](EmbeddingsView<const T> from, Index heads, Index dim) {
        const auto count = detail::product_of({from.batch, from.seq, heads * dim});
        if (!count) {
          detail::fail<ShapeError>(forward_name, heads * dim, " numbers for each token of [",
                                   from.batch, ", ", from.seq, "] are more than can be counted");
        }
        return HeadsView<T>{carver.template take<T>(*count), from.batch, from.seq, heads, dim};
      };
      all.q = take(x, config_.heads, config_.head_dim);
      all.k = take(keys_from, config_.kv_heads, config_.head_dim);
      all.v = take(values_from, config_.kv_heads, config_.value_dim);
      all.mixed = take(x, config_.heads, config_.value_dim);
      return carver.used();
    };
    Heads heads;
    workspace.heads_.reserve(1, carve(detail::Carver(nullptr), heads));
    std::byte* const memory = workspace.heads_.slot(0);
    carve(detail::Carver(memory), heads);
    return heads;
  }

  /// Queries, rotated, keys, rotated, and values. Rotations take a pass of their own: it is 0.3 % of
  /// attention's time, and less than that of the products.
  template <Device D>
  Heads project(const D& device, MultiHeadWorkspace& workspace, EmbeddingsView<const T> x,
                const Positions& query_positions, EmbeddingsView<const T> keys_from,
                EmbeddingsView<const T> values_from, const Positions& key_positions) const {
    const Heads heads = lay_out(workspace, x, keys_from, values_from);
    apply(device, workspace, query_projection, x, tokens(heads.q));
    apply(device, workspace, key_projection, keys_from, tokens(heads.k));
    apply(device, workspace, value_projection, values_from, tokens(heads.v));
    if constexpr (requires { rotary_.rotate_queries(device, heads.q, query_positions); }) {
      rotary_.rotate_queries(device, heads.q, query_positions);
      rotary_.rotate_keys(device, heads.k, key_positions);
    } else {
      rotary_.rotate_queries(heads.q, query_positions);
      rotary_.rotate_keys(heads.k, key_positions);
    }
    return heads;
  }

  template <Device D>
  static void apply([[maybe_unused]] const D& device,
                    [[maybe_unused]] MultiHeadWorkspace& workspace, const Projection& projection,
                    EmbeddingsView<const T> x, EmbeddingsView<T> out) {
    if constexpr (requires { projection.apply(device, x, out, &workspace.attention_); }) {
      projection.apply(device, x, out, &workspace.attention_);
    } else {
      projection.apply(x, out);
    }
  }

  /// What this module adds to the options: positions that something reads.
  detail::BesideOptions beside(const char* function, const AttentionOptions<T>& options,
                               MultiHeadWorkspace& workspace, const Positions* query_positions,
                               const Positions* key_positions) const {
    const auto read = [&](const Positions* positions) {
      return positions != nullptr && positions_are_read(options, *positions) ? positions : nullptr;
    };
    return {.function = function,
            .scale_multiplier = rotary_.softmax_scale_multiplier(),
            .positions = {read(query_positions), read(key_positions)},
            .workspace = &workspace.attention_};
  }

  /// Attention counts tokens itself where positions of several axes tell it nothing.
  static bool positions_are_read(const AttentionOptions<T>& options, const Positions& positions) {
    return !std::same_as<Bias, NoBias> || options.causal == Causal::ByPosition ||
           ((options.dropout.probability > 0 || options.temperature) &&
            positions.axis_count() == 1);
  }

  void check_call(EmbeddingsView<const T> x, EmbeddingsView<T> out,
                  const AttentionOptions<T>& options) const {
    detail::check_extents(forward_name, "x", x);
    detail::check_extents(forward_name, "out", out);
    if (out.extents() != std::array<Index, 3>{x.batch, x.seq, config_.model_dim}) {
      detail::fail<ShapeError>(forward_name, "out ", out.extents(), " must be [", x.batch, ", ",
                               x.seq, ", ", config_.model_dim, "]");
    }
    detail::check_output(forward_name, "out", out);
    if (options.query_positions) fail_positions_twice();
    detail::check_causal(forward_name, options.causal);
  }

  static void fail_positions_twice() {
    detail::fail<ConfigError>(
        forward_name, "positions are arguments of forward and must not stand in the options");
  }

  static void check_positions(const char* name, const Positions& positions,
                              EmbeddingsView<const T> x) {
    if (positions.count() != x.seq || (positions.batch() != 1 && positions.batch() != x.batch)) {
      detail::fail<ShapeError>(forward_name, name, " [", positions.batch(), ", ", positions.count(),
                               "] must be [1 or ", x.batch, ", ", x.seq, "]");
    }
  }

  /// Tokens stand where their keys go.
  template <Scalar S>
  static void check_places(const Positions& positions, const KvCache<S>& cache,
                           const detail::TokenRuns& runs) {
    for (Index n = 0; n < runs.size(); ++n) {
      const Index length = cache.length(runs.sequence(n)), b = runs.row(n), first = runs.first(n);
      for (Index s = 0; s < runs.count(n); ++s) {
        if (positions.at(b, first + s) != static_cast<double>(length + s)) {
          detail::fail<ConfigError>(
              forward_name,
              "options.key_positions must be given where positions are not places: token ",
              first + s, " of batch row ", b, " stands at ", positions.at(b, first + s),
              " but will be key ", length + s);
        }
      }
    }
  }
};

POSENC_END
