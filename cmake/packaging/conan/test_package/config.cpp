// SPDX-License-Identifier: MIT
#include <posenc/interop/hf_config.hpp>

posenc::Index rotary_dim_of(const char* config);

posenc::Index rotary_dim_of(const char* config) {
  return posenc::rope(posenc::read_hf_config(config)).rotary_dim();
}
