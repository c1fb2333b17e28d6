// SPDX-License-Identifier: MIT
// Rope against the plain double reference, over shapes, layouts, types and directions.
#include "reference/frequencies.hpp"
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <string>

namespace rope_test {

using posenc::Index;
using posenc::Positions;
using rotation::Direction;
using support::Heads;

namespace {

struct Shape {
  Index batch, seq, heads, dim, rotary_dim, offset;
};

const Shape shapes[] = {
    {1, 1, 1, 2, 2, 0},       // the smallest
    {2, 3, 3, 6, 6, 0},       // odd number of pairs
    {3, 1, 2, 64, 64, 0},     // one token, a decoding step
    {2, 5, 4, 128, 128, 0},   // one chunk of pairs
    {1, 3, 2, 300, 300, 0},   // more than one chunk
    {2, 3, 2, 64, 16, 0},     // partial rotary, first channels
    {2, 3, 2, 80, 32, 48},    // last channels
    {1, 4, 3, 21, 6, 7},      // in the middle, at an odd offset of an odd head_dim
    {2, 2, 2, 310, 280, 11},  // chunks at an offset
};

template <class Pairing>
posenc::Rope<Pairing> make_rope(const Shape& shape, double attention_factor = 1) {
  return posenc::Rope<Pairing>(posenc::Frequencies::from_inv_freq(
                                   rotation::plain_frequencies(shape.rotary_dim), attention_factor),
                               shape.offset);
}

template <class Pairing>
rotation::Expectation expectation(const Shape& shape, double attention_factor = 1) {
  return {rotation::exact(rotation::plain_frequencies(shape.rotary_dim)),
          {rotation::reference_pairing<Pairing>, shape.offset, attention_factor}};
}

/// Returns range(first, S) for each batch row, as explicit positions.
std::vector<double> run_of(const Shape& shape, Index first) {
  std::vector<double> positions;
  for (Index b = 0; b < shape.batch; ++b) {
    for (Index s = 0; s < shape.seq; ++s) positions.push_back(static_cast<double>(first + s));
  }
  return positions;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("Rope: equals the reference in place, in every layout", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(1);
    for (const Shape& shape : shapes) {
      const auto rope = make_rope<Pairing>(shape);
      for (const support::Layout& layout : support::layouts()) {
        INFO(Pairing::name << ", head_dim " << shape.dim << ", " << layout.name);
        auto x = Heads<T>::random(random, shape.batch, shape.seq, shape.heads, shape.dim, layout);
        auto y = x;
        rope.rotate(y.view(), Positions::range(1000, shape.seq));
        CHECK(rotation::worst_error(x.view(), y.view(), run_of(shape, 1000),
                                    expectation<Pairing>(shape)) <= 1);
        CHECK(y.surroundings_kept());
      }
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Rope: out of place gives the bits of in place", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(2);
    for (const Shape& shape : shapes) {
      const auto rope = make_rope<Pairing>(shape);
      const auto positions = Positions::range(77, shape.seq);
      for (const support::Layout& from : support::layouts()) {
        for (const support::Layout& to : support::layouts()) {
          INFO(Pairing::name << ", head_dim " << shape.dim << ", " << from.name << " to "
                             << to.name);
          auto x = Heads<T>::random(random, shape.batch, shape.seq, shape.heads, shape.dim, from);
          auto before = x;
          Heads<T> y(shape.batch, shape.seq, shape.heads, shape.dim, to);
          rope.rotate_into(x.view(), y.view(), positions);
          CHECK(support::same_bits(x.view(), before.view()));
          CHECK(y.surroundings_kept());
          rope.rotate_into(x.view(), x.view(), positions);
          CHECK(support::same_bits(x.view(), y.view()));
          rope.rotate(before.view(), positions);
          CHECK(support::same_bits(before.view(), y.view()));
        }
      }
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Rope: adjoint keeps the attention factor, inverse divides by it", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(3);
    for (const double m : {1.0, 1.3465735902799727, 0.6}) {
      for (const auto direction : {Direction::Forward, Direction::Adjoint, Direction::Inverse}) {
        for (const Shape& shape : shapes) {
          INFO(Pairing::name << ", head_dim " << shape.dim << ", m " << m << ", direction "
                             << static_cast<int>(direction));
          auto x = Heads<T>::random(random, shape.batch, shape.seq, shape.heads, shape.dim);
          auto y = x;
          rotation::apply(make_rope<Pairing>(shape, m), direction, y.view(),
                          Positions::range(500, shape.seq));
          auto expect = expectation<Pairing>(shape, m);
          expect.direction = direction;
          CHECK(rotation::worst_error(x.view(), y.view(), run_of(shape, 500), expect) <= 1);
        }
      }
    }
  });
}

TEMPLATE_TEST_CASE("Rope: a scaling rule equals the reference of that rule", "[rope]", float,
                   double) {
  using T = TestType;
  support::Random random(4);
  const Shape shape{2, 6, 2, 64, 64, 0};
  auto x = Heads<T>::random(random, shape.batch, shape.seq, shape.heads, shape.dim);
  auto y = x;
  // The reference's own frequencies are accurate to 4e-16 up to angles of 2^12 for this rotary_dim.
  posenc::Rope<posenc::HalfRotate>(posenc::Unscaled{.rotary_dim = 64, .base = 500000})
      .rotate(y.view(), Positions::range(4000, shape.seq));
  const rotation::Expectation expect{reference::inverse_frequencies(64, 500000),
                                     {reference::Pairing::HalfRotate},
                                     Direction::Forward,
                                     8e-16};
  CHECK(rotation::worst_error(x.view(), y.view(), run_of(shape, 4000), expect) <= 1);
}

TEST_CASE("Rope: queries and keys are rotated alike", "[rope]") {
  const Shape shape{2, 3, 2, 20, 8, 4};
  const auto rope = make_rope<posenc::Interleaved>(shape, 1.5);
  support::Random random(5);
  auto x = Heads<float>::random(random, 2, 3, 2, 20);
  const auto positions = Positions::starts({3, 8}, 3);
  auto rotated = x, q = x, k = x;
  rope.rotate(rotated.view(), positions);
  rope.rotate_queries(q.view(), positions);
  rope.rotate_keys(k.view(), positions);
  CHECK(support::same_bits(q.view(), rotated.view()));
  CHECK(support::same_bits(k.view(), rotated.view()));
  auto adjoint = x;
  q = x, k = x;
  rope.adjoint(adjoint.view(), positions);
  rope.adjoint_queries(q.view(), positions);
  rope.adjoint_keys(k.view(), positions);
  CHECK(support::same_bits(q.view(), adjoint.view()));
  CHECK(support::same_bits(k.view(), adjoint.view()));

  CHECK(rope.rotary_dim() == 8);
  CHECK(rope.rotary_offset() == 4);
  CHECK(rope.softmax_scale_multiplier() == 1);
  CHECK(rope.frequencies().attention_factor() == 1.5);
  const posenc::Rope<posenc::Interleaved> deepseek(
      posenc::Frequencies::from_inv_freq({1.0}, 1, 1.59));
  CHECK(deepseek.softmax_scale_multiplier() == 1.59);
}

}  // namespace rope_test
