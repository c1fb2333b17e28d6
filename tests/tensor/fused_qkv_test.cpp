// SPDX-License-Identifier: MIT
// Queries, keys and values sliced out of one buffer that a single projection wrote.
#include "support/catch.hpp"
#include <posenc/tensor/eigen.hpp>
#include <posenc/tensor/view.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <array>

namespace fused_qkv_test {

using posenc::HeadsView;
using posenc::Index;

namespace {

constexpr Index batch = 2, seq = 3, heads = 4, kv_heads = 2, dim = 6;
constexpr Index all_heads = heads + 2 * kv_heads;
using Extents4 = std::array<Index, 4>;

template <class Tensor>
void count(Tensor& x) {
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i);
}

/// Returns the value of feature d of a head of the fused buffer, which is its index in memory.
float expected(Index b, Index s, Index head, Index d) {
  return static_cast<float>(((b * seq + s) * all_heads + head) * dim + d);
}

void check_slice(const HeadsView<float>& x, Index first_head, Index count) {
  REQUIRE(x.extents() == Extents4{batch, seq, count, dim});
  for (Index b = 0; b < batch; ++b) {
    for (Index s = 0; s < seq; ++s) {
      for (Index h = 0; h < count; ++h) {
        for (Index d = 0; d < dim; ++d) {
          REQUIRE(x.row(b, s, h)[d] == expected(b, s, first_head + h, d));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("split_heads: q, k and v out of a buffer with a heads axis", "[fused]") {
  Eigen::Tensor<float, 4, Eigen::RowMajor> qkv(batch, seq, all_heads, dim);
  count(qkv);
  check_slice(posenc::slice_heads(posenc::bshd(qkv), 0, heads), 0, heads);
  check_slice(posenc::slice_heads(posenc::bshd(qkv), heads, kv_heads), heads, kv_heads);
  check_slice(posenc::slice_heads(posenc::bshd(qkv), heads + kv_heads, kv_heads), heads + kv_heads,
              kv_heads);
}

TEST_CASE("split_heads: q, k and v out of a buffer of joined features", "[fused]") {
  Eigen::Tensor<float, 3, Eigen::RowMajor> qkv(batch, seq, all_heads * dim);
  count(qkv);
  const auto tokens = posenc::bsd(qkv);
  const auto all = posenc::split_heads(tokens, all_heads);
  check_slice(posenc::slice_heads(all, heads, kv_heads), heads, kv_heads);

  const auto keys = posenc::slice_features(tokens, heads * dim, kv_heads * dim);
  check_slice(posenc::split_heads(keys, kv_heads), heads, kv_heads);
}

TEST_CASE("split_heads: q, k and v out of a column-major buffer", "[fused]") {
  Eigen::Tensor<float, 3, Eigen::ColMajor> qkv(all_heads * dim, seq, batch);
  count(qkv);
  const auto all = posenc::split_heads(posenc::dsb(qkv), all_heads);
  check_slice(posenc::slice_heads(all, 0, heads), 0, heads);
  check_slice(posenc::slice_heads(all, heads + kv_heads, kv_heads), heads + kv_heads, kv_heads);
}

TEST_CASE("slice: slices of slices of a fused buffer", "[fused]") {
  Eigen::Tensor<float, 4, Eigen::RowMajor> qkv(batch, seq, all_heads, dim);
  count(qkv);
  const auto keys = posenc::slice_heads(posenc::bshd(qkv), heads, kv_heads);
  const auto tail = posenc::slice_features(posenc::slice_seq(keys, 1, 2), 2, 3);
  CHECK(tail.extents() == Extents4{batch, 2, kv_heads, 3});
  CHECK(tail.row(1, 1, 1)[2] == expected(1, 2, heads + 1, 4));
  CHECK_THROWS_AS(posenc::slice_heads(keys, 1, kv_heads), posenc::ShapeError);
}

}  // namespace fused_qkv_test
