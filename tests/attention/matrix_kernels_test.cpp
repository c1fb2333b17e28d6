// SPDX-License-Identifier: MIT
// Attention on matrix tiles, here emulated ones: scores have the bits of the exact kernels where products and
// sums are exact, and outputs are within the stated bound.
#include "attention_case.hpp"
#include "emulated_tiles.hpp"
#include "random_call.hpp"
#include "random_shape.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/cached_attention.hpp>
#include <posenc/attention/detail/attend.hpp>
#include <posenc/attention/detail/matrix_kernels.hpp>

#include <Eigen/Core>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace matrix_kernels_test {

using attention_test::Case;
using attention_test::RandomCall;
using attention_test::Shape;
using Catch::Matchers::ContainsSubstring;
using Eigen::bfloat16;
using posenc::Index;
using posenc::Products;
using support::to_double;
using Number = posenc::detail::MatrixNumber<attention_test::EmulatedTiles>;
using Tier = posenc::tier::Best;
using OnTiles = posenc::detail::TensorKeys<Tier, bfloat16, Number>;
using Exactly = posenc::detail::TensorKeys<Tier, bfloat16>;

namespace {

template <class Source>
void run(RandomCall<bfloat16>& call) {
  const auto with = [&](const auto& bias) {
    posenc::detail::attend<Tier, posenc::detail::CallingThread, bfloat16>(
        {}, call.c.q.view(), Source(call.c.k.view(), call.c.v.view()), call.c.shape.keys,
        call.c.shape.value_dim, call.c.out.view(), call.options, bias, {});
  };
  if (call.bias) {
    with(*call.bias);
  } else {
    with(posenc::NoBias());
  }
}

std::vector<double> outputs(Case<bfloat16>& c) {
  std::vector<double> all;
  c.out.for_each([&](bfloat16& x) { all.push_back(to_double(x)); });
  return all;
}

std::vector<std::uint32_t> bits_of_lse(const RandomCall<bfloat16>& call) {
  std::vector<std::uint32_t> all;
  const auto& lse = call.lse.values;
  for (Index i = 0; i < lse.size(); ++i) all.push_back(std::bit_cast<std::uint32_t>(lse.data()[i]));
  return all;
}

void check(std::uint64_t seed, const Shape& shape) {
  RandomCall<bfloat16> call(seed, shape, {}, support::layouts()[seed % 5]);
  INFO("seed " << seed << ": " << shape.heads << " heads over " << shape.kv_heads << ", "
               << shape.queries << " queries, " << shape.keys << " keys, dims " << shape.dim
               << " and " << shape.value_dim);
  run<Exactly>(call);
  const auto exact = outputs(call.c);
  const auto lse = bits_of_lse(call);
  run<OnTiles>(call);
  const auto rounded = outputs(call.c);
  CHECK(bits_of_lse(call) == lse);
  CHECK(call.c.out.surroundings_kept());
  // Sum p |v|, which the bound is of.
  call.c.v.for_each([](bfloat16& x) { x = Eigen::numext::abs(x); });
  run<Exactly>(call);
  const auto sizes = outputs(call.c);
  double worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    // Both are rounded to bfloat16 once more, and so is the bound's sum.
    const double allowed =
        0x1p-8 * (sizes[i] * (1 + 0x1p-7) + std::abs(exact[i]) + std::abs(rounded[i])) +
        1e-6 * sizes[i];
    const double error = std::abs(rounded[i] - exact[i]);
    if (error > 0 || allowed > 0) worst = support::worse(worst, error / allowed);
  }
  CHECK(worst <= 1);
}

}  // namespace

TEST_CASE("on matrix tiles scores are the same and outputs within the bound",
          "[attention][products]") {
  support::Random random(7);
  for (std::uint64_t seed = 1; seed <= 60; ++seed) check(seed, attention_test::small_shape(random));
  for (std::uint64_t seed = 101; seed <= 130; ++seed) {
    check(seed, attention_test::edge_shape(random));
  }
}

