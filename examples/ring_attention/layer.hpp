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

/// Pass around the ring: forward, with keys and values; or backward, with these and the sums of
/// their gradients.
enum class Pass { Forward, Backward };

/// Sizes of an attention layer.
struct Layer {
  Index heads, kv_heads, head_dim;

  /// Returns the multiply-adds per query-key pair: two products forward, five backward.
  Index pair_operations(Pass pass) const noexcept {
    return (pass == Pass::Forward ? 2 : 5) * heads * head_dim;
  }
  /// Returns the bytes of a token's key and value, or of their gradients.
  Index token_bytes() const noexcept { return 2 * kv_heads * head_dim * Index{sizeof(float)}; }
  /// Returns the bytes per token that are sent from rank to rank.
  Index token_bytes(Pass pass) const noexcept {
    return (pass == Pass::Forward ? 1 : 2) * token_bytes();
  }
};

/// Keys and values of some tokens, or their gradients, in one array that is sent as it is: [2,
/// tokens, kv_heads, head_dim].
class KeysAndValues {
 public:
  /// Allocates memory for that many tokens.
  KeysAndValues(const Layer& layer, Index tokens)
      : memory_(2, tokens, layer.kv_heads, layer.head_dim), tokens_(tokens) {}

  /// Sets the number of tokens, at most that of the constructor.
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

/// Returns a scrambled number (last step of SplitMix64).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Fills rotated queries, keys and values, as a stand-in for a layer's projections. The numbers
/// depend only on a token's position, so every process can compute those of its own share.
void fill_queries(const Rope& rope, const posenc::Positions& positions, posenc::HeadsView<float> q);
void fill_keys_and_values(const Rope& rope, const posenc::Positions& positions, KeysAndValues& kv);
/// Fills the gradient of the outputs, as a stand-in for the layers above.
void fill_output_gradients(const posenc::Positions& positions, posenc::HeadsView<float> grad_out);

}  // namespace ring
