// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/forget_gradient.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/strict_fp_order.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/index_span.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/tensor/detail/check_offsets.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/token_runs.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

POSENC_BEGIN

/// Cumulative log forget gates (FoX), one per token and head; the input of ForgettingBias. Tokens
/// have the numbers of the KvCache keys, and the modifying calls (append, truncate, erase, clear,
/// copy, restore) have the same names: apply each of them to both objects. A token that is masked
/// as padding must not change later sums: give it the log gate 0, or leave it out.
/// A gate is f = sigmoid(z), with one logit z per query head. ln f is clamped to at least -65536,
/// where e^ln f is negligible.
///   Accuracy: ln f and its sums F from the sequence's first token on are doubles. Differences of F
///             are off by at most tokens x 2^-53 |F|, with the largest |F| since the sequence's
///             first token, and counting tokens that erase() removed
///   Cost:     8 bytes per token and head
///   Source:   arXiv 2503.02130; fla-org/flash-linear-attention at bc3b101,
///             fla/layers/forgetting_attn.py
class ForgetGates {
 public:
  /// Constructs sequences without tokens.
  ///   Throws: ShapeError, std::bad_alloc; ConfigError if the compiler reassociates sums
  ForgetGates(Index sequences, Index heads)
      : heads_(heads), sequences_(checked_count(sequences, heads)) {
    detail::check_strict_fp_order("ForgetGates");
  }

  /// Returns the number of sequences.
  Index sequences() const noexcept { return static_cast<Index>(sequences_.size()); }
  /// Returns the number of heads H.
  Index heads() const noexcept { return heads_; }
  /// Returns the number of tokens of the sequence, including evicted ones.
  ///   Throws: ShapeError
  Index length(Index sequence) const {
    check_sequence("ForgetGates::length", sequence);
    return end_of(at(sequence));
  }
  /// Returns the number of the oldest stored token.
  ///   Throws: ShapeError
  Index first(Index sequence) const {
    check_sequence("ForgetGates::first", sequence);
    return at(sequence).first;
  }

  /// Appends n tokens to each sequence, from their logits z: batch row b goes to sequences[b].
  ///   Shapes: logits [B, n, H]; sequences [B], all different
  ///   Throws: ShapeError, std::bad_alloc, before anything is written
  template <class T>
  void append(ListView<Index> sequences, EmbeddingsView<T> logits) {
    append_gates({sequences, {}, logits.seq}, logits, log_of_sigmoid);
  }
  /// Overload that appends to one sequence.
  ///   Shapes: logits [1, n, H]
  ///   Throws: ShapeError, std::bad_alloc, before anything is written
  template <class T>
  void append(Index sequence, EmbeddingsView<T> logits) {
    append(ListView<Index>(&sequence, 1), logits);
  }
  /// Overload for several sequences in one packed batch row, as KvCache::append() takes them.
  ///   Shapes: logits [1, total, H]; sequences [N]; cu_seqlens [N + 1], from 0 to total
  ///   Throws: ShapeError, std::bad_alloc, before anything is written
  template <class T>
  void append(ListView<Index> sequences, IndexList cu_seqlens, EmbeddingsView<T> logits) {
    append_packed({sequences, cu_seqlens, logits.seq}, logits, log_of_sigmoid);
  }
  /// Variant of append() for models that compute log gates ln f.
  ///   Shapes: log_gates [B, n, H]; sequences [B], all different
  ///   Throws: ShapeError, std::bad_alloc, before anything is written
  template <class T>
  void append_log(ListView<Index> sequences, EmbeddingsView<T> log_gates) {
    append_gates({sequences, {}, log_gates.seq}, log_gates, std::identity());
  }
  /// Overload that appends to one sequence.
  ///   Shapes: log_gates [1, n, H]
  ///   Throws: ShapeError, std::bad_alloc, before anything is written
  template <class T>
  void append_log(Index sequence, EmbeddingsView<T> log_gates) {
    append_log(ListView<Index>(&sequence, 1), log_gates);
  }
  /// Overload for several sequences in one packed batch row.
  ///   Shapes: log_gates [1, total, H]; sequences [N]; cu_seqlens [N + 1], from 0 to total
  ///   Throws: ShapeError, std::bad_alloc, before anything is written
  template <class T>
  void append_log(ListView<Index> sequences, IndexList cu_seqlens, EmbeddingsView<T> log_gates) {
    append_packed({sequences, cu_seqlens, log_gates.seq}, log_gates, std::identity());
  }

