// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/rotary/pair_axes.hpp>

#include <utility>
#include <vector>

// Axis tables of models that read text and images with one rope over time, height and width.
// Sections count pairs and add up to rotary_dim / 2. One frequency index runs through all of them.
// interop/prompt_positions.hpp computes the positions.
POSENC_STABLE_BEGIN

/// Orders in which the axes of M-RoPE rotate the pairs of a head.
enum class MropeOrder {
  Chunked,     ///< one chunk of pairs per axis: mrope_chunked()
  Interleaved  ///< the axes alternate: mrope_interleaved()
};

/// Axis of the pairs that remain after the alternation of interleaved M-RoPE.
enum class MropeTail {
  Time,   ///< first axis: Hugging Face, vLLM
  Fourth  ///< fourth axis, which is 0 in llama.cpp: ggml IMROPE
};

POSENC_STABLE_END

POSENC_BEGIN

/// Returns the axes of chunked M-RoPE (Qwen2-VL, Qwen2.5-VL): chunks [t, h, w] of pairs, 16, 24, 24
/// for head_dim 128. A fourth section, as in GGUF's rope.dimension_sections, adds a fourth axis.
///   Throws: ConfigError
///   Source: arXiv 2409.12191, section 2.1; half pairing
inline PairAxes mrope_chunked(ListView<Index> sections) {
  if (sections.size() != 3 && sections.size() != 4) {
    detail::fail<ConfigError>("mrope_chunked", "there must be 3 or 4 sections but they are ",
                              sections);
  }
  return PairAxes::sections(sections).with_kind(PositionKind::Tokens);
}

/// Returns the axes of interleaved M-RoPE (Qwen3-VL): t, h, w, t, h, w, ... as long as an axis has
/// pairs left. The axes are t, h, w, and a fourth one for MropeTail::Fourth. Sections are [t, h,
/// w], such as 24, 20, 20; with MropeTail::Fourth also [t, h, w, e]. The two tails differ if h or w
/// is exhausted before the end: in pairs 61 and 62 of 24, 20, 20, never for 11, 11, 10.
///
/// A section of h or w that exceeds every third pair has all of these with MropeTail::Time, as
/// strided writes of its source do. Sections 2, 15, 15 of 32 pairs give 11, 11 and 10 pairs.
///   Throws: ConfigError; with MropeTail::Fourth also for an h or w that exceeds every third pair
///   Source: Hugging Face's Qwen3-VL ("mrope_interleaved"); ggml; half pairing
inline PairAxes mrope_interleaved(ListView<Index> sections, MropeTail tail) {
  constexpr auto function = "mrope_interleaved";
  const bool fourth = tail == MropeTail::Fourth;
  if (sections.size() != 3 && !(fourth && sections.size() == 4)) {
    detail::fail<ConfigError>(function, "there must be 3 sections", fourth ? " or 4" : "",
                              " but they are ", sections);
  }
  detail::check_sections(function, sections);
  Index pairs = 0;
  for (const Index section : sections) pairs += section;
  const Index leftover = fourth ? 3 : 0;
  std::vector<Index> axis_of_pair(static_cast<std::size_t>(pairs), leftover);
  std::vector<Index> counts(4, 0);
  for (Index i = 0; i < pairs; ++i) {
    const Index axis = i % 3;
    if (i < 3 * sections[static_cast<std::size_t>(axis)]) {
      axis_of_pair[static_cast<std::size_t>(i)] = axis;
    }
    ++counts[static_cast<std::size_t>(axis_of_pair[static_cast<std::size_t>(i)])];
  }
  if (fourth && (counts[1] != sections[1] || counts[2] != sections[2])) {
    detail::fail<ConfigError>(function, "height and width must fit into every third pair but the ",
                              "sections are ", sections);
  }
  return PairAxes(fourth ? 4 : 3, std::move(axis_of_pair)).with_kind(PositionKind::Tokens);
}

/// Returns the axes of ERNIE-4.5-VL: h and w alternate, then t. Sections are [h, w, t], 22, 22, 20;
/// the position axes are t, h, w, as for all models.
///   Throws: ConfigError
///   Source: Hugging Face's and vLLM's Ernie4.5-VL; interleaved pairing
inline PairAxes ernie_axes(ListView<Index> sections) {
  constexpr auto function = "ernie_axes";
  detail::check_sections(function, sections);
  if (sections.size() != 3 || sections[0] != sections[1]) {
    detail::fail<ConfigError>(function, "there must be 3 sections [h, w, t] with h == w but they ",
                              "are ", sections);
  }
  std::vector<Index> axis_of_pair;
  for (Index i = 0; i < sections[0]; ++i) {
    axis_of_pair.push_back(1);
    axis_of_pair.push_back(2);
  }
  for (Index i = 0; i < sections[2]; ++i) axis_of_pair.push_back(0);
  return PairAxes(3, std::move(axis_of_pair)).with_kind(PositionKind::Tokens);
}

/// Returns the axes of Hunyuan's xdrope: four chunks on the axes p, w, h, t, where p is the index
/// of the token. Its frequencies are those of NtkScaling.
///   Throws: ConfigError
///   Source: Hugging Face's and vLLM's HunYuan-VL ("xdrope_section"); half pairing
inline PairAxes xdrope_axes(ListView<Index> sections) {
  if (sections.size() != 4) {
    detail::fail<ConfigError>("xdrope_axes", "there must be 4 sections but they are ", sections);
  }
  return PairAxes::sections(sections).with_kind(PositionKind::Tokens);
}

POSENC_END
