// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/distances.hpp>
#include <posenc/bias/forget_gradient.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/named_once.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

POSENC_BEGIN

/// Gates of forgetting attention (FoX), one per token and head, cumulated over each sequence: what
/// ForgettingBias reads. Tokens are numbered as a KvCache numbers its keys, and the calls have its names,
/// so that both are kept alike: append the gates where keys are appended, truncate, clear, copy.
/// A token that is masked as padding must leave no trace: give it the log gate 0, or leave it out.
///   Gate:     f = sigmoid(z), z a logit, one per query head; ln f is kept, no lower than -65536, where e^ln f
///             is 0 beside anything
///   Accuracy: ln f, and its sums F from the sequence's first token on, in double: differences of F are
///             off by at most tokens x 2^-53 |F|
///   Cost:     8 bytes per token and head
///   Source:   arXiv 2503.02130; fla-org/flash-linear-attention @bc3b101, fla/layers/forgetting_attn.py
class ForgetGates {
 public:
  ///   Throws: ShapeError, std::bad_alloc
  ForgetGates(Index sequences, Index heads)
      : heads_(heads), all_(checked_count(sequences, heads)) {}

  Index sequences() const noexcept { return static_cast<Index>(all_.size()); }
  Index heads() const noexcept { return heads_; }
  /// How many tokens the sequence has had.
  ///   Throws: ShapeError
  Index length(Index sequence) const {
    check_sequence("ForgetGates::length", sequence);
    return end_of(at(sequence));
  }
  /// The oldest token that is still there.
  ///   Throws: ShapeError
  Index first(Index sequence) const {
    check_sequence("ForgetGates::first", sequence);
    return at(sequence).first;
  }

  /// Appends n tokens to batch row b's sequence, sequences[b], from their logits z.
  ///   Shapes: logits [B, n, H]; sequences [B], no two the same
  ///   Throws: ShapeError, std::bad_alloc, before anything is written
  template <class T>
  void append(ListView<Index> sequences, EmbeddingsView<T> logits) {
    append_gates(sequences, logits, [](double z) {
      // ln(1 / (1 + e^-z)), without a large number in between.
      return (std::min)(z, 0.0) - std::log1p(std::exp(-std::abs(z)));
    });
  }
  template <class T>
  void append(Index sequence, EmbeddingsView<T> logits) {
    append(ListView<Index>(&sequence, 1), logits);
  }
  /// The same from ln f, which a model may compute itself.
  template <class T>
  void append_log(ListView<Index> sequences, EmbeddingsView<T> log_gates) {
    append_gates(sequences, log_gates, [](double log_gate) { return log_gate; });
  }

  /// Forgets the tokens from `length` on.
  ///   Throws: ShapeError unless first(sequence) <= length <= length(sequence)
  void truncate(Index sequence, Index length) {
    check_cut("ForgetGates::truncate", "the new length", sequence, length);
    Sequence& s = at(sequence);
    s.sums.resize(size(length - s.first));
  }

  /// Forgets the tokens before `first`, which no query will see again: those of a ring.
  ///   Throws: ShapeError unless first(sequence) <= first <= length(sequence)
  ///   Cost:   one pass over the tokens that stay
  void forget_before(Index sequence, Index first) {
    check_cut("ForgetGates::forget_before", "the first token", sequence, first);
    Sequence& s = at(sequence);
    s.sums.erase(s.sums.begin(),
                 s.sums.begin() + static_cast<std::ptrdiff_t>(size(first - s.first)));
    s.first = first;
  }

  /// Forgets all tokens; the next one is token 0.
  ///   Throws: ShapeError
  void clear(Index sequence) {
    check_sequence("ForgetGates::clear", sequence);
    at(sequence) = {};
  }

  /// Makes sequence `to` a copy of `from`.
  ///   Throws: ShapeError, std::bad_alloc
  void copy(Index from, Index to) {
    check_sequence("ForgetGates::copy", from);
    check_sequence("ForgetGates::copy", to);
    if (from == to) return;
    Sequence copied = at(from);
    at(to) = std::move(copied);
  }

  /// Sums of ln f over the tokens up to this one, [H]; of a token that is there.
  const double* sums(Index sequence, Index token) const noexcept {
    const Sequence& s = at(sequence);
    return row(s, token);
  }

