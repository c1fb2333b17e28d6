// SPDX-License-Identifier: MIT
// Fuzzer of attention(). Bytes choose type, shape, layout and options; the plain reference judges
// the output and the log-sum-exps, and memory around the output must keep its contents.
#include "attention/random_call.hpp"
#include "attention/random_shape.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

namespace {

template <class T>
bool equals_reference(support::Random& random) {
  const auto seed = static_cast<std::uint64_t>(random.integer(0, 255));
  const auto layout = support::layouts()[static_cast<std::size_t>(random.integer(0, 4))];
  const auto shape = random.integer(0, 3) == 0 ? attention_test::edge_shape(random)
                                               : attention_test::small_shape(random);
  attention_test::RandomCall<T> call(random, seed, shape, {}, layout);
  call.run();
  return worst_error(call.c, call.rules(), call.roundings, call.lse.view()) <= 1 &&
         call.c.out.surroundings_kept();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  support::Random random(std::span(data, size), 1);
  const auto type = random.integer(0, 3);
  const bool right = type == 0   ? equals_reference<float>(random)
                     : type == 1 ? equals_reference<double>(random)
                     : type == 2 ? equals_reference<Eigen::half>(random)
                                 : equals_reference<Eigen::bfloat16>(random);
  if (!right) {
    std::fprintf(stderr, "attention differs from the reference\n");
    std::abort();
  }
  return 0;
}
