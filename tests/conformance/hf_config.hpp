// SPDX-License-Identifier: MIT
#pragma once

#include "conformance/case.hpp"
#include <posenc/interop/rotary_settings.hpp>

#include <optional>

namespace conformance {

/// What the library's own reader makes of a case's config.
struct HfRotary {
  posenc::RotarySettings settings;
  posenc::Frequencies exact;
  posenc::Frequencies float32;  ///< as Hugging Face's own float32 operations give them
};

/// Of the case's layer type, for the case's length, if it has these.
HfRotary read_hf_rotary(const Case& c);

}  // namespace conformance
