// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

POSENC_BEGIN
namespace detail {

/// Writer of a call's results.
template <Scalar T>
struct OutputWriter {
  using Real = Compute<T>;

  const AttentionPlan<T>& plan;
  HeadsView<T> out;
  Index value_dim;  ///< padded value_dim

  /// Divides rows of a block by their sums, and writes outputs, log-sum-exps and probabilities.
  template <class Tier, class Block>
  void write(const Block& block, const Strip& rows, const SoftmaxState<Real>& sums) const noexcept {
    // Rows of the next strip are prefetched. They are written after its products.
    const Index ahead = (std::min)(rows.rows, prefetch_distance_rows);
    for (Index r = rows.first; r < rows.first + rows.rows; ++r) {
      const FinalStats stats = stats_with_sink(block.head(r), sums.row_max[r], sums.sum[r]);
      // Adding 0 replaces -0 by 0: masked keys must not affect the sign.
      const Real* const values = sums.out + r * value_dim;
      using P = Pack<Real, Tier>;
      const P scale = P::broadcast(stats.sum == 0 ? Real{0} : stats.factor / stats.sum);
      const auto value = [&](Index d) { return P::load(values + d) * scale + P::zero(); };
      prefetch_for_write(row(block, (std::min)(r + ahead, block.rows() - 1)),
                         out.dim * Index{sizeof(T)});
      T* const to = row(block, r);
      Index d = 0;
      for (; d + P::width <= out.dim; d += P::width) store_as(value(d), to + d);
      if (d < out.dim) store_partial_as(value(d), to + d, out.dim - d);
      if (plan.lse.data != nullptr) {
        plan.lse(block.sequence().batch, block.head(r), query_of(block, r)) =
            stats.sum == 0 ? neg_infinity : stats.row_max + std::log(stats.sum);
      }
      plan.returned.normalise(block, r, stats.row_max, stats.sum);
    }
  }

 private:
  static constexpr Real neg_infinity = -std::numeric_limits<Real>::infinity();

  /// Final row maximum and sum of exp(score - row_max), and the factor that rescales the row's
  /// output to this maximum.
  struct FinalStats {
    Real row_max, sum, factor;
  };

  /// Returns the final statistics of a row, with the sink of its head.
  FinalStats stats_with_sink(Index head, Real row_max, Real sum) const noexcept {
    if (plan.options.sinks.empty()) return {row_max, sum, 1};
    const Real sink = plan.options.sinks[static_cast<std::size_t>(head)];
    const Real top = sink > row_max ? sink : row_max;
    const Real factor = row_max == neg_infinity ? 0 : std::exp(row_max - top);
    return {top, mul_add(sum, factor, sink == neg_infinity ? Real{0} : std::exp(sink - top)),
            factor};
  }

  template <class Block>
  static Index query_of(const Block& block, Index r) noexcept {
    return block.sequence().first_query + block.query(r);
  }
  template <class Block>
  T* row(const Block& block, Index r) const noexcept {
    return out.row(block.sequence().batch, query_of(block, r), block.head(r));
  }
};

}  // namespace detail
POSENC_END
