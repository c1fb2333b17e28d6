// SPDX-License-Identifier: MIT
// Fuzzer of the GGUF reader. Any bytes must give settings for a rope, or a ConfigError.
#include "fuzz/try_model.hpp"
#include <posenc/interop/gguf.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  fuzz::try_model([&] { return posenc::read_gguf(bytes); });
  fuzz::try_model([&] {
    return posenc::read_gguf(bytes, {.pairing = posenc::PairingKind::HalfRotate,
                                     .attn_factor = posenc::GgufAttentionFactor::Final});
  });
  fuzz::try_model([&] {  // unknown architectures
    return posenc::read_gguf(bytes, {.pairing = posenc::PairingKind::HalfRotate,
                                     .mrope_order = posenc::MropeOrder::Interleaved,
                                     .rotary_share = 0.5,
                                     .softmax_scale = 1});
  });
  return 0;
}
