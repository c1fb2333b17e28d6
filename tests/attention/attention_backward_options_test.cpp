// SPDX-License-Identifier: MIT
// Tests which gradients attention_backward() overwrites, accumulates and leaves unchanged, and what
// must not reach a gradient.
#define EIGEN_USE_THREADS
#include "backward_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/attention_backward.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace attention_backward_options_test {

using attention_test::FixedCall;
using attention_test::Gradients;
using attention_test::LearnedBias;
using attention_test::LearnedBiasGradient;
using attention_test::Mask;
using posenc::Causal;
using posenc::Index;
using support::Heads;
using support::same_bits;

namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
const support::Cutter one_thread{1000};

/// Call with several tiles and blocks, a mask, sinks and a bias.
struct WholeCall : FixedCall<float> {
  Mask<float> mask{2, 1, 150, 1};
  std::vector<float> sinks{0.5, -1, 0, 2};
  support::Random random{3};
  LearnedBias bias{LearnedBias::Fire, 4, random};
  LearnedBias::Any made = bias.make();

  WholeCall() : FixedCall<float>({2, 4, 2, 150, 170, 9, 5}, 1) {
    mask.fill([&] { return static_cast<float>(random.normal()); });
    options.causal = Causal::BottomRight;
    options.additive = mask.view();
    options.sinks = sinks;
  }
  void run(const posenc::AttentionGradients<float>& gradients, LearnedBiasGradient& of_bias) {
    attend_and_back(support::AnyDevice(one_thread), tensors(gradients), options, {&made, &of_bias});
  }
  std::vector<float> additive(const Gradients<float>& gradients) const {
    const auto& values = gradients.additive.values;
    return {values.data(), values.data() + values.size()};
  }
};

/// True if all rows that `of_row` selects have equal numbers in both tensors.
bool same_rows(Heads<float>& a, Heads<float>& b,
               const std::function<bool(Index b, Index s, Index h)>& of_row) {
  const auto x = a.view(), y = b.view();
  for (Index n = 0; n < x.batch; ++n) {
    for (Index s = 0; s < x.seq; ++s) {
      for (Index h = 0; h < x.heads; ++h) {
        if (of_row(n, s, h) && support::row_of(x, n, s, h) != support::row_of(y, n, s, h)) {
          return false;
        }
      }
    }
  }
  return true;
}

bool is_zero(Heads<float>& x, Index s) {
  const auto view = x.view();
  for (Index b = 0; b < view.batch; ++b) {
    for (Index h = 0; h < view.heads; ++h) {
      for (const double value : support::row_of(view, b, s, h)) {
        if (value != 0) return false;
      }
    }
  }
  return true;
}

/// Fills row s of every batch row and head.
void fill(Heads<float>& x, Index s, float value) {
  const auto view = x.view();
  for (Index b = 0; b < view.batch; ++b) {
    for (Index h = 0; h < view.heads; ++h) std::fill_n(view.row(b, s, h), view.dim, value);
  }
}

}  // namespace

TEST_CASE("attention_backward: gradients that are not asked for are left out",
          "[attention][backward]") {
  WholeCall call;
  Gradients<float> all(call.c.shape, call.options);
  auto of_bias = call.made.zero_gradient();
  call.run(all.view(), of_bias);
  for (int left_out = 0; left_out < 5; ++left_out) {
    CAPTURE(left_out);
    Gradients<float> some(call.c.shape, call.options);
    auto views = some.view();
    if (left_out == 0) views.q = {};
    if (left_out == 1) views.k = {};
    if (left_out == 2) views.v = {};
    if (left_out == 3) views.additive = {};
    if (left_out == 4) views.sinks = {};
    auto of_bias_again = call.made.zero_gradient();
    call.run(views, of_bias_again);
    CHECK(same_bits(some.q.view(), all.q.view()) == (left_out != 0));
    CHECK(same_bits(some.k.view(), all.k.view()) == (left_out != 1));
    CHECK(same_bits(some.v.view(), all.v.view()) == (left_out != 2));
    CHECK((call.additive(some) == call.additive(all)) == (left_out != 3));
    CHECK((some.sinks == all.sinks) == (left_out != 4));
    CHECK(of_bias_again.numbers() == of_bias.numbers());
  }
}