  /// Copies the sums of ln f of the tokens from `first` on; restore() reads them back.
  ///   Shapes: sums [1, n, H]
  ///   Throws: ShapeError, also if a token is not stored
  void copy_sums(Index sequence, Index first, EmbeddingsView<double> sums) const {
    constexpr auto function = "ForgetGates::copy_sums";
    check_tokens(function, sequence, first, checked_token_count(function, sums));
    detail::check_output(function, "sums", sums);
    for (Index t = 0; t < sums.seq; ++t) {
      std::copy_n(row(at(sequence), first + t), heads_, sums.row(0, t));
    }
  }

  /// Replaces the contents of a sequence by the tokens `first` .. first + n - 1, as
  /// KvCache::restore() does with keys. A session that copy_sums() saved resumes bit-identically.
  ///   Shapes: sums [1, n, H]
  ///   Throws: ShapeError, std::bad_alloc, before anything is written
  void restore(Index sequence, Index first, EmbeddingsView<const double> sums) {
    constexpr auto function = "ForgetGates::restore";
    check_sequence(function, sequence);
    const Index count = checked_token_count(function, sums);
    if (first < 0 || static_cast<double>(first) + static_cast<double>(count) > max_numbers) {
      detail::fail<ShapeError>(function,
                               "token indices must lie between 0 and 2^53, but the first is ",
                               first, " of ", count);
    }
    Sequence restored{first, std::vector<double>(size(count))};
    for (Index t = 0; t < count; ++t) {
      std::copy_n(sums.row(0, t), heads_, restored.sums.data() + size(t));
    }
    at(sequence) = std::move(restored);
  }

  /// Removes the tokens from `length` on.
  ///   Throws: ShapeError unless first(sequence) <= length <= length(sequence)
  void truncate(Index sequence, Index length) {
    check_cut("ForgetGates::truncate", "the new length", sequence, length);
    Sequence& s = at(sequence);
    s.sums.resize(size(length - s.first));
  }

  /// Removes the tokens before `first`, as a ring evicts keys that no later query sees.
  ///   Throws: ShapeError unless first(sequence) <= first <= length(sequence)
  ///   Cost:   one pass over the remaining tokens
  void evict_before(Index sequence, Index first) {
    check_cut("ForgetGates::evict_before", "the first token", sequence, first);
    Sequence& s = at(sequence);
    s.sums.erase(s.sums.begin(),
                 s.sums.begin() + static_cast<std::ptrdiff_t>(size(first - s.first)));
    s.first = first;
  }

  /// Removes the tokens first .. first + count - 1 and the effect of their gates on earlier tokens.
  /// Later tokens move down by `count`, as keys do in KvCache::erase(). Unlike a KvCache with a
  /// ring, gates can always be erased.
  ///   Throws:   ShapeError unless the tokens are stored
  ///   Accuracy: sums of later tokens are rounded once more
  void erase(Index sequence, Index first, Index count) {
    check_tokens("ForgetGates::erase", sequence, first, count);
    if (count == 0) return;
    Sequence& s = at(sequence);
    const auto begin = size(first - s.first), end = begin + size(count), heads = size(1);
    if (begin > 0) {
      for (std::size_t n = end; n < s.sums.size(); n += heads) {
        for (std::size_t h = 0; h < heads; ++h) {
          s.sums[n + h] -= s.sums[end - heads + h] - s.sums[begin - heads + h];
        }
      }
    }
    const auto from = s.sums.begin();
    s.sums.erase(from + static_cast<std::ptrdiff_t>(begin),
                 from + static_cast<std::ptrdiff_t>(end));
  }

  /// Removes all tokens. The next token is token 0.
  ///   Throws: ShapeError
  void clear(Index sequence) {
    check_sequence("ForgetGates::clear", sequence);
    at(sequence) = {};
  }

  /// Replaces sequence `to` by a copy of `from`.
  ///   Throws: ShapeError, std::bad_alloc
  void copy(Index from, Index to) {
    check_sequence("ForgetGates::copy", from);
    check_sequence("ForgetGates::copy", to);
    if (from == to) return;
    Sequence copied = at(from);
    at(to) = std::move(copied);
  }

  /// Returns the sums [H] of ln f over the tokens up to `token`, which must be stored.
  const double* sums(Index sequence, Index token) const noexcept {
    const Sequence& s = at(sequence);
    return row(s, token);
  }

 private:
  struct Sequence {
    Index first = 0;
    std::vector<double> sums;  ///< [tokens][H]
  };

  static constexpr auto append_name = "ForgetGates::append";

  /// Returns ln(1 / (1 + e^-z)) without a large intermediate value.
  static double log_of_sigmoid(double z) {
    return (std::min)(z, 0.0) - std::log1p(std::exp(-std::abs(z)));
  }

