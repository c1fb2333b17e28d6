// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/pair_axes.hpp>

#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

// Rotary encodings of images: each axis has its own group of consecutive pairs, in which the index
// of the frequencies starts at 0. tensor/grid_positions.hpp computes the positions. A rope of these
// frequencies rejects positions of another kind (PositionKind), such as cells if patch centres are
// required.
POSENC_STABLE_BEGIN

/// lucidrains' frequencies for pixels: pi * linspace(1, max_freq / 2), for positions between -1 and
/// 1.
struct PixelFrequencies {
  Index rotary_dim = 0;  ///< required; even
  double max_freq = 0;   ///< required, >= 2; 10 in lucidrains' code
};

static_assert(std::is_trivially_copyable_v<PixelFrequencies>);

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

inline void check_has_axes(const char* function, std::size_t axes) {
  if (axes == 0) {
    fail<ConfigError>(function, "there must be frequencies for at least one axis");
  }
}

}  // namespace detail

/// Returns frequencies with one group of pairs per axis, in the order of the axes. Axes may differ
/// in frequencies and in width.
///   Throws: ConfigError if the factors of the axes differ
inline AxialFrequencies axial(ListView<Frequencies> frequencies_of_axis) {
  constexpr auto function = "axial";
  detail::check_has_axes(function, frequencies_of_axis.size());
  const Frequencies& first = frequencies_of_axis.front();
  std::vector<detail::DoubleDouble> inv_freq;
  std::vector<Index> sections;
  for (const Frequencies& axis : frequencies_of_axis) {
    if (axis.attention_factor() != first.attention_factor() ||
        axis.softmax_scale_multiplier() != first.softmax_scale_multiplier()) {
      detail::fail<ConfigError>(
          function, "all axes must have the same factors but attention_factor ", "is ",
          first.attention_factor(), " and ", axis.attention_factor(), ", softmax_scale_multiplier ",
          first.softmax_scale_multiplier(), " and ", axis.softmax_scale_multiplier());
    }
    for (const detail::DoubleDouble& w : detail::exact_inv_freq(axis)) inv_freq.push_back(w);
    sections.push_back(axis.pairs());
  }
  return {detail::exact_frequencies(std::move(inv_freq), first.attention_factor(),
                                    first.softmax_scale_multiplier()),
          PairAxes::sections(sections)};
}

/// Returns base^(-2j / rotary_dim), j < rotary_dim / 2, for each axis, where rotary_dims[axis] is
/// the axis's number of channels. Most encodings of images and videos use these frequencies. An
/// axis may have no channels.
///   Throws: ConfigError
inline AxialFrequencies axial(ListView<Index> rotary_dims, double base) {
  constexpr auto function = "axial";
  detail::check_has_axes(function, rotary_dims.size());
  std::vector<detail::DoubleDouble> inv_freq;
  std::vector<Index> sections;
  for (const Index dim : rotary_dims) {
    detail::check_rotary_dim(function, dim, 0);
    detail::check_base(function, base);
    for (const detail::DoubleDouble& w : detail::power_law(base, dim, dim / 2))
      inv_freq.push_back(w);
    sections.push_back(dim / 2);
  }
  return {detail::exact_frequencies(std::move(inv_freq)), PairAxes::sections(sections)};
}

/// Returns w_j = pi * (1 + j * (max_freq / 2 - 1) / (rotary_dim / 2 - 1)).
///   Throws: ConfigError
///   Source: lucidrains' rotary-embedding-torch, freqs_for "pixel"; interleaved pairing
inline Frequencies frequencies(const PixelFrequencies& rule) {
  constexpr auto name = "PixelFrequencies";
  detail::check_rotary_dim(name, rule.rotary_dim);
  if (!std::isfinite(rule.max_freq) || rule.max_freq < 2) {
    detail::fail<ConfigError>(name, "max_freq must be set, finite and at least 2, but is ",
                              rule.max_freq);
  }
  const Index pairs = rule.rotary_dim / 2;
  const detail::DoubleDouble step = pairs == 1 ? detail::DoubleDouble(0)
                                               : (detail::DoubleDouble(rule.max_freq) / 2.0 - 1.0) /
                                                     static_cast<double>(pairs - 1);
  std::vector<detail::DoubleDouble> inv_freq;
  for (Index j = 0; j < pairs; ++j) {
    inv_freq.push_back(detail::pi * (step * static_cast<double>(j) + 1.0));
  }
  return detail::exact_frequencies(std::move(inv_freq));
}

POSENC_END
