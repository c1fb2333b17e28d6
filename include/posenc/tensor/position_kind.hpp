// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_STABLE_BEGIN

/// The coordinates that positions are, and that an encoding is made for.
enum class PositionKind {
  Unspecified,   ///< the caller's own: fit every encoding
  Tokens,        ///< ids of tokens, frames or cells, one apart
  RowsColumns,   ///< Tokens, but axis 0 is the row of a cell and axis 1 its column
  ColumnsRows,   ///< Tokens, but axis 0 is the column (x) of a cell and axis 1 its row (y)
  PatchCentres,  ///< centres of DINOv3's patches: 2 pi times coordinates between -1 and 1
  Pixels         ///< lucidrains' pixels: coordinates between -1 and 1
};

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {

constexpr bool counts_tokens(PositionKind kind) noexcept {
  return kind == PositionKind::Tokens || kind == PositionKind::RowsColumns ||
         kind == PositionKind::ColumnsRows;
}

/// True if an encoding made for one kind can mean positions of another.
constexpr bool kinds_fit(PositionKind wanted, PositionKind given) noexcept {
  if (wanted == given) return true;
  if (wanted == PositionKind::Unspecified || given == PositionKind::Unspecified) return true;
  if (wanted == PositionKind::Tokens) return counts_tokens(given);
  return given == PositionKind::Tokens && counts_tokens(wanted);
}

constexpr const char* name_of(PositionKind kind) noexcept {
  switch (kind) {
    case PositionKind::Tokens:
      return "ids of tokens or cells";
    case PositionKind::RowsColumns:
      return "rows and columns of cells";
    case PositionKind::ColumnsRows:
      return "columns and rows of cells";
    case PositionKind::PatchCentres:
      return "centres of patches";
    case PositionKind::Pixels:
      return "coordinates between -1 and 1";
    case PositionKind::Unspecified:
      break;
  }
  return "coordinates of the caller's own";
}

/// The functions that make positions of a kind.
constexpr const char* makers_of(PositionKind kind) noexcept {
  switch (kind) {
    case PositionKind::RowsColumns:
      return "Positions::grid or merge_block_grid()";
    case PositionKind::ColumnsRows:
      return "xy_grid() or llama4_grid()";
    case PositionKind::PatchCentres:
      return "dinov3_grid()";
    case PositionKind::Pixels:
      return "pixel_grid()";
    case PositionKind::Tokens:
    case PositionKind::Unspecified:
      break;
  }
  return "Positions::ids, prompt_positions() or the function of interop/diffusion_positions.hpp";
}

}  // namespace detail
POSENC_END
