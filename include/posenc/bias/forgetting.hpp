// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/distances.hpp>
#include <posenc/bias/forget_gates.hpp>
#include <posenc/bias/forget_gradient.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

POSENC_BEGIN

/// Forgetting attention (FoX): the sum of ln f over the tokens j + 1 .. i is added to the score of
/// query i and key j. The query's own key gets 0, and key j's own gate does not count for it. A
/// model of TokenBias.
///
/// Views gates and a list of sequences, both of which must outlive it. Batch row b of attention(),
/// or packed sequence b, has the tokens of sequences[b]. A query's token is its aligned key, so the
/// call must give an alignment (any Causal but ByPosition); a mask has to hide keys after the
/// query. Like every bias it is added after the scale and before the masks.
///   Accuracy: the difference is computed in double and rounded once
///   Bits:     depend on the tokens alone: a decoded row equals the prefilled one
///   Throws:   attention() throws ShapeError or ConfigError if gates of its tokens are missing
///   Source:   as ForgetGates, ops/forgetting_attn/naive.py; lucidrains/x-transformers at 9252ed7
///             has it as DataDependentAlibi (causal)
class ForgettingBias {
 public:
  /// Constructs a view of the gates and of the list of sequences.
  ForgettingBias(const ForgetGates& gates, std::span<const Index> sequences) noexcept
      : gates_(gates), sequences_(sequences) {}
  /// Deleted, because a temporary would be destroyed before the first call.
  ForgettingBias(const ForgetGates&&, std::span<const Index>) = delete;

  /// Returns the number of heads H.
  Index heads() const noexcept { return gates_.heads(); }

  /// Checks that the gates of all tokens of a span are stored.
  ///   Throws: ShapeError, ConfigError
  void check(const char* function, const TokenSpan& span) const {
    if (span.sequence < 0 || span.sequence >= static_cast<Index>(sequences_.size())) {
      detail::fail<ShapeError>(function, "ForgettingBias lists ", sequences_.size(),
                               " sequences, but the call has a sequence ", span.sequence);
    }
    const Index sequence = sequences_[static_cast<std::size_t>(span.sequence)];
    const Index first = gates_.first(sequence), end = gates_.length(sequence);
    if (span.queries > 0 && !span.has_aligned_key) {
      detail::fail<ConfigError>(function,
                                "ForgettingBias requires a causal alignment or query_starts, which "
                                "define the token of each query");
    }
    const auto check_tokens = [&](const char* whose, Index from, Index to) {
      if (from < to && (from < first || to > end)) {
        detail::fail<ShapeError>(function, "ForgetGates has the tokens ", first, " to ", end - 1,
                                 " of sequence ", sequence, ", but ", whose, " are ", from, " to ",
                                 to - 1);
      }
    };
    check_tokens("the keys", span.first_key, span.end_key);
    check_tokens("the queries", span.aligned_key,
                 detail::checked_add(span.aligned_key, span.queries)
                     .value_or((std::numeric_limits<Index>::max)()));
  }

  /// Adds the bias of a tile: tile(i, j) += F(query i) - F(key j).
  template <std::floating_point Real>
  void add(const TokenTile& tokens, MatrixView<Real> tile) const noexcept {
    const Index sequence = sequences_[static_cast<std::size_t>(tokens.sequence)];
    const Index heads = gates_.heads();
    if (tile.empty()) return;
    using P = Pack<double, tier::Best>;
    constexpr Index max_keys = 128;
    alignas(64) double key_sums[max_keys] = {};
    alignas(64) Real values[max_keys];
    for (Index first = 0; first < tile.cols; first += max_keys) {
      const Index count = (std::min)(max_keys, tile.cols - first);
      const double* key = gates_.sums(sequence, tokens.first_key + first) + tokens.head;
      for (Index j = 0; j < count; ++j, key += heads) key_sums[j] = *key;
      const double* query = gates_.sums(sequence, tokens.aligned_key) + tokens.head;
      for (Index i = 0; i < tile.rows; ++i, query += heads) {
        const P query_sum = P::broadcast(*query);
        for (Index j = 0; j < count; j += P::width) {
          detail::store_as(query_sum - P::load(key_sums + j), values + j);
        }
        detail::add_values(values, tile.row(i) + first, count);
      }
    }
  }

  /// Adds the gradient of F for the tokens of a tile, for the gradient of its scores, summed in
  /// double. Only entries of the tile's queries and keys are written. Tiles without a common query
  /// and without a common key, and tiles of different heads, may therefore be added concurrently.
  ///   Shapes: grad [queries, keys]; gradient see zero_gradient()
  ///   Throws: ShapeError if the gradient lacks these tokens
  template <std::floating_point Real>
  void add_gradient(const TokenTile& tokens, MatrixView<const Real> grad,
                    ForgetGradient& gradient) const {
    if (grad.empty()) return;
    const Index sequence = sequences_[static_cast<std::size_t>(tokens.sequence)];
    const Index first = gates_.first(sequence);
    gradient.add(tokens.sequence, tokens.head, tokens.aligned_key - first, tokens.first_key - first,
                 grad);
  }

  /// Returns zeros for the gates that are stored at the time of the call.
  ///   Throws: std::bad_alloc
  ForgetGradient zero_gradient() const {
    std::vector<Index> tokens;
    for (const Index sequence : sequences_) {
      tokens.push_back(gates_.length(sequence) - gates_.first(sequence));
    }
    return {gates_.heads(), std::move(tokens)};
  }

 private:
  const ForgetGates& gates_;
  std::span<const Index> sequences_;
};

POSENC_END
