// SPDX-License-Identifier: MIT
// Swin-V2's network that computes a window's table, and its gradient.
#include "bias/tiles.hpp"
#include "reference/window_bias.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/bias/log_cpb.hpp>
#include <posenc/bias/window.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace log_cpb_test {

using posenc::ConfigError;
using posenc::Index;
using posenc::LogCpb;
using posenc::LogCpbConfig;
using posenc::LogCpbParameters;
using posenc::MatrixView;
using posenc::ShapeError;
using support::message_of;

namespace {

LogCpbParameters random_parameters(std::size_t width, std::size_t heads) {
  support::Random random(5);
  LogCpbParameters p{.hidden_weight = std::vector<double>(2 * width),
                     .hidden_bias = std::vector<double>(width),
                     .output_weight = std::vector<double>(width * heads)};
  for (auto* values : {&p.hidden_weight, &p.hidden_bias, &p.output_weight}) {
    random.fill_normal(*values);
  }
  return p;
}

reference::Matrix matrix(const std::vector<double>& values, Index cols) {
  return {static_cast<Index>(values.size()) / cols, cols, values};
}

MatrixView<double> table_of(std::vector<double>& values, Index cols) {
  return {values.data(), static_cast<Index>(values.size()) / cols, cols};
}

std::vector<double> evaluated(const LogCpb& network) {
  std::vector<double> table(
      static_cast<std::size_t>(network.index().table_rows() * network.heads()));
  network.evaluate(table_of(table, network.heads()));
  return table;
}

constexpr LogCpbConfig small{.rows = 3, .cols = 2};

}  // namespace

TEST_CASE("LogCpb: Swin-V2's coordinates and sigmoid, by hand", "[log_cpb]") {
  const auto near = [](double want) { return Approx(want).epsilon(1e-9).margin(0); };
  CHECK(LogCpb::coordinate(0, 8) == 0);
  CHECK(LogCpb::coordinate(1, 8) == near(0.3665118912));
  CHECK(LogCpb::coordinate(-2, 8) == near(-0.5720690113));
  CHECK(LogCpb::coordinate(3, 8) == near(0.7156137961));
  CHECK(LogCpb::coordinate(7, 8) == near(1.056641667));
  // A window of 16 with a network trained for 8.
  CHECK(LogCpb::coordinate(-8, 8) == near(-1.114130732));
  CHECK(LogCpb::coordinate(15, 8) == near(1.393776588));
  CHECK(LogCpb::coordinate(0, 1) == 0);
  // One token, so the result is the ReLU of the bias times the output's weight.
  for (const auto& [x, want] :
       {std::pair<double, double>{-1, 4.303062742}, {0, 8}, {0.5, 9.959349299}, {3, 15.24118603}}) {
    const LogCpb network({.hidden_weight = {7, 9}, .hidden_bias = {1}, .output_weight = {x}},
                         {.rows = 1, .cols = 1});
    CHECK(evaluated(network)[0] == near(want));
  }
}

TEST_CASE("LogCpb: the table equals the reference", "[log_cpb]") {
  const std::size_t width = 17, heads = 3;
  const LogCpbParameters p = random_parameters(width, heads);
  for (const LogCpbConfig& config :
       {LogCpbConfig{.rows = 3, .cols = 3}, LogCpbConfig{.rows = 2, .cols = 5},
        LogCpbConfig{.rows = 6, .cols = 4, .pretrained_rows = 3, .pretrained_cols = 9}}) {
    const LogCpb network(p, config);
    CHECK(network.heads() == 3);
    const bool same = config.pretrained_rows == 0;
    const auto want = reference::log_cpb_table(
        config.rows, config.cols, same ? config.rows : config.pretrained_rows,
        same ? config.cols : config.pretrained_cols, matrix(p.hidden_weight, 2),
        matrix(p.hidden_bias, 1), matrix(p.output_weight, static_cast<Index>(width)));
    const auto got = evaluated(network);
    REQUIRE(got.size() == want.values.size());
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      worst = std::max(worst, std::abs(got[i] - want.values[i]));
    }
    CHECK(worst < 1e-13);
    // Other types hold the same numbers, rounded.
    std::vector<float> floats(got.size());
    network.evaluate(MatrixView<float>{floats.data(), network.index().table_rows(), 3});
    CHECK(std::equal(floats.begin(), floats.end(), got.begin(),
                     [](float f, double d) { return f == static_cast<float>(d); }));
  }
}

TEST_CASE("LogCpb: a window that is one token high has distances in one axis", "[log_cpb]") {
  const LogCpb line(random_parameters(5, 1), {.rows = 1, .cols = 3});
  const LogCpb square(random_parameters(5, 1), {.rows = 3, .cols = 3});
  const auto all = evaluated(square);
  CHECK(evaluated(line) == std::vector<double>(all.begin() + 10, all.begin() + 15));
}

