// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/tensor/grid_positions.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

// Positions of tokens in diffusion transformers: text, and patches of images and videos in
// row-major order, frame by frame. interop/diffusion_axes.hpp has the frequencies. Tokens at 0 on
// all axes are not rotated.
//   Source: huggingface/diffusers (58eb52c), src/diffusers; each function names its file there
POSENC_STABLE_BEGIN

/// Image or video, measured in patches.
struct VideoGrid {
  Index frames = 1;       ///< 1 for an image
  Index rows = 0;         ///< required
  Index cols = 0;         ///< required
  double frame_step = 1;  ///< time between frames; Cosmos 24 / fps
};

/// Origin of row and column coordinates.
enum class GridOrigin {
  Centre,  ///< -(n - n / 2) to n / 2 - 1; one more negative value if n is odd
  Corner   ///< 0 to n - 1
};

/// Rows and columns of patches in CogVideoX 1.0's training: those of 480 x 720 pixels.
struct CogVideoXBase {
  Index rows = 30;  ///< for a height of 480 pixels
  Index cols = 45;  ///< for a width of 720 pixels
};

/// Settings of Qwen-Image's positions.
struct QwenImageLayout {
  GridOrigin origin = GridOrigin::Centre;  ///< "scale_rope", true in all released models
  /// True for Qwen-Image-Layered, whose last image is the condition. Its index is -1, before the
  /// layers.
  bool layered = false;
};

/// Settings of MiniMax-H3's positions.
struct MiniMaxH3Layout {
  Index audio = 0;           ///< latents of each of the two channels of the soundtrack
  bool first_frame = false;  ///< a key frame at the beginning of the video
  bool last_frame = false;   ///< a key frame at the end of the video
};

static_assert(std::is_trivially_copyable_v<VideoGrid>);
static_assert(std::is_trivially_copyable_v<CogVideoXBase>);
static_assert(std::is_trivially_copyable_v<QwenImageLayout>);
static_assert(std::is_trivially_copyable_v<MiniMaxH3Layout>);

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// Returns the number of patches of a checked grid.
inline Index patches_of(const VideoGrid& grid) noexcept {
  return checked_mul_or(0, {grid.frames, grid.rows, grid.cols});
}

/// Builder of the positions of a sequence, with one list per axis.
class TokenPositionsBuilder {
 public:
  /// Checks the grids and reserves memory for `text` tokens and all patches, on 3 or 4 axes.
  TokenPositionsBuilder(const char* function, std::size_t axes, Index text,
                        ListView<VideoGrid> grids)
      : count_(axes) {
    if (text < 0) fail<ShapeError>(function, "text must not be negative but is ", text);
    Index tokens = text;
    for (const VideoGrid& grid : grids) {
      const auto sum =
          checked_add(tokens, checked_cells(function, {grid.frames, grid.rows, grid.cols}));
      if (!sum || *sum > (Index{1} << 53)) {
        fail<ShapeError>(function, "there are more than 2^53 tokens");
      }
      tokens = *sum;
      if (!(grid.frame_step >= 0 && grid.frame_step <= 1e100)) {
        fail<ShapeError>(function, "frame_step must be finite and not negative but is ",
                         grid.frame_step);
      }
    }
    for (std::size_t n = 0; n < count_; ++n) axes_[n].reserve(static_cast<std::size_t>(tokens));
  }

  void append_token(double t, double row, double col, double text = 0) {
    const std::array at{t, row, col, text};
    for (std::size_t n = 0; n < count_; ++n) axes_[n].push_back(at[n]);
  }

  /// Appends the patches of a grid. The arguments are the coordinates of the first patch.
  void append_grid(const VideoGrid& grid, double t = 0, Index first_row = 0, Index first_col = 0) {
    if (patches_of(grid) == 0) return;
    for (Index frame = 0; frame < grid.frames; ++frame) {
      const double time = mul_add(static_cast<double>(frame), grid.frame_step, t);
      for (Index row = first_row; row < first_row + grid.rows; ++row) {
        for (Index col = first_col; col < first_col + grid.cols; ++col) {
          append_token(time, static_cast<double>(row), static_cast<double>(col));
        }
      }
    }
  }

  Positions positions() const {
    const Positions first = Positions::real(axes_[0]), second = Positions::real(axes_[1]),
                    third = Positions::real(axes_[2]);
    Positions tokens = count_ == 3
                           ? Positions::axes({first, second, third})
                           : Positions::axes({first, second, third, Positions::real(axes_[3])});
    return std::move(tokens).with_kind(PositionKind::Tokens);
  }

