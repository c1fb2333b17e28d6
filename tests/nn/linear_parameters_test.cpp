// SPDX-License-Identifier: MIT
// Parameters of a linear layer and their random values.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/nn/linear_parameters.hpp>

#include <Eigen/Core>

#include <cmath>
#include <cstddef>
#include <set>
#include <string>

namespace linear_parameters_test {

using posenc::LinearParameters;

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

TEMPLATE_TEST_CASE(
    "LinearParameters: random weights depend on the seed alone and are Glorot uniform", "[linear]",
    float, double) {
  using T = TestType;
  LinearParameters<T> a(60, 40, true), b(60, 40, false), c(60, 40, true);
  CHECK(a.weight == posenc::ParameterMatrix<T>(40, 60));
  CHECK(a.bias == posenc::ParameterMatrix<T>(1, 40));
  a.bias.fill(1);
  a.randomize(5);
  b.randomize(5);
  c.randomize(6);
  CHECK(a.weight == b.weight);
  CHECK(a.weight != c.weight);
  CHECK(a.bias == posenc::ParameterMatrix<T>(1, 40));
  const double limit = std::sqrt(6.0 / 100);
  const auto weights =
      Eigen::Map<const Matrix<T>>(a.weight.data(), 40, 60).template cast<double>().eval();
  // Rounding to T may reach the limit but not exceed it.
  CHECK(weights.cwiseAbs().maxCoeff() <= limit * (1 + 0x1p-23));
  const double n = 60 * 40;
  // Uniform numbers in +-limit have variance limit^2 / 3 and fourth moment limit^4 / 5. The bounds
  // are five standard deviations of the mean and of the mean square.
  CHECK(std::abs(weights.mean()) <= 5 * limit / std::sqrt(3 * n));
  CHECK(std::abs(weights.array().square().mean() - limit * limit / 3) <=
        5 * limit * limit * std::sqrt((1.0 / 5 - 1.0 / 9) / n));
  CHECK(std::set<T>(a.weight.data(), a.weight.data() + a.weight.size()).size() >
        static_cast<std::size_t>(0.99 * n));
}

TEST_CASE("LinearParameters: the first random weights are the same on every platform", "[linear]") {
  LinearParameters<double> layer(2, 2, false);
  layer.randomize(1);
  // Expected: mix_bits(mix_bits(1) + i) / 2^64 of SplitMix64, scaled to +-sqrt(3/2), computed with
  // Python's integers.
  CHECK(layer.weight(0, 0) == Approx(-0.32286842940251825).epsilon(1e-15));
  CHECK(layer.weight(0, 1) == Approx(0.0654454561009187).epsilon(1e-15));
  CHECK(layer.weight(1, 1) == Approx(0.4713934861943971).epsilon(1e-15));
}

TEST_CASE(
    "LinearParameters: parameters of a layer are counted, and their gradients have their shapes",
    "[linear]") {
  const LinearParameters<float> with(3, 5, true), without(3, 5, false), none;
  CHECK(with.in_dim() == 3);
  CHECK(with.out_dim() == 5);
  CHECK(with.parameter_count() == 20);
  CHECK(without.parameter_count() == 15);
  CHECK(none.parameter_count() == 0);
  LinearParameters<float> trained = with;
  trained.weight.fill(2);
  trained.bias.fill(3);
  const auto zeros = trained.zero_gradient();
  CHECK(zeros.weight == with.weight);
  CHECK(zeros.bias == with.bias);
  CHECK(without.zero_gradient().bias.size() == 0);
  CHECK(without.bias.cols() == 0);
}

TEST_CASE("LinearParameters: invalid extents of a weight are rejected", "[linear][errors]") {
  const auto error = [](posenc::Index in, posenc::Index out) {
    return support::message_of<posenc::ConfigError>(
        [&] { LinearParameters<double>(in, out, true); });
  };
  const std::string rule = "] must have no negative extent and must fit into memory";
  CHECK(error(-1, 2) ==
        "posenc::Linear: the weight [2, -1] must have no negative extent and must fit into memory");
  CHECK(error(1, posenc::Index{1} << 54) ==
        "posenc::Linear: the weight [18014398509481984, 1] must have no negative extent and must "
        "fit into memory");
  CHECK_NOTHROW(LinearParameters<double>::check_dims(1, posenc::Index{1} << 53));
}

}  // namespace linear_parameters_test
