// SPDX-License-Identifier: MIT
// Checks of outputs. This unit is compiled with POSENC_CHECKED, which is part of every mangled
// name, so the other units may differ.
#undef POSENC_CHECKED
#define POSENC_CHECKED 1

#include "support/catch.hpp"
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/view.hpp>

#include <vector>

namespace check_output_test {

using Catch::Matchers::ContainsSubstring;
using posenc::HeadsView;
using posenc::Index;
using posenc::ShapeError;

namespace {

/// Returns a view [1, seq, heads, 4] at an offset of `memory`.
HeadsView<float> at(std::vector<float>& memory, Index offset, Index seq, Index heads,
                    Index seq_stride) {
  return {.data = memory.data() + offset,
          .batch = 1,
          .seq = seq,
          .heads = heads,
          .dim = 4,
          .batch_stride = seq * seq_stride,
          .seq_stride = seq_stride,
          .head_stride = 4};
}

void check(HeadsView<float> in, HeadsView<float> out) {
  posenc::detail::check_overlap("f", in, out);
}

}  // namespace

TEST_CASE("check_overlap: in place and separate memory pass", "[overlap]") {
  std::vector<float> memory(64);
  const auto first = at(memory, 0, 4, 2, 8), second = at(memory, 32, 4, 2, 8);
  CHECK_NOTHROW(check(first, first));
  CHECK_NOTHROW(check(first, second));
  CHECK_NOTHROW(check(second, first));
}

TEST_CASE("check_overlap: partial overlap is an error", "[overlap]") {
  std::vector<float> memory(64);
  const auto in = at(memory, 0, 4, 2, 8);
  for (const Index offset : {1, 4, 8, 31}) {
    CAPTURE(offset);
    CHECK_THROWS_AS(check(in, at(memory, offset, 4, 2, 8)), ShapeError);
    CHECK_THROWS_AS(check(at(memory, offset, 4, 2, 8), in), ShapeError);
  }
  // A view that starts at the same address with rows in another order.
  const HeadsView<float> transposed{.data = memory.data(),
                                    .batch = 1,
                                    .seq = 4,
                                    .heads = 2,
                                    .dim = 4,
                                    .batch_stride = 32,
                                    .seq_stride = 4,
                                    .head_stride = 16};
  CHECK_THROWS_WITH(check(in, transposed),
                    ContainsSubstring("posenc::f: input and output overlap in part") &&
                        ContainsSubstring("input is [1, 4, 2, 4]"));
}

TEST_CASE("check_overlap: found behind negative strides", "[overlap]") {
  std::vector<float> memory(64);
  HeadsView<float> reversed = at(memory, 56, 4, 2, 8);  // 32 .. 63, the last token first
  reversed.seq_stride = -8;
  CHECK_THROWS_AS(check(at(memory, 8, 4, 2, 8), reversed), ShapeError);
  CHECK_THROWS_AS(check(at(memory, 32, 4, 2, 8), reversed), ShapeError);
  CHECK_NOTHROW(check(at(memory, 0, 4, 2, 8), reversed));
}

TEST_CASE("check_overlap: slices of one fused buffer share no memory", "[overlap]") {
  std::vector<float> memory(64);
  const auto fused = at(memory, 0, 4, 4, 16);
  CHECK_NOTHROW(check(posenc::slice_heads(fused, 0, 2), posenc::slice_heads(fused, 2, 2)));
  CHECK_THROWS_AS(check(posenc::slice_heads(fused, 0, 2), posenc::slice_heads(fused, 1, 2)),
                  ShapeError);
}

TEST_CASE("check_overlap: the stride of an axis of one element does not matter", "[overlap]") {
  std::vector<float> memory(64);
  const auto x = at(memory, 0, 4, 2, 8);
  auto same = x;
  same.batch_stride = 0;
  CHECK_NOTHROW(check(x, same));
}

TEST_CASE("check_overlap: empty views overlap with nothing", "[overlap]") {
  std::vector<float> memory(64);
  CHECK_NOTHROW(check(at(memory, 8, 0, 2, 8), at(memory, 0, 0, 2, 8)));
  CHECK_NOTHROW(check(HeadsView<float>{}, HeadsView<float>{}));
}

}  // namespace check_output_test
