// SPDX-License-Identifier: MIT
// The lines of model_files.md on GGUF files and presets: settings, what is refused, and models that
// posenc does not know. model_layer.cpp reads a config.json.
#include <posenc/core/error.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/presets.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
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

/// Returns the bytes of a small GGUF file without tensors. `key` is added to the usual keys.
std::vector<std::byte> small_gguf(const std::string& architecture, std::string_view key = {}) {
  std::vector<std::byte> bytes;
  const auto put = [&](std::uint64_t number, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(number >> (8 * i)));
  };
  const auto put_text = [&](std::string_view text) {
    put(text.size(), 8);
    for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  };
  const auto put_key = [&](std::string_view name, std::uint32_t value) {
    put_text(architecture + std::string(name));
    put(4, 4), put(value, 4);  // type 4: uint32
  };
  put(0x46554747, 4), put(3, 4), put(0, 8);  // "GGUF", version, number of tensors
  put(key.empty() ? 5 : 6, 8);
  put_text("general.architecture"), put(8, 4), put_text(architecture);  // type 8: text
  put_key(".block_count", 32);
  put_key(".context_length", 4096);
  put_key(".embedding_length", 4096);
  put_key(".attention.head_count", 32);
  if (!key.empty()) put_key(key, 2);
  return bytes;
}

void gguf() {
  const std::vector<std::byte> bytes = small_gguf("llama");
  const auto model = posenc::read_gguf(bytes);  // or the path of a file: reads its header alone
  const auto rope = posenc::rope(model);        // pairing, scaling, channels and axes
  expect(posenc::rotary(model).pairing == posenc::PairingKind::Interleaved,
         "llama.cpp permutes Llama's weights to Interleaved");
  expect(rope.rotary_dim() == 128, "all channels are rotated");
}

void refusals() {
  const auto refused = [](const std::vector<std::byte>& bytes) {
    std::string message;
    try {
      posenc::read_gguf(bytes);
    } catch (const posenc::ConfigError& error) {
      message = error.what();
    }
    std::cout << message << '\n';
    return message;
  };
  // A key of a later release that may change positions.
  const std::string new_key = refused(small_gguf("llama", ".rope.twist"));
  // A model that posenc does not know.
  const std::string new_model = refused(small_gguf("brand_new"));

  expect(new_key.find("llama.rope.twist") != std::string::npos, "the message names the key");
  expect(new_model.find("brand_new") != std::string::npos, "the message names the model");
}

void unknown_model() {
  const std::vector<std::byte> bytes = small_gguf("brand_new");
  const auto model = posenc::read_gguf(bytes, {.pairing = posenc::PairingKind::HalfRotate,
                                               .rotary_share = 1,
                                               .softmax_scale = 1 / std::sqrt(128.0)});
  expect(posenc::rope(model).rotary_dim() == 128, "an unknown model is read with its statements");
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
  gguf();
  refusals();
  unknown_model();
  presets();
  return failures;
}
