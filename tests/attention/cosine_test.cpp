// SPDX-License-Identifier: MIT
// Tests queries and keys of cosine attention, whose scores attention() computes.
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/cosine.hpp>

#include <Eigen/Core>

#include <cmath>
#include <limits>
#include <vector>

namespace cosine_test {

using posenc::HeadsView;
using posenc::Index;
using support::message_of;

TEST_CASE("cosine attention: scores are those of the cosine", "[cosine]") {
  constexpr Index seq = 3, heads = 2, dim = 5;
  std::vector<float> q(seq * heads * dim), k(q.size());
  support::Random random(3);
  random.fill_normal(std::span(q));
  random.fill_normal(std::span(k));
  const auto q_before = q, k_before = k;
  const HeadsView<float> queries{q.data(), 1, seq, heads, dim}, keys{k.data(), 1, seq, heads, dim};
  // The second logit exceeds the clamp, so its factor is 100.
  const std::vector<double> logit_scale{std::log(10.0), 7};
  posenc::cosine_queries(queries, logit_scale);
  posenc::cosine_keys(keys);
  std::vector<float> out(q.size()), scores(heads * seq * seq);
  posenc::attention(
      queries, keys, keys, HeadsView<float>{out.data(), 1, seq, heads, dim},
      {.scale = 1, .causal = posenc::Causal::No}, {},
      {.weights = {scores.data(), 1, heads, seq, seq}, .returned = posenc::ReturnedScores::Masked});

  const HeadsView<const float> a{q_before.data(), 1, seq, heads, dim};
  const HeadsView<const float> b{k_before.data(), 1, seq, heads, dim};
  for (Index h = 0; h < heads; ++h) {
    for (Index i = 0; i < seq; ++i) {
      for (Index j = 0; j < seq; ++j) {
        double aa = 0, ab = 0, bb = 0;
        for (Index d = 0; d < dim; ++d) {
          const auto x = static_cast<double>(a.row(0, i, h)[d]);
          const auto y = static_cast<double>(b.row(0, j, h)[d]);
          aa += x * x;
          ab += x * y;
          bb += y * y;
        }
        const double want = (h == 0 ? 10 : 100) * ab / std::sqrt(aa) / std::sqrt(bb);
        CHECK(scores[static_cast<std::size_t>((h * seq + i) * seq + j)] ==
              Approx(want).margin(3e-5));
      }
    }
  }
}

TEMPLATE_TEST_CASE("cosine attention: unit vectors, by hand", "[cosine]", float, double,
                   Eigen::half) {
  const auto nan = std::numeric_limits<TestType>::quiet_NaN();
  std::vector<TestType> x{TestType(3), TestType(-4), TestType(0), TestType(0), nan, TestType(1)};
  const HeadsView<TestType> view{x.data(), 1, 3, 1, 2};
  posenc::cosine_keys(view);
  CHECK(static_cast<double>(x[0]) == Approx(0.6).epsilon(5e-4));
  CHECK(static_cast<double>(x[1]) == Approx(-0.8).epsilon(5e-4));
  CHECK(x[2] == TestType(0));  // a vector of zeros stays zero
  CHECK(x[3] == TestType(0));
  CHECK(static_cast<float>(x[4]) != static_cast<float>(x[4]));
  CHECK(static_cast<float>(x[5]) != static_cast<float>(x[5]));
}

TEST_CASE("cosine attention: a vector shorter than 1e-12 is divided by that, as in torch",
          "[cosine]") {
  std::vector<double> x{3e-13, 0};
  posenc::cosine_queries(HeadsView<double>{x.data(), 1, 1, 1, 2}, std::vector<double>{0});
  CHECK(x[0] == Approx(0.3).epsilon(1e-15));
}

TEST_CASE("cosine attention: vectors whose squares are beyond a double become unit vectors",
          "[cosine]") {
  for (const double far : {0x1p512, 0x1p1000}) {
    CAPTURE(far);
    std::vector<double> x{3 * far, -4 * far}, grad{5, 10};
    const HeadsView<double> view{x.data(), 1, 1, 1, 2};
    posenc::cosine_keys_backward(view, HeadsView<double>{grad.data(), 1, 1, 1, 2});
    // Component of the gradient orthogonal to (3, -4) / 5, divided by the length.
    CHECK(grad[0] * far == Approx(8 / 5.0).epsilon(1e-15));
    CHECK(grad[1] * far == Approx(6 / 5.0).epsilon(1e-15));
    posenc::cosine_keys(view);
    CHECK(x[0] == Approx(0.6).epsilon(1e-15));
    CHECK(x[1] == Approx(-0.8).epsilon(1e-15));
  }
}

TEST_CASE("cosine attention: needs a scale per head", "[cosine]") {
  std::vector<float> x(8, 1);
  const HeadsView<float> view{x.data(), 1, 1, 2, 4};
  CHECK(message_of<posenc::ShapeError>(
            [&] { posenc::cosine_queries(view, std::vector<double>{1}); }) ==
        "posenc::cosine_queries: logit_scale must have a value for each head but has 1; q is "
        "[1, 1, 2, 4]");
  std::vector<double> one(1);
  CHECK(message_of<posenc::ShapeError>([&] {
          posenc::cosine_queries_backward(view, std::vector<double>{1, 2}, view, one);
        }) ==
        "posenc::cosine_queries_backward: logit_scale must have one value per head, and "
        "logit_gradient one per head or none, but they have 2 and 1; q is [1, 1, 2, 4]");
  CHECK_THROWS_AS(posenc::cosine_keys(HeadsView<float>{nullptr, 1, 1, 2, 4}), posenc::ShapeError);
  HeadsView<float> shared = view;
  shared.head_stride = 0;
  CHECK_THROWS_AS(posenc::cosine_keys(shared), posenc::ShapeError);
  CHECK(x == std::vector<float>(8, 1));
}

TEST_CASE("cosine attention: gradients of queries and keys", "[cosine]") {
  constexpr Index seq = 3, heads = 3, dim = 4;
  std::vector<double> x(seq * heads * dim), of_result(x.size());
  support::Random random(5);
  random.fill_normal(std::span(x));
  random.fill_normal(std::span(of_result));
  for (double& tiny : std::span(x).first(dim)) tiny *= 1e-14;  // a length that is clamped
  std::vector<double> logit_scale{0.5, std::log(10.0), 7};     // the last one is clamped
  const auto view = [&](std::vector<double>& v) {
    return HeadsView<double>{v.data(), 1, seq, heads, dim};
  };
  const auto loss = [&](bool queries) {
    auto y = x;
    queries ? posenc::cosine_queries(view(y), logit_scale) : posenc::cosine_keys(view(y));
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * of_result[i];
    return sum;
  };
  const auto slope = [&](double& of, double step, bool queries) {
    const double at = of;
    of = at + step;
    const double above = loss(queries);
    of = at - step;
    const double below = loss(queries);
    of = at;
    return (above - below) / (2 * step);
  };
  for (const bool queries : {true, false}) {
    auto grad = of_result;
    std::vector<double> of_logits(heads, 1.0);
    if (queries) {
      posenc::cosine_queries_backward(view(x), logit_scale, view(grad), of_logits);
      for (std::size_t h = 0; h < of_logits.size(); ++h) {
        CHECK(of_logits[h] - 1 == Approx(slope(logit_scale[h], 1e-5, true)).margin(1e-8));
      }
    } else {
      posenc::cosine_keys_backward(view(x), view(grad));
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double step = i < dim ? 1e-17 : 1e-5;
      CHECK(grad[i] == Approx(slope(x[i], step, queries)).epsilon(1e-6).margin(1e-8));
    }
  }
  std::vector<double> few(2), small(dim);
  CHECK_THROWS_AS(posenc::cosine_queries_backward(view(x), few, view(of_result)),
                  posenc::ShapeError);
  CHECK_THROWS_AS(posenc::cosine_queries_backward(view(x), logit_scale, view(of_result), few),
                  posenc::ShapeError);
  CHECK_THROWS_AS(
      posenc::cosine_keys_backward(view(x), HeadsView<double>{small.data(), 1, 1, 1, dim}),
      posenc::ShapeError);
}

// The bits must not depend on the compiler's contraction of products into sums.
TEST_CASE("cosine attention: the gradient of a logit is one chain of multiply-adds", "[cosine]") {
  using posenc::mul_add;
  constexpr Index seq = 40, dim = 3;
  std::vector<double> x(seq * dim), grad(x.size()), of_logit{0};
  support::Random random(7);
  random.fill_normal(std::span(x));
  random.fill_normal(std::span(grad));
  double sum = 0;
  const double scale = std::exp(0.3);
  for (std::size_t n = 0; n < x.size(); n += dim) {
    double square = 0, along = 0;
    for (std::size_t d = n; d < n + dim; ++d) square = mul_add(x[d], x[d], square);
    const double factor = 1 / std::sqrt(square);
    for (std::size_t d = n; d < n + dim; ++d) along = mul_add(x[d] * factor, grad[d], along);
    sum = mul_add(scale, along, sum);
  }
  posenc::cosine_queries_backward(HeadsView<const double>{x.data(), 1, seq, 1, dim},
                                  std::vector<double>{0.3},
                                  HeadsView<double>{grad.data(), 1, seq, 1, dim}, of_logit);
  CHECK(of_logit[0] == sum);
}

}  // namespace cosine_test
