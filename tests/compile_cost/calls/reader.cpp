// SPDX-License-Identifier: MIT
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/hf_config.hpp>

#include <string>

posenc::AttentionOptions<float> options_of(const std::string& text) {
  return posenc::attention_options<float>(posenc::read_hf_config(text), 0);
}
