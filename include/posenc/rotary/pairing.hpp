// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <type_traits>

POSENC_STABLE_BEGIN

// The pairing determines which two channels of the rotary slice form pair i; the frequency index is
// i in both pairings. It is a property of the checkpoint, and a wrong pairing gives wrong results
// without an error, so there is no default. c and s mark the first and the second channels of the
// pairs:
//   Interleaved  [c s c s c s c s]   pairs (2i, 2i + 1)
//   HalfRotate   [c c c c s s s s]   pairs (i, i + rotary_dim / 2)

/// Pairs of adjacent channels: RoFormer, GPT-J, Llama as Meta ships it, GLM, DeepSeek; ggml NORMAL,
/// MLX traditional, flash-attn and ONNX interleaved.
struct Interleaved {
  /// Name of the pairing, for messages.
  static constexpr const char* name = "interleaved";
  /// Returns the first channel of a pair, counted from the first rotary channel.
  POSENC_STABLE_INLINE static constexpr Index first(Index pair, Index) noexcept { return 2 * pair; }
  /// Returns the second channel of a pair, counted from the first rotary channel.
  POSENC_STABLE_INLINE static constexpr Index second(Index pair, Index) noexcept {
    return 2 * pair + 1;
  }
};

/// Pairs of first and second half, "rotate_half": GPT-NeoX, Llama and most models as Hugging Face
/// ships them, Qwen, Phi, Gemma; ggml NEOX, the default of MLX, ONNX and flash-attn.
struct HalfRotate {
  /// Name of the pairing, for messages.
  static constexpr const char* name = "half";
  /// Returns the first channel of a pair, counted from the first rotary channel.
  POSENC_STABLE_INLINE static constexpr Index first(Index pair, Index) noexcept { return pair; }
  /// Returns the second channel of a pair, counted from the first rotary channel.
  POSENC_STABLE_INLINE static constexpr Index second(Index pair, Index pairs) noexcept {
    return pair + pairs;
  }
};

/// The pairing as a run-time value, for readers of model files (AnyRope).
enum class PairingKind {
  Interleaved,  ///< pairs of adjacent channels
  HalfRotate    ///< pairs of first and second half
};

static_assert(std::is_trivially_copyable_v<Interleaved>);
static_assert(std::is_trivially_copyable_v<HalfRotate>);

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {

/// Type that stands for a missing pairing; a compile-time diagnostic rejects it.
struct NoPairing {};

template <class P>
inline constexpr bool is_pairing = requires {
  P::first(Index{}, Index{});
  P::second(Index{}, Index{});
};

}  // namespace detail

#define POSENC_DETAIL_PAIRING_RULE                                                  \
  "posenc: the pairing has no default, it must be specified: Rope<Interleaved> or " \
  "Rope<HalfRotate>, see posenc/rotary/pairing.hpp (AnyRope where it is known at run time only)"

POSENC_END
