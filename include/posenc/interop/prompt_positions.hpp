// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/tensor/grid_positions.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

POSENC_STABLE_BEGIN

/// Times of the frames of a video, in positions.
enum class FrameTimes {
  Unspecified,  ///< a ConfigError if frame_step is not an integer
  RoundedDown,  ///< floor(frame * frame_step): Qwen2.5-VL, Qwen2.5-Omni
  Unrounded     ///< frame * frame_step: Qwen3-Omni, whose positions are real numbers
};

/// Part of a prompt: text, padding, or the patches of one image or video.
struct PromptPart {
  Index text = 0;     ///< tokens of text
  Index padding = 0;  ///< masked tokens; their position is 1, as in from_padding_mask
  Index rows = 0;     ///< rows of patches of an image, a multiple of merge
  Index cols = 0;     ///< columns of patches, a multiple of merge
  Index frames = 1;   ///< frames of a video, each rows x cols
  Index merge = 1;    ///< merge x merge patches form one token; Qwen2-VL: 2
  /// Time between frames. Qwen2.5-VL: second_per_grid * tokens_per_second; Qwen2.5-Omni and
  /// Qwen3-Omni: second_per_grid * position_id_per_seconds.
  double frame_step = 1;
  FrameTimes frame_times = FrameTimes::Unspecified;  ///< required if frame_step is not an integer
};

/// Indices at which ChatGLM-6B stops counting positions.
struct ChatGlmPrompt {
  Index context_length = -1;  ///< required: tokens before the beginning-of-sequence token
  Index mask_position = -1;   ///< required: index of [MASK] or [gMASK]
};

static_assert(std::is_trivially_copyable_v<PromptPart>);
static_assert(std::is_trivially_copyable_v<ChatGlmPrompt>);

POSENC_STABLE_END

POSENC_BEGIN

/// Positions of prompts of text and images, on the axes t, h, w, and the offsets that decoding
/// needs.
struct PromptPositions {
  Positions positions;  ///< [B, S] on 3 axes
  /// [B]: next position of a row minus S; integers, unless times are unrounded.
  std::vector<double> rope_deltas;

  /// Returns positions of `count` new text tokens after `past` tokens of every row: past +
  /// rope_delta, ..., equal on all axes. `past` includes padding, prompt and earlier new tokens.
  ///   Throws: PositionError, ShapeError
  Positions decode(Index past, Index count) const {
    std::vector<double> starts;
    for (const double delta : rope_deltas) {
      starts.push_back(static_cast<double>(past) + delta);
      if (!(std::abs(starts.back()) <= 0x1p53)) {
        detail::fail<PositionError>("PromptPositions::decode", "past (", past,
                                    ") and a row's rope_delta (", delta,
                                    ") add up to a position beyond 2^53");
      }
    }
    const Positions axis = text_from(starts, count);
    return Positions::axes({axis, axis, axis});
  }

 private:
  /// Returns `count` consecutive positions from each start.
  static Positions text_from(const std::vector<double>& starts, Index count) {
    const auto is_integer = [](double start) { return start == std::floor(start); };
    if (std::all_of(starts.begin(), starts.end(), is_integer)) {
      const std::vector<Index> ids(starts.begin(), starts.end());
      return ids.size() == 1 ? Positions::range(ids[0], count) : Positions::starts(ids, count);
    }
    constexpr auto function = "PromptPositions::decode";
    const auto batch = static_cast<Index>(starts.size());
    const Index size = detail::checked_cells(function, {batch, count});
    auto ids = detail::vector_with_capacity<double>(size);
    for (const double start : starts) {
      for (Index i = 0; i < count; ++i) ids.push_back(start + static_cast<double>(i));
    }
    return Positions::real(batch, ids);
  }
};

