// SPDX-License-Identifier: MIT
// Tests that the bits of gradients do not depend on the device, its threads and its division of
// work.
#define EIGEN_USE_THREADS
#include "backward_case.hpp"
#include "random_shape.hpp"
#include "support/catch.hpp"
#include "support/devices.hpp"

#include <cstddef>
#include <cstdint>

namespace attention_backward_threads_test {

using attention_test::BackwardCall;
using attention_test::Gradients;
using attention_test::Shape;
using posenc::Index;

namespace {

template <class T>
void check(std::uint64_t seed, const Shape& shape) {
  INFO("seed " << seed << ": " << shape.heads << " heads, " << shape.queries << " queries, "
               << shape.keys << " keys");
  BackwardCall<T> x(seed, shape);
  support::check_same_on_all_devices([&](const auto&... device) {
    x.got = Gradients<T>(shape, x.call.options);
    x.run(device...);
    support::Bytes bytes;
    for (auto* gradient : {&x.got.q, &x.got.k, &x.got.v}) {
      gradient->for_each([&](const T& value) { bytes.add(&value, 1); });
    }
    const auto& additive = x.got.additive.values;
    bytes.add(additive.data(), static_cast<std::size_t>(additive.size()));
    bytes.add(x.got.sinks);
    bytes.add(x.of_parameters);
    return bytes;
  });
}

}  // namespace

TEMPLATE_TEST_CASE("attention_backward: the same bits on every device",
                   "[attention][backward][threads]", float, Eigen::bfloat16) {
  support::Random random(1);
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Index kv_heads = random.integer(1, 3);
    check<TestType>(seed, {random.integer(1, 2), kv_heads * random.integer(1, 3), kv_heads,
                           random.integer(1, 300), random.integer(1, 300), random.integer(1, 20),
                           random.integer(1, 20)});
  }
}

TEST_CASE("attention_backward: the same bits on every device for a single head",
          "[attention][backward][threads]") {
  support::Random random(2);
  for (std::uint64_t seed = 101; seed <= 106; ++seed) {
    check<float>(seed, {1, 1, 1, random.integer(400, 900), random.integer(200, 600),
                        random.integer(1, 20), random.integer(1, 20)});
  }
}

}  // namespace attention_backward_threads_test
