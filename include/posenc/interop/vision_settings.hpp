// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/interop/layer_attention.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/chatglm_rope.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

POSENC_BEGIN

/// Rotary encodings of vision towers, by two position axes.
enum class VisionRotaryForm {
  Qwen2Vl,  ///< qwen2_vl_vision(), half pairing: rows and columns of merge_block_grid()
  Llama4,   ///< llama4_vision(), interleaved pairing: llama4_grid()
  Pixtral,  ///< pixtral_vision(), half pairing: rows and columns, Positions::grid()
  Gemma4    ///< ChatGlmRope: columns rotate one half of the head, rows the other; xy_grid()
};

/// Settings of a vision tower's rotary encoding.
struct VisionRotary {
  VisionRotaryForm form = VisionRotaryForm::Qwen2Vl;  ///< encoding, and its order of patches
  double base = 0;                                    ///< required

  /// True if all members are equal.
  friend bool operator==(const VisionRotary&, const VisionRotary&) = default;
};

/// Position of a tower's class token relative to the patches.
enum class ClassToken {
  None,   ///< no class token
  First,  ///< before the patches
  Last    ///< after the patches
};

/// Table of learned positions that a tower adds to its patches. Towers for images of different
/// sizes resize it (resize_grid): Qwen3-VL Bilinear with AlignCorners, SigLIP 2 Bilinear with
/// antialias.
struct PatchTable {
  Index rows = 0,                             ///< rows of the table's patches
      cols = 0;                               ///< columns of the table's patches
  ClassToken class_token = ClassToken::None;  ///< it has a row of the table, too
  /// One table of `rows` rows and one of `cols` columns, which are added.
  bool sum_of_axes = false;

  /// True if all members are equal.
  friend bool operator==(const PatchTable&, const PatchTable&) = default;
};

/// Settings of a vision tower: position encodings of its patches, and the attention of its layers,
/// which are alike except for windows. Every patch attends to all patches of its image.
struct VisionSettings {
  std::string model_type = {};  ///< the tower's type, or the model's if the tower has none
  /// Reason why the tower is not supported: its unsupported feature, or the wrong key. Only
  /// model_type is set besides. Empty if the tower is supported.
  std::string refused = {};
  Index layer_count = 0;          ///< number of transformer layers
  LayerAttention attention = {};  ///< of every layer, except for its window
  /// Scale of scores, if it is not head_dim^-1/2.
  std::optional<double> softmax_scale = std::nullopt;
  Index patch_size = 0;  ///< side length in pixels
  Index merge = 1;  ///< patches are ordered in blocks of merge x merge, as in merge_block_grid()
  std::optional<PatchTable> table = std::nullopt;     ///< table of learned positions
  std::optional<VisionRotary> rotary = std::nullopt;  ///< nullopt: queries and keys are not rotated
  /// Side length, in patches, of the windows of all layers except layers_without_window; 0: no
  /// windows.
  Index window = 0;
  std::vector<Index> layers_without_window = {};  ///< sorted

  /// True if all members are equal.
  friend bool operator==(const VisionSettings&, const VisionSettings&) = default;
};

namespace detail {

inline void check_supported(const char* function, const VisionSettings& tower) {
  if (!tower.refused.empty()) {
    fail<ConfigError>(function, "the vision tower '", tower.model_type,
                      "' is not supported: ", tower.refused);
  }
}

}  // namespace detail

/// Returns the rotation of the tower's queries and keys.
///   Throws: ConfigError for a tower that is unsupported or has no rotary encoding
inline AnyRope rope(const VisionSettings& tower) {
  constexpr auto function = "rope";
  detail::check_supported(function, tower);
  if (!tower.rotary) {
    detail::fail<ConfigError>(function, "the vision tower '", tower.model_type,
                              "' has no rotary encoding");
  }
  if (!tower.attention.head_dim) {
    detail::fail<ConfigError>(function, "head_dim of the vision tower must be set");
  }
  const VisionRope settings{.head_dim = *tower.attention.head_dim, .base = tower.rotary->base};
  switch (tower.rotary->form) {
    case VisionRotaryForm::Qwen2Vl:
      return AnyRope(PairingKind::HalfRotate, qwen2_vl_vision(settings));
    case VisionRotaryForm::Llama4:
      return AnyRope(PairingKind::Interleaved, llama4_vision(settings));
    case VisionRotaryForm::Pixtral:
      return AnyRope(PairingKind::HalfRotate, pixtral_vision(settings));
    default:
      detail::check_head_of_two_halves(function, settings.head_dim);
      return ChatGlmRope(
          frequencies(Unscaled{.rotary_dim = settings.head_dim / 2, .base = settings.base}));
  }
}

/// Checks the settings of a tower. Those of an unsupported tower always pass.
///   Throws: ConfigError
inline void validate(const VisionSettings& tower) {
  constexpr auto function = "VisionSettings";
  if (!tower.refused.empty()) return;
  const auto check = [](const char* name, Index value, Index least) {
    if (value < least || value > (Index{1} << 20)) {
      detail::fail<ConfigError>(function, name, " must be from ", least, " to 2^20 but is ", value);
    }
  };
  check("layer_count", tower.layer_count, 0);
  check("patch_size", tower.patch_size, 1);
  check("merge", tower.merge, 1);
  check("window", tower.window, 0);
  if (tower.table) {
    check("rows of the table", tower.table->rows, 1);
    check("cols of the table", tower.table->cols, 1);
  }
  detail::check_layer_attention(tower.attention, 0);
  if (tower.softmax_scale && !(*tower.softmax_scale > 0 && std::isfinite(*tower.softmax_scale))) {
    detail::fail<ConfigError>(function, "softmax_scale must be finite and positive but is ",
                              *tower.softmax_scale);
  }
  if (!std::is_sorted(tower.layers_without_window.begin(), tower.layers_without_window.end())) {
    detail::fail<ConfigError>(function, "layers_without_window must be sorted");
  }
  if (tower.rotary) rope(tower);
}

POSENC_END
