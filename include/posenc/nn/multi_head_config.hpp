// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/nn/qk_norm.hpp>

#include <cmath>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Settings of MultiHeadAttention. A field that is 0 takes the default in brackets.
struct MultiHeadAttentionConfig {
  Index model_dim = 0;          ///< required: width of the query input and of the output
  Index heads = 0;              ///< required
  Index kv_heads = 0;           ///< must divide heads; grouped-query attention [heads]
  Index head_dim = 0;           ///< [model_dim / heads, if that is an integer]
  Index value_dim = 0;          ///< head_dim of the values [head_dim]
  Index key_input_dim = 0;      ///< width of the key input, for cross attention [model_dim]
  Index value_input_dim = 0;    ///< width of the value input [model_dim]
  bool projection_bias = true;  ///< true if the projections have a bias
  QkNorm qk_norm = {};          ///< norm of queries and keys [none]
};

static_assert(std::is_trivially_copyable_v<MultiHeadAttentionConfig>);

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {

/// Throws ConfigError unless the settings of the norm are complete, or all are absent.
inline void check_qk_norm_config(const char* function, const QkNorm& norm) {
  if (norm.over == QkNormOver::None) {
    if (norm != QkNorm{}) {
      fail<ConfigError>(
          function,
          "qk_norm.over must be set: Head or AllHeads; without a norm, qk_norm.weight "
          "and qk_norm.epsilon must be absent");
    }
    return;
  }
  if (norm.weight == QkNormWeight::Unspecified) {
    fail<ConfigError>(function,
                      "qk_norm.weight must be set: Factor, or FactorMinusOne as in Gemma's files");
  }
  if (!(norm.epsilon > 0) || !std::isfinite(norm.epsilon)) {
    fail<ConfigError>(function, "qk_norm.epsilon must be set, finite and positive but is ",
                      norm.epsilon);
  }
}

/// Returns the settings with all defaults filled in, for a module of T.
///   Throws: ConfigError
template <class T>
MultiHeadAttentionConfig with_defaults(MultiHeadAttentionConfig c) {
  constexpr auto function = "MultiHeadAttention";
  if (c.model_dim <= 0) {
    fail<ConfigError>(function, "model_dim must be set and positive but is ", c.model_dim);
  }
  if (c.heads <= 0) fail<ConfigError>(function, "heads must be set and positive but is ", c.heads);
  if (c.head_dim == 0 && c.model_dim % c.heads != 0) {
    fail<ConfigError>(function, "heads (", c.heads, ") must divide model_dim (", c.model_dim,
                      ") if head_dim is not set");
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
    fail<ConfigError>(function, "kv_heads (", c.kv_heads, ") must divide heads (", c.heads, ")");
  }
  const auto reject_negative = [](const char* name, Index value) {
    if (value < 0) fail<ConfigError>(function, name, " must be positive but is ", value);
  };
  reject_negative("head_dim", c.head_dim);
  reject_negative("value_dim", c.value_dim);
  reject_negative("key_input_dim", c.key_input_dim);
  reject_negative("value_input_dim", c.value_input_dim);
  const auto require_memory = [](const char* name, Index in, Index heads, Index dim) {
    constexpr Index max_count = (Index{1} << 56) / Index{sizeof(T)};
    const auto count = checked_mul({in, heads, dim});
    if (!count || *count > max_count) {
      fail<ConfigError>(function, "the ", name, " projection of ", in, " times ", heads, " times ",
                        dim, " values must fit into memory");
    }
  };
  check_qk_norm_config(function, c.qk_norm);
  require_memory("query", c.model_dim, c.heads, c.head_dim);
  require_memory("key", c.key_input_dim, c.kv_heads, c.head_dim);
  require_memory("value", c.value_input_dim, c.kv_heads, c.value_dim);
  require_memory("output", c.model_dim, c.heads, c.value_dim);
  return c;
}

}  // namespace detail
POSENC_END
