// SPDX-License-Identifier: MIT
// Fuzzer of every public function with extents, strides and counts that no sane caller passes. A
// call must return or throw one of posenc's errors.
#include "hostile/calls.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (const char* call = hostile::make_call(std::span(data, size))) {
    std::fprintf(stderr, "%s threw what it does not promise\n", call);
    std::abort();
  }
  return 0;
}
