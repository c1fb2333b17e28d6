// SPDX-License-Identifier: MIT
// Forgetting attention: gates that are stored beside a cache, and their bias.
#include "reference/forgetting.hpp"

#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace forgetting_test {

using posenc::Causal;
using posenc::ConfigError;
using posenc::EmbeddingsView;
using posenc::ForgetGates;
using posenc::ForgettingBias;
using posenc::HeadsView;
using posenc::Index;
using posenc::ShapeError;
using support::message_of;

namespace {

static_assert(std::is_constructible_v<ForgettingBias, const ForgetGates&, std::span<const Index>>);
static_assert(!std::is_constructible_v<ForgettingBias, ForgetGates, std::span<const Index>>);

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Logits [1, tokens, heads] of gates.
class Logits {
 public:
  Logits(Index tokens, Index heads, std::uint64_t seed) : heads_(heads) {
    support::Random random(seed);
    for (Index n = 0; n < tokens * heads; ++n) z_.push_back(2 + 2 * random.normal());
  }
  EmbeddingsView<const double> view(Index first, Index count) const {
    return {z_.data() + first * heads_, 1, count, heads_};
  }
  EmbeddingsView<const double> view() const {
    return view(0, static_cast<Index>(z_.size()) / heads_);
  }
  std::vector<double> log_gates(Index head) const {
    std::vector<double> all;
    for (std::size_t n = static_cast<std::size_t>(head); n < z_.size();
         n += static_cast<std::size_t>(heads_)) {
      all.push_back(reference::log_sigmoid(z_[n]));
    }
    return all;
  }

 private:
  Index heads_;
  std::vector<double> z_;
};

/// Returns the biases [B, H, Sq, Sk] of a call as the softmax reads them, with queries and keys of
/// zeros.
std::vector<double> biases(const ForgettingBias& bias, Index batch, Index queries, Index keys,
                           const posenc::AttentionOptions<double>& options = {
                               .causal = Causal::BottomRight}) {
  const Index heads = bias.heads();
  const auto size = [](Index n) { return static_cast<std::size_t>(n); };
  std::vector<double> q(size(batch * queries * heads)), k(size(batch * keys * heads)),
      out(q.size()), scores(size(batch * heads * queries * keys));
  posenc::attention(HeadsView<const double>{q.data(), batch, queries, heads, 1},
                    HeadsView<const double>{k.data(), batch, keys, heads, 1},
                    HeadsView<const double>{k.data(), batch, keys, heads, 1},
                    HeadsView<double>{out.data(), batch, queries, heads, 1}, options, bias,
                    {.weights = {scores.data(), batch, heads, queries, keys},
                     .returned = posenc::ReturnedScores::Masked});
  return scores;
}

}  // namespace

TEST_CASE("ForgettingBias: three gates by hand", "[bias][forgetting]") {
  const std::vector<double> z{2, 0, -1};
  ForgetGates gates(1, 1);
  gates.append(0, EmbeddingsView<const double>{z.data(), 1, 3, 1});
  const std::vector<Index> sequences{0};
  const auto got = biases(ForgettingBias(gates, sequences), 1, 3, 3);
  const std::vector<double> want{
      0, -infinity, -infinity, -.6931471806, 0, -infinity, -2.006408868, -1.313261688, 0};
  for (std::size_t n = 0; n < 9; ++n) {
    CAPTURE(n);
    CHECK((got[n] == want[n] || std::abs(got[n] - want[n]) < 1e-9));
  }
}

TEST_CASE("ForgettingBias: sums the gates between a key and its query", "[bias][forgetting]") {
  constexpr Index heads = 3;
  const Logits first(300, heads, 1), second(300, heads, 2);
  ForgetGates gates(3, heads);
  gates.append(2, first.view());
  gates.append(0, second.view());
  const std::vector<Index> sequences{2, 0};
  const auto got = biases(ForgettingBias(gates, sequences), 2, 40, 300);
  double worst = 0;
  auto score = got.begin();
  for (const Logits* row : {&first, &second}) {
    for (Index h = 0; h < heads; ++h) {
      const auto log_gates = row->log_gates(h);
      for (Index i = 260; i < 300; ++i) {
        for (Index j = 0; j < 300; ++j, ++score) {
          const double want = reference::forgetting_bias(log_gates, i, j);
          if (*score != want) worst = std::max(worst, std::abs(*score - want));
        }
      }
    }
  }
  CHECK(worst < 300 * 0x1p-53 * 300);
}

