// SPDX-License-Identifier: MIT
// Tests the output stage separately: from a block's maxima, sums and weighted values to the
// results.
#include "simd/tiers.hpp"
#include "stage_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/detail/output_writer.hpp>
#include <posenc/kernels/softmax.hpp>

#include <cmath>
#include <limits>
#include <vector>

namespace output_writer_test {

using attention_test::allocate_from;
using attention_test::StageCase;
using posenc::Index;
using posenc::detail::ArenaAllocator;
using posenc::detail::SoftmaxState;
using posenc::detail::Strip;

TEMPLATE_LIST_TEST_CASE("outputs: are weighted values over sums", "[attention][outputs]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  using Stage = StageCase<Tier, T>;
  using Block = typename Stage::Block;
  constexpr Index heads = 3, queries = 5, dim = 19, padded = 32;
  constexpr T neg_infinity = -std::numeric_limits<T>::infinity();
  attention_test::Lse<T> lse(1, heads, queries);
  const std::vector<T> sinks{T{1}, neg_infinity, T{-2}};
  for (const bool sinking : {false, true}) {
    posenc::AttentionOptions<T> options{.causal = posenc::Causal::No};
    if (sinking) options.sinks = sinks;
    Stage stage({1, heads, 1, queries, 4, 4, dim}, options, {}, {.lse = lse.view()});
    posenc::detail::ScratchArenas arenas;
    struct All {
      Block block;
      SoftmaxState<T> sums;
    };
    All all = allocate_from(arenas, [&](ArenaAllocator& c) {
      return All{Block(stage.plan, stage.rows(), c),
                 SoftmaxState<T>::allocate(c, stage.rows(), padded)};
    });
    all.block.load_queries({.sequence = stage.sequence(), .queries = queries});
    all.sums.clear(stage.rows(), padded);
    // Sums are powers of two, so that quotients are exact. Row 4 has no visible key, and row 5's
    // values are -0.
    for (Index r = 0; r < stage.rows(); ++r) {
      if (r == 4) continue;
      all.sums.row_max[r] = static_cast<T>(r % 3 - 1);
      all.sums.sum[r] = std::ldexp(T{1}, static_cast<int>(r % 4));
      for (Index d = 0; d < dim; ++d) {
        all.sums.out[r * padded + d] = r == 5 ? -T{0} : static_cast<T>(r * dim + d);
      }
    }
    const posenc::detail::OutputWriter<T> outputs{stage.plan, stage.tensors.out.view(), padded};
    outputs.template write<Tier>(all.block, Strip{0, 6}, all.sums);
    outputs.template write<Tier>(all.block, Strip{6, stage.rows() - 6}, all.sums);

    double worst = 0;
    bool zeros = true;
    for (Index r = 0; r < stage.rows(); ++r) {
      const Index query = all.block.query(r), head = all.block.head(r);
      const double sink = sinking ? static_cast<double>(sinks[static_cast<std::size_t>(head)])
                                  : -std::numeric_limits<double>::infinity();
      const auto row_max = static_cast<double>(all.sums.row_max[r]);
      const double sum =
          static_cast<double>(all.sums.sum[r]) + (r == 4 ? 0 : std::exp(sink - row_max));
      const double whole = r == 4 ? sink : row_max + std::log(sum);
      const auto got_lse = static_cast<double>(lse.view()(0, head, query));
      if (std::isinf(whole)) {
        CHECK(got_lse == whole);
      } else {
        worst = support::worse(worst, std::abs(got_lse - whole));
      }
      for (Index d = 0; d < dim; ++d) {
        const T got = stage.tensors.out.view().row(0, query, head)[d];
        if (r == 4 || r == 5) {
          zeros &= tiers::same(got, T{0});
          continue;
        }
        const double want = static_cast<double>(all.sums.out[r * padded + d]) / sum;
        worst = support::worse(worst, std::abs(static_cast<double>(got) - want) / (1 + want));
      }
    }
    INFO(Tier::name << ", sinks " << sinking);
    CHECK(zeros);
    CHECK(worst <= 16 * static_cast<double>(std::numeric_limits<T>::epsilon()));
  }
}

}  // namespace output_writer_test
