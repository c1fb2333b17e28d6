// SPDX-License-Identifier: MIT
// Gates are appended, saved, restored and erased like the keys of a cache.
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/bias/forgetting.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forget_gates_test {

using posenc::EmbeddingsView;
using posenc::ForgetGates;
using posenc::Index;
using posenc::ShapeError;
using support::message_of;

namespace {

constexpr Index heads = 2;

std::vector<double> logits(Index tokens, std::uint64_t seed) {
  support::Random random(seed);
  std::vector<double> z(static_cast<std::size_t>(tokens * heads));
  for (double& x : z) x = 2 + 2 * random.normal();
  return z;
}
EmbeddingsView<const double> view(const std::vector<double>& z, Index first, Index count) {
  return {z.data() + first * heads, 1, count, heads};
}

std::vector<double> sums_of(const ForgetGates& gates, Index sequence) {
  const Index first = gates.first(sequence), count = gates.length(sequence) - first;
  std::vector<double> sums(static_cast<std::size_t>(count * heads));
  gates.copy_sums(sequence, first, {sums.data(), 1, count, heads});
  return sums;
}

}  // namespace

TEST_CASE("ForgetGates: a ragged append is an append for each sequence", "[bias][forgetting]") {
  const auto z = logits(12, 1);
  ForgetGates each(3, heads), ragged(3, heads), ragged_log(3, heads), each_log(3, heads);
  ForgetGates ragged_short(3, heads), ragged_log_short(3, heads);
  const std::vector<std::int32_t> offsets{0, 5, 5, 9};
  for (ForgetGates* gates : {&each, &ragged, &ragged_short}) gates->append(1, view(z, 0, 3));
  each.append(2, view(z, 3, 5));
  each.append(1, view(z, 8, 4));
  ragged.append({2, 0, 1}, {0, 5, 5, 9}, view(z, 3, 9));
  each_log.append_log(2, view(z, 3, 5));
  each_log.append_log(1, view(z, 8, 4));
  ragged_log.append_log({2, 0, 1}, {0, 5, 5, 9}, view(z, 3, 9));
  ragged_short.append({2, 0, 1}, offsets, view(z, 3, 9));
  ragged_log_short.append_log({2, 0, 1}, offsets, view(z, 3, 9));
  for (Index sequence = 0; sequence < 3; ++sequence) {
    CHECK(sums_of(ragged, sequence) == sums_of(each, sequence));
    CHECK(sums_of(ragged_log, sequence) == sums_of(each_log, sequence));
    CHECK(sums_of(ragged_short, sequence) == sums_of(each, sequence));
    CHECK(sums_of(ragged_log_short, sequence) == sums_of(each_log, sequence));
  }
  CHECK(ragged.length(0) == 0);
  CHECK(ragged.length(1) == 7);
}

TEST_CASE("ForgetGates: a ring of keys and its gates, saved and restored, continue with their bits",
          "[bias][forgetting]") {
  constexpr Index tokens = 400, dim = 4, saved_at = 300;
  support::Random random(2);
  auto q = support::Heads<float>::random(random, 1, tokens, heads, dim);
  auto k = support::Heads<float>::random(random, 1, tokens, 1, dim);
  auto v = support::Heads<float>::random(random, 1, tokens, 1, dim);
  const auto z = logits(tokens, 3);
  posenc::KvCache<float> cache({.sequences = 2, .kv_heads = 1, .head_dim = dim, .window = 70});
  ForgetGates gates(2, heads);
  const auto decode = [&](Index sequence, Index i) {
    support::Heads<float> out(1, 1, heads, dim);
    cache.append(sequence, slice_seq(k.view(), i, 1), slice_seq(v.view(), i, 1));
    gates.append(sequence, view(z, i, 1));
    gates.evict_before(sequence, cache.first(sequence));
    const std::vector<Index> sequences{sequence};
    posenc::attention(slice_seq(q.view(), i, 1), cache, sequences, out.view(),
                      {.causal = posenc::Causal::BottomRight, .window = posenc::sliding_window(70)},
                      posenc::ForgettingBias(gates, sequences));
    return out;
  };
  for (Index i = 0; i < saved_at; ++i) decode(0, i);
  const Index first = cache.first(0), count = saved_at - first;
  REQUIRE(first > 0);
  support::Heads<float> keys(1, count, 1, dim), values(1, count, 1, dim);
  cache.copy_keys(0, first, keys.view(), values.view());
  const auto sums = sums_of(gates, 0);
  gates.append(1, view(z, 0, 9));  // replaced by restore()
  cache.restore(1, first, keys.view(), values.view());
  gates.restore(1, first, {sums.data(), 1, count, heads});
  bool same = true;
  for (Index i = saved_at; i < tokens; ++i) {
    auto want = decode(0, i), got = decode(1, i);
    same = same && support::same_bits(got.view(), want.view());
  }
  CHECK(same);
}

TEST_CASE("ForgetGates: erasing leaves the gates of the other tokens", "[bias][forgetting]") {
  const auto z = logits(9, 4);
  for (const Index first : {0, 3, 6}) {
    for (const Index count : {0, 1, 3}) {
      CAPTURE(first, count);
      ForgetGates erased(1, heads), others(1, heads);
      erased.append(0, view(z, 0, 9));
      erased.erase(0, first, count);
      others.append(0, view(z, 0, first));
      others.append(0, view(z, first + count, 9 - first - count));
      REQUIRE(erased.length(0) == 9 - count);
      for (Index j = 0; j < 9 - count; ++j) {
        for (Index i = j; i < 9 - count; ++i) {
          for (std::size_t h = 0; h < 2; ++h) {
            const double got = erased.sums(0, i)[h] - erased.sums(0, j)[h];
            CHECK(got == Approx(others.sums(0, i)[h] - others.sums(0, j)[h]).margin(1e-13));
          }
        }
      }
    }
  }
}

TEST_CASE("ForgetGates: erase where a sequence does not begin with token 0", "[bias][forgetting]") {
  for (const Index first : {20, 21, 24}) {
    CAPTURE(first);
    std::vector<double> sums(9 * heads);
    for (std::size_t n = 0; n < sums.size(); ++n) sums[n] = static_cast<double>(n * n);
    ForgetGates gates(1, heads);
    gates.restore(0, 20, {sums.data(), 1, 9, heads});
    gates.erase(0, first, 2);
    REQUIRE(gates.first(0) == 20);
    REQUIRE(gates.length(0) == 27);
    const auto begin = static_cast<std::size_t>((first - 20) * heads), end = begin + 2 * heads;
    std::vector<double> expected = sums;
    for (std::size_t n = end; begin > 0 && n < sums.size(); ++n) {
      const std::size_t h = n % heads;
      expected[n] -= sums[end - heads + h] - sums[begin - heads + h];
    }
    const auto at = expected.begin() + (first - 20) * heads;
    expected.erase(at, at + 2 * heads);
    CHECK(sums_of(gates, 0) == expected);
  }
}

TEST_CASE("ForgetGates: erase the only head's gates after the first token", "[bias][forgetting]") {
  double sums[] = {1, 3, 7, 15};
  ForgetGates gates(1, 1);
  gates.restore(0, 0, {sums, 1, 4, 1});
  gates.erase(0, 1, 1);
  CHECK(gates.sums(0, 1)[0] == 5);  // 7 less what the erased gate added
  CHECK(gates.sums(0, 2)[0] == 13);
}

TEST_CASE("ForgetGates: rejected calls of append, save, restore and erase change nothing",
          "[bias][forgetting][errors]") {
  const auto z = logits(6, 5);
  ForgetGates gates(2, heads);
  gates.append(0, view(z, 0, 4));
  const auto before = sums_of(gates, 0);
  std::vector<double> some(12, 7);
  const EmbeddingsView<double> wrong{some.data(), 1, 3, 3}, three{some.data(), 1, 3, heads};
  CHECK(message_of<ShapeError>([&] {
          gates.append({0, 1}, {0, 3, 5}, view(z, 0, 6));
        }) ==
        "posenc::ForgetGates::append: cu_seqlens must begin with 0 and end with 6 but goes from 0 "
        "to 5");
  CHECK(message_of<ShapeError>([&] {
          gates.append({0, 1}, {0, 6}, view(z, 0, 6));
        }) ==
        "posenc::ForgetGates::append: cu_seqlens must have one entry more than the 2 sequences but "
        "has 2");
  CHECK(message_of<ShapeError>([&] {
          gates.append({1, 1}, {0, 3, 6}, view(z, 0, 6));
        }) == "posenc::ForgetGates::append: sequence 1 is listed twice");
  CHECK(message_of<ShapeError>([&] { gates.copy_sums(0, 2, three); }) ==
        "posenc::ForgetGates::copy_sums: sequence 0 has the tokens 0 to 3, but 3 from 2 on are "
        "requested");
  CHECK(message_of<ShapeError>([&] { gates.copy_sums(0, 0, wrong); }) ==
        "posenc::ForgetGates::copy_sums: sums [1, 3, 3] must be [1, n, 2]");
  CHECK(message_of<ShapeError>([&] { gates.restore(0, 0, wrong); }) ==
        "posenc::ForgetGates::restore: sums [1, 3, 3] must be [1, n, 2]");
  CHECK(message_of<ShapeError>([&] { gates.restore(0, -1, three); }) ==
        "posenc::ForgetGates::restore: token indices must lie between 0 and 2^53, but the first is "
        "-1 of 3");
  CHECK(message_of<ShapeError>([&] { gates.erase(0, 2, 3); }) ==
        "posenc::ForgetGates::erase: sequence 0 has the tokens 0 to 3, but 3 from 2 on are "
        "requested");
  CHECK(message_of<ShapeError>([&] { gates.erase(0, 2, -1); }) ==
        "posenc::ForgetGates::erase: sequence 0 has the tokens 0 to 3, but -1 from 2 on are "
        "requested");
  CHECK(message_of<ShapeError>([&] { gates.erase(0, 5, 0); }) ==
        "posenc::ForgetGates::erase: the first token must lie within [0, 4], the tokens of "
        "sequence 0, but is 5");
  CHECK(sums_of(gates, 0) == before);
  CHECK(gates.length(1) == 0);
  CHECK(std::count(some.begin(), some.end(), 7) == 12);
}

}  // namespace forget_gates_test