TEST_CASE("ForgettingBias: decoding gives the bits of prefill", "[bias][forgetting]") {
  constexpr Index tokens = 280, heads = 4, dim = 8;
  support::Random random(3);
  auto q = support::Heads<float>::random(random, 1, tokens, heads, dim);
  auto k = support::Heads<float>::random(random, 1, tokens, 2, dim);
  auto v = support::Heads<float>::random(random, 1, tokens, 2, dim);
  support::Heads<float> at_once(1, tokens, heads, dim), one_by_one(1, tokens, heads, dim);
  const Logits logits(tokens, heads, 4);
  const std::vector<Index> first{0}, second{1};

  ForgetGates gates(2, heads);
  gates.append(0, logits.view());
  posenc::attention(q.view(), k.view(), v.view(), at_once.view(), {.causal = Causal::TopLeft},
                    ForgettingBias(gates, first));

  posenc::KvCache<float> cache(
      {.sequences = 2, .kv_heads = 2, .head_dim = dim, .capacity = tokens + 9});
  for (Index i = 0; i < tokens; ++i) {
    cache.append(1, slice_seq(k.view(), i, 1), slice_seq(v.view(), i, 1));
    gates.append(1, logits.view(i, 1));
    if (i % 50 == 9) {
      // Tokens that are removed, and a sequence that continues as a copy.
      cache.append(1, slice_seq(k.view(), 0, 9), slice_seq(v.view(), 0, 9));
      gates.append(1, logits.view(0, 9));
      cache.truncate(1, i + 1);
      gates.truncate(1, i + 1);
      cache.copy(1, 0);
      gates.copy(1, 0);
      cache.clear(1);
      gates.clear(1);
      cache.copy(0, 1);
      gates.copy(0, 1);
    }
    posenc::attention(slice_seq(q.view(), i, 1), cache, second, slice_seq(one_by_one.view(), i, 1),
                      {.causal = Causal::BottomRight}, ForgettingBias(gates, second));
  }
  CHECK(support::same_bits(one_by_one.view(), at_once.view()));
}

TEST_CASE("ForgettingBias: packed sequences have gates of their own, and rings forget theirs",
          "[bias][forgetting]") {
  constexpr Index heads = 2;
  const Logits logits(7, heads, 5);
  ForgetGates gates(2, heads);
  gates.append(0, logits.view(0, 4));
  gates.append(1, logits.view(4, 3));
  const std::vector<Index> boundaries{0, 4, 7}, sequences{0, 1}, one{0};
  const auto packed =
      biases(ForgettingBias(gates, sequences), 1, 7, 7,
             {.causal = Causal::TopLeft, .cu_seqlens_q = boundaries, .cu_seqlens_k = boundaries});
  const auto log_gates = logits.log_gates(1);
  CHECK(packed[49 + 6 * 7 + 4] == Approx(log_gates[5] + log_gates[6]));
  CHECK(packed[49 + 6 * 7 + 3] == -infinity);

  const auto before = biases(ForgettingBias(gates, one), 1, 1, 4);
  gates.evict_before(0, 2);
  CHECK(gates.first(0) == 2);
  CHECK(gates.length(0) == 4);
  CHECK(message_of<ShapeError>([&] { biases(ForgettingBias(gates, one), 1, 1, 4); }) ==
        "posenc::attention: ForgetGates has the tokens 2 to 3 of sequence 0, but the keys are 0 to "
        "3");
  gates.evict_before(0, 4);
  gates.append(0, logits.view(4, 1));
  CHECK(gates.first(0) == 4);
  CHECK(gates.length(0) == 5);
}