 private:
  std::size_t count_;
  std::array<std::vector<double>, 4> axes_;  ///< only the first count_ are used
};

/// Checks that images have one frame.
inline void check_images(const char* function, ListView<VideoGrid> pictures) {
  for (const VideoGrid& picture : pictures) {
    if (picture.frames != 1) {
      fail<ShapeError>(function, "an image must have 1 frame but one has ", picture.frames);
    }
  }
}

}  // namespace detail

/// Returns frame, row and column of each patch, from 0: Wan, and Cosmos with a frame_step.
///   Throws: ShapeError
///   Source: models/transformers/transformer_wan.py, transformer_cosmos.py
inline Positions video_grid(const VideoGrid& video) {
  detail::TokenPositionsBuilder tokens("video_grid", 3, 0, {video});
  tokens.append_grid(video);
  return tokens.positions();
}

/// Returns text at 0 on all axes, then frame, row and column of each patch: Flux 1 with one frame,
/// CogVideoX 1.5.
///   Throws: ShapeError
///   Source: pipelines/flux/pipeline_flux.py, pipelines/cogvideo/pipeline_cogvideox.py
inline Positions flux_positions(Index text, const VideoGrid& grid) {
  detail::TokenPositionsBuilder tokens("flux_positions", 3, text, {grid});
  for (Index i = 0; i < text; ++i) tokens.append_token(0, 0, 0);
  tokens.append_grid(grid);
  return tokens.positions();
}

/// Returns the positions of CogVideoX 1.0: text at 0 on all axes, then patches. Rows and columns
/// are scaled to fill the base with the aspect ratio preserved, and centred in it; both sizes are
/// rounded to integers. Row k of n is at start + (stop (n - 1) / n - start) k / (n - 1).
///   Throws: ShapeError
///   Source: pipelines/cogvideo/pipeline_cogvideox.py, get_resize_crop_region_for_grid;
///           models/embeddings.py, get_3d_rotary_pos_embed
inline Positions cogvideox_positions(Index text, const VideoGrid& video,
                                     const CogVideoXBase& base = {}) {
  constexpr auto function = "cogvideox_positions";
  detail::TokenPositionsBuilder tokens(function, 3, text, {video});
  if (base.rows < 1 || base.cols < 1 || base.rows > 65536 || base.cols > 65536) {
    detail::fail<ShapeError>(function,
                             "the base must have from 1 to 65536 rows and columns but has ",
                             base.rows, " and ", base.cols);
  }
  for (Index i = 0; i < text; ++i) tokens.append_token(0, 0, 0);
  if (detail::patches_of(video) == 0) return tokens.positions();
  const auto high = static_cast<double>(video.rows), wide = static_cast<double>(video.cols);
  const auto base_high = static_cast<double>(base.rows), base_wide = static_cast<double>(base.cols);
  // nearbyint, like Python's round, rounds ties to even.
  const bool is_tall = high / wide > base_high / base_wide;
  const double filled_high = is_tall ? base_high : std::nearbyint(base_wide / wide * high);
  const double filled_wide = is_tall ? std::nearbyint(base_high / high * wide) : base_wide;
  const double top = std::nearbyint((base_high - filled_high) / 2);
  const double left = std::nearbyint((base_wide - filled_wide) / 2);
  const auto along = [](double start, double stop, Index count, Index k) {
    if (count == 1) return start;
    const auto n = static_cast<double>(count);
    return start + (stop * (n - 1) / n - start) * static_cast<double>(k) / (n - 1);
  };
  for (Index frame = 0; frame < video.frames; ++frame) {
    const double time = static_cast<double>(frame) * video.frame_step;
    for (Index row = 0; row < video.rows; ++row) {
      const double y = along(top, top + filled_high, video.rows, row);
      for (Index col = 0; col < video.cols; ++col) {
        tokens.append_token(time, y, along(left, left + filled_wide, video.cols, col));
      }
    }
  }
  return tokens.positions();
}

/// Returns positions on the axes time, row, column, text token. Text is at (0, 0, 0, i). Images
/// follow at (t, row, column, 0): the generated one with t = 0, its inputs with t = 10, 20, ....
///   Throws: ShapeError, also for an image of several frames
///   Source: pipelines/flux2/pipeline_flux2.py
inline Positions flux2_positions(Index text, ListView<VideoGrid> pictures) {
  constexpr auto function = "flux2_positions";
  detail::check_images(function, pictures);
  detail::TokenPositionsBuilder tokens(function, 4, text, pictures);
  for (Index i = 0; i < text; ++i) tokens.append_token(0, 0, 0, static_cast<double>(i));
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    tokens.append_grid(pictures[i], 10 * static_cast<double>(i));
  }
  return tokens.positions();
}

