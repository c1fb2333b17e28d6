// SPDX-License-Identifier: MIT
// Sinusoidal positions of the original Transformer, computed while they are added.
#include "cases.hpp"
#include <posenc/additive/sinusoidal.hpp>

#include <Eigen/Core>

#include <cmath>

namespace {

using bench::Index;
using Matrix = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index batch = 8, dim = 512;

/// Computes P with std::sin and std::cos of double.
void plain_table(const Eigen::ArrayXd& inv_freq, Matrix& table) {
  for (Index s = 0; s < table.rows(); ++s) {
    for (Index i = 0; i < dim / 2; ++i) {
      const double angle = static_cast<double>(s) * inv_freq[i];
      table(s, 2 * i) = static_cast<float>(std::sin(angle));
      table(s, 2 * i + 1) = static_cast<float>(std::cos(angle));
    }
  }
}

/// Computes P with Eigen's sin and cos of float.
void eigen_table(Matrix& table) {
  using Columns = Eigen::Map<Matrix, 0, Eigen::Stride<Eigen::Dynamic, 2>>;
  const Eigen::VectorXf positions =
      Eigen::VectorXf::LinSpaced(table.rows(), 0, static_cast<float>(table.rows() - 1));
  const Eigen::RowVectorXf exponents = Eigen::RowVectorXf::LinSpaced(
      dim / 2, 0, static_cast<float>(dim - 2) / static_cast<float>(dim));
  const Matrix angles =
      (positions * (exponents.array() * -std::log(10000.0F)).exp().matrix()).array();
  const Eigen::Stride<Eigen::Dynamic, 2> every_other(dim, 2);
  Columns(table.data(), table.rows(), dim / 2, every_other) = angles.sin();
  Columns(table.data() + 1, table.rows(), dim / 2, every_other) = angles.cos();
}

void sinusoidal_case(benchmark::State& state, Index seq) {
  bench::Embeddings x(batch, seq, dim);
  x.setConstant(1);
  Matrix table(seq, dim);
  Eigen::ArrayXd inv_freq(dim / 2);
  for (Index i = 0; i < dim / 2; ++i) {
    inv_freq[i] = std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
  }
  const auto positions = posenc::Positions::range(0, seq);
  const auto view = posenc::bsd(x);
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = dim, .layout = posenc::SinusoidalLayout::Interleaved});
  bench::Comparison(state, [&] { sinusoidal.add_to(view, positions); })
      .beside("vs_limit", bench::scale(x.data(), x.size()))
      .faster_than("vs_plain",
                   [&] {
                     plain_table(inv_freq, table);
                     bench::plain_add(x, table.data());
                   })
      .faster_than("vs_eigen",
                   [&] {
                     eigen_table(table);
                     bench::eigen_add(x, table.data());
                   })
      .measure(2 * x.size() * Index{sizeof(float)});
}

void add_sinusoidal() {
  for (const Index seq : {64, 512, 4096}) {
    bench::add("additive/transformer_base/batch_8_x_" + std::to_string(seq) + "/sinusoidal",
               [seq](benchmark::State& state) { sinusoidal_case(state, seq); });
  }
}

const bool added = (add_sinusoidal(), true);

}  // namespace
