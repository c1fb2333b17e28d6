// SPDX-License-Identifier: MIT
// Any text given as config.json: settings that make a rope, or a ConfigError, and nothing else.
#include "fuzz/try_model.hpp"
#include <posenc/interop/hf_config.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::try_model([&] { return posenc::read_hf_config(text); });
  fuzz::try_model(
      [&] { return posenc::read_hf_config(text, {.pairing = posenc::PairingKind::Interleaved}); });
  return 0;
}
