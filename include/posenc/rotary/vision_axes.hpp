// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/pair_axes.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

// Rotary encodings of pictures: each axis has its own group of neighbouring pairs, and the index of
// the frequencies begins anew in it. tensor/grid_positions.hpp makes the positions.
POSENC_STABLE_BEGIN

/// Settings of the two-dimensional encodings that ship.
struct VisionRope {
  Index head_dim = 0;  ///< required; divisible by 4, all of it is rotated
  double base = 0;     ///< required; 10000, RoPE-ViT 100
};

/// lucidrains' frequencies for pixels: pi * linspace(1, max_freq / 2), for positions between -1 and
/// 1.
struct PixelFrequencies {
  Index rotary_dim = 0;  ///< required; even
  double max_freq = 0;   ///< required, >= 2; 10 there
};

static_assert(std::is_trivially_copyable_v<VisionRope>);
static_assert(std::is_trivially_copyable_v<PixelFrequencies>);

POSENC_STABLE_END

POSENC_BEGIN

/// One group of pairs an axis, in the order of the axes, each with frequencies of its own; axes may
/// differ in width.
///   Throws: ConfigError where the axes' factors differ
inline AxialFrequencies axial(ListView<Frequencies> frequencies_of_axis) {
  constexpr auto function = "axial";
  if (frequencies_of_axis.empty()) {
    detail::fail<ConfigError>(function, "there must be frequencies for at least one axis");
  }
  const Frequencies& first = frequencies_of_axis.front();
  std::vector<DoubleDouble> inv_freq;
  std::vector<Index> sections;
  for (const Frequencies& axis : frequencies_of_axis) {
    if (axis.attention_factor() != first.attention_factor() ||
        axis.softmax_scale_multiplier() != first.softmax_scale_multiplier()) {
      detail::fail<ConfigError>(
          function, "all axes must have the same factors but attention_factor ", "is ",
          first.attention_factor(), " and ", axis.attention_factor(), ", softmax_scale_multiplier ",
          first.softmax_scale_multiplier(), " and ", axis.softmax_scale_multiplier());
    }
    const auto exact = axis.exact_inv_freq();
    inv_freq.insert(inv_freq.end(), exact.begin(), exact.end());
    sections.push_back(axis.pairs());
  }
  return {
      Frequencies(std::move(inv_freq), first.attention_factor(), first.softmax_scale_multiplier()),
      PairAxes::sections(sections)};
}

/// w_j = pi * (1 + j * (max_freq / 2 - 1) / (rotary_dim / 2 - 1)).
///   Throws: ConfigError
///   Source: lucidrains' rotary-embedding-torch, freqs_for "pixel"; interleaved pairing
inline Frequencies frequencies(const PixelFrequencies& rule) {
  constexpr auto name = "PixelFrequencies";
  detail::check_rotary_dim(name, rule.rotary_dim);
  if (!std::isfinite(rule.max_freq) || rule.max_freq < 2) {
    detail::fail<ConfigError>(name, "max_freq must be given, finite and at least 2, but is ",
                              rule.max_freq);
  }
  const Index pairs = rule.rotary_dim / 2;
  const DoubleDouble step =
      pairs == 1 ? DoubleDouble(0)
                 : (DoubleDouble(rule.max_freq) / 2.0 - 1.0) / static_cast<double>(pairs - 1);
  std::vector<DoubleDouble> inv_freq;
  for (Index j = 0; j < pairs; ++j) {
    inv_freq.push_back(detail::pi * (step * static_cast<double>(j) + 1.0));
  }
  return Frequencies(std::move(inv_freq));
}

namespace detail {

/// base^(-2j / (head_dim / 2)) for each of two axes.
inline AxialFrequencies two_axes(const char* name, const VisionRope& settings) {
  check_head_of_two_halves(name, settings.head_dim);
  check_base(name, settings.base);
  const Frequencies axis =
      evaluate(Unscaled{.rotary_dim = settings.head_dim / 2, .base = settings.base});
  return axial(std::array{axis, axis});
}

}  // namespace detail

/// Vision tower of Qwen2-VL, Qwen2.5-VL and Qwen3-VL: axes h, w, half pairing over the whole head,
/// patches in merge blocks (merge_block_grid).
///   Throws: ConfigError
inline AxialFrequencies qwen2_vl_vision(const VisionRope& settings) {
  return detail::two_axes("qwen2_vl_vision", settings);
}

/// Vision tower of Llama 4: axes x, y, interleaved pairing, positions from 1 and 0 for the class
/// token (llama4_grid).
///   Throws: ConfigError
///   Source: torchtune and Hugging Face
inline AxialFrequencies llama4_vision(const VisionRope& settings) {
  return detail::two_axes("llama4_vision", settings);
}

/// Vision tower of Pixtral (Mistral 3, Devstral): axes y, x, half pairing over the whole head. Of
/// base^(-2i / head_dim), y has those of even i and x those of odd i.
///   Throws: ConfigError
///   Source: Hugging Face's modeling_pixtral.py at 0233e50
inline AxialFrequencies pixtral_vision(const VisionRope& settings) {
  constexpr auto name = "pixtral_vision";
  detail::check_head_of_two_halves(name, settings.head_dim);
  detail::check_base(name, settings.base);
  const auto all = detail::power_law(settings.base, settings.head_dim, settings.head_dim / 2);
  std::array<std::vector<DoubleDouble>, 2> of_axis;
  for (std::size_t i = 0; i < all.size(); ++i) of_axis[i % 2].push_back(all[i]);
  return axial(std::array{Frequencies(std::move(of_axis[0])), Frequencies(std::move(of_axis[1]))});
}

/// RoPE-ViT axial: axes x, y, interleaved pairing, base 100. Its mixed form is MixedRope.
///   Throws: ConfigError
///   Source: naver-ai's rope-vit; its paper, arXiv 2403.13298, lets x and y alternate instead
inline AxialFrequencies rope_vit_axial(const VisionRope& settings) {
  return detail::two_axes("rope_vit_axial", settings);
}

/// ggml's VISION mode: four axes of positions of which pair i reads the one whose section holds i,
/// frequencies base^(-2j / (head_dim / 2)) with j counted from the section's start. Its models give
/// sections of head_dim / 4, so that only the first two axes, y and x, are read. Half pairing over
/// the whole head.
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
  std::vector<DoubleDouble> inv_freq;
  std::vector<Index> used;
  for (const Index section : sections) {
    used.push_back((std::min)(section, pairs - static_cast<Index>(inv_freq.size())));
    inv_freq.insert(inv_freq.end(), powers.begin(), powers.begin() + used.back());
  }
  if (static_cast<Index>(inv_freq.size()) != pairs) {
    detail::fail<ConfigError>(name, "the sections must cover head_dim / 2 = ", pairs,
                              " pairs but are ", sections);
  }
  return {Frequencies(std::move(inv_freq)), PairAxes::sections(used)};
}

POSENC_END
