// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <nlohmann/json.hpp>

#include <string>

// Plain config.json of a type, changes of it, and a check that a file is rejected.
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

/// Returns a file with a base, which most classes read.
inline nlohmann::json rotary_config(const std::string& model_type = "llama",
                                    const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json result = config(
      model_type,
      {{"num_hidden_layers", 12}, {"max_position_embeddings", 4096}, {"rope_theta", 10000.0}});
  result.update(more);
  return result;
}

/// Returns a file with the keys of `more`, unless that is null.
inline nlohmann::json with(nlohmann::json file, const nlohmann::json& more) {
  if (!more.is_null()) file.update(more);
  return file;
}

inline void check_rejected(const nlohmann::json& of, const std::string& message) {
  INFO(of.dump());
  CHECK_THROWS_MATCHES(posenc::read_hf_config(of), posenc::ConfigError,
                       Catch::Matchers::Message("posenc::read_hf_config: " + message));
}

}  // namespace support::hf
