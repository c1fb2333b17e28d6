// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

POSENC_BEGIN

/// Gradient of the gates that a ForgettingBias reads: of F, the sums of ln f, for each sequence of
/// the bias, head and token. Contributions of a token as a query and as a key are stored apart.
/// log_gates() and logits() convert it to gradients of a model's own layers.
///   Source: arXiv 2503.02130; fla-org/flash-linear-attention at bc3b101,
///           ops/forgetting_attn/naive.py, which leaves it to automatic differentiation
class ForgetGradient {
 public:
  /// Constructs a gradient without heads and sequences.
  ForgetGradient() = default;
  /// Constructs zeros.
  ///   Shapes: tokens [sequences], the number of tokens of each whose gates are stored
  ///   Throws: ShapeError, std::bad_alloc
  ForgetGradient(Index heads, std::vector<Index> tokens)
      : heads_(heads), tokens_(std::move(tokens)) {
    Index size = 0;
    for (const Index count : tokens_) {
      begins_.push_back(size);
      const auto size_of_sequence = detail::checked_mul({heads, count});
      size = detail::checked_add(size, size_of_sequence.value_or(size_limit)).value_or(size_limit);
      if (size >= size_limit) {
        detail::fail<ShapeError>(
            "ForgetGradient",
            "the tokens of a sequence must not be negative and must fit into memory, but are ",
            count, " with ", heads, " heads");
      }
    }
    grad_as_queries_ = std::vector<double>(static_cast<std::size_t>(size));
    grad_as_keys_ = grad_as_queries_;
  }

  /// Returns the number of heads H.
  Index heads() const noexcept { return heads_; }
  /// Returns the number of tokens of each sequence.
  const std::vector<Index>& tokens() const noexcept { return tokens_; }

  /// Adds a tile of the gradient of the scores in one head. Row sums are added to dF of the tokens
  /// query, query + 1, ..., and column sums are subtracted from dF of the tokens key, key + 1, ....
  ///   Shapes: grad [queries, keys]
  ///   Throws: ShapeError
  template <std::floating_point Real>
  void add(Index sequence, Index head, Index query, Index key, MatrixView<const Real> grad) {
    check_tile(sequence, head, query, key, grad);
    const auto at = static_cast<std::size_t>(sequence);
    const Index first = begins_[at] + head * tokens_[at];
    double* const query_grads = grad_as_queries_.data() + first + query;
    double* const key_grads = grad_as_keys_.data() + first + key;
    for (Index i = 0; i < grad.rows; ++i) {
      query_grads[i] += subtract_row(grad.row(i), key_grads, grad.cols);
    }
  }

  /// Adds the gradient of another call.
  ///   Throws: ShapeError
  ForgetGradient& operator+=(const ForgetGradient& other) {
    if (other.heads_ != heads_ || other.tokens_ != tokens_) {
      detail::fail<ShapeError>("ForgetGradient", "the gradient to add must have ", heads_,
                               " heads and ", "the tokens ", ListView<Index>(tokens_), " but has ",
                               other.heads_, " and ", ListView<Index>(other.tokens_));
    }
    const auto count = static_cast<Index>(grad_as_queries_.size());
    detail::add_values(other.grad_as_queries_.data(), grad_as_queries_.data(), count);
    detail::add_values(other.grad_as_keys_.data(), grad_as_keys_.data(), count);
    return *this;
  }

  /// Writes the gradient of the log gates of the last n tokens: the reverse cumulative sum of dF.
  /// Row b belongs to sequence first + b of the bias. For packed sequences call it for each
  /// sequence, with B = 1.
  ///   Shapes: grad_log_gates [B, n, H]
  ///   Throws: ShapeError, before anything is written
  template <detail::Writable T>
  void log_gates(Index first, EmbeddingsView<T> grad_log_gates) const {
    constexpr auto function = "ForgetGradient::log_gates";
    check_tokens(function, "grad_log_gates", first, grad_log_gates);
    detail::check_output(function, "grad_log_gates", grad_log_gates);
    write(first, grad_log_gates,
          [](Index, Index, Index, double log_gate_grad) { return log_gate_grad; });
  }

