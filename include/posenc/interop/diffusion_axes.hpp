// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/axial.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/pairing.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

// Rotary encodings of diffusion transformers: axes in blocks of channels, each with its own
// frequencies. In Ideogram 4 and Cosmos 3 axes alternate, and one frequency index runs through all
// of them. Pairing is interleaved, unless a function says half. interop/diffusion_positions.hpp
// computes the positions. Unlike the projects' tables, these have no maximum position. LTX is not
// included, because its frequencies differ between heads.
//   Source: huggingface/diffusers (58eb52c), src/diffusers/models/transformers; each function names
//           its file there
POSENC_STABLE_BEGIN

/// Settings of Cosmos.
struct CosmosRope {
  Index head_dim = 0;                          ///< required; even, at least 12
  std::array<double, 3> scale{2.0, 1.0, 1.0};  ///< "rope_scale" of time, rows and columns
};

/// Settings of Lumina Next.
struct LuminaNextRope {
  Index head_dim = 0;     ///< required; divisible by 4
  double ntk_factor = 1;  ///< >= 1
};

static_assert(std::is_trivially_copyable_v<CosmosRope>);
static_assert(std::is_trivially_copyable_v<LuminaNextRope>);

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// Returns the channels of time, rows and columns: a third of the pairs each for rows and columns,
/// rounded down, and the rest for time.
inline std::vector<Index> video_dims(const char* function, Index head_dim) {
  check_rotary_dim(function, head_dim, 6, "head_dim");
  const Index side = 2 * (head_dim / 6);
  return {head_dim - 2 * side, side, side};
}

}  // namespace detail

/// Returns Flux 1's encoding: head_dim 128; axes unused, row, column (flux_positions).
///   Source: transformer_flux.py
inline AxialFrequencies flux() {
  return detail::restrict_to_model(PositionKind::Tokens, PairingKind::Interleaved,
                                   axial({16, 56, 56}, 10000));
}

/// Returns Flux 2's encoding: head_dim 128; axes time, row, column, text token (flux2_positions).
///   Source: transformer_flux2.py
inline AxialFrequencies flux2() {
  return detail::restrict_to_model(PositionKind::Tokens, PairingKind::Interleaved,
                                   axial({32, 32, 32, 32}, 2000));
}

/// Returns Wan's encoding: axes frame, row, column (video_grid); 44, 42 and 42 channels of 128.
/// Text enters by cross-attention, without rotation.
///   Throws: ConfigError
///   Source: transformer_wan.py
inline AxialFrequencies wan(Index head_dim) {
  return detail::restrict_to_model(PositionKind::Tokens, PairingKind::Interleaved,
                                   axial(detail::video_dims("wan", head_dim), 10000));
}

/// Returns HunyuanVideo's encoding: head_dim 128; axes frame, row, column
/// (hunyuan_video_positions).
///   Source: transformer_hunyuan_video.py
inline AxialFrequencies hunyuan_video() {
  return detail::restrict_to_model(PositionKind::Tokens, PairingKind::Interleaved,
                                   axial({16, 56, 56}, 256));
}

/// Returns HunyuanImage 2.1's encoding: head_dim 128; axes row, column (Positions::grid). Text
/// after the image is not rotated.
///   Source: transformer_hunyuanimage.py (0711907)
inline AxialFrequencies hunyuan_image() {
  return detail::restrict_to_model(PositionKind::Unspecified, PairingKind::Interleaved,
                                   axial({64, 64}, 256));
}

/// Returns Qwen-Image's encoding: head_dim 128; axes image, row, column (qwen_image_positions).
///   Source: transformer_qwenimage.py
inline AxialFrequencies qwen_image() {
  return detail::restrict_to_model(PositionKind::Tokens, PairingKind::Interleaved,
                                   axial({16, 56, 56}, 10000));
}

/// Returns Z-Image's encoding: head_dim 128; axes caption token or frame, row, column
/// (z_image_positions).
///   Source: transformer_z_image.py
inline AxialFrequencies z_image() {
  return detail::restrict_to_model(PositionKind::Tokens, PairingKind::Interleaved,
                                   axial({32, 48, 48}, 256));
}

/// Returns Lumina 2's encoding: head_dim 96; axes caption token, row, column (lumina2_positions).
///   Source: transformer_lumina2.py
inline AxialFrequencies lumina2() {
  return detail::restrict_to_model(PositionKind::Tokens, PairingKind::Interleaved,
                                   axial({32, 32, 32}, 10000));
}

