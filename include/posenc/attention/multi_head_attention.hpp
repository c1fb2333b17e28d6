// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention.hpp>
#include <posenc/attention/linear.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

POSENC_STABLE_BEGIN

/// Settings of MultiHeadAttention; what is left at 0 takes the value in brackets.
struct MultiHeadAttentionConfig {
  Index model_dim = 0;        ///< required: width of queries in and of the output
  Index heads = 0;            ///< required
  Index kv_heads = 0;         ///< divides heads; grouped-query attention [heads]
  Index head_dim = 0;         ///< [model_dim / heads, which must be whole]
  Index value_dim = 0;        ///< head_dim of values [head_dim]
  Index key_input_dim = 0;    ///< width of what keys are made from, for cross attention [model_dim]
  Index value_input_dim = 0;  ///< width of what values are made from [model_dim]
  bool projection_bias = true;
};

POSENC_STABLE_END

POSENC_BEGIN

/// Multi-head attention with projections, a rotary encoding, and a score bias, any of which may be
/// nothing: with NoRotation and NoBias it knows no positions at all (NoPE).
///   T:      float or double
///   Rotary: models RotaryEncoding: Rope, NoRotation, a user's own
///   Bias:   models ScoreBias: Alibi, NoBias, a user's own
///   Scale:  options.scale or 1 / sqrt(head_dim), times rotary.softmax_scale_multiplier()
///   Source: arXiv 1706.03762, section 3.2.2; weights laid out as in torch.nn.Linear
/// Const calls may run on several threads at once.
template <class T, class Rotary = NoRotation, class Bias = NoBias>
class MultiHeadAttention {
  static_assert(
      std::same_as<T, float> || std::same_as<T, double>,
      "posenc::MultiHeadAttention: T must be float or double, which Eigen's products need");
  static_assert(
      RotaryEncoding<Rotary, T>,
      "posenc::MultiHeadAttention: Rotary must provide rotate_queries(x, positions), rotate_keys, "
      "adjoint_queries, adjoint_keys and softmax_scale_multiplier(); see posenc/concepts.hpp");
  static_assert(ScoreBias<Bias, T>,
                "posenc::MultiHeadAttention: Bias must provide add(head, query_positions, "
                "key_positions, tile); "
                "see posenc/concepts.hpp");

 public:
  /// Parameters are zero until they are set or randomize()d.
  ///   Throws: ConfigError.
  explicit MultiHeadAttention(const MultiHeadAttentionConfig& config, Rotary rotary = {},
                              Bias bias = {})
      : config_(completed(config)),
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
  ///   Throws:   ShapeError, ConfigError, PositionError
  ///   Cost:     allocates q, k, v and the heads' outputs
  void forward(EmbeddingsView<const T> x, const Positions& positions, EmbeddingsView<T> out,
               const AttentionOptions<T>& options = {}) const {
    forward(x, positions, x, x, positions, out, options);
  }

  /// Cross attention: out <- attention of queries made from x with keys and values made from other
  /// tensors.
  ///   Shapes: x, out [B, Sq, model_dim]; keys_from [B, Sk, key_input_dim]; values_from [B, Sk,
  ///           value_input_dim]; query_positions [B or 1, Sq]; key_positions [B or 1, Sk]
  void forward(EmbeddingsView<const T> x, const Positions& query_positions,
               EmbeddingsView<const T> keys_from, EmbeddingsView<const T> values_from,
               const Positions& key_positions, EmbeddingsView<T> out,
               const AttentionOptions<T>& options = {}) const {
    if (out.extents() != std::array<Index, 3>{x.batch, x.seq, config_.model_dim}) {
      detail::fail<ShapeError>("MultiHeadAttention::forward", "out ", out.extents(), " must be [",
                               x.batch, ", ", x.seq, ", ", config_.model_dim, "]");
    }
    if (options.query_positions || options.key_positions) {
      detail::fail<ConfigError>(
          "MultiHeadAttention::forward",
          "positions are arguments of forward and must not stand in the options");
    }
    Buffer q(x.batch, x.seq, config_.heads, config_.head_dim);
    Buffer k(keys_from.batch, keys_from.seq, config_.kv_heads, config_.head_dim);
    Buffer v(values_from.batch, values_from.seq, config_.kv_heads, config_.value_dim);
    query_projection.apply(x, q.merged());
    key_projection.apply(keys_from, k.merged());
    value_projection.apply(values_from, v.merged());
    rotary_.rotate_queries(q.heads(), query_positions);
    rotary_.rotate_keys(k.heads(), key_positions);

    AttentionOptions<T> completed = options;
    completed.query_positions = query_positions;
    completed.key_positions = key_positions;
    completed.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(config_.head_dim))) *
                      rotary_.softmax_scale_multiplier();
    Buffer mixed(x.batch, x.seq, config_.heads, config_.value_dim);
    attention(q.heads(), k.heads(), v.heads(), mixed.heads(), completed, bias_);
    output_projection.apply(mixed.merged(), out);
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
  [[no_unique_address]] Rotary rotary_;
  [[no_unique_address]] Bias bias_;

 public:
  // Parameters, to be loaded or trained by their owner. Rows of head h are h * head_dim .. (h + 1)
  // * head_dim - 1.
  Linear<T> query_projection, key_projection, value_projection, output_projection;

 private:
  /// A dense [B, S, H, D] block of its own.
  class Buffer {
   public:
    Buffer(Index batch, Index seq, Index heads, Index dim)
        : batch_(batch),
          seq_(seq),
          heads_(heads),
          dim_(dim),
          data_(static_cast<std::size_t>(batch * seq * heads * dim)) {}

    HeadsView<T> heads() { return split_heads(merged(), heads_); }
    EmbeddingsView<T> merged() {
      const Index width = heads_ * dim_;
      return {data_.data(), batch_, seq_, width, seq_ * width, width};
    }

   private:
    Index batch_, seq_, heads_, dim_;
    std::vector<T> data_;
  };

  static MultiHeadAttentionConfig completed(MultiHeadAttentionConfig c) {
    constexpr auto function = "MultiHeadAttention";
    if (c.model_dim <= 0) {
      detail::fail<ConfigError>(function, "model_dim must be given and positive but is ",
                                c.model_dim);
    }
    if (c.heads <= 0)
      detail::fail<ConfigError>(function, "heads must be given and positive but is ", c.heads);
    if (c.head_dim == 0 && c.model_dim % c.heads != 0) {
      detail::fail<ConfigError>(function, "heads (", c.heads, ") must divide model_dim (",
                                c.model_dim, ") where head_dim is not given");
    }
    const auto fill = [](Index& field, Index value) {
      if (field == 0) field = value;
    };
    fill(c.kv_heads, c.heads);
    fill(c.head_dim, c.model_dim / c.heads);
    fill(c.value_dim, c.head_dim);
    fill(c.key_input_dim, c.model_dim);
    fill(c.value_input_dim, c.model_dim);
    if (c.kv_heads < 0 || c.heads % c.kv_heads != 0) {
      detail::fail<ConfigError>(function, "kv_heads (", c.kv_heads, ") must divide heads (",
                                c.heads, ")");
    }
    for (const auto& [name, value] :
         {std::pair{"head_dim", c.head_dim}, std::pair{"value_dim", c.value_dim},
          std::pair{"key_input_dim", c.key_input_dim},
          std::pair{"value_input_dim", c.value_input_dim}}) {
      if (value < 0) detail::fail<ConfigError>(function, name, " must be positive but is ", value);
    }
    return c;
  }
};

POSENC_END
