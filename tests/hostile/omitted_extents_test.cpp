// SPDX-License-Identifier: MIT
// Every public function that takes a view refuses it if an extent was omitted, and names the field.
#include "hostile/calls.hpp"
#include "support/catch.hpp"
#include <posenc/core/error.hpp>

#include <array>
#include <cstdint>
#include <exception>
#include <random>
#include <span>
#include <string>

namespace omitted_extents_test {

using hostile::Call;

namespace {

struct Outcome {
  std::string message;        ///< of the exception, or empty
  const char* omitted_field;  ///< nullptr if the call has fewer extents
  bool is_shape_error = false;
};

/// Makes a call with sane numbers that omits one extent of its views.
Outcome outcome(const Call& call, std::span<const std::uint8_t> bytes, int omitted) {
  hostile::Draw draw(bytes, true);
  hostile::Memory memory(draw, omitted);
  try {
    call.make(draw, memory);
  } catch (const posenc::ShapeError& error) {
    return {error.what(), memory.omitted_field(), true};
  } catch (const std::exception& error) {
    return {error.what(), memory.omitted_field()};
  }
  return {"", memory.omitted_field()};
}

}  // namespace

TEST_CASE("Extent: an omitted one is rejected by its name", "[hostile]") {
  std::mt19937_64 random(1);
  int refused = 0;
  for (const auto calls :
       {hostile::calls_on_tokens(), hostile::calls_on_heads(), hostile::calls_of_attention()}) {
    for (const Call& call : calls) {
      for (int sample = 0; sample < 12; ++sample) {
        std::array<std::uint8_t, 192> bytes;
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
        if (outcome(call, bytes, -1).message != "") continue;  // settings that are refused as well
        for (int omitted = 0;; ++omitted) {
          const Outcome result = outcome(call, bytes, omitted);
          if (result.omitted_field == nullptr) break;
          INFO(call.name << ", extent " << omitted << ": " << result.message);
          REQUIRE(result.is_shape_error);
          const std::string refusal = std::string(".") + result.omitted_field + " must be set";
          REQUIRE(result.message.find(refusal) != std::string::npos);
          ++refused;
        }
      }
    }
  }
  CHECK(refused > 2000);
}

}  // namespace omitted_extents_test
