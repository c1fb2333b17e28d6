// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/backward_queue.hpp>
#include <posenc/attention/detail/relative_gradients.hpp>
#include <posenc/attention/gradients.hpp>
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

/// Places where the gradient of a bias's parameters is collected.
enum class GradientSums {
  None,        ///< there is none
  PerBlock,    ///< each block has a local gradient, and these are added in block order
  SharedTiles  ///< tiles add to one gradient, in block order for each tile
};

/// Gradient of a bias's parameters, to which many blocks add. This base class does nothing; the
/// schedule does not depend on the types of bias and gradient.
template <Scalar T>
class ParameterGradients {
 public:
  using Real = Compute<T>;

  explicit ParameterGradients(GradientSums sums = GradientSums::None) noexcept : sums_(sums) {}
  ParameterGradients(const ParameterGradients&) = delete;
  ParameterGradients& operator=(const ParameterGradients&) = delete;

  bool is_present() const noexcept { return sums_ != GradientSums::None; }
  /// True if blocks must be dealt out one after the other.
  bool serializes_blocks() const noexcept { return sums_ == GradientSums::PerBlock; }
  bool is_shared() const noexcept { return sums_ == GradientSums::SharedTiles; }

  /// Checks the gradient and allocates memory for `threads` threads.
  ///   Throws: ShapeError if the gradient does not have the shape of zero_gradient(), and
  ///           exceptions of zero_gradient()
  virtual void prepare(const char*, Index) {}
  /// Sets the local gradient of a thread to zero.
  virtual void begin_block(Index) {}
  /// Adds the gradients of a tile of scores of one head.
  ///   thread: index of the local gradient
  virtual void add(Index, const TokenTile&, const MatrixView<const Real>&) {}
  /// Adds a thread's local gradient to the gradient of all blocks.
  virtual void add_block(Index) {}

 protected:
  ~ParameterGradients() = default;

 private:
  GradientSums sums_;
};

/// ParameterGradients of a bias whose parameters are not learned, if it has any.
template <Scalar T>
struct UnlearnedParameters final : ParameterGradients<T> {
  template <class Bias>
  UnlearnedParameters(const Bias&, const NoGradient&) noexcept {}
};

/// ParameterGradients of a bias with learned parameters. If the bias reads positions, each block
/// has a local gradient. If it reads tokens, tiles add to the shared gradient: entries of different
/// heads are disjoint.
template <Scalar T, class Bias, class Gradient>
class LearnedParameterGradients final : public ParameterGradients<T> {
 public:
  using Real = Compute<T>;

  static constexpr bool is_token_bias =
      requires(const Bias& bias, MatrixView<const Real> grad, Gradient& gradient) {
    bias.add_gradient(TokenTile{}, grad, gradient);
  };

  LearnedParameterGradients(const Bias& bias, Gradient& gradient) noexcept
      : ParameterGradients<T>(is_token_bias ? GradientSums::SharedTiles : GradientSums::PerBlock),
        bias_(bias),
        gradient_(gradient) {}

  void prepare(const char* function, [[maybe_unused]] Index threads) override {
    if constexpr (!is_token_bias) {
      static_assert(
          std::is_same_v<decltype(bias_.zero_gradient()), Gradient>,
          "posenc::attention_backward: bias_gradient must be what bias.zero_gradient() returns");
      block_gradients_.assign(static_cast<std::size_t>(threads) + 1, bias_.zero_gradient());
      add_zeros(function, block_gradients_.back());
    } else if constexpr (requires { bias_.zero_gradient(); }) {
      add_zeros(function, bias_.zero_gradient());
    }
  }

  void begin_block(Index thread) override {
    if constexpr (!is_token_bias) of_thread(thread) = block_gradients_.back();
  }
  void add([[maybe_unused]] Index thread, const TokenTile& tokens,
           const MatrixView<const Real>& grad) override {
    if constexpr (is_token_bias) {
      bias_.add_gradient(tokens, grad, gradient_);
    } else {
      bias_.add_gradient(tokens.head, tokens.query_positions, tokens.key_positions, grad,
                         of_thread(thread));
    }
  }
  void add_block(Index thread) override {
    if constexpr (!is_token_bias) add_numbers(gradient_, of_thread(thread));
  }

 private:
  Gradient& of_thread(Index thread) noexcept {
    return block_gradients_[static_cast<std::size_t>(thread)];
  }

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

  const Bias& bias_;
  Gradient& gradient_;
  std::vector<Gradient> block_gradients_;  ///< one per thread, and zeros at the end
};

/// Gradient of a RelativeBias, whose blocks keep local gradients of its tables in their arenas.
///   gradient: nullptr if nothing is learned
template <Scalar T>
struct RelativeParameterGradients {
  const RelativeGradient<T>* gradient = nullptr;

  bool serializes_blocks() const noexcept { return gradient != nullptr; }

  LearnedTables learned_tables() const noexcept {
    if (gradient == nullptr) return {};
    return {gradient->table.data != nullptr, gradient->key_table.data != nullptr};
  }
};

}  // namespace detail
POSENC_END
