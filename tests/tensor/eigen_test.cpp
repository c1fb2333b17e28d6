// SPDX-License-Identifier: MIT
// Adapters for Eigen::Tensor and TensorMap, in both storage orders and with every order of letters.
#include "support/catch.hpp"
#include <posenc/tensor/eigen.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <array>
#include <type_traits>
#include <vector>

namespace eigen_test {

using posenc::EmbeddingsView;
using posenc::HeadsView;
using posenc::Index;
using posenc::ScoresView;

template <int Rank>
using RowTensor = Eigen::Tensor<float, Rank, Eigen::RowMajor>;
template <int Rank>
using ColTensor = Eigen::Tensor<float, Rank, Eigen::ColMajor>;
using Extents4 = std::array<Index, 4>;
using Extents3 = std::array<Index, 3>;

namespace {

/// Returns a tensor whose elements are 0, 1, 2, ... in memory order.
template <class Tensor, class... Extents>
Tensor counted(Extents... extents) {
  Tensor x(extents...);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i);
  return x;
}

}  // namespace

TEST_CASE("adapters of Eigen: row-major tensors read as their letters say", "[eigen]") {
  const auto x = counted<RowTensor<4>>(2, 3, 4, 5);
  const auto bshd = posenc::bshd(x);
  CHECK(bshd.extents() == Extents4{2, 3, 4, 5});
  CHECK(bshd.row(1, 2, 3)[4] == x(1, 2, 3, 4));
  CHECK(*bshd.row(1, 0, 2) == x(1, 0, 2, 0));

  const auto bhsd = posenc::bhsd(x);
  CHECK(bhsd.extents() == Extents4{2, 4, 3, 5});
  CHECK(bhsd.row(1, 3, 2)[4] == x(1, 2, 3, 4));
  CHECK(*bhsd.row(0, 3, 1) == x(0, 1, 3, 0));

  const auto bhqk = posenc::bhqk(x);
  CHECK(bhqk.extents() == Extents4{2, 3, 4, 5});
  CHECK(bhqk(1, 2, 3, 4) == x(1, 2, 3, 4));
  CHECK(bhqk(0, 2, 1, 3) == x(0, 2, 1, 3));

  const auto y = counted<RowTensor<3>>(3, 4, 5);
  CHECK(posenc::shd(y).extents() == Extents4{1, 3, 4, 5});
  CHECK(posenc::shd(y).row(0, 2, 3)[4] == y(2, 3, 4));
  CHECK(posenc::hsd(y).extents() == Extents4{1, 4, 3, 5});
  CHECK(posenc::hsd(y).row(0, 3, 2)[4] == y(2, 3, 4));
  CHECK(posenc::bsd(y).extents() == Extents3{3, 4, 5});
  CHECK(posenc::bsd(y).row(2, 3)[4] == y(2, 3, 4));
  CHECK(posenc::hqk(y).extents() == Extents4{1, 3, 4, 5});
  CHECK(posenc::hqk(y)(0, 2, 3, 4) == y(2, 3, 4));

  const auto z = counted<RowTensor<2>>(3, 5);
  CHECK(posenc::sd(z).extents() == Extents3{1, 3, 5});
  CHECK(posenc::sd(z).row(0, 2)[4] == z(2, 4));
  CHECK(posenc::table_view(z).row(2)[4] == z(2, 4));
  CHECK(posenc::qk(z)(0, 0, 2, 4) == z(2, 4));
  CHECK(posenc::bk(z).extents() == Extents4{3, 1, 1, 5});
  CHECK(posenc::bk(z)(2, 0, 0, 4) == z(2, 4));
}

