// SPDX-License-Identifier: MIT
// The lines of model_files.md: settings from a config.json and from a GGUF file, presets, and files
// that are refused.
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/presets.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

int failures = 0;

void expect(bool holds, const char* claim) {
  if (holds) return;
  std::cout << "wrong: " << claim << '\n';
  ++failures;
}

/// Text of Gemma 3 4B's config.json, with the keys of its text model that posenc reads.
constexpr std::string_view gemma = R"({
  "model_type": "gemma3_text",
  "hidden_size": 2560,
  "num_attention_heads": 8,
  "num_key_value_heads": 4,
  "num_hidden_layers": 34,
  "head_dim": 256,
  "max_position_embeddings": 131072,
  "query_pre_attn_scalar": 256,
  "rope_theta": 1000000.0,
  "rope_local_base_freq": 10000.0,
  "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
  "sliding_window": 1024,
  "sliding_window_pattern": 6
})";

void layers_of_two_types() {
  const auto check = [](posenc::Index layer, const posenc::AttentionOptions<float>& options,
                        const posenc::RotarySettings* rotary) {
    const bool global = layer % 6 == 5;
    expect((options.window.left == -1) == global, "five of six layers have a window");
    expect(options.scale == 1.0 / 16, "the scale is query_pre_attn_scalar^-1/2");
    expect(rotary != nullptr && posenc::rope(*rotary).rotary_dim() == 256, "all layers rotate");
  };
  const auto text_of_config_json = gemma;

  const auto model = posenc::read_hf_config(text_of_config_json);
  for (posenc::Index layer = 0; layer < model.layer_count; ++layer) {
    auto options = posenc::attention_options<float>(model, layer);
    options.causal = posenc::Causal::BottomRight;                // no file states it
    const auto* rotary = posenc::rotary_of_layer(model, layer);  // null: a layer without rotation
    check(layer, options, rotary);
  }

  const auto global = posenc::rope(posenc::rotary(model, "full_attention"));
  const auto local = posenc::rope(posenc::rotary(model, "sliding_attention"));
  expect(global.frequencies() != local.frequencies(), "the two types differ in frequencies");
}

void refusals() {
  const auto refused = [](std::string_view text) {
    std::string message;
    try {
      posenc::read_hf_config(text);
    } catch (const posenc::ConfigError& error) {
      message = error.what();
    }
    std::cout << message << '\n';
    return message;
  };
  // A key of a later release that may change positions.
  const auto new_key = refused(R"({"model_type": "llama", "hidden_size": 4096,
      "num_attention_heads": 32, "max_position_embeddings": 4096, "rope_twist": 2})");
  // A type of scaling that posenc does not know.
  const auto new_rule = refused(R"({"model_type": "llama", "hidden_size": 4096,
      "num_attention_heads": 32, "max_position_embeddings": 4096,
      "rope_scaling": {"rope_type": "spiral", "factor": 2}})");
  // A model that posenc does not know.
  const auto new_model = refused(R"({"model_type": "brand_new", "hidden_size": 4096,
      "num_attention_heads": 32, "max_position_embeddings": 4096})");

  expect(new_key.find("rope_twist") != std::string::npos, "the message names the key");
  expect(new_rule.find("spiral") != std::string::npos, "the message names the type of scaling");
  expect(new_model.find("brand_new") != std::string::npos, "the message names the model");
}

void unknown_model() {
  const std::string_view text = R"({"model_type": "brand_new", "hidden_size": 4096,
      "num_attention_heads": 32, "max_position_embeddings": 4096, "rope_theta": 10000.0})";
  const auto model = posenc::read_hf_config(text, {.pairing = posenc::PairingKind::HalfRotate});
  expect(posenc::rope(model).rotary_dim() == 128, "an unknown model is read with a pairing");
}

/// Bytes of a small GGUF file of Llama, without tensors.
std::vector<std::byte> small_gguf() {
  std::vector<std::byte> bytes;
  const auto put = [&](std::uint64_t number, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(number >> (8 * i)));
  };
  const auto put_text = [&](std::string_view text) {
    put(text.size(), 8);
    for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  };
  const auto put_key = [&](std::string_view key, std::uint32_t value) {
    put_text(key), put(4, 4), put(value, 4);  // type 4: uint32
  };
  put(0x46554747, 4), put(3, 4), put(0, 8), put(5, 8);             // "GGUF", version, tensors, keys
  put_text("general.architecture"), put(8, 4), put_text("llama");  // type 8: text
  put_key("llama.block_count", 32);
  put_key("llama.context_length", 4096);
  put_key("llama.embedding_length", 4096);
  put_key("llama.attention.head_count", 32);
  return bytes;
}

void gguf() {
  const std::vector<std::byte> bytes = small_gguf();
  const auto model = posenc::read_gguf(bytes);  // or the path of a file: reads its header alone
  const auto rope = posenc::rope(model);
  expect(
      posenc::rotary(model).pairing == posenc::PairingKind::Interleaved && rope.rotary_dim() == 128,
      "llama.cpp permutes Llama's weights to Interleaved");
}

void presets() {
  const auto& llama = posenc::presets::model("llama3_1_8b");
  const auto rope = posenc::rope(llama);
  expect(
      posenc::rotary(llama).pairing == posenc::PairingKind::HalfRotate && rope.rotary_dim() == 128,
      "as in Hugging Face's weights");
}

}  // namespace

int main() {
  layers_of_two_types();
  refusals();
  unknown_model();
  gguf();
  presets();
  return failures;
}
