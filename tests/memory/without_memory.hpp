// SPDX-License-Identifier: MIT
#pragma once

#include "memory/failing_memory.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

// Repeats calls with a failing n-th allocation, n = 0, 1, ... until no allocation fails.
namespace memory_test {

using posenc::Index;

inline bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Checks a call under failing allocations. If call(data) throws std::bad_alloc, `data` must be
/// unchanged, and a second call must succeed. state(data) returns the numbers to compare;
/// repair(data) restores outputs that the call may leave half written. Returns the number of
/// allocations.
template <class Data, class Call, class State, class Repair>
long check_calls(const std::string& what, const Data& initial, const Call& call, const State& state,
                 const Repair& repair) {
  INFO(what);
  const auto before = state(initial);
  Data done(initial);
  call(done);
  const auto want = state(done);
  for (long n = 0; n < 100000; ++n) {
    INFO("allocation " << n << " fails");
    Data data(initial);
    bool threw = false;
    failing_memory::arm(n);
    try {
      call(data);
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    if (!failing_memory::disarm()) {
      CHECK(same(state(data), want));
      return n;
    }
    if (threw) {
      repair(data);
      REQUIRE(same(state(data), before));
      call(data);
    }
    REQUIRE(same(state(data), want));
  }
  FAIL("allocations without end");
  return -1;
}

template <class Data, class Call, class State>
long check_calls(const std::string& what, const Data& initial, const Call& call,
                 const State& state) {
  return check_calls(what, initial, call, state, [](Data&) {});
}

/// Overload of check_calls() for a call that reads and writes one array.
template <class Call>
long check_calls(const std::string& what, const std::vector<float>& initial, const Call& call) {
  return check_calls(what, initial, call, [](const std::vector<float>& x) { return x; });
}

inline std::vector<float> numbers(Index count, std::uint64_t seed) {
  support::Random random(seed);
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = static_cast<float>(random.normal());
  return x;
}

template <class T>
posenc::HeadsView<T> heads_view(T* data, Index b, Index s, Index h, Index d) {
  return {data, b, s, h, d, s * h * d, h * d, d};
}
template <class T>
posenc::EmbeddingsView<T> tokens_view(T* data, Index b, Index s, Index d) {
  return {data, b, s, d, s * d, d};
}

}  // namespace memory_test
