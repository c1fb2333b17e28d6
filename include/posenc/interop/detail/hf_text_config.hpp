// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/json_keys.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

// Nested text configurations of multimodal models. The nested part is read as a file of its own
// type, independent of the outer model.
POSENC_BEGIN
namespace detail {

/// Default type of the text model of a multimodal type.
struct HfTextModel {
  std::string_view name;  ///< model_type of the whole
  std::string_view text;  ///< model_type of its text model
  bool is_flat = false;   ///< files without a part are text configurations with additional keys
  bool is_fixed = false;  ///< the class ignores the type that the part names
};

// Source: sub_configs_defaults of the classes in huggingface/transformers 5.24.0; of remote code
//         LLaVA's llava_llama.py (015f6b7), ml-fastvlm's llava_qwen.py (003ec9b), and vllm's
//         minicpmv.py
inline constexpr auto hf_text_models = std::to_array<HfTextModel>({
    {"code_llama", "llama", true},
    {"cohere_compass", "cohere_compass_text"},
    {"cosmos3_edge", "cosmos3_edge_text"},
    {"deepseek_vl_v2", "deepseek_v2", true},
    {"fast_vlm", "qwen2"},
    {"fuyu", "persimmon", true},
    {"glmga", "glm4v_text"},
    {"granite4_vision", "granite4_vision_text"},
    {"idefics2", "mistral"},
    {"idefics3", "llama"},
    {"llava", "llama", true},
    {"llava_onevision", "qwen2"},
    {"llava_qwen2", "qwen2", true},
    {"minimax_m3", "minimax_m3_vl_text", true},
    {"minimax_m3_vl", "minimax_m3_vl_text", true, true},
    {"minicpmo 2.6", "qwen2", true},
    {"minicpmo 4.5", "qwen3", true},
    {"minicpmv 2.0", "minicpm", true},
    {"minicpmv 2.5", "llama", true},
    {"minicpmv 2.6", "qwen2", true},
    {"minicpmv 4.0", "llama", true},
    {"minicpmv 4.5", "qwen3", true},
    {"minicpmv4_6", "qwen3_5_text"},
    {"minicpmv4_7", "qwen3_5_text"},
    {"molmo2", "molmo2_text"},
    {"nemo_speechlm", "nemotron_h"},
    {"paddleocr_vl", "paddleocr_vl_text", true},
    {"paligemma", "gemma"},
    {"phi4mm", "phi4_multimodal", true},
    {"qianfan_ocr", "qwen3"},
    {"qwen2_5_omni_thinker", "qwen2_5_omni_text"},
    {"qwen3_asr", "qwen3"},
    {"qwen3_omni_moe_talker", "qwen3_omni_moe_talker_text"},
    {"qwen3_omni_moe_thinker", "qwen3_omni_moe_text"},
    {"qwen4_exp", "qwen4_exp_text", true},
    {"step3p7", "step3p5"},
    {"t5gemma2_encoder", "t5gemma2_text"},
    {"vibevoice", "qwen2"},
    {"vibevoice_asr", "qwen2"},
    {"video_llama_3", "qwen2"},
});

/// Returns the text model's part of a configuration and its name; {nullptr, ""} if there is none.
POSENC_COLD inline std::pair<const Json*, std::string> hf_text_config(const JsonKeys& keys) {
  std::pair<const Json*, std::string> found = {nullptr, ""};
  for (const char* name : {"text_config", "llm_config", "language_config"}) {
    const Json* given = keys.find(name);
    if (given == nullptr) continue;
    if (found.first == nullptr) found = {given, name};
    if (*found.first != *given) {
      keys.reject(name, "contradicts ", std::string_view(found.second));
    }
  }
  return found;
}

/// Returns the type with its version appended, because the text model of MiniCPM-V depends on the
/// version.
POSENC_COLD inline std::string hf_versioned_type(const JsonKeys& keys, const std::string& whole) {
  constexpr auto key = "version";
  const Json* version = keys.find(key);
  if ((whole != "minicpmv" && whole != "minicpmo") || version == nullptr) return whole;
  if (version->is_string()) return whole + ' ' + *keys.text(key);
  const double number = *keys.real(key);
  if (!(number >= 0 && number < 100)) keys.reject(key, "is not a version of this type");
  const auto tenths = std::lround(number * 10);
  return whole + ' ' + std::to_string(tenths / 10) + '.' + std::to_string(tenths % 10);
}

/// Returns the entry of a model_type, or nullptr.
POSENC_COLD inline const HfTextModel* find_hf_text_model(std::string_view whole) {
  const auto at = std::find_if(hf_text_models.begin(), hf_text_models.end(),
                               [whole](const HfTextModel& model) { return model.name == whole; });
  return at == hf_text_models.end() ? nullptr : &*at;
}

/// Returns the type of the text model of a model of type `whole`.
POSENC_COLD inline std::string hf_text_type(const std::string& whole, bool is_flat) {
  const HfTextModel* model = find_hf_text_model(whole);
  return model == nullptr || (is_flat && !model->is_flat) ? whole : std::string(model->text);
}

/// True if a model of this type has one type of text model, regardless of the type that the part
/// names.
POSENC_COLD inline bool hf_fixes_text_type(const std::optional<std::string>& whole) {
  const HfTextModel* model = whole ? find_hf_text_model(*whole) : nullptr;
  return model != nullptr && model->is_fixed;
}

}  // namespace detail
POSENC_END