namespace detail {

inline bool is_image(const PromptPart& part) { return part.rows != 0 || part.cols != 0; }

/// Checks that a part is of one kind and has no settings of another.
inline void check_prompt_part(const char* function, const PromptPart& part) {
  const auto count = [](Index value) { return value != 0 ? 1 : 0; };
  if (part.text < 0 || part.padding < 0 || part.rows < 0 || part.cols < 0 || part.frames < 0) {
    fail<ConfigError>(
        function, "text, padding, rows, cols and frames must not be negative but are ",
        ListView<Index>({part.text, part.padding, part.rows, part.cols, part.frames}));
  }
  if (count(part.text) + count(part.padding) + (is_image(part) ? 1 : 0) > 1) {
    fail<ConfigError>(function, "a part must be text, padding or an image, but one has text ",
                      part.text, ", padding ", part.padding, ", rows ", part.rows, " and cols ",
                      part.cols);
  }
  if (!is_image(part)) {
    if (part.frames != 1 || part.merge != 1 || part.frame_step != 1 ||
        part.frame_times != FrameTimes::Unspecified) {
      fail<ConfigError>(function, "frames (", part.frames, "), merge (", part.merge,
                        "), frame_step (", part.frame_step,
                        ") and frame_times require an image with rows and cols");
    }
    return;
  }
  if (part.merge < 1 || part.rows % part.merge != 0 || part.cols % part.merge != 0) {
    fail<ConfigError>(function, "merge (", part.merge, ") must divide rows (", part.rows,
                      ") and cols (", part.cols, ")");
  }
  (void)checked_cells(function, {part.frames, part.rows, part.cols});
  if (!std::isfinite(part.frame_step) || part.frame_step < 0) {
    fail<ConfigError>(function, "frame_step must be finite and not negative but is ",
                      part.frame_step);
  }
  if (part.frame_times == FrameTimes::Unspecified &&
      part.frame_step != std::floor(part.frame_step)) {
    fail<ConfigError>(function, "frame_times must be set if frame_step is not an integer, but is ",
                      part.frame_step, ": RoundedDown (Qwen2.5-VL, Qwen2.5-Omni) or Unrounded ",
                      "(Qwen3-Omni)");
  }
}

/// Returns the number of tokens of a checked part.
inline Index tokens_of(const PromptPart& part) noexcept {
  if (!is_image(part)) return part.text + part.padding;  // one of them is 0
  return checked_mul_or(0, {part.frames, part.rows / part.merge, part.cols / part.merge});
}

/// Appends the ids of one row and returns the next position of text.
inline double append_prompt(ListView<PromptPart> parts, std::array<std::vector<double>, 3>& ids) {
  constexpr auto function = "prompt_positions";
  auto tokens = static_cast<Index>(ids[0].size());
  for (const PromptPart& part : parts) {
    check_prompt_part(function, part);
    const auto sum = checked_add(tokens, tokens_of(part));
    if (!sum || *sum > (Index{1} << 53)) {
      fail<ShapeError>(function, "a batch of prompts has more than 2^53 tokens");
    }
    tokens = *sum;
  }
  // Reserved first, so that an impossible size fails before any work.
  for (std::vector<double>& axis_ids : ids) axis_ids.reserve(static_cast<std::size_t>(tokens));
  const auto push = [&ids](double t, double h, double w) {
    ids[0].push_back(t);
    ids[1].push_back(h);
    ids[2].push_back(w);
  };
  double next = 0;
  const auto require_room = [&next](Index count) {
    if (next > 0x1p53 - static_cast<double>(count)) {
      fail<PositionError>(function, "positions must lie within 2^53, but ", count,
                          " follow the position ", next - 1);
    }
  };
  for (const PromptPart& part : parts) {
    for (Index i = 0; i < part.padding; ++i) push(1, 1, 1);
    require_room(part.text);
    for (Index i = 0; i < part.text; ++i, ++next) push(next, next, next);
    if (!is_image(part) || tokens_of(part) == 0) continue;
    const Index rows = part.rows / part.merge, cols = part.cols / part.merge;
    const double start = next;
    require_room((std::max)(rows, cols));
    next += static_cast<double>((std::max)(rows, cols));
    for (Index frame = 0; frame < part.frames; ++frame) {
      const double product = static_cast<double>(frame) * part.frame_step;
      const double time = part.frame_times == FrameTimes::Unrounded ? product : std::floor(product);
      if (!(start + time < 0x1p53)) {
        fail<PositionError>(function, "positions must lie within 2^53, but frame ", frame,
                            " is at ", start + time);
      }
      for (Index cell = 0; cell < rows * cols; ++cell) {
        const Index row = cell / cols, col = cell % cols;
        push(start + time, start + static_cast<double>(row), start + static_cast<double>(col));
      }
      next = (std::max)(next, start + time + 1);
    }
  }
  return next;
}

inline PromptPositions prompt_positions_of(ListView<std::vector<PromptPart>> prompts) {
  std::array<std::vector<double>, 3> ids;
  std::vector<double> deltas;
  std::size_t length = 0;
  for (std::size_t b = 0; b < prompts.size(); ++b) {
    const std::size_t before = ids[0].size();
    const double next = append_prompt(prompts[b], ids);
    const std::size_t size = ids[0].size() - before;
    if (b == 0) length = size;
    if (size != length) {
      fail<ShapeError>("prompt_positions", "all prompts must have the same number of ",
                       "tokens, padding included, but have ", length, " and ", size);
    }
    deltas.push_back(next - static_cast<double>(size));
  }
  const auto batch = static_cast<Index>(prompts.size());
  return {Positions::axes({Positions::real(batch, ids[0]), Positions::real(batch, ids[1]),
                           Positions::real(batch, ids[2])}),
          deltas};
}

}  // namespace detail

