// SPDX-License-Identifier: MIT
// Compares attention() with the plain reference in double: shapes, types, layouts, grouped heads,
// scale.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>

namespace attention_test {

using attention_test::Case;
using attention_test::plain_rule;
using attention_test::Shape;
using attention_test::worst_error;
using posenc::Index;
using support::Heads;

namespace {

const Shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1},     {2, 3, 3, 5, 5, 8, 8},   {1, 2, 2, 4, 9, 16, 16},
    {3, 2, 2, 9, 4, 8, 8},     {2, 4, 1, 3, 7, 8, 8},   {1, 6, 2, 5, 3, 6, 6},
    {2, 2, 2, 1, 13, 64, 8},   {1, 2, 1, 7, 1, 4, 12},  {2, 1, 1, 3, 4, 5, 1},
    {1, 1, 1, 2, 300, 4, 3},   {1, 3, 3, 17, 17, 7, 7}, {1, 8, 4, 2, 33, 16, 24},
    {1, 300, 300, 1, 3, 4, 4},  // more KV heads than rows of a block
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention: equals the reference over shapes and layouts", "[attention]",
                        attention_test::Scalars) {
  std::uint64_t seed = 1;
  for (const Shape& shape : shapes) {
    for (const support::Layout& layout : support::layouts()) {
      INFO("heads " << shape.heads << " over " << shape.kv_heads << ", " << shape.queries
                    << " queries, " << shape.keys << " keys, " << layout.name);
      Case<TestType> c(shape, seed++, layout);
      c.run();
      CHECK(worst_error(c, plain_rule(c)) <= 1);
      CHECK(c.out.surroundings_kept());
    }
  }
}

TEMPLATE_LIST_TEST_CASE("attention: equals the reference for numbers of any kind", "[attention]",
                        attention_test::Scalars) {
  using T = TestType;
  Case<T> c({2, 4, 2, 6, 11, 64, 16}, 2);
  support::Random random(3);
  for (auto* x : {&c.q, &c.k}) {
    x->for_each([&](T& value) { value = static_cast<T>(random.normal()); });
  }
  c.run();
  // 64 roundings of partial sums (two each if products are rounded, too). Partial sums are at most
  // |q| |k| <= 1.5 * 64, scaled by 1/8, and the largest score is above 2: so each is at most 6
  // roundings of a score.
  CHECK(worst_error(c, plain_rule(c), {.dot = 2 * 64 * 6}) <= 1);
}

TEMPLATE_LIST_TEST_CASE("attention: takes any scale", "[attention]", attention_test::Scalars) {
  Case<TestType> c({2, 2, 2, 5, 6, 8, 8}, 4);
  for (const double scale : {0.0, 0.1, 1.0, -0.7, 3.0}) {
    c.run({.scale = scale, .causal = posenc::Causal::No});
    INFO("scale " << scale);
    CHECK(worst_error(c, [scale](Index, Index) {
            reference::AttentionRule rule;
            rule.scale = scale;
            return rule;
          }) <= 1);
  }
}

TEMPLATE_LIST_TEST_CASE("attention: queries of a group share its key head", "[attention]",
                        attention_test::Scalars) {
  // k and v repeated for every query head.
  Case<TestType> grouped({2, 6, 2, 3, 5, 8, 8}, 5), full({2, 6, 6, 3, 5, 8, 8}, 5);
  full.q = grouped.q;
  for (Index h = 0; h < 6; ++h) {
    support::copy(posenc::slice_heads(grouped.k.view(), h / 3, 1),
                  posenc::slice_heads(full.k.view(), h, 1));
    support::copy(posenc::slice_heads(grouped.v.view(), h / 3, 1),
                  posenc::slice_heads(full.v.view(), h, 1));
  }
  grouped.run();
  full.run();
  CHECK(support::same_bits(grouped.out.view(), full.out.view()));
}

TEMPLATE_LIST_TEST_CASE("attention: the output may take the place of the queries", "[attention]",
                        attention_test::Scalars) {
  Case<TestType> c({2, 3, 1, 5, 7, 8, 8}, 6);
  c.run();
  posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.q.view(), {.causal = posenc::Causal::No});
  CHECK(support::same_bits(c.q.view(), c.out.view()));
}

TEMPLATE_LIST_TEST_CASE("attention: the same bits in all of Eigen's tensors", "[attention]",
                        attention_test::Scalars) {
  using T = TestType;
  Case<T> c({2, 4, 2, 3, 5, 8, 6}, 7);
  c.run();
  Eigen::Tensor<T, 4, Eigen::RowMajor> q(2, 3, 4, 8), k(2, 2, 5, 8);
  Eigen::Tensor<T, 4> v(6, 2, 5, 2), out(6, 3, 4, 2);
  support::copy(c.q.view(), posenc::bshd(q));
  support::copy(c.k.view(), posenc::bhsd(k));
  support::copy(c.v.view(), posenc::dhsb(v));
  posenc::attention(posenc::bshd(q), posenc::bhsd(k), posenc::dhsb(v), posenc::dshb(out),
                    {.causal = posenc::Causal::No});
  CHECK(support::same_bits(posenc::dshb(out), c.out.view()));
}

TEMPLATE_LIST_TEST_CASE("attention: empty tensors are legal", "[attention]",
                        attention_test::Scalars) {
  using T = TestType;
  for (const Shape& shape :
       {Shape{0, 2, 2, 3, 3, 4, 4}, Shape{2, 2, 2, 0, 3, 4, 4}, Shape{2, 0, 0, 3, 3, 4, 4},
        Shape{2, 2, 2, 3, 3, 4, 0}, Shape{0, 0, 0, 0, 0, 0, 0}}) {
    Case<T> c(shape, 8);
    CHECK_NOTHROW(c.run());
    CHECK_NOTHROW(c.run({.causal = posenc::Causal::BottomRight}));
  }

  Case<T> no_keys({2, 2, 1, 3, 0, 4, 4}, 9);
  no_keys.run();
  CHECK(worst_error(no_keys, plain_rule(no_keys)) == 0);
}

TEMPLATE_LIST_TEST_CASE(
    "attention: heads without channels have scores of 0, so every key counts alike", "[attention]",
    attention_test::Scalars) {
  Case<TestType> c({1, 2, 2, 3, 4, 0, 5}, 10);
  c.run();
  CHECK(worst_error(c, [](Index, Index) { return reference::AttentionRule{}; }) <= 1);
}

}  // namespace attention_test