/// Returns Lumina Next's encoding: axes row and column (Positions::grid), with alternating pairs h,
/// w, h, w, .... ntk_factor multiplies the base directly.
///   Throws: ConfigError
///   Source: models/embeddings.py, get_2d_rotary_pos_embed_lumina
inline AxialFrequencies lumina_next(const LuminaNextRope& settings) {
  constexpr auto function = "lumina_next";
  detail::check_head_of_two_halves(function, settings.head_dim);
  if (!(settings.ntk_factor >= 1 && settings.ntk_factor <= 1e100)) {
    detail::fail<ConfigError>(function, "ntk_factor must lie between 1 and 1e100 but is ",
                              settings.ntk_factor);
  }
  const Index pairs = settings.head_dim / 4;
  const auto axis = detail::power_law(detail::QuadDouble(settings.ntk_factor) * 10000.0,
                                      settings.head_dim / 2, pairs);
  std::vector<detail::DoubleDouble> inv_freq;
  std::vector<Index> axis_of_pair;
  for (const detail::DoubleDouble& w : axis) {
    for (const Index number : {0, 1}) {
      inv_freq.push_back(w);
      axis_of_pair.push_back(number);
    }
  }
  return {detail::exact_frequencies(std::move(inv_freq)),
          PairAxes(2, std::move(axis_of_pair)).with_kind(PositionKind::RowsColumns),
          PairingKind::Interleaved};
}

/// Returns the encoding of CogVideoX with rotation (5B): axes frame, row, column, with one quarter
/// and twice three eighths of the channels. Positions: cogvideox_positions, or flux_positions in
/// version 1.5.
///   Throws: ConfigError
///   Source: models/embeddings.py, get_3d_rotary_pos_embed
inline AxialFrequencies cogvideox(Index head_dim) {
  constexpr auto function = "cogvideox";
  detail::check_rotary_dim(function, head_dim, 16, "head_dim");
  if (head_dim % 16 != 0) {
    detail::fail<ConfigError>(function, "head_dim must be divisible by 16 but is ", head_dim);
  }
  return detail::restrict_to_model(
      PositionKind::Tokens, PairingKind::Interleaved,
      axial({head_dim / 4, 3 * head_dim / 8, 3 * head_dim / 8}, 10000));
}

/// Returns Cosmos's encoding: half pairing over the whole head; axes frame, row, column
/// (video_grid, for videos with a frame_step of 24 / fps). An axis of n channels has the base 10000
/// scale^(n / (n - 2)).
///   Throws: ConfigError
///   Source: transformer_cosmos.py
inline AxialFrequencies cosmos(const CosmosRope& settings) {
  constexpr auto function = "cosmos";
  const auto dims = detail::video_dims(function, settings.head_dim);
  if (dims[1] < 4) {
    detail::fail<ConfigError>(function, "head_dim must be at least 12 but is ", settings.head_dim);
  }
  const auto frequencies_of_axis = [&](std::size_t axis) {
    const double scale = settings.scale[axis];
    if (!(scale >= 0.1 && scale <= 1e6)) {
      detail::fail<ConfigError>(function, "scale must lie between 0.1 and 1e6 but is ", scale);
    }
    const auto dim = static_cast<double>(dims[axis]);
    const detail::QuadDouble base =
        exp(log(detail::QuadDouble(scale)) * (detail::QuadDouble(dim) / (dim - 2))) * 10000.0;
    return detail::exact_frequencies(detail::power_law(base, dims[axis], dims[axis] / 2));
  };
  return detail::restrict_to_model(
      PositionKind::Tokens, PairingKind::HalfRotate,
      axial({frequencies_of_axis(0), frequencies_of_axis(1), frequencies_of_axis(2)}));
}

/// Returns Cosmos 3's encoding: head_dim 128, half pairing; axes frame, row, column
/// (cosmos3_positions), which alternate as in mrope_interleaved: 24, 20 and 20 pairs.
///   Source: transformer_cosmos3.py, the defaults of its class
inline AxialFrequencies cosmos3() {
  return {detail::evaluate(Unscaled{.rotary_dim = 128, .base = 5e6}),
          mrope_interleaved({24, 20, 20}, MropeTail::Time), PairingKind::HalfRotate};
}

/// Returns Ideogram 4's encoding: head_dim 256, half pairing; axes frame, row, column
/// (ideogram4_positions), which alternate as in mrope_interleaved: 88, 20 and 20 pairs. Its
/// "mrope_section" of 24, 20, 20 counts half of the pairs; the frame has all remaining pairs.
///   Source: transformer_ideogram4.py
inline AxialFrequencies ideogram4() {
  return {detail::evaluate(Unscaled{.rotary_dim = 256, .base = 5e6}),
          mrope_interleaved({88, 20, 20}, MropeTail::Time), PairingKind::HalfRotate};
}

/// Returns MiniMax-H3's encoding: half pairing over the first 96 of 128 channels; axes time, row,
/// column (minimax_h3_positions).
///   Source: transformer_minimax_h3.py
inline AxialFrequencies minimax_h3() {
  return detail::restrict_to_model(PositionKind::Tokens, PairingKind::HalfRotate,
                                   axial({32, 32, 32}, 10000));
}

POSENC_END