/// Computes the ids (t, h, w) of a batch of prompts, as in Qwen2-VL. Text counts up with t = h = w.
/// An image that starts at position p has t = p + time of the frame, h = p + row, w = p + column of
/// its merged grid, in row-major order. Later text continues at the largest of these plus 1.
///   Throws:   ConfigError for a part that contradicts itself; ShapeError if rows of the batch
///             differ in length (pad them); PositionError
///   Accuracy: times are computed in double; Qwen2.5-Omni's and Qwen3-Omni's classes compute them
///             in float32
///   Source:   arXiv 2409.12191, section 2.1; get_rope_index() of transformers, qwen2_5_vl
///             (4.57.1), qwen2_5_omni, qwen3_omni_moe (5.24.0). In 5.24.0 text after a video of
///             qwen2_vl, qwen2_5_vl and the like continues after the longer side of a frame instead
inline PromptPositions prompt_positions(std::span<const std::vector<PromptPart>> prompts) {
  return detail::prompt_positions_of({prompts.data(), prompts.size()});
}
/// Overload of prompt_positions() for one prompt.
///   Throws: ConfigError for a part that contradicts itself; PositionError
inline PromptPositions prompt_positions(std::initializer_list<PromptPart> prompt) {
  const std::vector<PromptPart> one(prompt);
  return detail::prompt_positions_of({&one, 1});
}

/// Computes the positions of tokens first .. first + count - 1 of a ChatGLM-6B sequence. Axis 0,
/// the position id, counts up to the end of the context and is mask_position after it. Axis 1, the
/// block id, is 0 in the context and counts from 1 after it. For decoding pass the number of tokens
/// so far as `first`.
///   Throws: ConfigError, ShapeError, PositionError
///   Source: THUDM's modeling_chatglm.py
inline Positions chatglm_positions(const ChatGlmPrompt& prompt, Index first, Index count) {
  constexpr auto function = "chatglm_positions";
  if (prompt.context_length < 0) {
    detail::fail<ConfigError>(function, "context_length must be set and not negative but is ",
                              prompt.context_length);
  }
  if (prompt.mask_position < 0) {
    detail::fail<ConfigError>(function, "mask_position must be set and not negative but is ",
                              prompt.mask_position);
  }
  if (first < 0 || count < 0 || first > (Index{1} << 53) - count) {
    detail::fail<ShapeError>(function,
                             "first and count must not be negative, nor their sum exceed ",
                             "2^53, but they are ", first, " and ", count);
  }
  auto position = detail::vector_with_capacity<Index>(count),
       block = detail::vector_with_capacity<Index>(count);
  for (Index i = first; i < first + count; ++i) {
    const bool in_context = i < prompt.context_length;
    position.push_back(in_context ? i : prompt.mask_position);
    block.push_back(in_context ? 0 : i - prompt.context_length + 1);
  }
  return Positions::axes({Positions::ids(position), Positions::ids(block)});
}

POSENC_END
