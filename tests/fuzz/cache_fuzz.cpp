// SPDX-License-Identifier: MIT
// Fuzzer of KvCache. Bytes are a program of calls; after each the cache must equal a plain list.
#include "kv/cache_program.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace {

template <class S>
bool run_program(kv_cache_test::CacheKind kind, std::span<const std::uint8_t> bytes) {
  support::Random random(bytes, 1);
  kv_cache_test::CacheProgram<S> program(kind);
  // A call takes some four bytes.
  for (std::size_t step = 0; step < bytes.size() / 4 + 1; ++step) {
    program.run_step(random);
    if (!program.matches(random)) return false;
  }
  return true;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto kind = static_cast<kv_cache_test::CacheKind>(data[0] % 3);
  const std::span program(data + 1, size - 1);
  const bool right = data[0] / 3 % 2 == 0 ? run_program<float>(kind, program)
                                          : run_program<Eigen::bfloat16>(kind, program);
  if (!right) {
    std::fprintf(stderr, "the cache differs from a plain list\n");
    std::abort();
  }
  return 0;
}