TEST_CASE("attention_backward: a bias whose gradient is not asked for is applied all the same",
          "[attention][backward]") {
  WholeCall call;
  const posenc::Alibi alibi({.heads = 4, .form = posenc::AlibiForm::Symmetric});
  posenc::attention(call.c.q.view(), call.c.k.view(), call.c.v.view(), call.c.out.view(),
                    call.options, alibi, {.lse = call.lse.view()});
  Gradients<float> with(call.c.shape, call.options), without(call.c.shape, call.options);
  const auto x = call.tensors({});
  auto slopes = alibi.zero_gradient();
  posenc::attention_backward(x.q, x.k, x.v, x.out, x.lse, x.grad_out, with.view(), call.options,
                             alibi, slopes);
  posenc::attention_backward(x.q, x.k, x.v, x.out, x.lse, x.grad_out, without.view(), call.options,
                             alibi);
  CHECK(same_bits(with.q.view(), without.q.view()));
  CHECK(same_bits(with.k.view(), without.k.view()));
  CHECK(same_bits(with.v.view(), without.v.view()));
  CHECK(call.additive(with) == call.additive(without));
  CHECK(with.sinks == without.sinks);
  CHECK(support::max_abs(slopes) > 0);
}

TEST_CASE("attention_backward: gradients of tensors are written, those of parameters added to",
          "[attention][backward]") {
  WholeCall call;
  Gradients<float> once(call.c.shape, call.options), twice(call.c.shape, call.options);
  auto of_bias = call.made.zero_gradient(), of_bias_twice = call.made.zero_gradient();
  call.run(once.view(), of_bias);
  call.run(twice.view(), of_bias_twice);
  call.run(twice.view(), of_bias_twice);
  CHECK(same_bits(twice.q.view(), once.q.view()));
  CHECK(same_bits(twice.k.view(), once.k.view()));
  CHECK(same_bits(twice.v.view(), once.v.view()));
  const auto check_doubled = [](const auto& numbers, const auto& of_one_call) {
    REQUIRE(numbers.size() == of_one_call.size());
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const auto want = 2 * static_cast<double>(of_one_call[n]);
      CHECK(std::abs(static_cast<double>(numbers[n]) - want) <= 1e-5 * (1 + std::abs(want)));
    }
    CHECK(support::max_abs(of_one_call) > 0.01);
  };
  check_doubled(call.additive(twice), call.additive(once));
  check_doubled(twice.sinks, once.sinks);
  check_doubled(of_bias_twice.numbers(), of_bias.numbers());
}

