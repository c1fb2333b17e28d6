// SPDX-License-Identifier: MIT
// The tensors that users hold: Eigen's, row- and column-major, and slices of a fused QKV buffer.
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>

namespace rope_tensors_test {

using posenc::Index;
using posenc::Positions;
using support::Heads;

namespace {

constexpr Index batch = 2, seq = 3, heads = 4, dim = 10;

template <class Pairing>
posenc::Rope<Pairing> make_rope() {
  return posenc::Rope<Pairing>(posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(6)),
                               2);
}

/// Rotates a copy of x stored in the tensor under `view`, and compares it with want.
template <class Rope, class T>
bool rotates_to(const Rope& rope, posenc::HeadsView<T> view, Heads<T> x, Heads<T> want) {
  support::copy(x.view(), view);
  rope.rotate(view, Positions::starts({4, 400}, seq));
  return support::same_bits(view, want.view());
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("Rope: the same bits in all of Eigen's tensors", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  using RowMajor = Eigen::Tensor<T, 4, Eigen::RowMajor>;
  using ColMajor = Eigen::Tensor<T, 4>;
  rotation::for_each_pairing([](auto pairing) {
    const auto rope = make_rope<decltype(pairing)>();
    support::Random random(1);
    auto x = Heads<T>::random(random, batch, seq, heads, dim);
    auto want = x;
    rope.rotate(want.view(), Positions::starts({4, 400}, seq));

    RowMajor bshd(batch, seq, heads, dim), bhsd(batch, heads, seq, dim);
    ColMajor dhsb(dim, heads, seq, batch), dshb(dim, seq, heads, batch);
    CHECK(rotates_to(rope, posenc::bshd(bshd), x, want));
    CHECK(rotates_to(rope, posenc::bhsd(bhsd), x, want));
    CHECK(rotates_to(rope, posenc::dhsb(dhsb), x, want));
    CHECK(rotates_to(rope, posenc::dshb(dshb), x, want));
    CHECK(bshd(1, 2, 3, 4) == dhsb(4, 3, 2, 1));
    CHECK(bhsd(1, 3, 2, 4) == dshb(4, 2, 3, 1));

    Eigen::TensorMap<RowMajor> map(bshd.data(), batch, seq, heads, dim);
    CHECK(rotates_to(rope, posenc::bshd(map), x, want));
  });
}

TEMPLATE_LIST_TEST_CASE("Rope: the same bits where a head's positions lie together", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  const Index head_dim = GENERATE(64, 72, 128), tokens = GENERATE(2, 4, 16, 17, 33);
  rotation::for_each_pairing([&](auto pairing) {
    const posenc::Rope<decltype(pairing)> rope(
        posenc::Unscaled{.rotary_dim = head_dim, .base = 10000});
    const auto positions = Positions::range(70, tokens);
    support::Random random(3);
    auto x = Heads<T>::random(random, 2, tokens, 3, head_dim);
    auto want = x;
    rope.rotate(want.view(), positions);
    Eigen::Tensor<T, 4, Eigen::RowMajor> apart(2, 3, tokens, head_dim);
    const auto view = posenc::bhsd(apart);
    support::copy(x.view(), view);
    rope.rotate(view, positions);
    CHECK(support::same_bits(view, want.view()));
  });
}

TEMPLATE_LIST_TEST_CASE(
    "rotate_all: q and k are rotated inside a fused QKV buffer, v is left alone", "[rope]",
    rotation::Scalars) {
  using T = TestType;
  constexpr Index kv_heads = 2, all = heads + 2 * kv_heads;
  const auto rope = make_rope<posenc::HalfRotate>();
  const auto positions = Positions::range(9, seq);
  support::Random random(2);
  Eigen::Tensor<T, 3, Eigen::RowMajor> qkv(batch, seq, all * dim);
  for (Index i = 0; i < qkv.size(); ++i) qkv.data()[i] = static_cast<T>(random.normal());
  const Eigen::Tensor<T, 3, Eigen::RowMajor> before = qkv;

  const auto fused = posenc::split_heads(posenc::bsd(qkv), all);
  rope.rotate(posenc::slice_heads(fused, 0, heads), positions);
  rope.rotate(posenc::slice_heads(fused, heads, kv_heads), positions);

  Heads<T> want(batch, seq, all, dim);
  const auto untouched = posenc::split_heads(posenc::bsd(before), all);
  support::copy(untouched, want.view());
  rope.rotate(posenc::slice_heads(want.view(), 0, heads + kv_heads), positions);
  CHECK(support::same_bits(fused, want.view()));
  CHECK(support::same_bits<const T>(posenc::slice_heads(fused, heads + kv_heads, kv_heads),
                                    posenc::slice_heads(untouched, heads + kv_heads, kv_heads)));
}

TEST_CASE("Rope: a slice of the features is rotated like a head of its own", "[rope]") {
  support::Random random(3);
  auto x = Heads<float>::random(random, batch, seq, heads, dim);
  auto sliced = x;
  make_rope<posenc::Interleaved>().rotate(x.view(), Positions::range(5, seq));
  const posenc::Rope<posenc::Interleaved> at_zero(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(6)));
  at_zero.rotate(posenc::slice_features(sliced.view(), 2, 6), Positions::range(5, seq));
  CHECK(support::same_bits(x.view(), sliced.view()));
}

TEST_CASE("rotate_all: tensors must have the same tokens", "[rope]") {
  const auto rope = make_rope<posenc::HalfRotate>();
  support::Random random(6);
  auto q = Heads<float>::random(random, batch, seq, heads, dim);
  auto k = Heads<float>::random(random, 1, seq, heads, dim);
  const auto q_before = q, k_before = k;
  CHECK_THROWS_AS(rope.rotate_all({q.view(), k.view()}, Positions::range(0, seq)),
                  posenc::ShapeError);
  CHECK(support::same_bits(q.view(), Heads<float>(q_before).view()));
  CHECK(support::same_bits(k.view(), Heads<float>(k_before).view()));
}

TEST_CASE("Rope: rotation in place checks that heads share no memory", "[rope]") {
  const auto rope = make_rope<posenc::HalfRotate>();
  std::vector<float> memory(4 * dim, 1.0F);
  const posenc::HeadsView<float> x{memory.data(), 1, 2, 2, dim, 4 * dim, 2 * dim, dim - 1};
  CHECK_THROWS_AS(rope.rotate(x, Positions::range(0, 2)), posenc::ShapeError);
  CHECK(memory == std::vector<float>(4 * dim, 1.0F));
}

TEST_CASE("Rope: a slice of a sequence is rotated at the positions given for it", "[rope]") {
  const auto rope = make_rope<posenc::HalfRotate>();
  support::Random random(4);
  auto x = Heads<float>::random(random, batch, seq, heads, dim);
  auto whole = x;
  rope.rotate(whole.view(), Positions::range(5, seq));
  rope.rotate(posenc::slice_seq(x.view(), 0, 2), Positions::range(5, 2));
  rope.rotate(posenc::slice_seq(x.view(), 2, 1), Positions::range(7, 1));
  CHECK(support::same_bits(x.view(), whole.view()));
}

}  // namespace rope_tensors_test
