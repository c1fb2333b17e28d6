// SPDX-License-Identifier: MIT
// Adapters for Eigen's dense matrices, maps and blocks, and for a user-supplied tensor type.
#include "support/catch.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/adapt.hpp>

#include <Eigen/Core>

#include <array>
#include <numeric>
#include <type_traits>
#include <vector>

namespace user {

/// A tensor type that posenc does not know.
struct Volume {
  std::vector<double> values;
  posenc::Index depth, height, width;
};

/// A column-major view that does not own its memory.
struct Span3 {
  float* values;
  posenc::Index first, second, third;
};

}  // namespace user

template <>
struct posenc::TensorTraits<user::Volume> {
  static constexpr std::size_t rank = 3;
  static constexpr bool row_major = true;
  template <class V>
  static auto describe(V& v) {
    using T = std::remove_pointer_t<decltype(v.values.data())>;
    return posenc::Strided<T, 3>{
        v.values.data(), {v.depth, v.height, v.width}, {v.height * v.width, v.width, 1}};
  }
};

template <>
struct posenc::TensorTraits<user::Span3> {
  static constexpr std::size_t rank = 3;
  static constexpr bool row_major = false;
  static constexpr bool owns_memory = false;
  static posenc::Strided<float, 3> describe(const user::Span3& x) {
    return {x.values, {x.third, x.second, x.first}, {x.second * x.first, x.first, 1}};
  }
};

namespace adapt_test {

using Catch::Matchers::Message;
using posenc::EmbeddingsView;
using posenc::Index;
using posenc::MatrixView;
using posenc::ScoresView;

using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ColMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
using Extents2 = std::array<Index, 2>;
using Extents3 = std::array<Index, 3>;

namespace {

/// Returns a matrix whose element (i, j) is 10 i + j, in either storage order.
template <class Matrix>
Matrix numbered(Index rows, Index cols) {
  Matrix m(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) m(i, j) = static_cast<float>(10 * i + j);
  }
  return m;
}

}  // namespace

TEST_CASE("adapt: a row-major matrix has a token per row", "[adapt]") {
  RowMatrix x = numbered<RowMatrix>(3, 5);
  const auto view = posenc::sd(x);
  STATIC_REQUIRE(std::is_same_v<decltype(view), const EmbeddingsView<float>>);
  CHECK(view.extents() == Extents3{1, 3, 5});
  CHECK(view.row(0, 2)[4] == x(2, 4));
  view.row(0, 1)[3] = -1;
  CHECK(x(1, 3) == -1);
}

TEST_CASE("adapt: a column-major matrix has a token a column", "[adapt]") {
  ColMatrix x = numbered<ColMatrix>(5, 3);
  const auto view = posenc::ds(x);
  CHECK(view.extents() == Extents3{1, 3, 5});
  for (Index s = 0; s < 3; ++s) {
    for (Index d = 0; d < 5; ++d) CHECK(view.row(0, s)[d] == x(d, s));
  }
}

TEST_CASE("adapt: matrices of fixed size and vectors", "[adapt]") {
  Eigen::Matrix<float, 2, 3, Eigen::RowMajor> fixed;
  fixed << 0, 1, 2, 3, 4, 5;
  CHECK(posenc::sd(fixed).extents() == Extents3{1, 2, 3});
  CHECK(posenc::sd(fixed).row(0, 1)[2] == 5);

  Eigen::VectorXf token = Eigen::VectorXf::LinSpaced(4, 0, 3);
  CHECK(posenc::ds(token).extents() == Extents3{1, 1, 4});
  CHECK(posenc::ds(token).row(0, 0)[3] == 3);
  Eigen::RowVectorXf row = Eigen::RowVectorXf::LinSpaced(4, 0, 3);
  CHECK(posenc::sd(row).extents() == Extents3{1, 1, 4});
}

TEST_CASE("adapt: a map keeps its outer stride", "[adapt]") {
  std::vector<float> memory(40);
  std::iota(memory.begin(), memory.end(), 0.0F);
  using Strided = Eigen::Map<RowMatrix, 0, Eigen::OuterStride<>>;
  const auto view = posenc::sd(Strided(memory.data(), 3, 5, Eigen::OuterStride<>(12)));
  CHECK(view.extents() == Extents3{1, 3, 5});
  CHECK(view.seq_stride == 12);
  CHECK(view.row(0, 2)[4] == 28);

  const auto table = posenc::table_view(Strided(memory.data(), 3, 5, Eigen::OuterStride<>(12)));
  STATIC_REQUIRE(std::is_same_v<decltype(table), const MatrixView<float>>);
  CHECK(table.extents() == Extents2{3, 5});
  CHECK(table.row(1)[2] == 14);
}

