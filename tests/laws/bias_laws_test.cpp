// SPDX-License-Identifier: MIT
// Laws of ScoreBias for all of its models, including a user's bias.
#include "laws/bias_laws.hpp"

#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/table_gradient.hpp>
#include <posenc/bias/window.hpp>
#include <posenc/concepts.hpp>
#include <posenc/tensor/adapt.hpp>

#include <Eigen/Core>

#include <cmath>
#include <concepts>
#include <initializer_list>
#include <span>
#include <vector>

namespace bias_laws_test {

using posenc::AlibiForm;
using posenc::Index;

namespace user {

/// A user's bias that falls with the logarithm of the distance.
struct LogDistance {
  double strength = 1;

  template <std::floating_point Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
    for (Index i = 0; i < tile.rows; ++i) {
      const double q = query_positions[static_cast<std::size_t>(i)];
      for (Index j = 0; j < tile.cols; ++j) {
        const double distance = std::abs(q - key_positions[static_cast<std::size_t>(j)]);
        tile.row(i)[j] -=
            static_cast<Real>(strength / static_cast<double>(head + 1) * std::log1p(distance));
      }
    }
  }
};

/// Wrong bias: uses the tile's corner as origin, which is right for complete matrices only.
struct TileRelative {
  template <std::floating_point Real>
  void add(Index, std::span<const double>, std::span<const double>,
           posenc::MatrixView<Real> tile) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) tile.row(i)[j] -= static_cast<Real>(i - j);
    }
  }
};

/// Wrong bias: overwrites scores instead of adding to them.
struct Overwriting {
  template <std::floating_point Real>
  void add(Index, std::span<const double>, std::span<const double>,
           posenc::MatrixView<Real> tile) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) tile.row(i)[j] = 1;
    }
  }
};

/// Class derived from a bias of posenc, with another add().
struct SteeperAlibi : posenc::Alibi {
  using Alibi::Alibi;
  template <std::floating_point Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
    for (int n = 0; n < 2; ++n) Alibi::add(head, query_positions, key_positions, tile);
  }
};

}  // namespace user

TEMPLATE_TEST_CASE("bias laws: nothing", "[laws]", float, double) {
  laws::check_bias<TestType>(posenc::NoBias{}, 2);
}

TEMPLATE_TEST_CASE("bias laws: ALiBi", "[laws]", float, double) {
  for (const AlibiForm form : {AlibiForm::Causal, AlibiForm::Symmetric}) {
    for (const Index heads : {1, 8, 12}) {
      CAPTURE(static_cast<int>(form), heads);
      laws::check_bias<TestType>(posenc::Alibi({.heads = heads, .form = form}), heads);
    }
  }
  laws::check_bias<TestType>(
      posenc::Alibi({.heads = 3, .form = AlibiForm::Causal, .max_bias = 4, .scale = 0.125}), 3);
}

TEMPLATE_TEST_CASE("bias laws: T5", "[laws]", float, double) {
  using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Table table = Table::Random(32, 3);
  for (const auto direction : {posenc::T5Direction::Causal, posenc::T5Direction::Bidirectional}) {
    laws::check_bias<TestType>(posenc::T5Bias(posenc::table_view(table), {.direction = direction}),
                               3);
  }
}

TEMPLATE_TEST_CASE("bias laws: a window's table", "[laws]", float, double) {
  using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  for (const bool class_token : {false, true}) {
    const posenc::WindowConfig window{.rows = 3, .cols = 6, .class_token = class_token};
    const Table table = Table::Random(posenc::WindowIndex(window).table_rows(), 2);
    laws::check_bias<TestType>(posenc::WindowBias(posenc::table_view(table), window), 2);
  }
}

TEMPLATE_TEST_CASE("bias laws: KERPLE", "[laws]", float, double) {
  for (const auto form : {posenc::KerpleForm::Logarithmic, posenc::KerpleForm::Power}) {
    laws::check_bias<TestType>(posenc::Kerple({.form = form, .r1 = {1.5, 0.3}, .r2 = {0.7, 1.25}}),
                               2);
  }
}

TEMPLATE_TEST_CASE("bias laws: FIRE", "[laws]", float, double) {
  laws::check_bias<TestType>(posenc::Fire({.c = 0.2,
                                           .threshold = 6,
                                           .hidden_weight = {1, -2, 0.5},
                                           .hidden_bias = {-0.25, 1, 0.75},
                                           .output_weight = {1, -1, 2, 0.5, 0.25, -3},
                                           .output_bias = {0.125, -1}}),
                             2);
}

TEMPLATE_TEST_CASE("bias laws: a user's bias", "[laws]", float, double) {
  laws::check_bias<TestType>(user::LogDistance{.strength = 0.3}, 3);
}