TEST_CASE("adapters of Eigen: column-major tensors read as the mirrored letters say", "[eigen]") {
  const auto x = counted<ColTensor<4>>(5, 4, 3, 2);  // dim, heads, seq, batch
  const auto dhsb = posenc::dhsb(x);
  CHECK(dhsb.extents() == Extents4{2, 3, 4, 5});
  CHECK(dhsb.row(1, 2, 3)[4] == x(4, 3, 2, 1));
  CHECK(*dhsb.row(1, 0, 2) == x(0, 2, 0, 1));

  const auto dshb = posenc::dshb(x);
  CHECK(dshb.extents() == Extents4{2, 4, 3, 5});
  CHECK(dshb.row(1, 3, 2)[4] == x(4, 3, 2, 1));

  const auto y = counted<ColTensor<3>>(5, 4, 3);
  CHECK(posenc::dsb(y).extents() == Extents3{3, 4, 5});
  CHECK(posenc::dsb(y).row(2, 3)[4] == y(4, 3, 2));
  CHECK(posenc::dhs(y).row(0, 2, 3)[4] == y(4, 3, 2));
  CHECK(posenc::dsh(y).row(0, 3, 2)[4] == y(4, 3, 2));

  const auto z = counted<ColTensor<2>>(5, 3);
  CHECK(posenc::ds(z).extents() == Extents3{1, 3, 5});
  CHECK(posenc::ds(z).row(0, 2)[4] == z(4, 2));
}

TEST_CASE("adapters of Eigen: maps of memory that others own", "[eigen]") {
  std::vector<float> memory(120);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  Eigen::TensorMap<RowTensor<4>> rows(memory.data(), 2, 3, 4, 5);
  CHECK(posenc::bshd(rows).extents() == Extents4{2, 3, 4, 5});
  CHECK(posenc::bshd(rows).row(1, 2, 3)[4] == 119);
  posenc::bshd(rows).row(0, 1, 0)[2] = -1;
  CHECK(memory[22] == -1);

  Eigen::TensorMap<ColTensor<4>> columns(memory.data(), 5, 4, 3, 2);
  CHECK(posenc::dhsb(columns).extents() == Extents4{2, 3, 4, 5});
  CHECK(posenc::dhsb(columns).row(1, 2, 3) == posenc::bshd(rows).row(1, 2, 3));

  CHECK(posenc::bsd(Eigen::TensorMap<RowTensor<3>>(memory.data(), 4, 5, 6)).row(3, 4)[5] == 119);
}

TEST_CASE("adapters of Eigen: tensors of other index types and fixed sizes of 64 bits work",
          "[eigen]") {
  Eigen::Tensor<double, 3, Eigen::RowMajor, int> x(2, 3, 4);
  x.setZero();
  CHECK(posenc::bsd(x).extents() == Extents3{2, 3, 4});
  Eigen::Tensor<Eigen::half, 4, Eigen::RowMajor> y(1, 2, 3, 4);
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::bshd(y)), HeadsView<Eigen::half>>);
}

TEST_CASE("adapters of Eigen: const tensors give views of const elements", "[eigen]") {
  const RowTensor<4> x(1, 1, 1, 1);
  const RowTensor<3> y(1, 1, 1);
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::bshd(x)), HeadsView<const float>>);
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::bhqk(x)), ScoresView<const float>>);
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::bsd(y)), EmbeddingsView<const float>>);
  RowTensor<4> mutable_x(1, 1, 1, 1);
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::bshd(mutable_x)), HeadsView<float>>);
  using ConstMap = Eigen::TensorMap<const RowTensor<4>>;
  STATIC_REQUIRE(
      std::is_same_v<decltype(posenc::bshd(std::declval<ConstMap&>())), HeadsView<const float>>);
}

TEST_CASE("adapters of Eigen: empty tensors give empty views", "[eigen]") {
  RowTensor<4> x(2, 0, 4, 5);
  CHECK(posenc::bshd(x).empty());
  CHECK(posenc::bshd(x).extents() == Extents4{2, 0, 4, 5});
  ColTensor<3> y(5, 0, 2);
  CHECK(posenc::dsb(y).extents() == Extents3{2, 0, 5});
}

TEST_CASE("adapters of Eigen: tensors of fixed size, in both storage orders", "[eigen]") {
  Eigen::TensorFixedSize<float, Eigen::Sizes<2, 3, 4>, Eigen::RowMajor> rows;
  rows.setZero();
  rows(1, 2, 3) = 5;
  CHECK(posenc::bsd(rows).extents() == Extents3{2, 3, 4});
  CHECK(posenc::bsd(rows).row(1, 2)[3] == 5);
  Eigen::TensorFixedSize<float, Eigen::Sizes<4, 3, 2>> columns;
  columns.setZero();
  columns(3, 2, 1) = 5;
  CHECK(posenc::dsb(columns).extents() == Extents3{2, 3, 4});
  CHECK(posenc::dsb(columns).row(1, 2)[3] == 5);
}

}  // namespace eigen_test