TEST_CASE("attention_backward: hidden keys reach no gradient", "[attention][backward]") {
  constexpr Index queries = 150, keys = 300;
  Mask<bool> keep(1, 1, 1, keys, true), masked(1, 1, queries, keys, false);
  Mask<float> added(1, 1, 1, keys, 0.25F);
  const std::vector<Index> lengths{200, 200}, starts{-1}, hidden_one_by_one{0, 5, 100, 130, 299};
  for (const Index j : hidden_one_by_one) {
    keep.values(0, 0, 0, j) = false;
    added.values(0, 0, 0, j) = -infinity;
    for (Index i = 0; i < queries; ++i) masked.values(0, 0, i, j) = true;
  }
  const auto from = [](Index first) {
    std::vector<Index> all;
    for (Index j = first; j < keys; ++j) all.push_back(j);
    return all;
  };
  for (int way = 0; way < 8; ++way) {
    CAPTURE(way);
    FixedCall<float> call({2, 4, 2, queries, keys, 9, 5}, 1);
    auto& options = call.options;
    options.causal = Causal::No;
    std::vector<Index> hidden = hidden_one_by_one;
    if (way == 0 || way == 7) options.keep = keep.view();
    if (way == 7) options.softcap = 2, options.softcap_order = posenc::SoftcapOrder::BeforeBias;
    if (way == 1) options.masked = masked.view();
    if (way == 2) options.additive = added.view();
    if (way == 3) options.key_lengths = lengths, hidden = from(200);
    if (way == 4) options.causal = Causal::TopLeft, hidden = from(queries);
    if (way == 6) {
      options.causal = Causal::TopLeft;
      options.window = posenc::sliding_window(40);
      options.keep = keep.view();
      hidden = {5, 100, 130};
    }
    if (way == 5) {
      // The first query sees no key.
      options.causal = Causal::FromStart;
      options.query_starts = starts;
      hidden = from(queries - 1);
    }
    Gradients<float> clean = call.run();
    // First of the values alone, so that the keys do not give them away.
    for (const auto& [value, keys_too] :
         {std::pair{nan, false}, std::pair{nan, true}, std::pair{infinity, true}}) {
      for (const Index j : hidden) {
        if (keys_too) fill(call.c.k, j, value);
        fill(call.c.v, j, -value);
      }
      if (way == 5) {
        fill(call.c.q, 0, value);
        fill(call.grad_out, 0, value);
      }
      Gradients<float> got = call.run();
      const auto always = [](Index, Index, Index) { return true; };
      CHECK(same_rows(got.q, clean.q, always));
      CHECK(same_rows(got.k, clean.k, always));
      CHECK(same_rows(got.v, clean.v, always));
      for (Index j : hidden) CHECK((is_zero(got.k, j) && is_zero(got.v, j)));
      if (way == 5) CHECK(is_zero(got.q, 0));
      for (Index n = 0; n < got.additive.values.size(); ++n) {
        CHECK(got.additive.values.data()[n] == clean.additive.values.data()[n]);
      }
    }
  }
}

TEST_CASE("attention_backward: hidden keys whose scores overflow reach no gradient",
          "[attention][backward]") {
  constexpr Index keys = 300;
  constexpr float large = 3e38F;
  const std::vector<Index> hidden{0, 5, 100, 130, 299};
  Mask<bool> keep(1, 1, 1, keys, true);
  for (const Index j : hidden) keep.values(0, 0, 0, j) = false;
  const auto always = [](Index, Index, Index) { return true; };
  for (const auto order : {posenc::SoftcapOrder::BeforeBias, posenc::SoftcapOrder::AfterBias}) {
    for (const double softcap : {0.0, 2.0}) {
      FixedCall<float> call({2, 4, 2, 150, keys, 10, 5}, 1);
      call.options.causal = Causal::No;
      call.options.keep = keep.view();
      call.options.softcap = softcap;
      if (softcap > 0) call.options.softcap_order = order;
      Gradients<float> clean = call.run();
      for (const Index j : hidden) {
        // The scores are sums of both infinities, and the gradients of probabilities are infinite.
        fill(call.c.k, j, large);
        for (Index b = 0; b < 2; ++b) {
          for (Index h = 0; h < 2; ++h) call.c.k.view().row(b, j, h)[0] = -large;
        }
        fill(call.c.v, j, large);
      }
      Gradients<float> got = call.run();
      CAPTURE(softcap);
      CHECK(same_rows(got.q, clean.q, always));
      CHECK(same_rows(got.k, clean.k, always));
      CHECK(same_rows(got.v, clean.v, always));
    }
  }
}

