// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/axial.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/tensor/grid_positions.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

// Rotary encodings of vision towers. The frequency index restarts on each axis. A rope with these
// frequencies rejects positions of another kind (PositionKind), for example cells instead of patch
// centres.
POSENC_STABLE_BEGIN

/// Settings of the released two-dimensional encodings.
struct VisionRope {
  Index head_dim = 0;  ///< required; divisible by 4; all channels are rotated
  double base = 0;     ///< required; 10000, or 100 for RoPE-ViT
};

/// Settings of DINOv3's encoding, whose periods T_t, t < head_dim / 4, apply to either axis.
struct Dinov3Rope {
  Index head_dim = 0;     ///< required; divisible by 4; all channels are rotated
  double base = 0;        ///< 100; required unless periods are given
  double min_period = 0;  ///< alternative to base, with max_period
  double max_period = 0;  ///< alternative to base, with min_period
  /// Periods are rounded as in the authors' checkpoints; Hugging Face and timm recompute them.
  bool bfloat16_periods = false;
};

static_assert(std::is_trivially_copyable_v<VisionRope>);
static_assert(std::is_trivially_copyable_v<Dinov3Rope>);

POSENC_STABLE_END

POSENC_BEGIN

/// Computes the positions of Llama 4's vision tower: as xy_grid, but counted from 1. The class
/// token is last, at 0 on both axes, where no rope rotates.
///   Throws: ShapeError
inline Positions llama4_grid(Index rows, Index cols) {
  const Index cells = detail::checked_cells("llama4_grid", {rows, cols});
  auto x = detail::vector_with_capacity<Index>(cells + 1),
       y = detail::vector_with_capacity<Index>(cells + 1);
  for (Index cell = 0; cell < cells; ++cell) {
    x.push_back(cell % cols + 1);
    y.push_back(cell / cols + 1);
  }
  x.push_back(0);
  y.push_back(0);
  return Positions::axes({Positions::ids(x), Positions::ids(y)})
      .with_kind(PositionKind::ColumnsRows);
}

namespace detail {

/// Returns base^(-2j / (head_dim / 2)) for each of two axes.
inline AxialFrequencies two_axes(const char* name, const VisionRope& settings, PositionKind kind,
                                 PairingKind pairing) {
  check_head_of_two_halves(name, settings.head_dim);
  check_base(name, settings.base);
  const Frequencies axis =
      evaluate(Unscaled{.rotary_dim = settings.head_dim / 2, .base = settings.base});
  return restrict_to_model(kind, pairing, axial({axis, axis}));
}

}  // namespace detail

/// Returns the encoding of the vision tower of Qwen2-VL, Qwen2.5-VL and Qwen3-VL: axes h, w, half
/// pairing over the whole head, patches in merge blocks (merge_block_grid).
///   Throws: ConfigError
inline AxialFrequencies qwen2_vl_vision(const VisionRope& settings) {
  return detail::two_axes("qwen2_vl_vision", settings, PositionKind::RowsColumns,
                          PairingKind::HalfRotate);
}

/// Returns the encoding of Llama 4's vision tower: axes x, y, interleaved pairing, positions from
/// 1, and 0 for the class token (llama4_grid).
///   Throws: ConfigError
///   Source: torchtune and Hugging Face
inline AxialFrequencies llama4_vision(const VisionRope& settings) {
  return detail::two_axes("llama4_vision", settings, PositionKind::ColumnsRows,
                          PairingKind::Interleaved);
}

/// Returns the encoding of Pixtral's vision tower (Mistral 3, Devstral): axes y, x, half pairing
/// over the whole head. Axis y has the frequencies base^(-2i / head_dim) with even i, axis x those
/// with odd i.
///   Throws: ConfigError
///   Source: Hugging Face's modeling_pixtral.py at 0233e50
inline AxialFrequencies pixtral_vision(const VisionRope& settings) {
  constexpr auto name = "pixtral_vision";
  detail::check_head_of_two_halves(name, settings.head_dim);
  detail::check_base(name, settings.base);
  const auto all = detail::power_law(settings.base, settings.head_dim, settings.head_dim / 2);
  std::array<std::vector<detail::DoubleDouble>, 2> frequencies_of_axis;
  for (std::size_t i = 0; i < all.size(); ++i) frequencies_of_axis[i % 2].push_back(all[i]);
  return detail::restrict_to_model(
      PositionKind::RowsColumns, PairingKind::HalfRotate,
      axial({detail::exact_frequencies(std::move(frequencies_of_axis[0])),
             detail::exact_frequencies(std::move(frequencies_of_axis[1]))}));
}