TEST_CASE("adapt: a block is a view into its matrix", "[adapt]") {
  RowMatrix x = numbered<RowMatrix>(6, 7);
  const auto rows = posenc::sd(x.block(1, 2, 3, 4));
  CHECK(rows.extents() == Extents3{1, 3, 4});
  CHECK(rows.row(0, 2) == &x(3, 2));

  ColMatrix y = numbered<ColMatrix>(7, 6);
  const auto columns = posenc::ds(y.block(2, 1, 4, 3));
  CHECK(columns.extents() == Extents3{1, 3, 4});
  CHECK(columns.row(0, 2) == &y(2, 3));
}

TEST_CASE("adapt: a transpose is a tensor of the other storage order", "[adapt]") {
  ColMatrix x = numbered<ColMatrix>(5, 3);
  const ColMatrix& constant = x;
  CHECK(posenc::sd(x.transpose()).row(0, 2) == &x(0, 2));
  CHECK(posenc::sd(constant.transpose()).extents() == Extents3{1, 3, 5});
  CHECK(posenc::ds(numbered<RowMatrix>(2, 2).transpose()).extents() == Extents3{1, 2, 2});
}

TEST_CASE("adapt: temporaries that do not own their memory are read", "[adapt]") {
  RowMatrix x = numbered<RowMatrix>(6, 7);
  const RowMatrix& constant = x;
  ColMatrix y = numbered<ColMatrix>(6, 7);
  std::vector<float> memory(42);
  CHECK(posenc::sd(x.topRows(3)).row(0, 2) == &x(2, 0));
  CHECK(posenc::sd(constant.topRows(3)).row(0, 2) == &x(2, 0));
  CHECK(posenc::sd(x.row(4)).row(0, 0) == &x(4, 0));
  CHECK(posenc::ds(y.col(4)).row(0, 0) == &y(0, 4));
  CHECK(posenc::ds(y.leftCols(2)).extents() == Extents3{1, 2, 6});
  CHECK(posenc::table_view(x.bottomRows(2)).row(1) == &x(5, 0));
  CHECK(posenc::sd(Eigen::Map<RowMatrix>(memory.data(), 6, 7)).row(0, 5) == memory.data() + 35);
  CHECK(posenc::ds(Eigen::Map<const ColMatrix>(memory.data(), 6, 7)).extents() ==
        Extents3{1, 7, 6});
  CHECK(posenc::sd(Eigen::Ref<RowMatrix>(x)).row(0, 1) == &x(1, 0));
  const Eigen::Ref<const RowMatrix> named(x);
  CHECK(posenc::sd(named).row(0, 1) == &x(1, 0));
}

TEST_CASE("adapt: views of const tensors have const elements", "[adapt]") {
  const RowMatrix x = numbered<RowMatrix>(3, 5);
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::sd(x)), EmbeddingsView<const float>>);
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::table_view(x)), MatrixView<const float>>);
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::qk(x)), ScoresView<const float>>);
  using ConstMap = Eigen::Map<const RowMatrix>;
  STATIC_REQUIRE(
      std::is_same_v<decltype(posenc::sd(std::declval<ConstMap>())), EmbeddingsView<const float>>);
  const Eigen::Ref<const RowMatrix> reference = x;
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::sd(reference)), EmbeddingsView<const float>>);
  CHECK(posenc::sd(reference).row(0, 2)[4] == x(2, 4));
}

TEST_CASE("adapt: masks and scores from matrices", "[adapt]") {
  Eigen::Matrix<bool, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> mask(3, 5);
  mask.setConstant(false);
  mask(2, 4) = true;
  const auto causal = posenc::qk(mask);
  STATIC_REQUIRE(std::is_same_v<decltype(causal), const ScoresView<bool>>);
  CHECK(causal.extents() == std::array<Index, 4>{1, 1, 3, 5});
  CHECK(causal(0, 0, 2, 4));
  CHECK_FALSE(causal(0, 0, 2, 3));

  const auto padding = posenc::bk(mask);
  CHECK(padding.extents() == std::array<Index, 4>{3, 1, 1, 5});
  CHECK(padding(2, 0, 0, 4));
  CHECK_FALSE(padding(1, 0, 0, 4));
}