TEST_CASE("ForgettingBias: gates that are shut, and gates that are NaN", "[bias][forgetting]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> z{3, -1e300, 3, -infinity, infinity, 3};
  ForgetGates gates(2, 1);
  gates.append(0, EmbeddingsView<const double>{z.data(), 1, 6, 1});
  const std::vector<Index> sequences{0}, broken{1};
  const auto row = biases(ForgettingBias(gates, sequences), 1, 1, 6);
  for (std::size_t j = 0; j < 3; ++j) CHECK(row[j] <= -65536);  // before a closed gate
  CHECK(row[4] == Approx(reference::log_sigmoid(3)));
  CHECK(row[3] == row[4]);  // an open gate

  const std::vector<double> with_nan{1, nan, 1};
  gates.append(1, EmbeddingsView<const double>{with_nan.data(), 1, 3, 1});
  const auto broken_biases = biases(ForgettingBias(gates, broken), 1, 2, 2 + 1);
  CHECK(std::isnan(broken_biases[0]));
}

TEST_CASE("ForgettingBias: rejects gates that do not fit", "[bias][forgetting][errors]") {
  const Logits logits(4, 2, 6);
  ForgetGates gates(2, 2);
  CHECK(
      message_of<ShapeError>([] { ForgetGates(1, 0); }) ==
      "posenc::ForgetGates: there must be at least one head, and no negative number of sequences, "
      "but there are 0 and 1");
  CHECK(message_of<ShapeError>([] { ForgetGates(Index{1} << 40, 1 << 20); }) ==
        "posenc::ForgetGates: the gates of 1099511627776 sequences with 1048576 heads must fit "
        "into memory");
  const float gate = 1;
  CHECK(message_of<ShapeError>([&] {
          gates.append(0, EmbeddingsView<const float>{&gate, 1, Index{3} << 51, 2, 0, 0});
        }) ==
        "posenc::ForgetGates::append: 2 gates of 6755399441055744 tokens must fit into memory");
  CHECK(message_of<ShapeError>([&] { gates.append(2, logits.view()); }) ==
        "posenc::ForgetGates::append: sequence must lie within the 2 sequences but is 2");
  CHECK(message_of<ShapeError>([&] {
          gates.append({0, 1}, logits.view());
        }) == "posenc::ForgetGates::append: gates [1, 4, 2] must be [2, n, 2]");
  const std::vector<double> two(8);
  CHECK(message_of<ShapeError>([&] {
          gates.append({1, 1}, EmbeddingsView<const double>{two.data(), 2, 2, 2});
        }) == "posenc::ForgetGates::append: sequence 1 is listed twice");
  gates.append(0, logits.view());
  CHECK(gates.length(0) == 4);
  CHECK(message_of<ShapeError>([&] { gates.truncate(0, 5); }) ==
        "posenc::ForgetGates::truncate: the new length must lie within [0, 4], the tokens of "
        "sequence 0, but is 5");
  CHECK(message_of<ShapeError>([&] { gates.evict_before(0, -1); }) ==
        "posenc::ForgetGates::evict_before: the first token must lie within [0, 4], the tokens of "
        "sequence 0, but is -1");

  const std::vector<Index> one{0}, none;
  CHECK(message_of<ConfigError>([&] {
          biases(ForgettingBias(gates, one), 1, 2, 4,
                 {.causal = Causal::No,
                  .query_positions = posenc::Positions::range(2, 2),
                  .key_positions = posenc::Positions::range(0, 4)});
        }) ==
        "posenc::attention: ForgettingBias requires a causal alignment or query_starts, "
        "which define the token of each query");
  CHECK(message_of<ShapeError>([&] { biases(ForgettingBias(gates, none), 1, 2, 4); }) ==
        "posenc::attention: ForgettingBias lists 0 sequences, but the call has a sequence 0");
  CHECK(message_of<ShapeError>([&] { biases(ForgettingBias(gates, one), 1, 2, 5); }) ==
        "posenc::attention: ForgetGates has the tokens 0 to 3 of sequence 0, but the keys are 0 to "
        "4");
  CHECK(
      message_of<ShapeError>(
          [&] { biases(ForgettingBias(gates, one), 1, 3, 2, {.causal = Causal::BottomRight}); }) ==
      "posenc::attention: ForgetGates has the tokens 0 to 3 of sequence 0, but the queries are -1 "
      "to 1");
}

}  // namespace forgetting_test
