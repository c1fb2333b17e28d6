// SPDX-License-Identifier: MIT
// Learned positions: x += W[position], alone and for a batch that shares the table's rows.
#include "cases.hpp"
#include <posenc/additive/learned.hpp>

#include <Eigen/Core>

namespace {

using bench::Index;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void learned_case(benchmark::State& state, Index batch, Index seq, Index dim) {
  bench::Embeddings x(batch, seq, dim);
  x.setConstant(1);
  const Matrix table = Matrix::Constant(seq, dim, 1e-3F);
  const auto positions = posenc::Positions::range(0, seq);
  const auto view = posenc::bsd(x);
  const posenc::Learned learned(posenc::table_view(table));
  bench::Comparison comparison(state, [&] { learned.add_to(view, positions); });
  if (batch == 1) {
    comparison.beside("vs_limit", bench::add_table(x.data(), table.data(), x.size()));
  } else {
    comparison.beside("vs_limit", bench::scale(x.data(), x.size()));
  }
  comparison.faster_than("vs_plain", [&] { bench::plain_add(x, table.data()); })
      .faster_than("vs_eigen", [&] { bench::eigen_add(x, table.data()); })
      .measure((2 * x.size() + table.size()) * Index{sizeof(float)});
}

void add_model(const std::string& model, Index seq, Index dim) {
  for (const Index batch : {1, 8, 64}) {
    bench::add("additive/" + model + "/batch_" + std::to_string(batch) + "/learned",
               [=](benchmark::State& state) { learned_case(state, batch, seq, dim); });
  }
}

const bool added = (add_model("vit_l", 577, 1024), add_model("bert_base", 512, 768), true);

}  // namespace
