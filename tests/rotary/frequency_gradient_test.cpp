// SPDX-License-Identifier: MIT
// Gradients of learned frequencies against finite differences and the plain sum.
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/rotary/frequency_gradient.hpp>
#include <posenc/rotary/pair_axes.hpp>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace frequency_gradient_test {

using posenc::Index;
using posenc::MixedRope;
using posenc::PairAxes;
using posenc::Positions;
using posenc::Rope;
using posenc::ShapeError;
using support::Heads;
using support::message_of;

namespace {

constexpr Index batch = 2, seq = 4, heads = 3, pairs = 5, dim = 13, offset = 2;
constexpr double factor = 1.3;

std::vector<double> random_numbers(support::Random& random, std::size_t count) {
  std::vector<double> values(count);
  random.fill_uniform(values, -1, 1);
  return values;
}

double dot(Heads<double>& a, Heads<double>& b) {
  double sum = 0;
  std::vector<double> x;
  a.for_each([&x](double value) { x.push_back(value); });
  std::size_t i = 0;
  b.for_each([&](double value) { sum += x[i++] * value; });
  return sum;
}

/// Returns (loss(w + h) - loss(w - h)) / 2h for each frequency; rotate(w, x) rotates x in place.
template <class Rotate>
std::vector<double> differences(const Rotate& rotate, std::vector<double> w, Heads<double>& x,
                                Heads<double>& grad) {
  std::vector<double> result;
  for (double& value : w) {
    const double kept = value, h = 1e-5;
    auto plus = x, minus = x;
    value = kept + h;
    rotate(w, plus);
    value = kept - h;
    rotate(w, minus);
    value = kept;
    result.push_back((dot(plus, grad) - dot(minus, grad)) / (2 * h));
  }
  return result;
}

Positions several_positions(support::Random& random, Index axes) {
  std::vector<Positions> all;
  for (Index axis = 0; axis < axes; ++axis) {
    std::vector<double> values;
    for (Index n = 0; n < batch * seq; ++n) values.push_back(random.uniform(-8, 8));
    all.push_back(Positions::real(batch, values));
  }
  return Positions::axes(all);
}

void check_close(const std::vector<double>& actual, const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CHECK(actual[i] == Approx(expected[i]).epsilon(1e-6).margin(1e-6));
  }
}

}  // namespace

TEST_CASE("frequency_gradient: Rope's equals finite differences", "[gradient]") {
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(1);
    for (const auto& axes : {PairAxes(), PairAxes(3, {2, 0, 1, 1, 0})}) {
      const auto positions = several_positions(random, axes.axis_count());
      const auto w = random_numbers(random, pairs);
      const auto rope_of = [&](const std::vector<double>& inv_freq) {
        return Rope<Pairing>(posenc::Frequencies::from_inv_freq(inv_freq, factor), offset, axes);
      };
      auto x = Heads<double>::random(random, batch, seq, heads, dim);
      auto grad = Heads<double>::random(random, batch, seq, heads, dim);
      auto y = x;
      rope_of(w).rotate(y.view(), positions);
      std::vector<double> gradient(pairs, 0);
      posenc::accumulate_frequency_gradient(rope_of(w), y.view(), grad.view(), positions, gradient);
      const auto rotate = [&](const std::vector<double>& inv_freq, Heads<double>& heads_of_x) {
        rope_of(inv_freq).rotate(heads_of_x.view(), positions);
      };
      check_close(gradient, differences(rotate, w, x, grad));

      // The function adds to the gradient, and accepts views of const.
      auto twice = gradient;
      posenc::accumulate_frequency_gradient(rope_of(w), posenc::HeadsView<const double>(y.view()),
                                            posenc::HeadsView<const double>(grad.view()), positions,
                                            twice);
      for (std::size_t i = 0; i < pairs; ++i) CHECK(twice[i] == Approx(2 * gradient[i]));
    }
  });
}

