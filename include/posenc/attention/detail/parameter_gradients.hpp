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
/// If the bias reads positions, each block has a local gradient, and these are added in block order.
/// Blocks with a RelativeBias keep local gradients of its tables in their slots. If the bias reads
/// tokens, tiles add to the shared gradient in block order: entries of different heads are disjoint.
template <Scalar T, class Bias, class Gradient>
class ParameterGradients {
 public:
  using Real = Compute<T>;

  static constexpr bool given = !std::is_same_v<Gradient, NoGradient>;
  static constexpr bool of_tokens =
      given && requires(const Bias& bias, MatrixView<const Real> grad, Gradient& gradient) {
    bias.add_gradient(TokenTile{}, grad, gradient);
  };
  static constexpr bool of_tables = std::is_same_v<Bias, RelativeBias<T>>;
  /// True if blocks must be dealt out one after the other.
  static constexpr bool in_order = given && !of_tokens;
  static constexpr bool has_own = in_order && !of_tables;

  ///   Throws: ShapeError if the gradient does not have the shape of zero_gradient(), and
  ///           exceptions of zero_gradient()
  ParameterGradients([[maybe_unused]] const char* function, const Bias& bias, Gradient& gradient,
                     Index threads)
      : gradient_(gradient) {
    if constexpr (of_tables && given) {
      static_assert(
          std::is_same_v<Gradient, RelativeGradient<T>>,
          "posenc::attention_backward: the gradient of a RelativeBias is a RelativeGradient");
    } else if constexpr (has_own) {
      static_assert(
          std::is_same_v<decltype(bias.zero_gradient()), Gradient>,
          "posenc::attention_backward: bias_gradient must be what bias.zero_gradient() returns");
      own_.assign(static_cast<std::size_t>(threads) + 1, bias.zero_gradient());
      add_zeros(function, own_.back());
    } else if constexpr (of_tokens && requires { bias.zero_gradient(); }) {
      add_zeros(function, bias.zero_gradient());
    }
  }

  LearnedTables learned_tables() const noexcept {
    if constexpr (of_tables && given) {
      return {gradient_.table.data != nullptr, gradient_.key_table.data != nullptr};
    } else {
      return {};
    }
  }

  void begin(Index thread) {
    if constexpr (has_own) own_[static_cast<std::size_t>(thread)] = own_.back();
  }
  template <class Add>
  void add_to_own(Index thread, const Add& add) {
    if constexpr (has_own) add(own_[static_cast<std::size_t>(thread)]);
  }
  template <class Add>
  void add_to_all(const Add& add) {
    if constexpr (of_tokens) add(gradient_);
  }
  /// Calls add(gradient) in the order of the numbers under which blocks were dealt out.
  template <class Add>
  void add_in_turn(Index number, const Add& add) {
    if constexpr (in_order) {
      added_.wait_beyond(number - 1);
      add(gradient_);
      added_.reach(number + 1);
    }
  }
  /// Adds the block's local gradient to the shared one, in the order of numbers.
  void end(Index thread, Index number) {
    if constexpr (has_own) {
      add_in_turn(number,
                  [&](Gradient& all) { add_all(all, own_[static_cast<std::size_t>(thread)]); });
    }
  }

 private:
  /// Adds zeros, or compares sizes, before anything is written: += throws for another shape, but
  /// lists of numbers have no +=.
  void add_zeros([[maybe_unused]] const char* function, const Gradient& zeros) {
    if constexpr (requires { gradient_ += zeros; }) {
      gradient_ += zeros;
    } else if (gradient_.size() != zeros.size()) {
      fail<ShapeError>(function,
                       "bias_gradient must be as zero_gradient() of the bias makes it, of ",
                       zeros.size(), " numbers, but has ", gradient_.size());
    }
  }

  static void add_all(Gradient& to, const Gradient& from) {
    if constexpr (requires { to += from; }) {
      to += from;
    } else {
      for (std::size_t n = 0; n < to.size(); ++n) to[n] += from[n];
    }
  }

  Gradient& gradient_;
  std::vector<Gradient> own_;  ///< local gradient per thread, and a zero gradient at the end
  Milestone added_;            ///< number of blocks that are added
};

}  // namespace detail
POSENC_END
