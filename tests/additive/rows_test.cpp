// SPDX-License-Identifier: MIT
// The row kernels of the additive encodings: each element is rounded once, and no other element is
// touched.
#include "simd/tiers.hpp"
#include "support/guarded.hpp"
#include "support/heads.hpp"
#include <posenc/additive/detail/rows.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

namespace rows_test {

using posenc::Compute;
using posenc::Index;

namespace {

using Scalars = std::tuple<float, double, Eigen::half, Eigen::bfloat16>;

template <class... T, class Test>
void for_each_type(std::tuple<T...>*, const Test& test) {
  (test(T()), ...);
}

/// Fills with ordinary numbers, zeros and denormals of T.
template <class T>
void fill(support::Random& random, T* p, Index count) {
  for (Index i = 0; i < count; ++i) {
    const double tiny = sizeof(T) == 2 ? 0x1p-24 : 0x1p-140;
    const double x = random.normal() * (i % 5 == 3 ? tiny : 1);
    p[i] = static_cast<T>(static_cast<Compute<T>>(i % 11 == 7 ? 0 : x));
  }
}

/// Calls kernel(out, in, count) for every length up to `longest`, at both ends of the memory.
/// Returns true if out equals expected(out, in) each time.
template <class T, class Value, class Kernel, class Expected>
bool is_right_for_all_lengths(Index longest, const Kernel& kernel, const Expected& expected) {
  support::Random random(81);
  support::Guarded<T> outs(longest);
  support::Guarded<Value> ins(longest);
  for (Index count = 0; count <= longest; ++count) {
    for (const bool front : {true, false}) {
      outs.clear();
      ins.clear();
      T* out = outs.at(front, count);
      Value* in = ins.at(front, count);
      fill(random, out, count);
      fill(random, in, count);
      std::vector<T> want;
      for (Index i = 0; i < count; ++i) want.push_back(expected(out[i], in[i]));
      kernel(out, static_cast<const Value*>(in), count);
      if (!support::same_bits(out, want.data(), count)) return false;
      if (!outs.kept_around(out, count) || !ins.kept_around(in, count)) return false;
    }
  }
  return true;
}

template <class T, class Value>
T sum_of(T a, Value b) {
  using C = Compute<T>;
  return static_cast<T>(static_cast<C>(static_cast<C>(a) + static_cast<C>(b)));
}

template <class Tier, class T, class Value>
void check_store_row() {
  constexpr Index longest = 4 * posenc::Pack<Compute<T>, Tier>::width + 1;
  const auto set = [](T* out, const Value* in, Index count) {
    posenc::detail::store_row<false, Tier>(out, in, count);
  };
  CHECK(is_right_for_all_lengths<T, Value>(
      longest, set, [](T, Value b) { return static_cast<T>(static_cast<Compute<T>>(b)); }));
  const auto add = [](T* out, const Value* in, Index count) {
    posenc::detail::store_row<true, Tier>(out, in, count);
  };
  CHECK(is_right_for_all_lengths<T, Value>(longest, add, sum_of<T, Value>));
}

template <class Tier, class C>
void check_interleave_row() {
  constexpr Index longest = 8 * posenc::Pack<C, Tier>::width + 3;
  for (Index count = 0; count <= longest; ++count) {
    for (const bool front : {true, false}) {
      const Index evens = (count + 1) / 2, odds = count / 2;
      support::Guarded<C> even(evens), odd(odds), out(count);
      C* e = even.at(front, evens);
      C* o = odd.at(front, odds);
      C* y = out.at(front, count);
      for (Index i = 0; i < evens; ++i) e[i] = static_cast<C>(2 * i);
      for (Index i = 0; i < odds; ++i) o[i] = static_cast<C>(2 * i + 1);
      posenc::detail::interleave_row<Tier>(e, o, y, count);
      bool right = out.kept_around(y, count);
      for (Index i = 0; i < count; ++i) right = right && y[i] == static_cast<C>(i);
      CAPTURE(count, front);
      CHECK(right);
    }
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("store_row: every tier", "[simd][rows]", tiers::All) {
  INFO(TestType::name);
  for_each_type(static_cast<Scalars*>(nullptr), [](auto scalar) {
    using T = decltype(scalar);
    check_store_row<TestType, T, Compute<T>>();
    check_store_row<TestType, T, T>();
  });
  check_store_row<TestType, Eigen::half, Eigen::bfloat16>();
}

TEST_CASE("for_rows: every token of any number of batch rows gets its row of P once", "[rows]") {
  constexpr Index seq = 150, dim = 37, stride = dim + 2;  // longer than a block of positions
  for (Index batch = 1; batch <= 10; ++batch) {
    for (const bool shared : {true, false}) {
      CAPTURE(batch, shared);
      std::vector<float> memory(static_cast<std::size_t>(batch * seq * stride), 0.5F);
      const posenc::EmbeddingsView<float> x{.data = memory.data(),
                                            .batch = batch,
                                            .seq = seq,
                                            .dim = dim,
                                            .batch_stride = seq * stride,
                                            .seq_stride = stride};
      const auto value = [shared](Index b, Index s, Index i) {
        return static_cast<float>(1 + i + dim * (s + (shared ? 0 : seq * b)));
      };
      posenc::detail::store_eager_rows<true>(posenc::detail::CallingThread(), x, shared,
                                             [&](Index b, Index s, float* row) {
                                               for (Index i = 0; i < dim; ++i)
                                                 row[i] = value(b, s, i);
                                             });
      bool right = true;
      for (Index b = 0; b < batch; ++b) {
        for (Index s = 0; s < seq; ++s) {
          const float* row = memory.data() + (b * seq + s) * stride;
          for (Index i = 0; i < dim; ++i) right = right && row[i] == 0.5F + value(b, s, i);
          right = right && row[dim] == 0.5F && row[dim + 1] == 0.5F;
        }
      }
      CHECK(right);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("interleave_row: every tier", "[simd][rows]", tiers::All) {
  INFO(TestType::name);
  check_interleave_row<TestType, float>();
  check_interleave_row<TestType, double>();
}

TEST_CASE("accumulate: adds any type to any other", "[simd][rows]") {
  for_each_type(static_cast<Scalars*>(nullptr), [](auto scalar) {
    for_each_type(static_cast<Scalars*>(nullptr), [](auto other) {
      using T = decltype(scalar);
      using Value = decltype(other);
      const auto kernel = [](T* out, const Value* in, Index count) {
        posenc::detail::accumulate(out, in, count);
      };
      CHECK(is_right_for_all_lengths<T, Value>(67, kernel, sum_of<T, Value>));
    });
  });
}

}  // namespace rows_test
