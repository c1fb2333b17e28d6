// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_vision_types.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/rotary_settings.hpp>
#include <posenc/interop/vision_settings.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Reader of the vision_config of a configuration.
class HfVision {
 public:
  HfVision(const Json& config, const HfVisionType& type, std::string model_type)
      : config_(config, "vision_config"), type_(type) {
    tower_.model_type = std::move(model_type);
  }

  VisionSettings read() {
    const bool is_merged = type_.has_merge_blocks;
    tower_.layer_count = read_count(is_merged ? "depth" : "num_hidden_layers", type_.sizes.layers);
    read_heads(is_merged ? "num_heads" : "num_attention_heads");
    tower_.patch_size = read_square("patch_size", type_.sizes.patch_size);
    if (is_merged) tower_.merge = read_count("spatial_merge_size", 2);
    read_table();
    if (type_.has_windows) read_windows();
    if (type_.rotary) {
      tower_.rotary = VisionRotary{*type_.rotary, read_base(type_.base)};
    }
    if (type_.softmax_scale != 0) tower_.softmax_scale = type_.softmax_scale;
    config_.reject_unread(
        [](std::string_view key, const Json& value) { return hf_is_ignorable(key, value); });
    validate(tower_);
    return std::move(tower_);
  }

 private:
  Index read_count(const char* key, Index default_value) const {
    const Index value = config_.integer(key).value_or(default_value);
    if (value < 1 || value > max_heads) {
      config_.reject(key, "must lie between 1 and ", max_heads);
    }
    return value;
  }

  void read_heads(const char* key) {
    const Index heads = read_count(key, type_.sizes.heads);
    Index head_dim = type_.sizes.head_dim, kv_heads = heads;
    if (head_dim != 0) {
      head_dim = read_count("head_dim", head_dim);
      kv_heads = read_count("num_key_value_heads", type_.sizes.heads);
      check_head_dim("global_head_dim", head_dim);
    } else {
      head_dim = read_count(type_.width_key, type_.sizes.width) / heads;
      check_head_dim("head_dim", head_dim);
    }
    tower_.attention = {.kind = LayerKind::Global,
                        .heads = heads,
                        .kv_heads = kv_heads,
                        .head_dim = head_dim,
                        .value_dim = head_dim,
                        .window = LayerWindow{},
                        .sinks = false};
  }

  void check_head_dim(const char* key, Index head_dim) const {
    if (config_.integer(key).value_or(head_dim) != head_dim) {
      config_.reject(key, "is not the width of a head, ", head_dim);
    }
  }

  /// Returns a number, or the common value of a list of rows and columns.
  Index read_square(const char* key, Index default_value) const {
    const Json* given = config_.find(key);
    if (given == nullptr || !given->is_array()) return read_count(key, default_value);
    const auto sides = *config_.integers(key);
    if (sides.size() != 2 || sides[0] != sides[1] || sides[0] < 1 || sides[0] > max_heads) {
      config_.reject(key, "must be a positive number or a list of two equal ones");
    }
    return sides[0];
  }

  void read_table() {
    const auto& [form, size, key, class_token] = type_.table;
    switch (form) {
      case HfPatchTable::OneSize: {
        const Index side = read_square(key, size) / tower_.patch_size;
        if (side < 1) config_.reject(key, "is less than patch_size");
        tower_.table = PatchTable{.rows = side, .cols = side, .class_token = class_token};
        constexpr auto switch_key = "use_absolute_position_embeddings";
        if (!type_.rotary && !config_.flag(switch_key).value_or(true)) tower_.table.reset();
        return;
      }
      case HfPatchTable::Square: {
        const Index places = read_count(key, size);
        const auto side = static_cast<Index>(std::lround(std::sqrt(static_cast<double>(places))));
        if (side * side != places) config_.reject(key, "is not a square number");
        tower_.table = PatchTable{.rows = side, .cols = side};
        return;
      }
      case HfPatchTable::SumOfAxes: {
        const Index places = read_count(key, size);
        tower_.table = PatchTable{.rows = places, .cols = places, .sum_of_axes = true};
        return;
      }
      case HfPatchTable::None:
        return;
    }
  }

  /// Reads windows, given in pixels and rounded down to complete merge blocks.
  void read_windows() {
    const Index blocks = read_count("window_size", 112) / tower_.merge / tower_.patch_size;
    if (blocks < 1) config_.reject("window_size", "is less than a block of patches");
    tower_.window = blocks * tower_.merge;
    auto whole = config_.integers("fullatt_block_indexes");
    tower_.layers_without_window = whole ? *whole : std::vector<Index>{7, 15, 23, 31};
    std::sort(tower_.layers_without_window.begin(), tower_.layers_without_window.end());
  }

  /// Returns the base of a tower without scaling.
  double read_base(double default_value) const {
    const auto outer = config_.real("rope_theta");
    const Json* given = config_.find("rope_parameters");
    double value = outer.value_or(default_value);
    if (given != nullptr) {
      const JsonKeys rope(*given, "rope_parameters of vision_config");
      const auto type = rope.text("rope_type").value_or("default");
      const bool is_axial = type == "axial" && type_.rotary != VisionRotaryForm::Llama4;
      if (type != "default" && !is_axial) {
        rope.reject("rope_type", "must be default in a vision tower");
      }
      value = rope.real("rope_theta").value_or(value);
      rope.reject_unread([](const std::string&, const Json&) { return false; });
    }
    return value;
  }

  JsonKeys config_;
  const HfVisionType& type_;
  VisionSettings tower_;
};

/// Returns the vision tower of a configuration, if it has one. An unsupported tower does not
/// prevent reading the text model: `refused` holds the reason.
POSENC_COLD inline std::optional<VisionSettings> hf_vision(const Json& config) {
  constexpr auto part = "vision_config";
  const JsonKeys keys(config, "the configuration");
  const Json* given = keys.find(part);
  if (given == nullptr) return std::nullopt;
  VisionSettings tower;
  const auto name_in = [](const Json& of) {
    const Json* name = of.find("model_type");
    return name != nullptr ? name->text() : std::string();
  };
  tower.model_type = name_in(*given);
  if (tower.model_type.empty()) tower.model_type = name_in(config);
  if (const UnsupportedModel* refused = find_row(hf_unsupported_towers, tower.model_type)) {
    tower.refused = std::string("it has ") + std::string(refused->has);
    return tower;
  }
  const HfVisionType* type = find_hf_vision_type(tower.model_type);
  if (type == nullptr) {
    tower.refused = "its model_type is unknown";
    return tower;
  }
#if POSENC_HAS_EXCEPTIONS
  try {
    return HfVision(*given, *type, tower.model_type).read();
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    tower.refused = message.substr(message.find(": ") + 2);  // the part after the function's name
    return tower;
  }
#else
  return HfVision(*given, *type, tower.model_type).read();
#endif
}

}  // namespace detail
POSENC_END