/// Returns frame, row and column of each patch, then text at 0 on all axes: HunyuanVideo.
///   Throws: ShapeError
///   Source: models/transformers/transformer_hunyuan_video.py
inline Positions hunyuan_video_positions(const VideoGrid& video, Index text) {
  detail::TokenPositionsBuilder tokens("hunyuan_video_positions", 3, text, {video});
  tokens.append_grid(video);
  for (Index i = 0; i < text; ++i) tokens.append_token(0, 0, 0);
  return tokens.positions();
}

/// Returns text first, at n, n + 1, ... on all axes. n is half of the longest side of all images
/// with patches, rounded down, or the full side if the origin is the corner. Images follow, the
/// generated one first: i + frame, row and column in image i.
///   Throws: ShapeError
///   Source: models/transformers/transformer_qwenimage.py, QwenEmbedRope and QwenEmbedLayer3DRope
inline Positions qwen_image_positions(Index text, ListView<VideoGrid> pictures,
                                      const QwenImageLayout& layout = {}) {
  detail::TokenPositionsBuilder tokens("qwen_image_positions", 3, text, pictures);
  const Index share = layout.origin == GridOrigin::Centre ? 2 : 1;
  const auto count = static_cast<Index>(pictures.size());
  Index next = layout.layered && count > 0 ? count - 1 : 0;
  for (const VideoGrid& picture : pictures) {
    if (detail::patches_of(picture) == 0) continue;  // its extents may be any
    next = (std::max)({next, picture.rows / share, picture.cols / share});
  }
  for (Index i = 0; i < text; ++i) {
    const auto p = static_cast<double>(next + i);
    tokens.append_token(p, p, p);
  }
  const auto first = [&layout](Index extent) {
    return layout.origin == GridOrigin::Centre ? -(extent - extent / 2) : Index{0};
  };
  for (Index i = 0; i < count; ++i) {
    const VideoGrid& picture = pictures[static_cast<std::size_t>(i)];
    const bool is_condition = layout.layered && i == count - 1;
    tokens.append_grid(picture, is_condition ? -1 : static_cast<double>(i), first(picture.rows),
                       first(picture.cols));
  }
  return tokens.positions();
}

/// Returns patches first, at (n + 1 + frame, row, column), then their padding at 0, then n caption
/// tokens at (1 + i, 0, 0). n is the caption's length rounded up to a multiple of 32; patches are
/// padded to such a multiple as well.
///   Throws: ShapeError
///   Source: models/transformers/transformer_z_image.py
inline Positions z_image_positions(const VideoGrid& grid, Index caption) {
  constexpr Index multiple = 32;
  const auto padding_of = [](Index tokens) { return (multiple - tokens % multiple) % multiple; };
  detail::TokenPositionsBuilder tokens("z_image_positions", 3, caption, {grid});
  const Index padded = caption + padding_of(caption);
  tokens.append_grid(grid, static_cast<double>(padded + 1));
  for (Index i = padding_of(detail::patches_of(grid)); i > 0; --i) tokens.append_token(0, 0, 0);
  for (Index i = 1; i <= padded; ++i) tokens.append_token(static_cast<double>(i), 0, 0);
  return tokens.positions();
}

/// Returns n caption tokens at (i, 0, 0), then patches at (n, row, column).
///   Throws: ShapeError, also for several frames
///   Source: models/transformers/transformer_lumina2.py
inline Positions lumina2_positions(Index caption, const VideoGrid& picture) {
  constexpr auto function = "lumina2_positions";
  detail::check_images(function, {picture});
  detail::TokenPositionsBuilder tokens(function, 3, caption, {picture});
  for (Index i = 0; i < caption; ++i) tokens.append_token(static_cast<double>(i), 0, 0);
  tokens.append_grid(picture, static_cast<double>(caption));
  return tokens.positions();
}

/// Returns text at (i, i, i), then patches at (65536, 65536 + row, 65536 + column). Guidance
/// without a prompt has patches alone.
///   Throws: ShapeError, also for several frames
///   Source: pipelines/ideogram4/pipeline_ideogram4.py
inline Positions ideogram4_positions(Index text, const VideoGrid& picture) {
  constexpr auto function = "ideogram4_positions";
  detail::check_images(function, {picture});
  detail::TokenPositionsBuilder tokens(function, 3, text, {picture});
  for (Index i = 0; i < text; ++i) {
    const auto p = static_cast<double>(i);
    tokens.append_token(p, p, p);
  }
  constexpr Index first = 65536;
  tokens.append_grid(picture, static_cast<double>(first), first, first);
  return tokens.positions();
}

