// SPDX-License-Identifier: MIT
#pragma once

#include "hostile/draw.hpp"

#include <cstdint>
#include <span>

// Calls of every public function that takes extents, strides, counts or offsets, with arguments
// that no sane caller passes. A call passes the test if it returns or throws one of posenc's
// errors. Sanitizers detect accesses out of bounds and overflows.
namespace hostile {

struct Call {
  const char* name;
  void (*make)(Draw& draw, Memory& memory);
};

std::span<const Call> calls_of_positions();
std::span<const Call> calls_on_tokens();
std::span<const Call> calls_on_heads();
std::span<const Call> calls_of_attention();

/// First byte of those that select a call of calls_of_positions().
constexpr std::uint8_t byte_of_positions = 0;

/// Makes one call, which the bytes select. Returns nullptr on success, else the name of the call
/// that threw an exception that posenc does not promise.
const char* make_call(std::span<const std::uint8_t> bytes);

}  // namespace hostile
