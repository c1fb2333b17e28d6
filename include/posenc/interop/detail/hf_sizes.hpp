// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_custom_layers.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/read_sizes.hpp>
#include <posenc/interop/model_settings.hpp>

#include <optional>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Returns the widths of the dense feed-forward networks: a single one, or a list with one per
/// layer, as in Gemma 3n.
POSENC_COLD inline std::vector<Index> hf_intermediate_sizes(const JsonKeys& config,
                                                            bool lists_may_be_longer) {
  constexpr auto key = "intermediate_size";
  if (const Json* given = config.find(key); given != nullptr && given->is_array()) {
    auto list = config.integers(key).value_or(std::vector<Index>{});
    for (const Index size : list) check_size(config, key, size, 0);
    const auto layers = hf_layer_count(config);
    const auto count = static_cast<Index>(list.size());
    if (layers && (lists_may_be_longer ? count < *layers : count != *layers)) {
      config.reject(key, "has ", count, " entries for ", *layers, " layers");
    }
    if (layers) list.resize(static_cast<std::size_t>(*layers));
    return list;
  }
  AgreedNumber<Index> agreed;
  for (const char* name : {key, "ffn_dim", "n_inner", "ffn_hidden_size", "inner_hidden_size"}) {
    const auto size = config.integer(name);
    if (size) check_size(config, name, *size, 0);
    agreed.add(size);
  }
  const auto size = agreed.get();
  return size ? std::vector<Index>{*size} : std::vector<Index>{};
}

/// Returns the epsilon of the norms, by default that of the class; 0: it has none.
POSENC_COLD inline std::optional<double> hf_norm_epsilon(const JsonKeys& config,
                                                         double default_value) {
  const auto agreed =
      agreed_epsilon(config, {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps",
                              "norm_epsilon", "layernorm_epsilon"});
  return agreed.is_absent() && default_value != 0 ? default_value : agreed.get();
}

/// Reads the sizes of a model.
POSENC_COLD inline void hf_read_sizes(const JsonKeys& config, const HfModelType& type,
                                      ModelSettings& model) {
  model.hidden_size = agreed_size(config, {"hidden_size", "n_embd"});
  model.vocabulary_size = agreed_size(config, {"vocab_size", "padded_vocab_size"});
  model.intermediate_sizes = hf_intermediate_sizes(config, type.layers.lists_may_be_longer);
  model.norm_epsilon = hf_norm_epsilon(config, type.norms.epsilon);
  model.tied_embeddings = config.flag("tie_word_embeddings");
}

/// Adds what the file says of tied embeddings beside the text model's part. The value is absent if
/// both differ, because releases of transformers differ in the one that they read.
POSENC_COLD inline void hf_add_outer_tie(const JsonKeys& file, ModelSettings& model) {
  AgreedNumber<bool> agreed;
  agreed.add(model.tied_embeddings);
  agreed.add(file.flag("tie_word_embeddings"));
  model.tied_embeddings = agreed.get();
}

}  // namespace detail
POSENC_END