TEMPLATE_TEST_CASE("bias laws: scores of every element type", "[laws]", float, double, Eigen::half,
                   Eigen::bfloat16) {
  STATIC_REQUIRE(posenc::ScoreBias<posenc::NoBias, TestType>);
  STATIC_REQUIRE(posenc::ScoreBias<posenc::Alibi, TestType>);
  STATIC_REQUIRE(posenc::ScoreBias<posenc::T5Bias<TestType>, TestType>);
  STATIC_REQUIRE(posenc::ScoreBias<posenc::WindowBias<TestType>, TestType>);
  STATIC_REQUIRE(posenc::ScoreBias<posenc::Kerple, TestType>);
  STATIC_REQUIRE(posenc::ScoreBias<posenc::Fire, TestType>);
  STATIC_REQUIRE(posenc::ScoreBias<user::LogDistance, TestType>);
  STATIC_REQUIRE(posenc::DistanceBias<posenc::Alibi, TestType>);
  STATIC_REQUIRE(posenc::DistanceBias<posenc::T5Bias<TestType>, TestType>);
  STATIC_REQUIRE(posenc::DistanceBias<posenc::Kerple, TestType>);
  STATIC_REQUIRE(!posenc::DistanceBias<posenc::Fire, TestType>);
  STATIC_REQUIRE(!posenc::DistanceBias<user::LogDistance, TestType>);
  STATIC_REQUIRE(!posenc::DistanceBias<user::SteeperAlibi, TestType>);
  STATIC_REQUIRE(!posenc::ScoreBias<posenc::NoRotation, TestType>);
  STATIC_REQUIRE(posenc::LearnedScoreBias<posenc::Alibi, TestType, std::vector<double>>);
  STATIC_REQUIRE(
      posenc::LearnedScoreBias<posenc::T5Bias<TestType>, TestType, posenc::MatrixView<float>>);
  STATIC_REQUIRE(
      posenc::LearnedScoreBias<posenc::WindowBias<TestType>, TestType, posenc::MatrixView<float>>);
  STATIC_REQUIRE(posenc::LearnedScoreBias<posenc::Kerple, TestType, posenc::KerpleGradient>);
  STATIC_REQUIRE(posenc::LearnedScoreBias<posenc::Fire, TestType, posenc::FireParameters>);
  STATIC_REQUIRE(!posenc::LearnedScoreBias<user::LogDistance, TestType, std::vector<double>>);
  STATIC_REQUIRE(
      posenc::LearnedTokenBias<posenc::ForgettingBias, TestType, posenc::ForgetGradient>);
  STATIC_REQUIRE(!posenc::LearnedTokenBias<posenc::Alibi, TestType, std::vector<double>>);
}

TEMPLATE_TEST_CASE("gradients of biases: sum up over tiles", "[laws]", float, double) {
  const auto all = [](std::initializer_list<std::vector<double>> parts) {
    std::vector<double> numbers;
    for (const auto& part : parts) numbers.insert(numbers.end(), part.begin(), part.end());
    return numbers;
  };
  const auto table_of = [](const posenc::TableGradient& gradient) {
    const auto table = gradient.view();
    return std::vector<double>(table.data, table.data + table.rows * table.cols);
  };
  laws::check_gradient_sums_over_tiles<TestType>(
      posenc::Alibi({.heads = 3, .form = AlibiForm::Symmetric}), 3,
      [](const std::vector<double>& slopes) { return slopes; });
  for (const auto form : {posenc::KerpleForm::Logarithmic, posenc::KerpleForm::Power}) {
    laws::check_gradient_sums_over_tiles<TestType>(
        posenc::Kerple({.form = form, .r1 = {1.5, 0.3}, .r2 = {0.7, 1.25}}), 2,
        [&](const posenc::KerpleGradient& gradient) {
          return all({gradient.r1, gradient.r2});
        });
  }
  laws::check_gradient_sums_over_tiles<TestType>(
      posenc::Fire({.c = 0.2,
                    .threshold = 6,
                    .hidden_weight = {1, -2, 0.5},
                    .hidden_bias = {-0.25, 1, 0.75},
                    .output_weight = {1, -1, 2, 0.5, 0.25, -3},
                    .output_bias = {0.125, -1}}),
      2, [&](const posenc::FireParameters& gradient) {
        return all({{gradient.c, gradient.threshold},
                    gradient.hidden_weight,
                    gradient.hidden_bias,
                    gradient.output_weight,
                    gradient.output_bias});
      });
  using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Table t5 = Table::Random(32, 2), window = Table::Random(25, 2);
  laws::check_gradient_sums_over_tiles<TestType>(
      posenc::T5Bias(posenc::table_view(t5), {.direction = posenc::T5Direction::Bidirectional}), 2,
      table_of);
  laws::check_gradient_sums_over_tiles<TestType>(
      posenc::WindowBias(posenc::table_view(window), {.rows = 3, .cols = 3}), 2, table_of);
}

TEST_CASE("gradients of biases: other shapes are not added", "[laws][errors]") {
  posenc::TableGradient table(3, 2);
  CHECK(support::message_of<posenc::ShapeError>([&] { table += posenc::TableGradient(2, 3); }) ==
        "posenc::TableGradient: the gradient to add must be [3, 2] but is [2, 3]");
  posenc::KerpleGradient kerple{{1}, {1}};
  CHECK(support::message_of<posenc::ShapeError>([&] {
          kerple += posenc::KerpleGradient{{1}, {}};
        }) ==
        "posenc::KerpleGradient: the gradient to add must have 1 r1 and 1 r2 but has 1 and 0");
  CHECK(kerple.r1[0] == 1);
  posenc::FireParameters fire{
      .hidden_weight = {1}, .hidden_bias = {1}, .output_weight = {1, 1}, .output_bias = {1, 1}};
  CHECK(support::message_of<posenc::ShapeError>([&] { fire += posenc::FireParameters{.c = 2}; }) ==
        "posenc::FireParameters: the parameters to add must have the same shape, width 1 "
        "and 2 heads, but has 0 and 0");
  CHECK(fire.c == 0);
}

TEST_CASE("bias laws: catch a bias relative to the tile", "[laws][!shouldfail]") {
  laws::check_bias<float>(user::TileRelative{}, 1);
}

TEST_CASE("bias laws: catch a bias that replaces scores", "[laws][!shouldfail]") {
  laws::check_bias<float>(user::Overwriting{}, 1);
}

}  // namespace bias_laws_test
