// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/forget_gradient.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/named_once.hpp>
#include <posenc/core/detail/order_of_sums.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/packing.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

POSENC_BEGIN

/// Gates of forgetting attention (FoX), one per token and head, cumulated over each sequence: what
/// ForgettingBias reads. Tokens are numbered as a KvCache numbers its keys, and the calls have its names,
/// so that both are kept alike: append the gates where keys are appended, truncate, erase, clear, copy,
/// restore.
/// A token that is masked as padding must leave no trace: give it the log gate 0, or leave it out.
///   Gate:     f = sigmoid(z), z a logit, one per query head; ln f is kept, no lower than -65536, where e^ln f
///             is 0 beside anything
///   Accuracy: ln f, and its sums F from the sequence's first token on, in double: differences of F are
///             off by at most tokens x 2^-53 |F|, tokens that erase() took from the front included
///   Cost:     8 bytes per token and head
///   Source:   arXiv 2503.02130; fla-org/flash-linear-attention @bc3b101, fla/layers/forgetting_attn.py
class ForgetGates {
 public:
  ///   Throws: ShapeError, std::bad_alloc
  ForgetGates(Index sequences, Index heads) : heads_(heads), all_(checked_count(sequences, heads)) {
    detail::check_order_of_sums("ForgetGates");
  }

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
    append_gates({sequences, {}}, logits, log_of_sigmoid);
  }
  template <class T>
  void append(Index sequence, EmbeddingsView<T> logits) {
    append(ListView<Index>(&sequence, 1), logits);
  }
  /// The same for sequences with a number of new tokens each, packed into one batch row, as KvCache has it.
  ///   Shapes: logits [1, total, H]; sequences [N]; cu_seqlens [N + 1], from 0 to total
  template <class T>
  void append(ListView<Index> sequences, ListView<Index> cu_seqlens, EmbeddingsView<T> logits) {
    detail::check_offsets(append_name, "cu_seqlens", cu_seqlens, logits.seq, sequences.size());
    append_gates({sequences, cu_seqlens}, logits, log_of_sigmoid);
  }
  /// The same three from ln f, which a model may compute itself.
  template <class T>
  void append_log(ListView<Index> sequences, EmbeddingsView<T> log_gates) {
    append_gates({sequences, {}}, log_gates, std::identity());
  }
  template <class T>
  void append_log(Index sequence, EmbeddingsView<T> log_gates) {
    append_log(ListView<Index>(&sequence, 1), log_gates);
  }
  template <class T>
  void append_log(ListView<Index> sequences, ListView<Index> cu_seqlens,
                  EmbeddingsView<T> log_gates) {
    detail::check_offsets(append_name, "cu_seqlens", cu_seqlens, log_gates.seq, sequences.size());
    append_gates({sequences, cu_seqlens}, log_gates, std::identity());
  }

  /// Copies the sums of ln f out, from token `first` on: what restore() takes.
  ///   Shapes: sums [1, n, H]
  ///   Throws: ShapeError, also where one of the tokens is not there
  void copy_sums(Index sequence, Index first, EmbeddingsView<double> sums) const {
    constexpr auto function = "ForgetGates::copy_sums";
    check_tokens(function, sequence, first, check_sums(function, sums));
    detail::check_output(function, "sums", sums);
    for (Index t = 0; t < sums.seq; ++t) {
      std::copy_n(row(at(sequence), first + t), heads_, sums.row(0, t));
    }
  }

  /// Makes a sequence hold the tokens `first` .. first + n - 1 and no others, whatever it held before, as
  /// KvCache::restore() does with keys: a session that copy_sums() saved goes on with the bits that it had.
  ///   Shapes: sums [1, n, H]
  ///   Throws: ShapeError, std::bad_alloc, before anything is written
  void restore(Index sequence, Index first, EmbeddingsView<const double> sums) {
    constexpr auto function = "ForgetGates::restore";
    check_sequence(function, sequence);
    const Index count = check_sums(function, sums);
    if (first < 0 || static_cast<double>(first) + static_cast<double>(count) > most) {
      detail::fail<ShapeError>(function, "tokens are numbered from 0 to 2^53, but the first is ",
                               first, " of ", count);
    }
    Sequence restored{first, std::vector<double>(size(count))};
    for (Index t = 0; t < count; ++t) {
      std::copy_n(sums.row(0, t), heads_, restored.sums.data() + size(t));
    }
    at(sequence) = std::move(restored);
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

  /// Removes tokens first .. first + count - 1, and what their gates would have taken from the tokens before them;
  /// later ones move down by `count`, as keys do in KvCache::erase(), which a ring refuses and gates never do.
  ///   Throws:   ShapeError unless the tokens are there
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

  /// Which tokens of [B, n, H] continue which sequence; with offsets, those of one row.
  struct Runs {
    std::span<const Index> sequences, offsets;

    Index begin(std::size_t n) const noexcept { return offsets.empty() ? 0 : offsets[n]; }
    Index end(std::size_t n, Index tokens) const noexcept {
      return offsets.empty() ? tokens : offsets[n + 1];
    }
  };

  static constexpr auto append_name = "ForgetGates::append";

  /// ln(1 / (1 + e^-z)), without a large number in between.
  static double log_of_sigmoid(double z) {
    return (std::min)(z, 0.0) - std::log1p(std::exp(-std::abs(z)));
  }

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

  void check_tokens(const char* function, Index sequence, Index first, Index count) const {
    check_cut(function, "the first token", sequence, first);
    const Index end = end_of(at(sequence));
    if (count < 0 || count > end - first) {
      detail::fail<ShapeError>(function, "sequence ", sequence, " has the tokens ",
                               at(sequence).first, " to ", end - 1, ", but ", count, " from ",
                               first, " on are asked for");
    }
  }

  /// Returns how many tokens there are.
  template <class T>
  Index check_sums(const char* function, const EmbeddingsView<T>& sums) const {
    detail::check_extents(function, "sums", sums);
    if (sums.batch != 1 || sums.dim != heads_) {
      detail::fail<ShapeError>(function, "sums ", sums.extents(), " must be [1, n, ", heads_, "]");
    }
    return sums.seq;
  }

  template <class T, class LogGate>
  void append_gates(const Runs& runs, EmbeddingsView<T> gates, const LogGate& log_gate) {
    const std::span<const Index> sequences = runs.sequences;
    detail::check_extents(append_name, "gates", gates);
    const Index batch = runs.offsets.empty() ? static_cast<Index>(sequences.size()) : 1;
    if (gates.batch != batch || gates.dim != heads_) {
      detail::fail<ShapeError>(append_name, "gates ", gates.extents(), " must be [", batch, ", n, ",
                               heads_, "]");
    }
    for (std::size_t n = 0; n < sequences.size(); ++n) {
      check_sequence(append_name, sequences[n]);
      detail::check_named_once(append_name, sequences, n);
    }
    if (static_cast<double>(gates.seq) * static_cast<double>(heads_) > most) {
      detail::fail<ShapeError>(append_name, "no memory holds ", heads_, " gates of ", gates.seq,
                               " tokens");
    }
    // All memory first: nothing is appended where one sequence finds none.
    for (std::size_t n = 0; n < sequences.size(); ++n) {
      std::vector<double>& sums = at(sequences[n]).sums;
      const std::size_t needed = sums.size() + size(runs.end(n, gates.seq) - runs.begin(n));
      if (needed > sums.capacity()) sums.reserve((std::max)(needed, 2 * sums.capacity()));
    }
    for (std::size_t n = 0; n < sequences.size(); ++n) {
      std::vector<double>& sums = at(sequences[n]).sums;
      const Index b = runs.offsets.empty() ? static_cast<Index>(n) : 0;
      for (Index t = runs.begin(n); t < runs.end(n, gates.seq); ++t) {
        const T* const of_token = gates.row(b, t);
        for (Index h = 0; h < heads_; ++h) {
          // In this order a NaN stays one.
          const double added = (std::max)(log_gate(static_cast<double>(of_token[h])),
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

  static constexpr double most = 0x1p53;  ///< numbers that memory can hold

  Index heads_;
  std::vector<Sequence> all_;
};

POSENC_END