TEST_CASE("adapt: the last axis must be contiguous", "[adapt]") {
  std::vector<float> memory(60);
  using EverySecond = Eigen::Map<RowMatrix, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  EverySecond x(memory.data(), 3, 5, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(20, 2));
  CHECK_THROWS_MATCHES(
      posenc::sd(x), posenc::ShapeError,
      Message("posenc::sd: the last axis must be contiguous, but its stride is 2; the tensor is "
              "[3, 5]"));
  using EverySecondRow = Eigen::Map<ColMatrix, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  EverySecondRow y(memory.data(), 5, 3, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(20, 2));
  CHECK_THROWS_MATCHES(
      posenc::ds(y), posenc::ShapeError,
      Message("posenc::ds: the first axis must be contiguous, but its stride is 2; the tensor is "
              "[5, 3]"));
  CHECK_THROWS_AS(posenc::table_view(x), posenc::ShapeError);
  CHECK_THROWS_AS(posenc::qk(x), posenc::ShapeError);

  // One feature, or none, is contiguous with any stride.
  EverySecond column(memory.data(), 3, 1, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(20, 2));
  CHECK(posenc::sd(column).extents() == Extents3{1, 3, 1});
  EverySecond nothing(memory.data(), 3, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(20, 2));
  CHECK(posenc::sd(nothing).empty());
}

TEST_CASE("adapt: a user's own tensor type is adapted by its traits", "[adapt]") {
  user::Volume volume{std::vector<double>(24), 2, 3, 4};
  std::iota(volume.values.begin(), volume.values.end(), 0.0);
  CHECK(posenc::bsd(volume).extents() == Extents3{2, 3, 4});
  CHECK(posenc::bsd(volume).row(1, 2)[3] == 23);
  CHECK(*posenc::hsd(volume).row(0, 2, 1) == 20);
  const user::Volume& constant = volume;
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::bsd(constant)), EmbeddingsView<const double>>);
}

TEST_CASE("adapt: a user's own view type is read as a temporary, in its own order", "[adapt]") {
  std::vector<float> memory(24);
  CHECK(posenc::dsb(user::Span3{memory.data(), 4, 3, 2}).extents() == Extents3{2, 3, 4});
  CHECK(posenc::dhs(user::Span3{memory.data(), 4, 3, 2}).row(0, 1, 2) == memory.data() + 20);
}

TEST_CASE("head_sd and head_ds: read one head of one sequence", "[tensor]") {
  float memory[4 * 6] = {};
  // Rows and columns of 6 numbers, of which 5 are features.
  const Eigen::Map<RowMatrix, 0, Eigen::OuterStride<>> rows(memory, 4, 5, Eigen::OuterStride<>(6));
  const Eigen::Map<ColMatrix, 0, Eigen::OuterStride<>> columns(memory, 5, 4,
                                                               Eigen::OuterStride<>(6));
  for (const auto& view : {posenc::head_sd(rows), posenc::head_ds(columns)}) {
    STATIC_REQUIRE(std::is_same_v<decltype(view), const posenc::HeadsView<const float>&>);
    CHECK(view.extents() == std::array<Index, 4>{1, 4, 1, 5});
    CHECK(view.row(0, 3, 0) == memory + 18);
  }
  RowMatrix writable(4, 5);
  STATIC_REQUIRE(std::is_same_v<decltype(posenc::head_sd(writable)), posenc::HeadsView<float>>);
  ColMatrix token_per_column(5, 4);
  STATIC_REQUIRE(
      std::is_same_v<decltype(posenc::head_ds(token_per_column)), posenc::HeadsView<float>>);
}

TEST_CASE("adapt: a matrix that is one head is rotated as the tensor with one head is",
          "[tensor]") {
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000});
  const auto positions = posenc::Positions::range(5, 8);
  RowMatrix rows = RowMatrix::Random(8, 8);  // square, so that no extent tells the axes apart
  ColMatrix columns = rows.transpose();
  RowMatrix tensor = rows;
  rope.rotate(posenc::head_sd(rows), positions);
  rope.rotate(posenc::head_ds(columns), positions);
  rope.rotate(
      posenc::HeadsView<float>{.data = tensor.data(), .batch = 1, .seq = 8, .heads = 1, .dim = 8},
      positions);
  CHECK(rows == tensor);
  CHECK(columns == tensor.transpose());
}

}  // namespace adapt_test
