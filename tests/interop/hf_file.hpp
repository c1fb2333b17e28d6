// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <nlohmann/json.hpp>

#include <string>

// Plain config.json of a type, and a check that a file is rejected.
namespace support::hf {

inline nlohmann::json config(const std::string& model_type,
                             const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json result = {{"model_type", model_type},
                           {"hidden_size", 4096},
                           {"num_attention_heads", 32},
                           {"num_hidden_layers", 4},
                           {"max_position_embeddings", 32768}};
  result.update(more);
  return result;
}

inline void check_rejected(const nlohmann::json& of, const std::string& message) {
  INFO(of.dump());
  CHECK_THROWS_MATCHES(posenc::read_hf_config(of), posenc::ConfigError,
                       Catch::Matchers::Message("posenc::read_hf_config: " + message));
}

}  // namespace support::hf
