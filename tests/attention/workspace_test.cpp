// SPDX-License-Identifier: MIT
// Tests the size of a workspace, and that calls with one allocate nothing.
#include "kv/decode_case.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/workspace.hpp>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace workspace_test {

using attention_test::Case;
using attention_test::Decoding;
using attention_test::Variant;
using posenc::AttentionWorkspace;
using posenc::Causal;
using posenc::Index;

TEMPLATE_LIST_TEST_CASE(
    "workspace: a call allocates nothing when its workspace has served one like it",
    "[attention][workspace]", attention_test::Scalars) {
  using T = TestType;
  for (const Variant& variant : attention_test::variants()) {
    INFO(variant.name);
    Decoding<T> d(variant);
    AttentionWorkspace workspace;
    auto options = d.options(0, d.length, d.length);
    options.causal = Causal::BottomRight;
    auto memory = d.memory(0, d.length);
    const auto run = [&] {
      attention_test::attend(d.c.q.view(), d.c.k.view(), d.c.v.view(), d.c.out.view(), options,
                             d.bias(), memory);
    };
    run();
    const auto out = d.c.out;
    const auto without = support::allocations();
    run();
    CHECK(support::allocations() > without);

    memory.workspace = &workspace;
    run();
    const auto before = support::allocations();
    run();
    CHECK(support::allocations() == before);
    CHECK(support::same_bits(d.c.out.view(), support::Heads<T>(out).view()));
  }
}

namespace {

/// Bias that records if it gets a score that is not finite.
struct Witness {
  Index head_count;
  bool* saw_bad;

  Index heads() const { return head_count; }
  template <class Real>
  void add(Index, std::span<const double>, std::span<const double>,
           posenc::MatrixView<Real> tile) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        if (!std::isfinite(static_cast<double>(tile.row(i)[j]))) *saw_bad = true;
      }
    }
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("workspace: a bias sees nothing of earlier contents",
                        "[attention][workspace]", attention_test::Scalars) {
  using T = TestType;
  for (const Index kv_heads : {Index{2}, Index{16}}) {
    for (const Index keys : {Index{5}, Index{40}, Index{200}}) {
      for (const Index dim : {Index{16}, Index{20}}) {
        const attention_test::Shape shape{1, kv_heads, kv_heads, 1, keys, dim, 16};
        AttentionWorkspace workspace;
        Case<T> bad(shape, 1);
        bad.q.for_each([](T& x) { x = static_cast<T>(std::numeric_limits<float>::quiet_NaN()); });
        bad.run({.causal = Causal::No}, {}, {.workspace = &workspace});
        Case<T> good(shape, 2);
        bool saw_bad = false;
        attention(good.q.view(), good.k.view(), good.v.view(), good.out.view(),
                  {.causal = Causal::BottomRight,
                   .window = posenc::sliding_window(keys > 20 ? keys - 20 : 2)},
                  Witness{kv_heads, &saw_bad}, {.workspace = &workspace});
        INFO(kv_heads << " heads, " << keys << " keys, head_dim " << dim);
        CHECK_FALSE(saw_bad);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("workspace: outputs hold nothing of earlier contents",
                        "[attention][workspace]", attention_test::Scalars) {
  using T = TestType;
  // Queries that see keys of the first tile, of later tiles only, or none.
  for (const Index window : {Index{5}, Index{200}}) {
    for (const Index queries : {Index{300}, Index{340}}) {
      const attention_test::Shape shape{1, 2, 1, queries, 300, 20, 16};
      AttentionWorkspace workspace;
      Case<T> bad(shape, 1);
      for (auto* x : {&bad.q, &bad.v}) {
        x->for_each([](T& y) { y = static_cast<T>(std::numeric_limits<float>::quiet_NaN()); });
      }
      bad.run({.causal = Causal::No}, {}, {.workspace = &workspace});
      Case<T> good(shape, 2);
      const posenc::AttentionOptions<T> options{.causal = Causal::BottomRight,
                                                .window = posenc::sliding_window(window)};
      good.run(options);
      auto want = good.out;
      good.run(options, {}, {.workspace = &workspace});
      INFO("window " << window << ", " << queries << " queries");
      CHECK(support::same_bits(good.out.view(), want.view()));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("workspace: serves calls of any shape", "[attention][workspace]",
                        attention_test::Scalars) {
  using T = TestType;
  AttentionWorkspace workspace;
  Case<T> large({1, 4, 2, 50, 300, 40, 50}, 1);
  large.run({.causal = Causal::No}, {}, {.workspace = &workspace});
  const auto bytes = workspace.bytes();
  for (const attention_test::Shape& shape :
       {attention_test::Shape{2, 2, 2, 7, 500, 8, 9}, {1, 4, 1, 1, 1, 1, 1}, {3, 6, 3, 20, 129}}) {
    Case<T> c(shape, 2);
    c.run();
    auto want = c.out;
    const auto before = support::allocations();
    c.run({.causal = Causal::No}, {}, {.workspace = &workspace});
    CHECK(support::allocations() == before);
    CHECK(support::same_bits(c.out.view(), want.view()));
  }
  CHECK(workspace.bytes() == bytes);
}

TEST_CASE("workspace: does not grow with the sequence", "[attention][workspace]") {
  std::vector<std::size_t> sizes;
  // Four and eight of the longest blocks, because shorter sequences need less memory.
  for (const Index length : {1152, 2304}) {
    Case<float> c({1, 2, 1, length, length, 64, 64}, 1);
    AttentionWorkspace workspace;
    c.run({.causal = Causal::TopLeft}, {}, {.workspace = &workspace});
    sizes.push_back(workspace.bytes());
  }
  CHECK(sizes[0] == sizes[1]);
  CHECK(sizes[1] < std::size_t{1} << 20);
}

TEST_CASE("ScratchArenas: the count is not negative", "[attention][workspace][errors]") {
  posenc::detail::ScratchArenas arenas;
  CHECK(support::message_of<posenc::ShapeError>([&] { arenas.reserve(-1, 8); }) ==
        "posenc::ScratchArenas::reserve: arenas must not be negative but are -1");
}

}  // namespace workspace_test
