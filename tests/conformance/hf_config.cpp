// SPDX-License-Identifier: MIT
#include "conformance/hf_config.hpp"

#include <posenc/interop/hf_config.hpp>

#include <string>
#include <utility>
#include <variant>

namespace conformance {
namespace {

/// Returns the rule's frequencies as computed by Hugging Face's float32 operations.
posenc::Frequencies float32_of(const posenc::RotaryRule& rule, Index length) {
  return std::visit(
      [length](const auto& r) -> posenc::Frequencies {
        if constexpr (requires { posenc::hf_float32_frequencies(r); }) {
          return posenc::hf_float32_frequencies(r);
        } else if constexpr (requires { posenc::hf_float32_frequencies(r, length); }) {
          return posenc::hf_float32_frequencies(r, length);
        } else {
          throw NotSupported("the float32 pipeline of this rule");
        }
      },
      rule);
}

}  // namespace

HfRotary read_hf_rotary(const Case& c) {
  const Json& description = c.description();
  const auto model = posenc::read_hf_config(description.at("config"));
  const Json layer_type = description.value("layer_type", Json());
  const auto& settings = layer_type.is_null()
                             ? posenc::rotary(model)
                             : posenc::rotary(model, layer_type.get<std::string>());
  const Json length = description.value("seq_len", Json());
  const Index tokens = length.is_null() ? 0 : length.get<Index>();
  return {settings, frequencies(settings, tokens), float32_of(settings.rule, tokens)};
}

}  // namespace conformance
