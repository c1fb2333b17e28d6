// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/check_call.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/detail/multi_head_parts.hpp>
#include <posenc/nn/detail/qk_norms.hpp>
#include <posenc/nn/multi_head_config.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/token_runs.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/view.hpp>

#include <array>

// Steps of MultiHeadAttention's forward passes before and after attention itself.
POSENC_BEGIN
namespace detail {

inline constexpr auto module_forward = "MultiHeadAttention::forward";

[[noreturn]] inline void fail_positions_twice() {
  fail<ConfigError>(module_forward,
                    "positions are arguments of forward and must not be set in the options");
}

template <class T>
void check_forward(const MultiHeadAttentionConfig& config, const EmbeddingsView<const T>& x,
                   const EmbeddingsView<T>& out, const AttentionOptions<T>& options) {
  check_extents(module_forward, "x", x);
  check_shape(module_forward, "out", out, std::array<Index, 3>{x.batch, x.seq, config.model_dim});
  check_output(module_forward, "out", out);
  if (options.query_positions) fail_positions_twice();
  check_causal(module_forward, options.causal);
}

/// Checks the arguments of a call without a cache.
template <class T>
void check_forward(const MultiHeadAttentionConfig& config, const ModuleInputs<T>& inputs,
                   const Positions& query_positions, const Positions& key_positions,
                   const EmbeddingsView<T>& out, const AttentionOptions<T>& options) {
  check_forward(config, inputs.x, out, options);
  check_extents(module_forward, "keys_from", inputs.keys_from);
  check_extents(module_forward, "values_from", inputs.values_from);
  if (options.key_positions) fail_positions_twice();
  check_positions_fit(module_forward, "query_positions", query_positions, inputs.x);
  check_positions_fit(module_forward, "key_positions", key_positions, inputs.keys_from);
}

/// Throws ConfigError unless the positions of tokens are their key numbers in the cache.
template <class S>
void check_key_numbers(const Positions& positions, const KvCache<S>& cache, const TokenRuns& runs) {
  for (Index n = 0; n < runs.size(); ++n) {
    const Index length = cache.length(runs.sequence(n)), b = runs.row(n), first = runs.first(n);
    for (Index s = 0; s < runs.count(n); ++s) {
      if (positions.at(b, first + s) != static_cast<double>(length + s)) {
        fail<ConfigError>(
            module_forward,
            "options.key_positions must be set if positions differ from key indices: token ",
            first + s, " of batch row ", b, " has position ", positions.at(b, first + s),
            " but becomes key ", length + s);
      }
    }
  }
}

template <Device D, class Projection, class T>
void apply_projection([[maybe_unused]] const D& device,
                      [[maybe_unused]] AttentionWorkspace& workspace, const Projection& projection,
                      const EmbeddingsView<const T>& x, const EmbeddingsView<T>& out) {
  if constexpr (requires { projection.apply(x, out, &workspace, device); }) {
    projection.apply(x, out, &workspace, device);
  } else {
    projection.apply(x, out);
  }
}

/// Computes normalised and rotated queries and keys, and values. The projections of queries and
/// keys are written to `projected`, which may be those of `heads`. The rotations take a separate
/// pass: 0.3 % of attention's time, and less than that of the projections.
template <Device D, class Module, class T>
void project(const D& device, AttentionWorkspace& workspace, const Module& module,
             const ModuleInputs<T>& inputs, const Positions& query_positions,
             const Positions& key_positions, const ProjectedHeads<T>& projected,
             const ModuleHeads<T>& heads) {
  apply_projection(device, workspace, module.query_projection, inputs.x, tokens(projected.q));
  apply_projection(device, workspace, module.key_projection, inputs.keys_from, tokens(projected.k));
  apply_projection(device, workspace, module.value_projection, inputs.values_from, tokens(heads.v));
  if (has_qk_norm(module.config())) {
    const auto& config = module.config();
    HeadsNorm<T>(config, module.query_norm, heads.q).apply(device, projected.q, heads.q);
    HeadsNorm<T>(config, module.key_norm, heads.k).apply(device, projected.k, heads.k);
  }
  const auto& rotary = module.rotary();
  if constexpr (requires { rotary.rotate_queries(heads.q, query_positions, device); }) {
    rotary.rotate_queries(heads.q, query_positions, device);
    rotary.rotate_keys(heads.k, key_positions, device);
  } else {
    rotary.rotate_queries(heads.q, query_positions);
    rotary.rotate_keys(heads.k, key_positions);
  }
}

}  // namespace detail
POSENC_END
