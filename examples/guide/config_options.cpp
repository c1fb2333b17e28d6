// SPDX-License-Identifier: MIT
// Options of read_hf_config: unknown model types, and parts of composite files. The page
// model_files.md shows these lines.
#include <posenc/interop/hf_config.hpp>

#include <cmath>
#include <iostream>
#include <string>

namespace {

// [unknown]
constexpr auto file = R"({"model_type": "brand_new", "hidden_size": 2048, "num_attention_heads": 16,
  "rope_parameters": {"rope_theta": 1000000.0, "mrope_section": [24, 20, 20]}, "codebooks": 8})";
// [/unknown]

// [composite]
constexpr auto composite = R"({"model_type": "csm", "hidden_size": 2048, "num_attention_heads": 32,
  "rope_parameters": {"rope_theta": 500000.0},
  "depth_decoder_config": {"rope_parameters": {"rope_theta": 500000.0}}})";
// [/composite]

int failures = 0;

void expect(bool holds, const char* claim) {
  if (holds) return;
  std::cout << "wrong: " << claim << '\n';
  ++failures;
}

std::string refusal() {
  try {
    posenc::read_hf_config(file);
  } catch (const posenc::ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

int main() {
  expect(refusal().find("pairing, mrope_order, rotary_share, softmax_scale") != std::string::npos,
         "the message lists what is missing");
  // [stated]
  const auto model = posenc::read_hf_config(file, {.pairing = posenc::PairingKind::HalfRotate,
                                                   .mrope_order = posenc::MropeOrder::Interleaved,
                                                   .rotary_share = 1,
                                                   .softmax_scale = 1 / std::sqrt(128.0),
                                                   .ignored_keys = "codebooks"});
  // [/stated]
  expect(rotary(model).axes.axis(1) == 1, "the axes alternate");

  // [part]
  const auto decoder = posenc::read_hf_config(composite, {.part = "depth_decoder_config"});
  // [/part]
  expect(decoder.model_type == "csm_depth_decoder_model", "the part is read");
  expect(decoder.parts.size() == 1, "the parts are listed");
  return failures;
}
