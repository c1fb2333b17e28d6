// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kernel_tile.hpp>
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

/// Order in which blocks are assigned to threads, because of the gradient of a bias.
enum class GradientOrder {
  None,    ///< there is no gradient
  Any,     ///< any order: blocks add tile by tile, or to gradients of queries and keys alone
  ByBlock  ///< block order, in which blocks add to the gradient of parameters
};

/// Gradients of a bias: of its parameters, to which many blocks add, and of the queries and keys
/// that it reads. This base class, for no gradients, does nothing. The schedule depends on it, and
/// not on the types of bias and gradient.
template <Scalar T>
class BiasGradients {
 public:
  using Real = Compute<T>;

  ///   waits_per_tile: tiles add to one gradient, in block order for each tile
  explicit BiasGradients(GradientOrder order = GradientOrder::None,
                         bool waits_per_tile = false) noexcept
      : order_(order), waits_per_tile_(waits_per_tile) {}
  BiasGradients(const BiasGradients&) = delete;
  BiasGradients& operator=(const BiasGradients&) = delete;
  virtual ~BiasGradients() = default;

  bool is_present() const noexcept { return order_ != GradientOrder::None; }
  /// True if blocks must be dealt out one after the other.
  bool serializes_blocks() const noexcept { return order_ == GradientOrder::ByBlock; }
  bool waits_per_tile() const noexcept { return waits_per_tile_; }

  /// Checks the gradient and allocates memory for `threads` threads.
  ///   Throws: ShapeError if the gradient does not have the shape of zero_gradient(), and
  ///           exceptions of zero_gradient()
  virtual void prepare(const char*, Index) {}
  /// Writes zeros to gradients that are overwritten, if there are no scores.
  virtual void write_zeros() {}
  /// Returns the size of a thread's scratch memory in bytes.
  virtual std::size_t scratch_bytes(const QueryBiasBlock<T>&) const { return 0; }
  /// Sets the local gradient of a thread to zero.
  virtual void begin_block(Index, const QueryBiasBlock<T>&) {}
  /// Adds the gradients of a tile of scores of one head.
  ///   thread: index of the local gradient
  virtual void add(Index, const QueryBiasTile<T>&, const MatrixView<const Real>&,
                   const QueryBiasGradients<T>&) {}
  /// Adds a block's gradient to that of all blocks.
  virtual void add_block(Index, const QueryBiasBlock<T>&) {}

 private:
  GradientOrder order_;
  bool waits_per_tile_;
};

/// Gradients of a bias with learned parameters, or of a QueryBias. Each block has a local gradient,
/// unless the bias reads tokens. Then tiles add to the shared gradient: entries of
/// different heads are disjoint.
///   Types: Types are the KernelTypes of the schedule
template <class Types, Scalar T, class Bias, class Gradient>
class TypedBiasGradients final : public BiasGradients<T> {
 public:
  using Real = Compute<T>;

  static constexpr bool is_query_bias = QueryBias<Bias, T>;
  static constexpr bool is_token_bias =
      requires(const Bias& bias, MatrixView<const Real> grad, Gradient& gradient) {
    bias.add_gradient(TokenTile{}, grad, gradient);
  };
  /// True if the bias keeps the sums of a block in its scratch memory.
  static constexpr bool has_end =
      requires(const Bias& bias, const typename Types::Block& block, Gradient& gradient) {
    bias.end(block, gradient);
  };
  static constexpr bool has_parameters = !std::is_same_v<Gradient, NoGradient>;
  static constexpr bool has_local_gradients = !is_token_bias && !has_end && has_parameters;

  ///   is_requested: false if the gradient of the parameters is discarded
  TypedBiasGradients(const Bias& bias, Gradient& gradient, bool is_requested = true) noexcept
      : BiasGradients<T>(is_token_bias || !has_parameters || !is_requested ? GradientOrder::Any
                                                                           : GradientOrder::ByBlock,
                         is_token_bias || is_query_bias),
        bias_(bias),
        gradient_(gradient) {}

  void prepare(const char* function, [[maybe_unused]] Index threads) override {
    if constexpr (requires { bias_.check_gradient(function, gradient_); }) {
      bias_.check_gradient(function, gradient_);
    }
    if constexpr (has_local_gradients) {
      static_assert(
          std::is_same_v<decltype(bias_.zero_gradient()), Gradient>,
          "posenc::attention_backward: bias_gradient must be what bias.zero_gradient() returns");
      block_gradients_.assign(static_cast<std::size_t>(threads) + 1, bias_.zero_gradient());
      add_zeros(function, block_gradients_.back());
    } else if constexpr (is_token_bias && requires { bias_.zero_gradient(); }) {
      add_zeros(function, bias_.zero_gradient());
    }
  }
  void write_zeros() override {
    if constexpr (requires { bias_.write_zeros(gradient_); }) bias_.write_zeros(gradient_);
  }
  std::size_t scratch_bytes(const QueryBiasBlock<T>& block) const override {
    return Types::scratch_bytes(bias_, block, gradient_);
  }

  void begin_block(Index thread, const QueryBiasBlock<T>& block) override {
    if constexpr (has_local_gradients) of_thread(thread) = block_gradients_.back();
    if constexpr (is_query_bias) Types::begin(bias_, block, of_thread(thread));
  }
  void add(Index thread, const QueryBiasTile<T>& tile, const MatrixView<const Real>& grad,
           [[maybe_unused]] const QueryBiasGradients<T>& to) override {
    const TokenTile& tokens = tile.tokens;
    if constexpr (is_query_bias) {
      bias_.add_gradient(Types::template tile_of<Bias>(tile), grad, to, of_thread(thread));
    } else if constexpr (is_token_bias) {
      bias_.add_gradient(tokens, grad, gradient_);
    } else {
      bias_.add_gradient(tokens.head, tokens.query_positions, tokens.key_positions, grad,
                         of_thread(thread));
    }
  }
  void add_block(Index thread, [[maybe_unused]] const QueryBiasBlock<T>& block) override {
    if constexpr (has_local_gradients) add_numbers(gradient_, of_thread(thread));
    if constexpr (has_end) bias_.end(Types::block_of(block), gradient_);
  }

 private:
  /// Returns the gradient that a thread adds to.
  Gradient& of_thread([[maybe_unused]] Index thread) noexcept {
    if constexpr (has_local_gradients) return block_gradients_[static_cast<std::size_t>(thread)];
    return gradient_;
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

}  // namespace detail
POSENC_END
