// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <algorithm>
#include <array>
#include <string_view>

// Types of models of Hugging Face that are known and not read, and what they have instead.
POSENC_BEGIN
namespace detail {

struct HfRefusedType {
  std::string_view name;  ///< model_type
  bool has_rotary;        ///< in a form that is not read
  std::string_view has;   ///< what it has
};

inline constexpr std::array hf_refused_types = [] {
  constexpr auto learned = "a table of learned positions";
  constexpr auto alibi = "ALiBi";
  constexpr auto buckets = "a bias for each distance";
  constexpr auto table = "a table of biases for the places of a window";
  constexpr auto relative = "positions in what queries make of distances";
  constexpr auto linear = "linear attention or a state space in place of attention";
  return std::to_array<HfRefusedType>({
      {"albert", false, learned},
      {"bamba", true, "layers of a state space, listed under attn_layer_indices"},
      {"bart", false, learned},
      {"beit", false, table},
      {"bert", false, learned},
      {"bloom", false, alibi},
      {"dbrx", true, "its settings inside attn_config, with clipped queries and keys"},
      {"deberta", false, relative},
      {"deberta-v2", false, relative},
      {"distilbert", false, learned},
      {"electra", false, learned},
      {"falcon_h1", true, "a factor of the keys, and a state space beside attention in each layer"},
      {"gla", false, linear},
      {"gpt2", false, learned},
      {"gpt_bigcode", false, learned},
      {"gpt_neo", false, learned},
      {"inkling_mm_model", false, relative},
      {"inkling_text", false, relative},
      {"jamba", false, "state spaces, and attention without positions"},
      {"kimi_linear", false, "attention without positions (mla_use_nope) between linear layers"},
      {"longcat_flash", true, "two attentions a layer, and factors of its latent queries and keys"},
      {"mamba", false, linear},
      {"mamba2", false, linear},
      {"minimax", true, "linear layers, and releases of its class that turn other channels"},
      {"minimax_text_01", true,
       "linear layers, and releases of its class that turn other channels"},
      {"mpt", false, alibi},
      {"nemotron_h", false, "state spaces, and attention without positions"},
      {"opt", false, learned},
      {"parakeet_ctc", false, relative},
      {"parakeet_encoder", false, relative},
      {"phi3small", true, "attention to blocks of keys, and a scale of its own"},
      {"pixtral", true, "positions of patches on a grid"},
      {"recurrent_gemma", true, "recurrent layers by a pattern of blocks"},
      {"retnet", false, "decay of scores with the distance, and no softmax"},
      {"roberta", false, learned},
      {"rwkv", false, linear},
      {"siglip", false, learned},
      {"siglip2", false, learned},
      {"swin", false, table},
      {"swinv2", false, "a network that makes biases for the places of a window"},
      {"t5", false, buckets},
      {"transfo-xl", false, relative},
      {"umt5", false, buckets},
      {"vit", false, learned},
      {"wav2vec2-conformer", true, "a choice of encodings (position_embeddings_type) of frames"},
      {"whisper", false, learned},
      {"xlm-roberta", false, learned},
      {"zamba2", true, "state spaces, and layers of attention that share their weights"},
  });
}();

/// The entry of a model_type, or nullptr.
inline const HfRefusedType* find_hf_refused_type(std::string_view name) {
  const auto at = std::find_if(hf_refused_types.begin(), hf_refused_types.end(),
                               [name](const HfRefusedType& type) { return type.name == name; });
  return at == hf_refused_types.end() ? nullptr : &*at;
}

}  // namespace detail
POSENC_END
