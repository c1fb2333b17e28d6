// SPDX-License-Identifier: MIT
// Views that pass the fast checks of passes_fast_checks() also pass check_extents() and check_output().
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <limits>

namespace fast_checks_test {

using posenc::HeadsView;
using posenc::Index;

TEST_CASE("checks of views: the common kind passes every check", "[tensor][strides]") {
  constexpr Index max_index = std::numeric_limits<Index>::max();
  constexpr std::array extents = {Index{-1}, Index{0}, Index{1},       Index{2},       Index{3},
                                  Index{8},  Index{9}, Index{1} << 13, Index{1} << 26, max_index};
  constexpr std::array strides = {-max_index - 1, Index{-8},      Index{0},       Index{1},
                                  Index{3},       Index{8},       Index{9},       Index{24},
                                  Index{72},      Index{648},     Index{1} << 13, Index{1} << 20,
                                  max_index,      Index{1} << 24, Index{1} << 25, Index{1} << 26,
                                  Index{1} << 31};
  double memory = 0;
  support::Random random(14);
  const auto one_of = [&random](const auto& values) {
    return values[static_cast<std::size_t>(
        random.integer(0, static_cast<std::int64_t>(values.size()) - 1))];
  };
  int nested = 0;
  for (int i = 0; i < 200000; ++i) {
    const HeadsView<double> x{.data = &memory,
                              .batch = one_of(extents),
                              .seq = one_of(extents),
                              .heads = one_of(extents),
                              .dim = one_of(extents),
                              .batch_stride = one_of(strides),
                              .seq_stride = one_of(strides),
                              .head_stride = one_of(strides)};
    if (!posenc::detail::passes_fast_checks(x)) continue;
    ++nested;
    REQUIRE_NOTHROW(posenc::detail::check_extents("f", "x", x));
    REQUIRE_NOTHROW(posenc::detail::check_output("f", "x", x));
  }
  CHECK(nested > 100);
}

TEST_CASE("checks of views: dense tensors are of the common kind in either order of axes",
          "[tensor][strides]") {
  float memory = 0;
  for (const Index seq : {1, 5}) {
    for (const Index heads : {1, 3}) {
      CHECK(posenc::detail::passes_fast_checks(HeadsView<float>{&memory, 2, seq, heads, 8}));
      CHECK(posenc::detail::passes_fast_checks(
          HeadsView<float>{&memory, 2, seq, heads, 8, seq * heads * 8, 8, seq * 8}));
    }
  }
  CHECK(!posenc::detail::passes_fast_checks(HeadsView<float>{nullptr, 2, 5, 3, 8}));
  CHECK(!posenc::detail::passes_fast_checks(HeadsView<float>{&memory, 2, 5, 3, 8, 120, 24, 7}));
  // The stride of an axis of one element does not matter.
  CHECK(posenc::detail::passes_fast_checks(HeadsView<float>{&memory, 2, 5, 1, 8, 40, 8, 1}));
  CHECK(posenc::detail::passes_fast_checks(HeadsView<float>{&memory, 2, 1, 3, 8, 24, 1, 8}));
}

TEST_CASE("checks of views: no view without elements or memory is of the common kind",
          "[tensor][strides]") {
  float memory = 0;
  for (const auto extent : {&HeadsView<float>::batch, &HeadsView<float>::seq,
                            &HeadsView<float>::heads, &HeadsView<float>::dim}) {
    HeadsView<float> x{&memory, 2, 5, 3, 8};
    CHECK(posenc::detail::passes_fast_checks(x));
    x.*extent = 0;
    CHECK(!posenc::detail::passes_fast_checks(x));
  }
  CHECK(!posenc::detail::passes_fast_checks(HeadsView<float>{&memory, 1, 1, 0, 8}));
  using posenc::MatrixView;
  CHECK(posenc::detail::passes_fast_checks(MatrixView<float>{&memory, 2, 5}));
  CHECK(!posenc::detail::passes_fast_checks(MatrixView<float>{nullptr, 2, 5}));
  CHECK(!posenc::detail::passes_fast_checks(MatrixView<float>{&memory, 0, 5}));
  CHECK(!posenc::detail::passes_fast_checks(MatrixView<float>{&memory, 2, 0}));
  CHECK(!posenc::detail::passes_fast_checks(MatrixView<float>{&memory, 2, 5, 4}));
}

}  // namespace fast_checks_test
