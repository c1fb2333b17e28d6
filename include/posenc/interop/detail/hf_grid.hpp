// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/rotary_settings.hpp>
#include <posenc/rotary/pair_axes.hpp>

#include <variant>

POSENC_BEGIN
namespace detail {

/// DINOv3: of the pairs that the file tells, half turn by rows and half by columns, at the positions of
/// dinov3_grid().
///   Source: huggingface/transformers, dinov3_vit/configuration_dinov3_vit.py (028ea9a) and
///           modeling_dinov3_vit.py (015e687)
inline void hf_put_on_grid(const JsonKeys& config, RotarySettings& settings) {
  for (const char* key : {"pos_embed_shift", "pos_embed_jitter", "pos_embed_rescale"}) {
    config.real(key);  // how training moves patches at random: Dinov3Augmentation
  }
  const Index dim = rotary_dim(settings);
  const bool is_plain =
      std::holds_alternative<Unscaled>(settings.rule) && settings.axes.plain() && dim % 4 == 0;
  if (!is_plain || dim != settings.head_dim) {
    fail<ConfigError>(JsonKeys::function,
                      "a 'dinov3_vit' must have heads that turn as a whole, of ",
                      "channels divisible by 4, and no scaling, but ", dim, " channels of ",
                      settings.head_dim, " turn");
  }
  settings.axes = PairAxes::sections({dim / 4, dim / 4}).with_kind(PositionKind::PatchCentres);
  settings.index_per_axis = true;
}

}  // namespace detail
POSENC_END