TEST_CASE("frequency_gradient: MixedRope's equals finite differences", "[gradient]") {
  support::Random random(2);
  const auto positions = several_positions(random, 2);
  const posenc::MixedRopeConfig shape{
      .axes = 2, .heads = heads, .rotary_dim = 2 * pairs, .rotary_offset = offset};
  const auto w = random_numbers(random, 2 * heads * pairs);
  auto x = Heads<double>::random(random, batch, seq, heads, dim);
  auto grad = Heads<double>::random(random, batch, seq, heads, dim);
  const MixedRope<posenc::Interleaved> rope(w, shape);
  auto y = x;
  rope.rotate(y.view(), positions);
  std::vector<double> gradient(w.size(), 0);
  posenc::accumulate_frequency_gradient(rope, y.view(), grad.view(), positions, gradient);
  const auto rotate = [&](const std::vector<double>& inv_freq, Heads<double>& heads_of_x) {
    MixedRope<posenc::Interleaved>(inv_freq, shape).rotate(heads_of_x.view(), positions);
  };
  check_close(gradient, differences(rotate, w, x, grad));
}

TEMPLATE_LIST_TEST_CASE("frequency_gradient: sums are in double", "[gradient]", rotation::Scalars) {
  using T = TestType;
  support::Random random(3);
  const Rope<posenc::HalfRotate> rope(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(6)));
  auto y = Heads<T>::random(random, batch, seq, heads, 6);
  auto grad = Heads<T>::random(random, batch, seq, heads, 6);
  std::vector<double> gradient(3, 0), expected(3, 0), size(3, 0);
  for (Index b = 0; b < batch; ++b) {
    for (Index s = 0; s < seq; ++s) {
      for (Index h = 0; h < heads; ++h) {
        const auto a = support::row_of(y.view(), b, s, h),
                   g = support::row_of(grad.view(), b, s, h);
        for (std::size_t i = 0; i < 3; ++i) {
          const double p = static_cast<double>(10 + s);
          expected[i] += p * (g[i + 3] * a[i] - g[i] * a[i + 3]);
          size[i] += p * (std::abs(g[i + 3] * a[i]) + std::abs(g[i] * a[i + 3]));
        }
      }
    }
  }
  posenc::accumulate_frequency_gradient(rope, y.view(), grad.view(), Positions::range(10, seq),
                                        gradient);
  for (std::size_t i = 0; i < 3; ++i) CHECK(std::abs(gradient[i] - expected[i]) <= 1e-14 * size[i]);
}

TEST_CASE("frequency_gradient: checks shapes first", "[gradient][errors]") {
  support::Random random(4);
  const Rope<posenc::HalfRotate> rope(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(6)));
  const MixedRope<posenc::HalfRotate> mixed(std::vector<double>(12, 1.0),
                                            {.heads = 2, .rotary_dim = 6});
  auto y = Heads<float>::random(random, 1, 4, 2, 6), g = Heads<float>::random(random, 1, 4, 2, 6);
  const auto one = Positions::range(0, 4), two = Positions::grid(2, 2);
  std::vector<double> three(3, 5.0), twelve(12, 5.0);
  const std::string name = "posenc::accumulate_frequency_gradient: ";
  const auto error = [&](const auto& r, posenc::HeadsView<float> a, posenc::HeadsView<float> b,
                         const Positions& positions, std::vector<double>& into) {
    return message_of<ShapeError>(
        [&] { posenc::accumulate_frequency_gradient(r, a, b, positions, into); });
  };
  const auto narrow = [](auto& x) { return posenc::slice_features(x.view(), 0, 4); };
  CHECK(error(rope, y.view(), narrow(g), one, three) ==
        name + "rotated [1, 4, 2, 6] and gradient [1, 4, 2, 4] must have the same shape");
  CHECK(error(rope, narrow(y), narrow(g), one, three) ==
        name + "head_dim (4) must include the rotary channels [0, 6); x is [1, 4, 2, 4]");
  CHECK(error(rope, y.view(), g.view(), two, three) ==
        name + "positions must have 1 axis but have 2");
  CHECK(error(rope, y.view(), g.view(), one, twelve) ==
        name + "grad_inv_freq must have 3 values but has 12");
  CHECK(error(mixed, y.view(), g.view(), one, twelve) ==
        name + "positions must have 2 axes but have 1");
  CHECK(error(mixed, y.view(), g.view(), two, three) ==
        name + "grad_inv_freq must have 12 values but has 3");
  const auto one_head = [](auto& x) { return posenc::slice_heads(x.view(), 0, 1); };
  CHECK(error(mixed, one_head(y), one_head(g), two, twelve) ==
        name + "there are frequencies for 2 heads; x is [1, 4, 1, 6]");
  CHECK(three == std::vector<double>(3, 5.0));
  CHECK(twelve == std::vector<double>(12, 5.0));
}

}  // namespace frequency_gradient_test
