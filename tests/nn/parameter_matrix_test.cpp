// SPDX-License-Identifier: MIT
// Tests ParameterMatrix, which owns the parameters of layers.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/nn/linear.hpp>
#include <posenc/nn/parameter_matrix.hpp>

#include <Eigen/Core>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace parameter_matrix_test {

using posenc::Index;
using posenc::ShapeError;
using support::message_of;

TEMPLATE_TEST_CASE("ParameterMatrix: dense rows that start as zeros", "[parameters]", float,
                   double) {
  using T = TestType;
  posenc::ParameterMatrix<T> w(3, 4);
  CHECK((w.rows() == 3 && w.cols() == 4 && w.size() == 12));
  CHECK(reinterpret_cast<std::uintptr_t>(w.data()) % 64 == 0);
  for (Index n = 0; n < 12; ++n) CHECK(w.data()[n] == 0);
  w(1, 2) = 5;
  CHECK(w.data()[6] == 5);
  CHECK(w(6) == 5);
  CHECK(w.view().row(1)[2] == 5);
  CHECK(std::as_const(w).view().extents() == std::array<Index, 2>{3, 4});
  auto copy = w;
  CHECK(copy == w);
  copy.fill(T{2});
  CHECK(copy(2, 3) == 2);
  CHECK(w(2, 3) == 0);
  CHECK(copy != w);
  copy.resize(4, 3);
  CHECK(copy == posenc::ParameterMatrix<T>(4, 3));
  CHECK(copy != posenc::ParameterMatrix<T>(3, 4));
  CHECK(posenc::ParameterMatrix<T>(2, 3) != posenc::ParameterMatrix<T>(4, 3));
  copy(0) = std::numeric_limits<T>::quiet_NaN();
  CHECK(copy != copy);
  CHECK(posenc::ParameterMatrix<T>().size() == 0);
}

TEMPLATE_TEST_CASE("ParameterMatrix: copied from Eigen and mapped by it", "[parameters]", float,
                   double) {
  using T = TestType;
  using Matrix = typename posenc::Linear<T>::Matrix;
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> by_column(2, 3);
  by_column << 1, 2, 3, 4, 5, 6;
  posenc::Linear<T> layer(3, 2, true);
  layer.weight = by_column;
  for (Index n = 0; n < 6; ++n) CHECK(layer.weight.data()[n] == static_cast<T>(n + 1));
  layer.weight = by_column * T{2} + Matrix::Ones(2, 3);
  CHECK(layer.weight(1, 0) == 9);
  layer.bias = Eigen::Matrix<T, Eigen::Dynamic, 1>::Constant(2, T{7});
  CHECK((layer.bias.size() == 2 && layer.bias(1) == 7));
  Eigen::Map<Matrix>(layer.weight.data(), layer.weight.rows(), layer.weight.cols()).setIdentity();
  CHECK(layer.weight == posenc::ParameterMatrix<T>(Matrix::Identity(2, 3)));
  const T x[] = {1, 2, 3};
  T y[2] = {};
  layer.apply(posenc::EmbeddingsView<const T>{x, 1, 1, 3, 3, 3},
              posenc::EmbeddingsView<T>{y, 1, 1, 2, 2, 2});
  CHECK((y[0] == 8 && y[1] == 9));
}

TEST_CASE("ParameterMatrix: rejects impossible extents", "[parameters][errors]") {
  constexpr Index most = std::numeric_limits<Index>::max();
  using W = posenc::ParameterMatrix<float>;
  CHECK(message_of<ShapeError>([] { W(-1, 2); }) ==
        "posenc::ParameterMatrix: rows (-1) and cols (2) must not be negative, and their product "
        "must "
        "fit into memory");
  CHECK_THROWS_AS(W(most, 2), ShapeError);
  CHECK_THROWS_AS(W(most / 2, 1), ShapeError);
  CHECK_THROWS_AS(posenc::Linear<float>(most, 3, false), posenc::ConfigError);
  CHECK_THROWS_AS(posenc::Linear<float>(3, -3, true), posenc::ConfigError);
}

TEST_CASE("ParameterMatrix: moved-from parameters are empty, and their layer rejects calls",
          "[parameters]") {
  posenc::Linear<float> layer(3, 2, true);
  const auto taken = std::move(layer.weight);
  CHECK(taken.size() == 6);
  CHECK(layer.weight.size() == 0);  // NOLINT(bugprone-use-after-move)
  const float x[3] = {};
  float out[2] = {7, 7};
  CHECK_THROWS_AS(layer.apply({.data = x, .batch = 1, .seq = 1, .dim = 3},
                              {.data = out, .batch = 1, .seq = 1, .dim = 2}),
                  ShapeError);
  layer.randomize(1);
  CHECK(out[0] == 7);
}

}  // namespace parameter_matrix_test
