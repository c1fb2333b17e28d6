// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/detail/random_bits.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/grid_positions.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

// Positions of DINOv3's patches. They depend on the image size, so a table computed for one size is
// wrong for another.
POSENC_STABLE_BEGIN

/// Number of patches by which rows and columns are divided, so that they range from -1 to 1.
enum class PatchNormalization {
  Separate,  ///< rows by rows, columns by columns: all released models
  Max,       ///< both by the larger number
  Min        ///< both by the smaller number; the longer side exceeds 1
};

/// Tokens of one image.
struct Dinov3Grid {
  Index rows = 0;           ///< required
  Index cols = 0;           ///< required
  Index prefix_tokens = 0;  ///< class token and registers, which precede the patches
};

/// Random augmentation of patch coordinates in training. The default is none.
struct Dinov3Augmentation {
  double shift = 0;  ///< "pos_embed_shift": maximum shift of each axis
  /// "pos_embed_jitter", >= 1: each axis is scaled by 1 / jitter to jitter.
  double jitter = 1;
  /// "pos_embed_rescale", >= 1: both axes are scaled by the same factor, 1 / rescale to rescale.
  double rescale = 1;
  std::uint64_t seed = 0;  ///< a different number for each image and step
};

/// Drawn augmentation, which moves a coordinate c of an axis to (c + shift) * scale.
struct DrawnDinov3Augmentation {
  std::array<double, 2> shift{0, 0};  ///< of rows, then of columns
  std::array<double, 2> scale{1, 1};  ///< of rows, then of columns
};

static_assert(std::is_trivially_copyable_v<Dinov3Grid>);
static_assert(std::is_trivially_copyable_v<Dinov3Augmentation>);
static_assert(std::is_trivially_copyable_v<DrawnDinov3Augmentation>);

POSENC_STABLE_END

POSENC_BEGIN

/// Draws the augmentation of a seed, deterministically. The shift is uniform in [-shift, shift].
/// The scale is log-uniform, in [1 / jitter, jitter] per axis times [1 / rescale, rescale] for both
/// axes.
///   Throws: ConfigError for a shift that is negative or not finite, a jitter or rescale below 1 or
///           above 1e100
///   Source: facebookresearch/dinov3, dinov3/layers/rope_position_encoding.py (31703e4); the random
///           numbers are not PyTorch's
inline DrawnDinov3Augmentation draw_dinov3_augmentation(const Dinov3Augmentation& augmentation) {
  constexpr auto function = "draw_dinov3_augmentation";
  if (!(augmentation.shift >= 0 && augmentation.shift <= 1e100)) {
    detail::fail<ConfigError>(function, "shift must be finite and not negative but is ",
                              augmentation.shift);
  }
  const auto check = [](const char* field, double factor) {
    if (!(factor >= 1 && factor <= 1e100)) {
      detail::fail<ConfigError>(function, field, " must lie between 1 and 1e100 but is ", factor);
    }
  };
  check("jitter", augmentation.jitter);
  check("rescale", augmentation.rescale);
  // Uniform in [-1, 1).
  const auto drawn = [&augmentation](std::uint64_t number) {
    return 2 * detail::uniform(detail::mix_bits(detail::mix_bits(augmentation.seed) ^ number)) - 1;
  };
  // Double-double, so that the result does not depend on the C library's rounding.
  const auto stretch = [](double factor, double by) {
    return exp(log(detail::DoubleDouble(factor)) * by).hi;
  };
  const double both = stretch(augmentation.rescale, drawn(4));
  return {.shift = {augmentation.shift * drawn(0), augmentation.shift * drawn(1)},
          .scale = {stretch(augmentation.jitter, drawn(2)) * both,
                    stretch(augmentation.jitter, drawn(3)) * both}};
}

/// Computes rows and columns (axes 0 and 1) of patch centres, in row-major order after the prefix
/// tokens. Patch k of n is at (2k + 1) / n - 1, augmented, times 2 pi. A pair with period T
/// therefore rotates by 2 pi c / T: one full turn from c = -T / 2 to T / 2. Prefix tokens are at 0,
/// where no rope rotates.
///   Throws:   ShapeError; ConfigError as draw_dinov3_augmentation()
///   Accuracy: without augmentation within 0.51 ulp of the definition
///   Source:   facebookresearch/dinov3, dinov3/layers/rope_position_encoding.py (31703e4);
///             huggingface/transformers, dinov3_vit/modeling_dinov3_vit.py (015e687), which has
///             Separate alone; pytorch-image-models, timm/layers/pos_embed_sincos.py (aa4b585)
inline Positions dinov3_grid(const Dinov3Grid& grid, PatchNormalization normalization,
                             const Dinov3Augmentation& augmentation = {}) {
  constexpr auto function = "dinov3_grid";
  const Index cells = detail::checked_cells(function, {grid.rows, grid.cols});
  if (grid.prefix_tokens < 0 || grid.prefix_tokens > (Index{1} << 53) - cells) {
    detail::fail<ShapeError>(
        function, "prefix_tokens must not be negative, and at most 2^53 with the patches, but are ",
        grid.prefix_tokens);
  }
  const DrawnDinov3Augmentation move = draw_dinov3_augmentation(augmentation);
  const auto along = [&](std::size_t axis, Index k) {
    const Index n = normalization == PatchNormalization::Separate
                        ? (axis == 0 ? grid.rows : grid.cols)
                    : normalization == PatchNormalization::Max ? (std::max)(grid.rows, grid.cols)
                                                               : (std::min)(grid.rows, grid.cols);
    const detail::DoubleDouble centre =
        detail::DoubleDouble(static_cast<double>(2 * k + 1 - n)) / static_cast<double>(n);
    return ((centre + move.shift[axis]) * move.scale[axis] * (detail::pi * 2.0)).hi;
  };
  const Index tokens = grid.prefix_tokens + cells;
  auto y = detail::vector_with_capacity<double>(tokens),
       x = detail::vector_with_capacity<double>(tokens);
  for (Index token = 0; token < grid.prefix_tokens; ++token) {
    y.push_back(0);
    x.push_back(0);
  }
  for (Index row = 0; cells != 0 && row < grid.rows; ++row) {
    const double at_row = along(0, row);
    for (Index col = 0; col < grid.cols; ++col) {
      y.push_back(at_row);
      x.push_back(along(1, col));
    }
  }
  return Positions::axes({Positions::real(y), Positions::real(x)})
      .with_kind(PositionKind::PatchCentres);
}

POSENC_END
