// SPDX-License-Identifier: MIT
// Conversion of all 2^32 floats on every tier. It takes minutes, so ctest does not run it.
#include "float16_case.hpp"

using float16::Bfloat16;
using float16::Bfloat16Pairs;
using float16::Half;

namespace {

template <class Conversion, class... Tiers>
std::string wrong_on_any(const std::vector<float>& floats,
                         const std::vector<std::uint16_t>& expected, std::tuple<Tiers...>*) {
  std::string wrong;
  const auto on = [&]<class Tier>(Tier) {
    const auto text =
        float16::wrong_narrowing<Conversion, posenc::Pack<float, Tier>>(floats, expected);
    if (!text.empty()) wrong += std::string(Tier::name) + ": " + text + "\n";
  };
  (on(Tiers{}), ...);
  return wrong;
}

/// Calls test(floats, expected bits) for all floats, block by block.
template <class Test>
void for_all_floats(reference::Format16 format, const Test& test) {
  constexpr std::uint32_t block = 1u << 16;
  std::vector<float> floats(block);
  for (std::uint64_t first = 0; first < 0x100000000u; first += block) {
    for (std::uint32_t i = 0; i < block; ++i) {
      floats[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first) + i);
    }
    test(floats, float16::encoded(format, floats));
  }
}

constexpr tiers::All* all_tiers = nullptr;

}  // namespace

TEST_CASE("every float becomes the nearest half", "[half]") {
  for_all_floats(reference::ieee_half, [](const auto& floats, const auto& expected) {
    REQUIRE(wrong_on_any<Half>(floats, expected, all_tiers) == "");
  });
}

TEST_CASE("every float becomes the nearest bfloat16", "[bfloat16]") {
  for_all_floats(reference::bfloat16, [](const auto& floats, const auto& expected) {
    REQUIRE(wrong_on_any<Bfloat16>(floats, expected, all_tiers) == "");
    REQUIRE(wrong_on_any<Bfloat16Pairs>(floats, expected, all_tiers) == "");
  });
}
