// SPDX-License-Identifier: MIT
// Prints the rotary settings of a config.json with the library alone: print_settings [FILE]. Without a
// file it reads the settings of Llama 3.1 8B.
#include <posenc/frequency/rule_description.hpp>
#include <posenc/interop/hf_config.hpp>

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <variant>

namespace {

constexpr auto llama = R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
  "num_key_value_heads": 8, "max_position_embeddings": 131072, "rope_theta": 500000.0,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})";

std::string content_of(const char* path) {
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return content.str();
}

// [rule]
/// Prints the name of a rule and its fields that are numbers.
template <class Rule>
void print_rule(const Rule& rule) {
  if constexpr (!std::is_same_v<Rule, std::monostate>) {
    std::cout << posenc::RuleDescription<Rule>::name;
    posenc::RuleDescription<Rule>::fields([&rule](const char* name, auto field) {
      if constexpr (std::is_arithmetic_v<std::decay_t<decltype(rule.*field)>>) {
        std::cout << ", " << name << ' ' << rule.*field;
      }
    });
  }
}
// [/rule]

// [print]
void print_settings(const std::string& text) {
  const posenc::ModelSettings model = posenc::read_hf_config(text);
  std::cout << model.model_type << ", made for " << model.trained_length << " tokens\n";
  for (const posenc::LayerRotary& layer : model.layers) {
    const posenc::RotarySettings& settings = layer.rotary;
    const posenc::AnyRope rope = posenc::rope(settings, model.trained_length);
    const bool is_half = settings.pairing == posenc::PairingKind::HalfRotate;
    std::visit([](const auto& rule) { print_rule(rule); }, settings.rule);
    std::cout << "\npairing " << (is_half ? "HalfRotate" : "Interleaved") << "\nrotated channels "
              << settings.rotary_offset << " to " << settings.rotary_offset + rope.rotary_dim() - 1
              << " of " << settings.head_dim << "\nattention factor "
              << rope.frequencies().attention_factor() << ", softmax scale times "
              << rope.softmax_scale_multiplier() << '\n';
  }
}
// [/print]

}  // namespace

int main(int argc, char** argv) {
  print_settings(argc > 1 ? content_of(argv[1]) : llama);
  return 0;
}