  /// Writes the gradient of the logits z that ForgetGates::append() was called with: the gradient
  /// of ln f times 1 - f, and 0 where ln f was clamped to least_log_gate.
  ///   Shapes:   logits [B, n, H], grad_logits alike
  ///   Aliasing: grad_logits may be the memory of logits
  ///   Throws:   ShapeError, before anything is written
  template <detail::Writable T>
  void logits(Index first, EmbeddingsView<const std::type_identity_t<T>> logits,
              EmbeddingsView<T> grad_logits) const {
    constexpr auto function = "ForgetGradient::logits";
    check_tokens(function, "logits", first, logits);
    check_tokens(function, "grad_logits", first, grad_logits);
    if (logits.extents() != grad_logits.extents()) {
      detail::fail<ShapeError>(function, "grad_logits must have the shape of the logits ",
                               logits.extents(), " but is ", grad_logits.extents());
    }
    detail::check_output(function, "grad_logits", grad_logits);
    write(first, grad_logits, [&](Index b, Index t, Index h, double log_gate_grad) {
      const auto z = static_cast<double>(static_cast<Compute<T>>(logits.row(b, t)[h]));
      return z < least_log_gate ? 0.0 : log_gate_grad / (1 + std::exp(z));
    });
  }

  /// Lower bound of the log gates that ForgetGates stores.
  static constexpr double least_log_gate = -65536;

 private:
  template <class Real>
  void check_tile(Index sequence, Index head, Index query, Index key,
                  const MatrixView<const Real>& grad) const {
    constexpr auto function = "ForgetGradient::add";
    detail::check_extents(function, "grad", grad);
    check_sequences(function, sequence, 1);
    const Index max_tokens = tokens_[static_cast<std::size_t>(sequence)];
    const auto within = [max_tokens](Index first, Index count) {
      return first >= 0 && count <= max_tokens && first <= max_tokens - count;
    };
    if (head < 0 || head >= heads_ || !within(query, grad.rows) || !within(key, grad.cols)) {
      detail::fail<ShapeError>(function, "grad ", grad.extents(), " of head ", head,
                               ", from query ", query, " and key ", key,
                               " on, must lie within the ", heads_, " heads and ", max_tokens,
                               " tokens of sequence ", sequence);
    }
  }

  /// Subtracts a row from `values` and returns the sum of the row, in an order that is the same for
  /// all instruction sets.
  template <class Real>
  static double subtract_row(const Real* row, double* values, Index count) noexcept {
    constexpr Index lanes = 8;
    double sums[lanes] = {};
    const auto add = [&](Index lane, Index j) {
      const auto value = static_cast<double>(row[j]);
      sums[lane] += value;
      values[j] -= value;
    };
    Index j = 0;
    for (; j + lanes <= count; j += lanes) {
      for (Index lane = 0; lane < lanes; ++lane) add(lane, j + lane);
    }
    for (Index lane = 0; j < count; ++lane, ++j) add(lane, j);
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
           ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  }

  void check_sequences(const char* function, Index first, Index count) const {
    const auto sequences = static_cast<Index>(tokens_.size());
    if (first < 0 || first > sequences || count > sequences - first) {
      detail::fail<ShapeError>(function, "sequences must lie within the ", sequences, " but are ",
                               count, " from ", first, " on");
    }
  }

  template <class T>
  void check_tokens(const char* function, const char* name, Index first,
                    const EmbeddingsView<T>& x) const {
    detail::check_extents(function, name, x);
    check_sequences(function, first, x.batch);
    if (x.dim != heads_) {
      detail::fail<ShapeError>(function, name, " must be of ", heads_, " heads but is ",
                               x.extents());
    }
    for (Index b = 0; b < x.batch; ++b) {
      const Index max_tokens = tokens_[static_cast<std::size_t>(first + b)];
      if (x.seq > max_tokens) {
        detail::fail<ShapeError>(function, name, " ", x.extents(), " must have no more than the ",
                                 max_tokens, " tokens of sequence ", first + b);
      }
    }
  }

  /// Sets grad(b, t, h) = convert(b, t, h, gradient of its log gate), from the last token to the
  /// first.
  template <class T, class Convert>
  void write(Index first, const EmbeddingsView<T>& grad, const Convert& convert) const {
    if (grad.empty()) return;
    for (Index b = 0; b < grad.batch; ++b) {
      const auto n = static_cast<std::size_t>(first + b);
      for (Index h = 0; h < heads_; ++h) {
        const auto end = static_cast<std::size_t>(begins_[n] + (h + 1) * tokens_[n]);
        double sum = 0;
        for (Index t = grad.seq - 1; t >= 0; --t) {
          const std::size_t at = end - static_cast<std::size_t>(grad.seq - t);
          sum += grad_as_queries_[at] + grad_as_keys_[at];
          grad.row(b, t)[h] = static_cast<T>(static_cast<Compute<T>>(convert(b, t, h, sum)));
        }
      }
    }
  }

  static constexpr Index size_limit = (Index{1} << 53) + 1;  ///< more numbers than memory can hold

  Index heads_ = 0;
  std::vector<Index> tokens_, begins_;  ///< for each sequence: number of tokens, index of its first
                                        ///< number
  std::vector<double> grad_as_queries_, grad_as_keys_;  ///< [sequences][H, tokens]
};

POSENC_END