 private:
  struct Sequence {
    Index first = 0;
    std::vector<double> sums;  ///< [tokens][H]
  };

  static std::size_t checked_count(Index sequences, Index heads) {
    if (sequences < 0 || heads < 1) {
      detail::fail<ShapeError>("ForgetGates", "there must be at least one head, and no negative ",
                               "number of sequences, but there are ", heads, " and ", sequences);
    }
    if (static_cast<double>(sequences) * static_cast<double>(heads) > most) {
      detail::fail<ShapeError>("ForgetGates", "no memory holds the gates of ", sequences,
                               " sequences with ", heads, " heads");
    }
    return static_cast<std::size_t>(sequences);
  }

  Sequence& at(Index n) noexcept { return all_[static_cast<std::size_t>(n)]; }
  const Sequence& at(Index n) const noexcept { return all_[static_cast<std::size_t>(n)]; }
  std::size_t size(Index tokens) const noexcept {
    return static_cast<std::size_t>(tokens) * static_cast<std::size_t>(heads_);
  }
  const double* row(const Sequence& s, Index token) const noexcept {
    return s.sums.data() + size(token - s.first);
  }

  void check_sequence(const char* function, Index sequence) const {
    if (sequence < 0 || sequence >= sequences()) {
      detail::fail<ShapeError>(function, "sequence must lie within the ", sequences(),
                               " sequences but is ", sequence);
    }
  }

  /// A sequence is cut within what it has.
  void check_cut(const char* function, const char* what, Index sequence, Index token) const {
    check_sequence(function, sequence);
    const Sequence& s = at(sequence);
    if (token < s.first || token > end_of(s)) {
      detail::fail<ShapeError>(function, what, " must lie within [", s.first, ", ", end_of(s),
                               "], the tokens of sequence ", sequence, ", but is ", token);
    }
  }

  template <class T, class LogGate>
  void append_gates(std::span<const Index> sequences, EmbeddingsView<T> gates,
                    const LogGate& log_gate) {
    constexpr auto function = "ForgetGates::append";
    detail::check_extents(function, "gates", gates);
    if (gates.batch != static_cast<Index>(sequences.size()) || gates.dim != heads_) {
      detail::fail<ShapeError>(function, "gates ", gates.extents(), " must be [", sequences.size(),
                               ", n, ", heads_, "]");
    }
    for (std::size_t b = 0; b < sequences.size(); ++b) {
      check_sequence(function, sequences[b]);
      detail::check_named_once(function, sequences, b);
    }
    if (static_cast<double>(gates.seq) * static_cast<double>(heads_) > most) {
      detail::fail<ShapeError>(function, "no memory holds ", heads_, " gates of ", gates.seq,
                               " tokens");
    }
    // All memory first: nothing is appended where one sequence finds none.
    for (const Index sequence : sequences) {
      std::vector<double>& sums = at(sequence).sums;
      const std::size_t needed = sums.size() + size(gates.seq);
      if (needed > sums.capacity()) sums.reserve((std::max)(needed, 2 * sums.capacity()));
    }
    for (Index b = 0; b < gates.batch; ++b) {
      Sequence& s = at(sequences[static_cast<std::size_t>(b)]);
      for (Index t = 0; t < gates.seq; ++t) {
        const T* const of_token = gates.row(b, t);
        for (Index h = 0; h < heads_; ++h) {
          // In this order a NaN stays one.
          const double added = (std::max)(log_gate(static_cast<double>(of_token[h])),
                                          ForgetGradient::least_log_gate);
          const std::size_t n = s.sums.size();
          const double before = n < size(1) ? 0.0 : s.sums[n - size(1)];
          s.sums.push_back(before + added);
        }
      }
    }
  }

  Index end_of(const Sequence& s) const noexcept {
    return s.first + static_cast<Index>(s.sums.size()) / heads_;
  }

  static constexpr double most = 0x1p53;  ///< numbers that memory can hold

  Index heads_;
  std::vector<Sequence> all_;
};

