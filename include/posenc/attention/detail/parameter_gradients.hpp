// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/backward_queue.hpp>
#include <posenc/attention/detail/relative_gradients.hpp>
#include <posenc/attention/gradients.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <type_traits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Gradient of a bias's parameters, to which many blocks add.
/// If the bias reads positions, each block has a local gradient, and these are added in block
/// order. Blocks with a RelativeBias keep local gradients of its tables in their arenas. If the bias
/// reads tokens, tiles add to the shared gradient in block order: entries of different heads are
/// disjoint.
template <Scalar T, class Bias, class Gradient>
class ParameterGradients {
 public:
  using Real = Compute<T>;

  static constexpr bool has_gradient = !std::is_same_v<Gradient, NoGradient>;
  static constexpr bool is_token_bias =
      has_gradient && requires(const Bias& bias, MatrixView<const Real> grad, Gradient& gradient) {
    bias.add_gradient(TokenTile{}, grad, gradient);
  };
  static constexpr bool is_relative_bias = std::is_same_v<Bias, RelativeBias<T>>;
  /// True if blocks must be dealt out one after the other.
  static constexpr bool serializes_blocks = has_gradient && !is_token_bias;
  static constexpr bool has_block_gradients = serializes_blocks && !is_relative_bias;

  ///   Throws: ShapeError if the gradient does not have the shape of zero_gradient(), and
  ///           exceptions of zero_gradient()
  ParameterGradients([[maybe_unused]] const char* function, const Bias& bias, Gradient& gradient,
                     Index threads)
      : gradient_(gradient) {
    if constexpr (has_block_gradients) {
      static_assert(
          std::is_same_v<decltype(bias.zero_gradient()), Gradient>,
          "posenc::attention_backward: bias_gradient must be what bias.zero_gradient() returns");
      block_gradients_.assign(static_cast<std::size_t>(threads) + 1, bias.zero_gradient());
      add_zeros(function, block_gradients_.back());
    } else if constexpr (is_token_bias && requires { bias.zero_gradient(); }) {
      add_zeros(function, bias.zero_gradient());
    }
  }

  LearnedTables learned_tables() const noexcept {
    if constexpr (is_relative_bias && has_gradient) {
      return {gradient_.table.data != nullptr, gradient_.key_table.data != nullptr};
    } else {
      return {};
    }
  }

  void begin(Index thread) {
    if constexpr (has_block_gradients)
      block_gradients_[static_cast<std::size_t>(thread)] = block_gradients_.back();
  }
  template <class Add>
  void add_to_block(Index thread, const Add& add) {
    if constexpr (has_block_gradients) add(block_gradients_[static_cast<std::size_t>(thread)]);
  }
  template <class Add>
  void add_to_shared(const Add& add) {
    if constexpr (is_token_bias) add(gradient_);
  }
  /// Calls add(gradient) in the order of the numbers under which blocks were dealt out.
  template <class Add>
  void add_in_block_order(Index number, const Add& add) {
    if constexpr (serializes_blocks) {
      added_blocks_.wait_until_above(number - 1);
      add(gradient_);
      added_blocks_.advance_to(number + 1);
    }
  }
  /// Adds the block's local gradient to the shared one, in the order of numbers.
  void end(Index thread, Index number) {
    if constexpr (has_block_gradients) {
      add_in_block_order(number, [&](Gradient& all) {
        add_numbers(all, block_gradients_[static_cast<std::size_t>(thread)]);
      });
    }
  }

 private:
  /// Adds zeros, or compares sizes, before anything is written: += throws for another shape, but
  /// lists of numbers have no +=.
  void add_zeros([[maybe_unused]] const char* function, const Gradient& zeros) {
    if constexpr (requires { gradient_ += zeros; }) {
      gradient_ += zeros;
    } else if (gradient_.size() != zeros.size()) {
      fail<ShapeError>(function, "bias_gradient must be the bias's zero_gradient(), of ",
                       zeros.size(), " numbers, but has ", gradient_.size());
    }
  }

  static void add_numbers(Gradient& to, const Gradient& from) {
    if constexpr (requires { to += from; }) {
      to += from;
    } else {
      for (std::size_t n = 0; n < to.size(); ++n) to[n] += from[n];
    }
  }

  Gradient& gradient_;
  std::vector<Gradient> block_gradients_;  ///< one per thread, and zeros at the end
  MonotonicCounter added_blocks_;          ///< number of blocks that are added
};

}  // namespace detail
POSENC_END
