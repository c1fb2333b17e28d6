// SPDX-License-Identifier: MIT
// The workspace: its size, and that calls which are given one allocate nothing.
#include "decode_case.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"
#include <posenc/attention/workspace.hpp>

#include <vector>

namespace attention_workspace_test {

using attention_test::Case;
using attention_test::Decoding;
using attention_test::Variant;
using posenc::AttentionWorkspace;
using posenc::Causal;
using posenc::Index;

TEMPLATE_LIST_TEST_CASE("a call allocates nothing when its workspace has served one like it",
                        "[attention][workspace]", attention_test::Scalars) {
  using T = TestType;
  for (const Variant& variant : attention_test::variants()) {
    INFO(variant.name);
    Decoding<T> d(variant);
    AttentionWorkspace workspace;
    auto options = d.options(0, d.length, d.length);
    options.causal = Causal::BottomRight;
    const auto run = [&] {
      attention_test::attend(d.c.q.view(), d.c.k.view(), d.c.v.view(), d.c.out.view(), options,
                             d.bias());
    };
    run();
    const auto out = d.c.out;
    const auto without = support::allocations();
    run();
    CHECK(support::allocations() > without);

    options.workspace = &workspace;
    run();
    const auto before = support::allocations();
    run();
    CHECK(support::allocations() == before);
    CHECK(support::same_bits(d.c.out.view(), support::Heads<T>(out).view()));
  }
}

TEMPLATE_LIST_TEST_CASE("one workspace serves calls of any shape", "[attention][workspace]",
                        attention_test::Scalars) {
  using T = TestType;
  AttentionWorkspace workspace;
  Case<T> large({1, 4, 2, 50, 300, 40, 50}, 1);
  large.run({.causal = Causal::No, .workspace = &workspace});
  const auto bytes = workspace.bytes();
  for (const attention_test::Shape& shape :
       {attention_test::Shape{2, 2, 2, 7, 500, 8, 9}, {1, 4, 1, 1, 1, 1, 1}, {3, 6, 3, 20, 129}}) {
    Case<T> c(shape, 2);
    c.run();
    auto want = c.out;
    const auto before = support::allocations();
    c.run({.causal = Causal::No, .workspace = &workspace});
    CHECK(support::allocations() == before);
    CHECK(support::same_bits(c.out.view(), want.view()));
  }
  CHECK(workspace.bytes() == bytes);
}

TEST_CASE("the workspace does not grow with the sequence", "[attention][workspace]") {
  std::vector<std::size_t> sizes;
  for (const Index length : {200, 2000}) {
    Case<float> c({1, 2, 1, length, length, 64, 64}, 1);
    AttentionWorkspace workspace;
    c.run({.causal = Causal::TopLeft, .workspace = &workspace});
    sizes.push_back(workspace.bytes());
  }
  CHECK(sizes[0] == sizes[1]);
  CHECK(sizes[1] < std::size_t{1} << 20);
}

}  // namespace attention_workspace_test
