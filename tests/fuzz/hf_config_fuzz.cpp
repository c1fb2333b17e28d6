// SPDX-License-Identifier: MIT
// Fuzzer of the config.json reader. Any text must give settings for a rope, or a ConfigError.
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
  fuzz::try_model([&] {
    return posenc::read_hf_config(text, {.pairing = posenc::PairingKind::HalfRotate,
                                         .mrope_order = posenc::MropeOrder::Interleaved,
                                         .rotary_share = 0.5,
                                         .softmax_scale = 0.125,
                                         .ignored_keys = "a b",
                                         .part = "talker_config"});
  });
  fuzz::try_model([&] {
    return posenc::read_hf_config(text, {.pairing = posenc::PairingKind::HalfRotate,
                                         .mrope_order = posenc::MropeOrder::Chunked,
                                         .rotary_share = 1,
                                         .softmax_scale = 0.125});
  });
  return 0;
}