/// Returns RoPE-ViT's axial encoding: axes x, y, interleaved pairing, base 100. Its mixed form is
/// MixedRope.
///   Throws: ConfigError
///   Source: naver-ai's rope-vit; in its paper, arXiv 2403.13298, x and y alternate instead
inline AxialFrequencies rope_vit_axial(const VisionRope& settings) {
  return detail::two_axes("rope_vit_axial", settings, PositionKind::ColumnsRows,
                          PairingKind::Interleaved);
}

namespace detail {

/// Returns x rounded to 8 significant bits, ties to even.
inline double rounded_to_bfloat16(double x) noexcept {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
}

/// Returns 1 / T_t for t < head_dim / 4.
inline std::vector<QuadDouble> dinov3_inv_periods(const char* name, const Dinov3Rope& settings) {
  const Index count = settings.head_dim / 4;
  const double shortest = settings.min_period, longest = settings.max_period;
  if (shortest == 0 && longest == 0) {
    check_base(name, settings.base);
    return wide_power_law(settings.base, settings.head_dim / 2, count);
  }
  if (settings.base != 0) {
    fail<ConfigError>(name, "set base or min_period and max_period, not ", settings.base, ", ",
                      shortest, " and ", longest);
  }
  if (!(shortest >= 1e-30 && shortest <= longest && longest <= 1e30)) {
    fail<ConfigError>(name, "min_period and max_period must lie between 1e-30 and 1e30, the ",
                      "smaller one first, but are ", shortest, " and ", longest);
  }
  const QuadDouble ratio = QuadDouble(longest) / shortest;
  return divided(wide_power_law(ratio, (std::max)(2 * (count - 1), Index{1}), count), shortest);
}

}  // namespace detail

/// Returns DINOv3's encoding: axes y, x, half pairing over the whole head, positions of
/// dinov3_grid(), which are 2 pi times coordinates from -1 to 1. w_t = 1 / T_t with T_t = base^(2t
/// / (head_dim / 2)), or min_period (max_period / min_period)^(t / (head_dim / 4 - 1)).
///   Throws:   ConfigError
///   Accuracy: periods rounded to bfloat16 count as exact. For a head of 64 channels the rounding
///             moves the angles at the image's edge by up to 8.5e-3 radians
///   Source:   facebookresearch/dinov3, dinov3/layers/rope_position_encoding.py (31703e4);
///             huggingface/transformers, dinov3_vit/modeling_dinov3_vit.py (015e687)
inline AxialFrequencies dinov3(const Dinov3Rope& settings) {
  constexpr auto name = "dinov3";
  detail::check_head_of_two_halves(name, settings.head_dim);
  auto inv_freq = detail::dinov3_inv_periods(name, settings);
  if (settings.bfloat16_periods) {
    for (detail::QuadDouble& w : inv_freq) {
      w = detail::QuadDouble(1) /
          detail::rounded_to_bfloat16(static_cast<double>(detail::QuadDouble(1) / w));
    }
  }
  const Frequencies axis = detail::exact_frequencies(detail::rounded(inv_freq));
  return detail::restrict_to_model(PositionKind::PatchCentres, PairingKind::HalfRotate,
                                   axial({axis, axis}));
}

/// Returns the encoding of ggml's VISION mode with four position axes: pair i uses the axis whose
/// section contains i, with frequency base^(-2j / (head_dim / 2)), where j counts from the
/// section's start. ggml's models have sections of head_dim / 4, so that only the first two axes, y
/// and x, are used. Half pairing over the whole head.
///   Throws: ConfigError
inline AxialFrequencies ggml_vision(const VisionRope& settings, ListView<Index> sections) {
  constexpr auto name = "ggml_vision";
  detail::check_sections(name, sections);
  if (sections.size() != 4) {
    detail::fail<ConfigError>(name, "there must be 4 sections but they are ", sections);
  }
  detail::check_head_of_two_halves(name, settings.head_dim);
  detail::check_base(name, settings.base);
  const Index pairs = settings.head_dim / 2;
  const auto powers = detail::power_law(settings.base, pairs, pairs);
  std::vector<detail::DoubleDouble> inv_freq;
  std::vector<Index> used;
  for (const Index section : sections) {
    used.push_back((std::min)(section, pairs - static_cast<Index>(inv_freq.size())));
    for (std::size_t j = 0; j < static_cast<std::size_t>(used.back()); ++j) {
      inv_freq.push_back(powers[j]);
    }
  }
  if (static_cast<Index>(inv_freq.size()) != pairs) {
    detail::fail<ConfigError>(name, "the sections must cover head_dim / 2 = ", pairs,
                              " pairs but are ", sections);
  }
  return {detail::exact_frequencies(std::move(inv_freq)),
          PairAxes::sections(used).with_kind(PositionKind::RowsColumns), PairingKind::HalfRotate};
}

POSENC_END