/// Forgetting attention: a score of query i and key j gets the sum of ln f over the tokens j + 1 .. i, so
/// the query's own key gets 0, and key j's own gate does not count for it. A model of TokenBias.
///
/// Views gates and a list of sequences, which must outlive it: batch row b of attention(), or packed sequence
/// b, has the tokens of sequences[b]. A query's token is the key at which it stands, so the call says where
/// that is (any Causal but ByPosition; keys after the query are for a mask to hide). The bias stands
/// where others do: after the scale, before the masks.
///   Accuracy: the difference is taken in double and rounded once
///   Bits:     of the tokens alone: a decoded row equals the prefilled one
///   Throws:   attention() throws ShapeError, ConfigError where gates of its tokens are missing
///   Source:   as ForgetGates, ops/forgetting_attn/naive.py; lucidrains/x-transformers @9252ed7 has it as
///             DataDependentAlibi (causal)
class ForgettingBias {
 public:
  ForgettingBias(const ForgetGates& gates, std::span<const Index> sequences) noexcept
      : gates_(gates), sequences_(sequences) {}
  /// Gates that nobody keeps would be gone at the first call.
  ForgettingBias(const ForgetGates&&, std::span<const Index>) = delete;

  Index heads() const noexcept { return gates_.heads(); }

  /// That the gates of all tokens of a sequence are there.
  ///   Throws: ShapeError, ConfigError
  void check(const char* function, const TokenSpan& span) const {
    if (span.sequence < 0 || span.sequence >= static_cast<Index>(sequences_.size())) {
      detail::fail<ShapeError>(function, "ForgettingBias names ", sequences_.size(),
                               " sequences, but the call has one numbered ", span.sequence);
    }
    const Index sequence = sequences_[static_cast<std::size_t>(span.sequence)];
    const Index first = gates_.first(sequence), end = gates_.length(sequence);
    if (span.queries > 0 && !span.has_places) {
      detail::fail<ConfigError>(
          function, "ForgettingBias needs a causal alignment or query_starts, which say at ",
          "which tokens queries stand");
    }
    const auto check_tokens = [&](const char* whose, Index from, Index to) {
      if (from < to && (from < first || to > end)) {
        detail::fail<ShapeError>(function, "ForgetGates has the tokens ", first, " to ", end - 1,
                                 " of sequence ", sequence, ", but ", whose, " are ", from, " to ",
                                 to - 1);
      }
    };
    check_tokens("the keys", span.first_key, span.end_key);
    check_tokens("the queries", span.first_place, span.first_place + span.queries);
  }

  /// tile(i, j) += F(query i) - F(key j).
  template <std::floating_point Real>
  void add(const TokenTile& tokens, MatrixView<Real> tile) const noexcept {
    const Index sequence = sequences_[static_cast<std::size_t>(tokens.sequence)];
    const Index heads = gates_.heads();
    if (tile.empty()) return;
    using P = Pack<double, tier::Best>;
    constexpr Index most = 128;
    alignas(64) double of_keys[most] = {};
    alignas(64) Real values[most];
    for (Index first = 0; first < tile.cols; first += most) {
      const Index count = (std::min)(most, tile.cols - first);
      const double* key = gates_.sums(sequence, tokens.first_key + first) + tokens.head;
      for (Index j = 0; j < count; ++j, key += heads) of_keys[j] = *key;
      const double* query = gates_.sums(sequence, tokens.first_place) + tokens.head;
      for (Index i = 0; i < tile.rows; ++i, query += heads) {
        const P of_query = P::broadcast(*query);
        for (Index j = 0; j < count; j += P::width) {
          detail::store_as(of_query - P::load(of_keys + j), values + j);
        }
        detail::add_values(values, tile.row(i) + first, count);
      }
    }
  }

  /// gradient += that of F of the tokens of a tile, for the gradient of its scores, summed in double. Of a tile's
  /// queries and keys nothing else is touched, so that tiles without a common query and without a common key,
  /// and tiles of different heads, may be added on several threads at a time.
  ///   Shapes: grad [queries, keys]; gradient see zero_gradient()
  ///   Throws: ShapeError where the gradient lacks these tokens
  template <std::floating_point Real>
  void add_gradient(const TokenTile& tokens, MatrixView<const Real> grad,
                    ForgetGradient& gradient) const {
    if (grad.empty()) return;
    const Index sequence = sequences_[static_cast<std::size_t>(tokens.sequence)];
    const Index first = gates_.first(sequence);
    gradient.add(tokens.sequence, tokens.head, tokens.first_place - first, tokens.first_key - first,
                 grad);
  }

  /// Zeros for the gates that are there now.
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