/// Returns n text tokens at (i, i, i), then videos, each starting 15000 after the text: (n + 15000
/// + time, row, column). frame_step is 24 / fps; for an image it has no effect. A soundtrack is a
/// video of 1 row and 1 column with a frame_step of 24 / (latents per second). Actions are not
/// included.
///   Throws:   ShapeError
///   Accuracy: times are computed in double; the project rounds those of videos to float32
///   Source:   pipelines/cosmos/pipeline_cosmos3_omni.py
inline Positions cosmos3_positions(Index text, ListView<VideoGrid> videos) {
  detail::TokenPositionsBuilder tokens("cosmos3_positions", 3, text, videos);
  for (Index i = 0; i < text; ++i) {
    const auto p = static_cast<double>(i);
    tokens.append_token(p, p, p);
  }
  constexpr Index margin = 15000;
  for (const VideoGrid& video : videos)
    tokens.append_grid(video, static_cast<double>(text + margin));
  return tokens.positions();
}

/// Returns text at (i, 0, 0), key frames, the soundtrack channel by channel, then the video. After
/// n text tokens, frame f is at time n + 5 u / 3 with u = 0, 1, 5, 9, 13, 17, 18, 22, ..., whose
/// increments are 1, 4, 4, 4, 4 in turn. A first key frame is at n. A last key frame is at n + 5 (u
/// - 1) / 3 with the u of the frame after the last. Row r of R is at 16 + 16 sqrt(R / C) (2 r - R)
/// / R, column c of C likewise. Latent i of the soundtrack is at (n + i, 0, x), with x of the first
/// column for one channel and of the last for the other. References of the task ref2va are not
/// included.
///   Throws:   ShapeError, also for a frame_step other than 1, and a soundtrack without patches
///   Accuracy: equals the project's positions within 1e-13 of the largest
///   Source:   modular_pipelines/minimax_h3/before_denoise.py
inline Positions minimax_h3_positions(Index text, const VideoGrid& video,
                                      const MiniMaxH3Layout& layout = {}) {
  constexpr auto function = "minimax_h3_positions";
  if (video.frame_step != 1) {
    detail::fail<ShapeError>(function,
                             "frames are not evenly spaced, so frame_step must be 1 but is ",
                             video.frame_step);
  }
  if (layout.audio < 0) {
    detail::fail<ShapeError>(function, "audio must not be negative but is ", layout.audio);
  }
  const VideoGrid key_frames{.frames = Index{layout.first_frame} + Index{layout.last_frame},
                             .rows = video.rows,
                             .cols = video.cols};
  const VideoGrid soundtrack{.frames = 2, .rows = 1, .cols = layout.audio};
  detail::TokenPositionsBuilder tokens(function, 3, text, {video, key_frames, soundtrack});
  const bool is_empty = detail::patches_of(video) == 0;
  if (layout.audio != 0 && is_empty) {
    detail::fail<ShapeError>(
        function, "the soundtrack uses the columns of the video, which has no patches, but has ",
        layout.audio, " latents");
  }
  for (Index i = 0; i < text; ++i) tokens.append_token(static_cast<double>(i), 0, 0);
  if (is_empty) return tokens.positions();
  const auto start = static_cast<double>(text);
  const auto along = [](Index extent, Index other, Index k) {
    const auto n = static_cast<double>(extent);
    const double ratio = std::sqrt(n / static_cast<double>(other));
    return 16 + 16 * ratio * static_cast<double>(2 * k - extent) / n;
  };
  const auto row = [&](Index k) { return along(video.rows, video.cols, k); };
  const auto col = [&](Index k) { return along(video.cols, video.rows, k); };
  const auto time = [start](Index units) { return start + 5 * static_cast<double>(units) / 3; };
  const auto units_before = [](Index frame) {
    const Index rest = frame % 5;
    return 17 * (frame / 5) + (rest == 0 ? 0 : 4 * rest - 3);
  };
  const auto add_frame = [&](double at) {
    for (Index r = 0; r < video.rows; ++r) {
      for (Index c = 0; c < video.cols; ++c) tokens.append_token(at, row(r), col(c));
    }
  };
  if (layout.first_frame) add_frame(start);
  if (layout.last_frame) add_frame(time(units_before(video.frames) - 1));
  for (const Index at : {Index{0}, video.cols - 1}) {
    for (Index i = 0; i < layout.audio; ++i) {
      tokens.append_token(start + static_cast<double>(i), 0, col(at));
    }
  }
  for (Index frame = 0; frame < video.frames; ++frame) add_frame(time(units_before(frame)));
  return tokens.positions();
}

POSENC_END
