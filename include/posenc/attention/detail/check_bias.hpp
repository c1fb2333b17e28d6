// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/attention/detail/masks.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>

POSENC_BEGIN
namespace detail {

/// Checks that a bias has the positions and the number of heads that it needs, and calls its
/// check() for each sequence. A bias without heads() or check() skips that part.
template <Scalar T>
POSENC_COLD void check_bias(const char* function, const ErasedBias<T>& bias,
                            const BiasCall<T>& call) {
  const auto& [q, shape, geometry, masks] = call;
  if (bias.heads() && *bias.heads() != shape.heads) {
    fail<ShapeError>(function, "the bias is for ", *bias.heads(), " heads but q has ", shape.heads);
  }
  if (!bias.is_present()) return;
  geometry.require_query_positions("a bias");
  if (bias.reads_queries()) bias.check(function, call);
  if (bias.has_check()) {
    // Batch rows without scores are equal, and there may be any number of them.
    const Index step = shape.has_scores() ? 1 : (std::max)(geometry.sequences() - 1, Index{1});
    for (Index n = 0; n < geometry.sequences(); n += step) {
      const AttentionSequence s = geometry.sequence(n);
      bias.check(function, TokenSpan{.batch = s.batch,
                                     .sequence = s.sequence_index,
                                     .heads = shape.heads,
                                     .first_query = s.first_query,
                                     .queries = s.queries,
                                     .aligned_key = s.query_offset,
                                     .has_aligned_key = geometry.has_query_offset(),
                                     .first_key = s.begin,
                                     .end_key = s.end});
    }
  }
}

}  // namespace detail
POSENC_END
