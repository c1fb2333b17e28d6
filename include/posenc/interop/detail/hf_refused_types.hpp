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
  constexpr auto sinusoidal = "a table of sines and cosines";
  constexpr auto between = "linear layers between those of attention";
  constexpr auto both = "an encoder, and a decoder that attends to it";
  return std::to_array<HfRefusedType>({
      {"albert", false, learned},
      {"bailing_hybrid", true, between},
      {"bailing_moe_linear", true, between},
      {"bamba", true, "layers of a state space, listed under attn_layer_indices"},
      {"bart", false, learned},
      {"beit", false, table},
      {"bert", false, learned},
      {"big_bird", false, learned},
      {"biogpt", false, learned},
      {"blenderbot", false, learned},
      {"blenderbot-small", false, learned},
      {"bloom", false, alibi},
      {"blt", true, "four models of bytes and of patches, each with positions of its own"},
      {"camembert", false, learned},
      {"canine", false, learned},
      {"clip_text_model", false, learned},
      {"ctrl", false, sinusoidal},
      {"data2vec-text", false, learned},
      {"dbrx", true, "its settings inside attn_config, with clipped queries and keys"},
      {"deberta", false, relative},
      {"deberta-v2", false, relative},
      {"deit", false, learned},
      {"dia", true, both},
      {"diffllama", true, "the difference of two softmaxes in each head"},
      {"dinov2", false, learned},
      {"dinov2_with_registers", false, learned},
      {"distilbert", false, learned},
      {"doge", true, "a learned bias of each key that its value makes"},
      {"electra", false, learned},
      {"encoder-decoder", true, both},
      {"ernie", false, learned},
      {"falcon_h1", true, "a factor of the keys, and a state space beside attention in each layer"},
      {"falcon_mamba", false, linear},
      {"funnel", false, relative},
      {"gla", false, linear},
      {"gpt-sw3", false, learned},
      {"gpt2", false, learned},
      {"gpt_bigcode", false, learned},
      {"gpt_neo", false, learned},
      {"ibert", false, learned},
      {"inkling_mm_model", false, relative},
      {"inkling_text", false, relative},
      {"jamba", false, "state spaces, and attention without positions"},
      {"kimi_linear", false, "attention without positions (mla_use_nope) between linear layers"},
      {"layoutlm", false, learned},
      {"led", false, learned},
      {"longcat_flash", true, "two attentions a layer, and factors of its latent queries and keys"},
      {"longformer", false, learned},
      {"longt5", false, buckets},
      {"luke", false, learned},
      {"m2m_100", false, sinusoidal},
      {"mamba", false, linear},
      {"mamba2", false, linear},
      {"marian", false, sinusoidal},
      {"mbart", false, learned},
      {"megatron-bert", false, learned},
      {"minimax", true, "linear layers, and releases of its class that turn other channels"},
      {"minimax_m1", true, "linear layers, and releases of its class that turn other channels"},
      {"minimax_text_01", true,
       "linear layers, and releases of its class that turn other channels"},
      {"mobilebert", false, learned},
      {"mpnet", false, "a table of learned positions, and a bias for each distance"},
      {"mpt", false, alibi},
      {"mt5", false, buckets},
      {"nanochat", true, "a rotation the other way round"},
      {"nemotron_h", false, "state spaces, and attention without positions"},
      {"nllb-moe", false, sinusoidal},
      {"openai-gpt", false, learned},
      {"openelm", true, "heads whose number differs by layer (num_query_heads)"},
      {"opt", false, learned},
      {"parakeet_ctc", false, relative},
      {"parakeet_encoder", false, relative},
      {"pegasus", false, sinusoidal},
      {"phi3small", true, "attention to blocks of keys, and a scale of its own"},
      {"pixtral", true, "positions of patches on a grid"},
      {"recurrent_gemma", true, "recurrent layers by a pattern of blocks"},
      {"reformer", false, "positions of two axes that are learned, and attention by hashes"},
      {"rembert", false, learned},
      {"retnet", false, "decay of scores with the distance, and no softmax"},
      {"roberta", false, learned},
      {"roberta-prelayernorm", false, learned},
      {"rwkv", false, linear},
      {"siglip", false, learned},
      {"siglip2", false, learned},
      {"speech-encoder-decoder", true, both},
      {"swin", false, table},
      {"swinv2", false, "a network that makes biases for the places of a window"},
      {"switch_transformers", false, buckets},
      {"t5", false, buckets},
      {"t5gemma", true, both},
      {"t5gemma2", true, both},
      {"transfo-xl", false, relative},
      {"umt5", false, buckets},
      {"vision-encoder-decoder", true, both},
      {"vit", false, learned},
      {"vit_mae", false, sinusoidal},
      {"wav2vec2-conformer", true, "a choice of encodings (position_embeddings_type) of frames"},
      {"whisper", false, learned},
      {"xglm", false, sinusoidal},
      {"xlm-roberta", false, learned},
      {"xlm-roberta-xl", false, learned},
      {"xlnet", false, relative},
      {"xlstm", false, linear},
      {"xmod", false, learned},
      {"zamba", false, "state spaces, and attention without positions"},
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
