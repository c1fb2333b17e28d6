// SPDX-License-Identifier: MIT
#pragma once

#include "hostile/draw.hpp"

#include <cstdint>
#include <span>

// Every public function that takes extents, strides, counts or offsets, called with such as no sane caller
// has. A call is right if it returns or throws one of posenc's errors; that it touches no memory but its own
// and overflows nothing is for sanitizers to see.
namespace hostile {

struct Call {
  const char* name;
  void (*make)(Draw& draw, Memory& memory);
};

std::span<const Call> calls_on_tokens();
std::span<const Call> calls_on_heads();
std::span<const Call> calls_of_attention();

/// One call that the bytes choose. Returns nullptr if it went well, else the name of the call that threw
/// what posenc does not promise.
const char* make_call(std::span<const std::uint8_t> bytes);

}  // namespace hostile
