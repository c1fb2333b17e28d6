// SPDX-License-Identifier: MIT
#pragma once

#include "conformance/case.hpp"
#include <posenc/interop/rotary_settings.hpp>

#include <optional>

namespace conformance {

/// Result of the library's reader for the config of a case.
struct HfRotary {
  posenc::RotarySettings settings;
  posenc::Frequencies exact;
  posenc::Frequencies float32;  ///< by Hugging Face's float32 operations
};

/// Reads the config for the layer type and the length of the case, if it has them.
HfRotary read_hf_rotary(const Case& c);

}  // namespace conformance
