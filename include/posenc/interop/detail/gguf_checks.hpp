// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/gguf_architecture.hpp>
#include <posenc/interop/detail/gguf_keys.hpp>
#include <posenc/interop/detail/gguf_layers.hpp>
#include <posenc/interop/detail/gguf_rules.hpp>

#include <string>
#include <string_view>

// Checks of keys and tensors that an architecture's graph does not use.
POSENC_BEGIN
namespace detail {

/// Checks the lists of Granite's models with windows, which must list those. No other graph reads
/// rope_pattern.
///   Source: ggml-org/llama.cpp, src/models/granite-swa.cpp (38d3906)
POSENC_COLD inline void gguf_check_layer_lists(const GgufKeys& keys,
                                               const GgufArchitecture& architecture) {
  constexpr auto windows = "attention.sliding_window_pattern", rotation = "attention.rope_pattern";
  const bool is_listed = architecture.rope.nope_layers == GgufNopeLayers::Listed;
  if (is_listed && gguf_layer_list(keys, windows).empty()) {
    keys.reject(windows, "must have one entry per layer");
  }
  if (!is_listed && keys.has(rotation)) keys.reject(rotation, "is not known for this architecture");
  if (is_listed && keys.has(rotation) && gguf_layer_list(keys, rotation).empty()) {
    keys.reject(rotation, "must have one entry per layer");
  }
}

/// Checks that the file agrees with a graph of fixed rotation.
///   Source: ggml-org/llama.cpp, src/models/cogvlm.cpp (0f72889) and deepseek2ocr.cpp (14afe7b)
POSENC_COLD inline void gguf_check_plain(const GgufKeys& keys, Index head_dim) {
  constexpr auto width = "rope.dimension_count";
  if (gguf_base(keys) != 10000) {
    keys.reject("rope.freq_base",
                "is not 10000, the base that llama.cpp uses for this architecture");
  }
  if (keys.integer(width).value_or(head_dim) != head_dim) {
    keys.reject(width, "is not the width of a head, all of which llama.cpp rotates");
  }
  constexpr auto without_effect = "has no effect on the rotation of this architecture";
  if (keys.text("rope.scaling.type").value_or("none") != "none") {
    keys.reject("rope.scaling.type", without_effect);
  }
  for (const char* name : gguf_factor_keys) {
    const double factor = keys.real(name).value_or(1);  // 0 counts as absent
    if (factor != 1 && factor != 0) keys.reject(name, without_effect);
  }
}

/// Checks that tensors of divisors are in the file if the graph uses them.
POSENC_COLD inline void gguf_check_tensors(const GgufKeys& keys,
                                           const GgufArchitecture& architecture,
                                           const std::string& name) {
  for (const std::string_view tensor : gguf_rope_tensors) {
    if ((architecture.rope.is_plain || architecture.rope.ignores_tensors) &&
        keys.file().rope_tensor(tensor)) {
      fail<ConfigError>(GgufKeys::function, "the tensor ", tensor,
                        " has no effect in the architecture '", name, "'");
    }
  }
  if (architecture.rope.needs_tensor && !keys.file().rope_tensor(gguf_freqs_tensor)) {
    fail<ConfigError>(GgufKeys::function, "the tensor ", gguf_freqs_tensor,
                      " is missing, which the architecture '", name, "' needs");
  }
}

/// Checks keys of layers with compressed keys.
POSENC_COLD inline void gguf_check_compressed(const GgufKeys& keys,
                                              const GgufArchitecture& architecture) {
  constexpr auto base = "attention.compress_rope_freq_base", factor = "rope.scaling.attn_factor";
  if (!architecture.compresses_keys && keys.has(base)) {
    keys.reject(base, "is not known for this architecture");
  }
  if (architecture.compresses_keys && keys.real(factor).value_or(1) != 1) {
    keys.reject(factor, "has no effect in this architecture, whose factor is always 1");
  }
}

/// Checks that the graph uses the width of local layers for them alone.
POSENC_COLD inline void gguf_check_local_width(const GgufKeys& keys,
                                               const GgufArchitecture& architecture) {
  constexpr auto key = "rope.dimension_count_swa";
  if (!architecture.rope.has_local_width && keys.has(key) &&
      keys.integer(key) != keys.integer("rope.dimension_count")) {
    keys.reject(key, "is not known to be used by this architecture");
  }
}

/// Checks that local layers have the base of the global layers if the graph uses that one
/// regardless of the loader.
POSENC_COLD inline void gguf_check_local_base(const GgufKeys& keys,
                                              const GgufArchitecture& architecture) {
  constexpr auto key = "rope.freq_base_swa";
  const auto local = keys.real(key);
  if (architecture.rope.ignores_local_base && local && *local != gguf_base(keys)) {
    keys.reject(key, "is not rope.freq_base, which llama.cpp uses in all layers");
  }
}

}  // namespace detail
POSENC_END
