// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_STABLE_BEGIN

/// The kind of coordinates that positions are, or that an encoding accepts.
enum class PositionKind {
  Unspecified,   ///< user-supplied coordinates; every encoding accepts them
  Tokens,        ///< ids of tokens, frames or cells, with distance 1
  RowsColumns,   ///< Tokens with the row of a cell on axis 0 and its column on axis 1
  ColumnsRows,   ///< Tokens with the column (x) of a cell on axis 0 and its row (y) on axis 1
  PatchCentres,  ///< centres of DINOv3's patches: 2 pi times coordinates between -1 and 1
  Pixels         ///< lucidrains' pixel coordinates, between -1 and 1
};

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {

/// True if the coordinates of a kind are ids of tokens or cells.
constexpr bool is_token_kind(PositionKind kind) noexcept {
  return kind == PositionKind::Tokens || kind == PositionKind::RowsColumns ||
         kind == PositionKind::ColumnsRows;
}

/// True if an encoding for the kind `required` accepts positions of the kind `actual`.
constexpr bool kinds_fit(PositionKind required, PositionKind actual) noexcept {
  if (required == actual) return true;
  if (required == PositionKind::Unspecified || actual == PositionKind::Unspecified) return true;
  if (required == PositionKind::Tokens) return is_token_kind(actual);
  return actual == PositionKind::Tokens && is_token_kind(required);
}

/// Returns the description of a kind, for messages.
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
  return "custom coordinates";
}

/// Returns the names of the functions that create positions of a kind, for messages.
constexpr const char* creators_of(PositionKind kind) noexcept {
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
