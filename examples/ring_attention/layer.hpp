// SPDX-License-Identifier: MIT
#pragma once

#include "stripes.hpp"
#include <posenc/posenc.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ring {

using Rope = posenc::Rope<posenc::HalfRotate>;
using Heads = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // [batch, seq, heads, head_dim]

/// Around the ring with keys and values, or back: with these and the sums of their gradients.
enum class Pass { Forward, Backward };

/// An attention layer's extents.
struct Layer {
  Index heads, kv_heads, head_dim;

  /// Multiply-adds of a query and a key: two products forward, and five to go back.
  Index pair_operations(Pass pass) const noexcept {
    return (pass == Pass::Forward ? 2 : 5) * heads * head_dim;
  }
  /// A token's key and value, or their gradients.
  Index token_bytes() const noexcept { return 2 * kv_heads * head_dim * Index{sizeof(float)}; }
  /// All that goes from rank to rank of a token.
  Index token_bytes(Pass pass) const noexcept {
    return (pass == Pass::Forward ? 1 : 2) * token_bytes();
  }
};

/// Keys and values of some tokens, or their gradients, in one piece of memory, as they travel: [2, tokens, kv_heads, head_dim].
class KeysAndValues {
 public:
  /// Room for so many tokens.
  KeysAndValues(const Layer& layer, Index tokens)
      : memory_(2, tokens, layer.kv_heads, layer.head_dim), tokens_(tokens) {}

  /// At most as many as there is room for.
  void resize(Index tokens) noexcept { tokens_ = tokens; }
  Index tokens() const noexcept { return tokens_; }

  posenc::HeadsView<float> keys() noexcept { return half(memory_.data(), 0); }
  posenc::HeadsView<float> values() noexcept { return half(memory_.data(), 1); }
  posenc::HeadsView<const float> keys() const noexcept { return half(memory_.data(), 0); }
  posenc::HeadsView<const float> values() const noexcept { return half(memory_.data(), 1); }

  std::span<float> numbers() noexcept { return {memory_.data(), size()}; }
  std::span<const float> numbers() const noexcept { return {memory_.data(), size()}; }
  std::span<std::byte> bytes() noexcept { return std::as_writable_bytes(numbers()); }
  std::span<const std::byte> bytes() const noexcept { return std::as_bytes(numbers()); }

 private:
  std::size_t size() const noexcept {
    return static_cast<std::size_t>(2 * tokens_ * memory_.dimension(2) * memory_.dimension(3));
  }
  template <class T>
  posenc::HeadsView<T> half(T* data, Index which) const noexcept {
    const Index heads = memory_.dimension(2), dim = memory_.dimension(3);
    return {.data = data + which * tokens_ * heads * dim,
            .batch = 1,
            .seq = tokens_,
            .heads = heads,
            .dim = dim};
  }

  Heads memory_;
  Index tokens_;
};

/// A scrambled number (SplitMix64's last step).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// What a layer's projections would give for tokens at these positions, rotated: numbers that depend on a token's position alone,
/// so that every process can make those of its own share.
void fill_queries(const Rope& rope, const posenc::Positions& positions, posenc::HeadsView<float> q);
void fill_keys_and_values(const Rope& rope, const posenc::Positions& positions, KeysAndValues& kv);
/// What the layers above would give: the gradient of the outputs.
void fill_output_gradients(const posenc::Positions& positions, posenc::HeadsView<float> grad_out);

}  // namespace ring
