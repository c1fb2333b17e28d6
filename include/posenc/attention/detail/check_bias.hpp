// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/masks.hpp>
#include <posenc/attention/detail/relative_columns.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Types that attention() accepts as a bias.
template <class Bias, class T>
concept AttentionBias =
    ScoreBias<Bias, T> || TokenBias<Bias, T> || std::same_as<Bias, RelativeBias<T>>;

/// Checks that a bias has the positions and the number of heads that it needs, and calls its
/// check() for each sequence. A bias without heads() or check() skips that part.
template <Scalar T, class Bias>
void check_bias(const char* function, [[maybe_unused]] const Bias& bias,
                const AttentionGeometry<T>& geometry, [[maybe_unused]] const Masks<T>& masks,
                const AttentionShape& shape, [[maybe_unused]] const HeadsView<const T>& q) {
  if constexpr (requires { bias.heads(); }) {
    if (bias.heads() != shape.heads) {
      fail<ShapeError>(function, "the bias is for ", bias.heads(), " heads but q has ",
                       shape.heads);
    }
  }
  if constexpr (std::is_same_v<Bias, NoBias>) return;
  geometry.require_query_positions("a bias");
  if constexpr (std::is_same_v<Bias, RelativeBias<T>>) {
    check_relative_bias<T>(function, bias, geometry, masks, shape, q);
  }
  if constexpr (requires { bias.check(function, TokenSpan{}); }) {
    // Batch rows without scores are equal, and there may be any number of them.
    const Index step = shape.has_scores() ? 1 : (std::max)(geometry.sequences() - 1, Index{1});
    for (Index n = 0; n < geometry.sequences(); n += step) {
      const AttentionSequence s = geometry.sequence(n);
      bias.check(function,
                 TokenSpan{s.batch, s.sequence_index, shape.heads, s.first_query, s.queries,
                           s.query_offset, geometry.has_query_offset(), s.begin, s.end});
    }
  }
}

}  // namespace detail
POSENC_END
