// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/backward_queue.hpp>
#include <posenc/attention/gradients.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/config.hpp>

#include <cstddef>
#include <type_traits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// The gradient of a bias's parameters, which many blocks add to.
///   Parameters of positions: each block has a gradient of its own, and these are added in the order of
///   blocks. Of tokens: tiles add to it in their turn, since no two heads have a number in common.
template <class Bias, class Gradient, class Real>
class ParameterGradients {
 public:
  static constexpr bool given = !std::is_same_v<Gradient, NoGradient>;
  static constexpr bool of_tokens =
      given && requires(const Bias& bias, MatrixView<const Real> grad, Gradient& gradient) {
    bias.add_gradient(TokenTile{}, grad, gradient);
  };
  /// Whether blocks have to be dealt out one after the other.
  static constexpr bool in_order = given && !of_tokens;

  ///   Throws: what zero_gradient() does
  ParameterGradients(const Bias& bias, Gradient& gradient, Index threads) : gradient_(gradient) {
    if constexpr (in_order) {
      static_assert(
          std::is_same_v<decltype(bias.zero_gradient()), Gradient>,
          "posenc::attention_backward: bias_gradient must be what bias.zero_gradient() returns");
      own_.assign(static_cast<std::size_t>(threads) + 1, bias.zero_gradient());
    }
  }

  void begin(Index thread) {
    if constexpr (in_order) own_[static_cast<std::size_t>(thread)] = own_.back();
  }
  template <class Add>
  void add_to_own(Index thread, const Add& add) {
    if constexpr (in_order) add(own_[static_cast<std::size_t>(thread)]);
  }
  template <class Add>
  void add_to_all(const Add& add) {
    if constexpr (of_tokens) add(gradient_);
  }
  /// In the order of the numbers under which blocks were dealt out.
  void end(Index thread, Index number) {
    if constexpr (in_order) {
      added_.wait_beyond(number - 1);
      add_all(gradient_, own_[static_cast<std::size_t>(thread)]);
      added_.reach(number + 1);
    }
  }

 private:
  static void add_all(Gradient& to, const Gradient& from) {
    if constexpr (requires { to += from; }) {
      to += from;
    } else {
      for (std::size_t n = 0; n < to.size(); ++n) to[n] += from[n];
    }
  }

  Gradient& gradient_;
  std::vector<Gradient> own_;  ///< of each thread's block, and zeros
  Milestone added_;            ///< blocks
};

}  // namespace detail
POSENC_END
