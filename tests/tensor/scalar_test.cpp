// SPDX-License-Identifier: MIT
// 16-bit types with a known format give the bits of Eigen's type of that format, by vector
// conversions.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "support/user_float16.hpp"
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/adapt.hpp>
#include <posenc/tensor/scalar.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

namespace scalar_test {

using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;
using posenc::StorageFormat;

namespace {

constexpr Index seq = 37, heads = 3, dim = 72;

/// Numbers [seq, heads, dim] of both signs, some of them denormal, stored as T and as Eigen's type of
/// the same format.
template <class T>
struct Both {
  using Eigens = std::conditional_t<posenc::detail::storage_format<T> == StorageFormat::Half,
                                    Eigen::half, Eigen::bfloat16>;
  static constexpr auto count = static_cast<std::size_t>(seq * heads * dim);

  explicit Both(std::uint64_t seed) : ours(count), eigens(count) {
    support::Random random(seed);
    for (std::size_t i = 0; i < count; ++i) {
      eigens[i] = static_cast<Eigens>(static_cast<float>(i % 97 == 0 ? 1e-40 : random.normal()));
    }
    std::memcpy(static_cast<void*>(ours.data()), eigens.data(), 2 * count);
  }

  template <class E>
  static HeadsView<E> heads_of(std::vector<E>& x) {
    return {.data = x.data(), .batch = 1, .seq = seq, .heads = heads, .dim = dim};
  }
  template <class E>
  static posenc::EmbeddingsView<E> tokens_of(std::vector<E>& x) {
    return {.data = x.data(), .batch = 1, .seq = seq, .dim = heads * dim};
  }

  /// True if change(vector) leaves the same bits in both.
  template <class Change>
  bool same_after(const Change& change) {
    change(ours);
    change(eigens);
    return same();
  }
  bool same() const { return std::memcmp(ours.data(), eigens.data(), 2 * count) == 0; }

  std::vector<T> ours;
  std::vector<Eigens> eigens;
};

template <class Pairing, class T>
void check_rotation() {
  const posenc::Rope<Pairing> rope(posenc::Unscaled{.rotary_dim = 70, .base = 10000}, 2);
  const auto positions = Positions::range(1000, seq);
  Both<T> x(1);
  CHECK(x.same_after([&](auto& v) { rope.rotate(Both<T>::heads_of(v), positions); }));
  if constexpr (std::is_same_v<T, posenc::Bfloat16>) {
    const auto table = rope.template table<float>(positions);
    CHECK(x.same_after([&](auto& v) { table.rotate(Both<T>::heads_of(v)); }));
  }
  CHECK(x.same_after([&](auto& v) { rope.adjoint(Both<T>::heads_of(v), positions); }));
}

#if defined(__FLT16_MANT_DIG__) && defined(__x86_64__)
using Types =
    std::tuple<posenc::Half, posenc::Bfloat16, support::UserHalf, support::UserBfloat16, _Float16>;
#else
using Types = std::tuple<posenc::Half, posenc::Bfloat16, support::UserHalf, support::UserBfloat16>;
#endif

}  // namespace

TEMPLATE_LIST_TEST_CASE("Custom16 types: rotated as Eigen's", "[tensor][float16]", Types) {
  support::user_conversions = 0;
  check_rotation<posenc::Interleaved, TestType>();
  check_rotation<posenc::HalfRotate, TestType>();
  CHECK(support::user_conversions == 0);  // else values were converted one by one
}

TEMPLATE_LIST_TEST_CASE("Custom16 types: encoded as Eigen's", "[tensor][float16]", Types) {
  const posenc::Sinusoidal encoding(
      {.model_dim = heads * dim, .layout = posenc::SinusoidalLayout::Interleaved});
  const auto positions = Positions::range(30, seq);
  Both<TestType> x(2);
  support::user_conversions = 0;
  CHECK(x.same_after([&](auto& v) { encoding.add_to(x.tokens_of(v), positions); }));
  CHECK(x.same_after([&](auto& v) { encoding.write_to(x.tokens_of(v), positions); }));
  CHECK(support::user_conversions == 0);
  CHECK(x.same_after([&](auto& v) {
    auto rows = v;  // a table of seq rows
    using E = typename std::remove_cvref_t<decltype(v)>::value_type;
    const posenc::Learned learned(posenc::MatrixView<const E>{
        .data = rows.data(), .rows = seq, .cols = heads * dim, .row_stride = heads * dim});
    learned.add_to(x.tokens_of(v), Positions::range(0, seq));
  }));
}

// Each case uses one type, because attention takes long to compile.
TEST_CASE("Custom16 types: attended to as Eigen's", "[tensor][float16]") {
  using B = Both<posenc::Half>;
  B q(3), k(4), v(5), out(6);
  attention(B::heads_of(q.ours), B::heads_of(k.ours), B::heads_of(v.ours), B::heads_of(out.ours),
            {.causal = posenc::Causal::BottomRight});
  attention(B::heads_of(q.eigens), B::heads_of(k.eigens), B::heads_of(v.eigens),
            B::heads_of(out.eigens), {.causal = posenc::Causal::BottomRight});
  CHECK(out.same());
}

TEST_CASE("Custom16 types: cached and attended to as Eigen's", "[tensor][float16]") {
  using B = Both<support::UserBfloat16>;
  B q(3), k(4), v(5), out(6);
  const auto attend = [](auto& queries, auto& keys, auto& values, auto& outputs) {
    using T = typename std::remove_cvref_t<decltype(queries)>::value_type;
    posenc::KvCache<T> cache({.kv_heads = heads, .head_dim = dim, .capacity = seq});
    cache.append(0, B::heads_of(keys), B::heads_of(values));
    const Index sequences[] = {0};
    attention(B::heads_of(queries), cache, sequences, B::heads_of(outputs),
              {.causal = posenc::Causal::BottomRight});
  };
  support::user_conversions = 0;
  attend(q.ours, k.ours, v.ours, out.ours);
  CHECK(support::user_conversions < seq);  // a few zeros
  attend(q.eigens, k.eigens, v.eigens, out.eigens);
  CHECK(out.same());
}

TEST_CASE("Scalar: float, double and 16-bit float classes", "[view]") {
  STATIC_REQUIRE(posenc::Scalar<float>);
  STATIC_REQUIRE(posenc::Scalar<double>);
  STATIC_REQUIRE(posenc::Scalar<Eigen::half>);
  STATIC_REQUIRE(posenc::Scalar<Eigen::bfloat16>);
  STATIC_REQUIRE(!posenc::Scalar<int>);
  STATIC_REQUIRE(!posenc::Scalar<short>);
  STATIC_REQUIRE(!posenc::Scalar<long double>);
  STATIC_REQUIRE(!posenc::Scalar<const float>);
  STATIC_REQUIRE(std::is_same_v<posenc::Compute<double>, double>);
  STATIC_REQUIRE(std::is_same_v<posenc::Compute<float>, float>);
  STATIC_REQUIRE(std::is_same_v<posenc::Compute<Eigen::half>, float>);
  STATIC_REQUIRE(std::is_same_v<posenc::Compute<Eigen::bfloat16>, float>);
}

}  // namespace scalar_test