TEST_CASE("LogCpb: the gradient of the network is the derivative of its biases", "[log_cpb]") {
  // Loss: the sum of G(h, i, j) times the bias of head h, query i and key j, computed through the
  // table.
  const std::size_t width = 6, heads = 2, tokens = 6;
  const LogCpbParameters parameters = random_parameters(width, heads);
  std::vector<double> grad(heads * tokens * tokens);
  support::Random(8).fill_normal(grad);
  const auto positions = tiles::run(0, tokens);
  const auto head_grad = [&](Index head) {
    return MatrixView<const double>{grad.data() + static_cast<std::size_t>(head) * tokens * tokens,
                                    tokens, tokens};
  };
  const auto objective = [&](const LogCpbParameters& p) {
    auto table = evaluated(LogCpb(p, small));
    const posenc::WindowBias bias(table_of(table, 2), {.rows = 3, .cols = 2});
    double sum = 0;
    for (Index head = 0; head < 2; ++head) {
      const auto added = tiles::added<double>(bias, head, positions, positions);
      for (std::size_t n = 0; n < added.size(); ++n) sum += added[n] * head_grad(head).data[n];
    }
    return sum;
  };

  const LogCpb network(parameters, small);
  auto table = evaluated(network);
  const posenc::WindowBias bias(table_of(table, 2), {.rows = 3, .cols = 2});
  std::vector<double> table_grad(table.size());
  for (Index head = 0; head < 2; ++head) {
    bias.add_gradient(head, positions, positions, head_grad(head), table_of(table_grad, 2));
  }
  LogCpbParameters gradient = network.zero_gradient();
  gradient.hidden_bias[0] = 1;  // earlier contents are kept
  network.add_gradient<double>(table_of(table_grad, 2), gradient);
  gradient.hidden_bias[0] -= 1;

  for (const auto member : {&LogCpbParameters::hidden_weight, &LogCpbParameters::hidden_bias,
                            &LogCpbParameters::output_weight}) {
    const auto& got = gradient.*member;
    for (std::size_t n = 0; n < got.size(); ++n) {
      CAPTURE(n);
      const double step = 1e-5;
      LogCpbParameters up = parameters, down = parameters;
      (up.*member)[n] += step;
      (down.*member)[n] -= step;
      const double slope = (objective(up) - objective(down)) / (2 * step);
      CHECK(got[n] == Approx(slope).epsilon(1e-6).margin(1e-6));
    }
  }
}

TEST_CASE("LogCpb: rejects invalid networks", "[log_cpb]") {
  const auto refuse = [](const LogCpbParameters& p, const LogCpbConfig& config) {
    return message_of<ConfigError>([&] { LogCpb(p, config); });
  };
  const LogCpbParameters good = random_parameters(3, 2);
  LogCpbParameters bad = good;
  bad.output_weight.pop_back();
  CHECK(refuse(bad, small) ==
        "posenc::LogCpb: hidden_weight must be [width, 2], hidden_bias [width] and output_weight "
        "[heads, width] but have 6, 3 and 5 values");
  bad = good;
  bad.hidden_bias[1] = std::numeric_limits<double>::infinity();
  CHECK(refuse(bad, small) == "posenc::LogCpb: weights must be finite but one is inf");
  for (std::vector<double>* const weights :
       {&bad.hidden_weight, &bad.hidden_bias, &bad.output_weight}) {
    // Weights that would add infinities of both signs.
    bad = good;
    weights->back() = -1e300;
    CHECK(refuse(bad, small)
              .find("posenc::LogCpb: width times the greatest product of weights must "
                    "not exceed 1e15 but the product is ") == 0);
  }
  CHECK(refuse(good, {.rows = 2, .cols = 2, .pretrained_rows = 8}) ==
        "posenc::LogCpb: pretrained_rows and pretrained_cols must both be 0 or both be at least 2 "
        "but are 8 and 0");
  CHECK_THROWS_AS(LogCpb(good, {.rows = 2}), ConfigError);
  const LogCpb network(good, small);
  std::vector<double> table(30);
  CHECK(message_of<ShapeError>([&] { network.evaluate(table_of(table, 3)); }) ==
        "posenc::LogCpb::evaluate: table must have 15 rows and 2 columns but is [10, 3]");
  LogCpbParameters gradient;
  CHECK(
      message_of<ShapeError>([&] { network.add_gradient<double>(table_of(table, 2), gradient); }) ==
      "posenc::LogCpb::add_gradient: gradient must have the shape of the parameters, width 3 and 2 "
      "heads");
}

}  // namespace log_cpb_test