TEST_CASE("attention_backward: a query whose scores overflow reaches only the keys that it sees",
          "[attention][backward]") {
  FixedCall<float> call({2, 4, 2, 150, 150, 9, 5}, 1);
  call.options.causal = Causal::TopLeft;
  for (const auto stage : {posenc::TemperatureOf::ScaledScores, posenc::TemperatureOf::CappedScores,
                           posenc::TemperatureOf::BiasedScores}) {
    for (const bool is_hot : {false, true}) {
      call.options.softcap = 3;
      call.options.softcap_order = posenc::SoftcapOrder::AfterBias;
      call.options.temperature = [](double) { return 1.0; };
      call.options.temperature_of = stage;
      fill(call.c.v, 0, 2);
      fill(call.grad_out, 0, 1);
      Gradients<float> clean = call.run();
      // The product of the first query's output with its gradient overflows, or the scores.
      if (!is_hot) fill(call.grad_out, 0, 3e38F);
      if (is_hot) call.options.temperature = [](double i) { return i == 0 ? infinity : 1.0F; };
      Gradients<float> got = call.run();
      CAPTURE(is_hot);
      const auto not_first = [](Index, Index s, Index) { return s > 0; };
      CHECK(same_rows(got.q, clean.q, not_first));
      CHECK(same_rows(got.k, clean.k, not_first));
      CHECK(same_rows(got.v, clean.v, not_first));
      if (!is_hot) CHECK(!std::isfinite(got.q.view().row(0, 0, 0)[0]));
    }
  }
}

TEST_CASE("attention_backward: NaN in the output of every query leaves gradients of hidden keys 0",
          "[attention][backward]") {
  FixedCall<float> call({1, 2, 1, 150, 300, 9, 5}, 1);
  Mask<bool> keep(1, 1, 1, 300, true);
  keep.values(0, 0, 0, 299) = false;  // far from the NaN, in a tile of finite numbers
  call.options.causal = Causal::No;
  call.options.keep = keep.view();
  fill(call.c.v, 0, nan);
  Gradients<float> got = call.run();
  CHECK((is_zero(got.k, 299) && is_zero(got.v, 299)));
  CHECK(std::isnan(got.k.view().row(0, 298, 0)[0]));
}

TEST_CASE("attention_backward: a visible NaN reaches only what sees it", "[attention][backward]") {
  FixedCall<float> call({2, 4, 2, 200, 200, 9, 5}, 1);
  call.options.causal = Causal::TopLeft;
  Gradients<float> clean = call.run();
  const Index key = 150;
  // A NaN in the values of a key reaches later queries of the two heads that share it, and the keys
  // that these see.
  call.c.v.view().row(0, key, 1)[2] = nan;
  Gradients<float> got = call.run();
  CHECK(same_rows(got.q, clean.q,
                  [=](Index b, Index s, Index h) { return b == 1 || s < key || h < 2; }));
  CHECK(same_rows(got.k, clean.k, [](Index b, Index, Index h) { return b == 1 || h == 0; }));
  CHECK(same_rows(got.v, clean.v, [](Index, Index, Index) { return true; }));
  CHECK(std::isnan(got.q.view().row(0, key, 2)[0]));
  CHECK(std::isnan(got.k.view().row(0, 0, 1)[0]));
  // A gradient of an output that is infinite reaches the query of that head, and its keys.
  call.c.v.view().row(0, key, 1)[2] = 0;
  clean = call.run();
  call.grad_out.view().row(1, key, 0)[0] = infinity;
  got = call.run();
  CHECK(same_rows(got.q, clean.q,
                  [=](Index b, Index s, Index h) { return b == 0 || s != key || h != 0; }));
  const auto others = [=](Index b, Index s, Index h) { return b == 0 || s > key || h == 1; };
  CHECK(same_rows(got.k, clean.k, others));
  CHECK(same_rows(got.v, clean.v, others));
  CHECK(!std::isfinite(got.v.view().row(1, key, 0)[0]));
}

TEST_CASE("attention_backward: wide heads, and heads of one channel", "[attention][backward]") {
  for (const Index dim : {1, 129, 200}) {
    CAPTURE(dim);
    attention_test::BackwardCall<double> call(static_cast<std::uint64_t>(dim),
                                              {1, 2, 1, 30, 140, dim, dim == 129 ? 3 : dim});
    call.run();
    const auto worst = worst_gradient(call);
    INFO(worst.where);
    CHECK(worst.share <= 1);
  }
}

}  // namespace attention_backward_options_test