  static std::size_t checked_count(Index sequences, Index heads) {
    if (sequences < 0 || heads < 1) {
      detail::fail<ShapeError>("ForgetGates", "there must be at least one head, and no negative ",
                               "number of sequences, but there are ", heads, " and ", sequences);
    }
    if (static_cast<double>(sequences) * static_cast<double>(heads) > max_numbers) {
      detail::fail<ShapeError>("ForgetGates", "the gates of ", sequences, " sequences with ", heads,
                               " heads must fit into memory");
    }
    return static_cast<std::size_t>(sequences);
  }

  Sequence& at(Index n) noexcept { return sequences_[static_cast<std::size_t>(n)]; }
  const Sequence& at(Index n) const noexcept { return sequences_[static_cast<std::size_t>(n)]; }
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

  /// Throws ShapeError unless `token` lies in the stored tokens of a sequence, or is their end.
  void check_cut(const char* function, const char* what, Index sequence, Index token) const {
    check_sequence(function, sequence);
    const Sequence& s = at(sequence);
    if (token < s.first || token > end_of(s)) {
      detail::fail<ShapeError>(function, what, " must lie within [", s.first, ", ", end_of(s),
                               "], the tokens of sequence ", sequence, ", but is ", token);
    }
  }

  void check_tokens(const char* function, Index sequence, Index first, Index count) const {
    check_cut(function, "the first token", sequence, first);
    const Index end = end_of(at(sequence));
    if (count < 0 || count > end - first) {
      detail::fail<ShapeError>(function, "sequence ", sequence, " has the tokens ",
                               at(sequence).first, " to ", end - 1, ", but ", count, " from ",
                               first, " on are requested");
    }
  }

  /// Checks a view of sums, and returns its number of tokens.
  template <class T>
  Index checked_token_count(const char* function, const EmbeddingsView<T>& sums) const {
    detail::check_extents(function, "sums", sums);
    if (sums.batch != 1 || sums.dim != heads_) {
      detail::fail<ShapeError>(function, "sums ", sums.extents(), " must be [1, n, ", heads_, "]");
    }
    return sums.seq;
  }

  template <class T, class LogGate>
  void append_packed(const detail::TokenRuns& runs, EmbeddingsView<T> gates,
                     const LogGate& log_gate) {
    detail::check_extents(append_name, "gates", gates);
    detail::check_offsets(append_name, "cu_seqlens", runs.offsets, gates.seq,
                          runs.sequences.size());
    append_gates(runs, gates, log_gate);
  }

  template <class T, class LogGate>
  void append_gates(const detail::TokenRuns& runs, EmbeddingsView<T> gates,
                    const LogGate& log_gate) {
    detail::check_extents(append_name, "gates", gates);
    if (gates.batch != runs.batch() || gates.dim != heads_) {
      detail::fail<ShapeError>(append_name, "gates ", gates.extents(), " must be [", runs.batch(),
                               ", n, ", heads_, "]");
    }
    for (Index n = 0; n < runs.size(); ++n) {
      check_sequence(append_name, runs.sequence(n));
      runs.check_unique(append_name, n);
    }
    if (static_cast<double>(gates.seq) * static_cast<double>(heads_) > max_numbers) {
      detail::fail<ShapeError>(append_name, heads_, " gates of ", gates.seq,
                               " tokens must fit into memory");
    }
    // Memory is reserved first, so that nothing is appended if an allocation fails.
    for (Index n = 0; n < runs.size(); ++n) {
      std::vector<double>& sums = at(runs.sequence(n)).sums;
      const std::size_t needed = sums.size() + size(runs.count(n));
      if (needed > sums.capacity()) sums.reserve((std::max)(needed, 2 * sums.capacity()));
    }
    for (Index n = 0; n < runs.size(); ++n) {
      std::vector<double>& sums = at(runs.sequence(n)).sums;
      for (Index t = 0; t < runs.count(n); ++t) {
        const T* const token_gates = gates.row(runs.row(n), runs.first(n) + t);
        for (Index h = 0; h < heads_; ++h) {
          // std::max returns its first argument if that is NaN.
          const double added = (std::max)(log_gate(static_cast<double>(token_gates[h])),
                                          ForgetGradient::least_log_gate);
          const std::size_t held = sums.size();
          const double before = held < size(1) ? 0.0 : sums[held - size(1)];
          sums.push_back(before + added);
        }
      }
    }
  }

  Index end_of(const Sequence& s) const noexcept {
    return s.first + static_cast<Index>(s.sums.size()) / heads_;
  }

  static constexpr double max_numbers = 0x1p53;  ///< numbers that memory can hold

  Index heads_;
  std::vector<Sequence> sequences_;
};

POSENC_END
