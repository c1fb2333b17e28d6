// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/gguf_keys.hpp>
#include <posenc/interop/detail/gguf_layers.hpp>
#include <posenc/interop/detail/read_sizes.hpp>
#include <posenc/interop/model_settings.hpp>

#include <optional>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Returns the number of tokens of the vocabulary, by its key or else by the list of tokens.
POSENC_COLD inline std::optional<Index> gguf_vocabulary_size(const GgufKeys& keys) {
  if (const auto size = agreed_size(keys, {"vocab_size"})) return size;
  const auto tokens = keys.file().array_length("tokenizer.ggml.tokens");
  return tokens && *tokens >= 1 && *tokens <= max_model_size ? tokens : std::nullopt;
}

POSENC_COLD inline std::vector<Index> gguf_intermediate_sizes(const GgufKeys& keys) {
  constexpr auto name = "feed_forward_length";
  auto sizes = keys.integers(name).value_or(std::vector<Index>{});
  for (const Index size : sizes) check_size(keys, name, size, 0);
  if (keys.has("block_count")) gguf_layer_list(keys, name);  // checks the length of a list
  return sizes;
}

/// Returns true if the output projection is the table of embeddings, because it has no tensor of
/// its own; absent if the file does not list the tensors of the complete model.
///   Source: ggml-org/llama.cpp, whose loaders take token_embd.weight if output.weight is missing
POSENC_COLD inline std::optional<bool> gguf_tied_embeddings(const GgufFile& file) {
  if (file.has_tensor("output.weight")) return false;
  const bool is_part = file.integer("split.count").value_or(1) > 1;
  return file.has_tensor("token_embd.weight") && !is_part ? std::optional(true) : std::nullopt;
}

POSENC_COLD inline void gguf_read_sizes(const GgufKeys& keys, ModelSettings& model) {
  model.hidden_size = agreed_size(keys, {"embedding_length"});
  model.vocabulary_size = gguf_vocabulary_size(keys);
  model.intermediate_sizes = gguf_intermediate_sizes(keys);
  model.norm_epsilon =
      agreed_epsilon(keys, {"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"})
          .get();
  model.tied_embeddings = gguf_tied_embeddings(keys.file());
}

}  // namespace detail
POSENC_END