TEST_CASE("on matrix tiles what hidden keys hold reaches nobody", "[attention][products]") {
  Case<bfloat16> c({.heads = 2, .queries = 20, .keys = 150, .dim = 24, .value_dim = 40}, 3);
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  const auto spoil = [&](auto& x) {
    for (Index d = 0; d < x.view().dim; ++d)
      x.view().row(0, 149, 0)[d] = static_cast<bfloat16>(nan);
  };
  spoil(c.k);
  spoil(c.v);
  const auto attend = [&] {
    posenc::detail::attend<Tier, posenc::detail::CallingThread, bfloat16>(
        {}, c.q.view(), OnTiles(c.k.view(), c.v.view()), 150, 40, c.out.view(),
        {.causal = posenc::Causal::BottomRight}, posenc::NoBias(), {});
  };
  attend();
  Index others = 0, last = 0;
  for (Index i = 0; i < 20; ++i) {
    for (Index h = 0; h < 2; ++h) {
      for (Index d = 0; d < 40; ++d) {
        (i == 19 ? last : others) += std::isnan(to_double(c.out.view().row(0, i, h)[d])) ? 1 : 0;
      }
    }
  }
  CHECK(others == 0);
  CHECK(last == 80);
}

TEST_CASE("a cache of bfloat16 is read on matrix tiles", "[attention][products]") {
  Case<bfloat16> c(
      {.heads = 4, .kv_heads = 2, .queries = 9, .keys = 270, .dim = 50, .value_dim = 70}, 5);
  posenc::KvCache<bfloat16> cache(
      {.kv_heads = 2, .head_dim = 50, .value_dim = 70, .capacity = 270});
  cache.append(0, c.k.view(), c.v.view());
  const posenc::AttentionOptions<bfloat16> options{.causal = posenc::Causal::BottomRight};
  posenc::detail::attend<Tier, posenc::detail::CallingThread, bfloat16>(
      {}, c.q.view(), OnTiles(c.k.view(), c.v.view()), 270, 70, c.out.view(), options,
      posenc::NoBias(), {});
  const auto from_tensors = outputs(c);
  const Index sequence = 0;
  posenc::detail::attend<Tier, posenc::detail::CallingThread, bfloat16>(
      {}, c.q.view(), posenc::detail::CachedKeys<bfloat16, Number>(cache, {&sequence, 1}), 270, 70,
      c.out.view(), options, posenc::NoBias(), {});
  CHECK(outputs(c) == from_tensors);
}

TEST_CASE("matrix tiles are refused where they cannot be had", "[attention][products][errors]") {
  const auto message = [](auto& c) {
    return support::message_of<posenc::ConfigError>(
        [&] { c.run({.causal = posenc::Causal::No, .products = Products::AmxBfloat16}); });
  };
  Case<float> wide({.queries = 2, .keys = 2}, 1);
  CHECK_THAT(message(wide), ContainsSubstring("attention: Products::AmxBfloat16") &&
                                ContainsSubstring("bfloat16 alone"));
#if POSENC_HAS_AMX
  if (posenc::detail::amx_is_permitted()) return;
#endif
  Case<bfloat16> narrow({.queries = 2, .keys = 2}, 1);
  CHECK_THAT(message(narrow), ContainsSubstring("attention: Products::AmxBfloat16 needs"));
}

#if POSENC_HAS_AMX
TEST_CASE("the processor's tiles give the emulated ones' bits", "[attention][products]") {
  if (!posenc::detail::amx_is_permitted()) return;
  support::Random random(11);
  for (std::uint64_t seed = 201; seed <= 240; ++seed) {
    RandomCall<bfloat16> call(seed, attention_test::edge_shape(random));
    run<OnTiles>(call);
    const auto emulated = outputs(call.c);
    call.options.products = Products::AmxBfloat16;
    call.run();
    CHECK(outputs(call.c) == emulated);
  }
}
#endif

}  // namespace matrix_kernels_test
