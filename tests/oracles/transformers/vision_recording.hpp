// SPDX-License-Identifier: MIT
#pragma once

#include "oracles/transformers/recording.hpp"
#include <posenc/interop/dinov3_grid.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/tensor/grid_positions.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

// Comparison of a recorded vision tower with what the reader makes of its vision_config.
namespace oracle {

/// True if a recording is that of a vision tower whose attention rotates.
inline bool has_patches(const Json& recording) {
  for (const Json& kind : recording.at("kinds")) {
    const auto at = kind.find("rotation");
    if (at != kind.end() && at->is_object() && at->contains("order")) return true;
  }
  return false;
}

/// A grid of patches in the order of a tower.
struct Grid {
  posenc::Index rows = 4, cols = 6;
  posenc::Positions positions = posenc::Positions::grid(4, 6);
  posenc::Index tokens_behind = 0;  ///< a class token
};

/// Returns (row, column) of each patch in the order that was recorded.
inline std::vector<std::pair<double, double>> recorded_places(const std::string& order,
                                                              const Grid& grid) {
  std::vector<std::pair<double, double>> places;
  const posenc::Index merge = order == "blocks" ? 2 : 1;
  for (posenc::Index row = 0; row < grid.rows; row += merge) {
    for (posenc::Index col = 0; col < grid.cols; col += merge) {
      for (posenc::Index i = 0; i < merge * merge; ++i) {
        places.emplace_back(row + i / merge, col + i % merge);
      }
    }
  }
  return places;
}

/// Compares how pairs turn from the first patch to the others.
inline Differences compare_turns(const Json& kind, const posenc::AnyRope& rope, const Grid& grid) {
  const auto pairs = recorded_pairs(kind);
  const Json& rotation = kind.at("rotation");
  const auto places = recorded_places(rotation.at("order"), grid);
  const auto patches = static_cast<posenc::Index>(places.size());
  const posenc::Index count = patches + grid.tokens_behind;
  const auto dim = kind.at("head_dim").get<posenc::Index>();
  std::vector<double> x(static_cast<std::size_t>(count * dim));
  for (posenc::Index patch = 0; patch < patches; ++patch) {
    for (const Pair& pair : pairs) x[static_cast<std::size_t>(patch * dim + pair.first)] = 1;
  }
  rope.rotate(posenc::HeadsView<double>{x.data(), 1, count, 1, dim}, grid.positions);
  Differences found;
  for (std::size_t i = 0; i < pairs.size() && found.empty(); ++i) {
    const auto angle = [&](posenc::Index patch) {
      const auto at = [&](posenc::Index channel) {
        return x[static_cast<std::size_t>(patch * dim + channel)];
      };
      return std::atan2(at(pairs[i].second), at(pairs[i].first));
    };
    for (posenc::Index patch = 0; patch < patches; ++patch) {
      const auto [row, col] = places[static_cast<std::size_t>(patch)];
      const double recorded = pairs[i].inv_freq * (pairs[i].axis == 0 ? row : col);
      const double rest = std::remainder(angle(patch) - angle(0) - recorded, 2 * std::numbers::pi);
      if (std::abs(rest) > 1e-5) {
        found.push_back(say("pair ", i, " turns by ", recorded, " to patch ", patch, ", read as ",
                            recorded + rest));
        break;
      }
    }
  }
  return found;
}

/// Returns the grid of a tower in the image that was recorded.
inline Grid grid_of(const posenc::VisionRotary& rotary) {
  using enum posenc::VisionRotaryForm;
  switch (rotary.form) {
    case Qwen2Vl:
      return {4, 6, posenc::merge_block_grid({.rows = 4, .cols = 6, .merge = 2})};
    case Llama4:
      return {4, 4, posenc::llama4_grid(4, 4), 1};
    case Pixtral:
      return {4, 6, posenc::Positions::grid(4, 6)};
    default:
      return {6, 6, posenc::xy_grid(6, 6)};
  }
}

/// Reads the tower of a recording, as a part of a model.
inline posenc::VisionSettings read_tower(const Json& recording) {
  Json tower = recording.at(recording.contains("config") ? "config" : "given");
  tower["model_type"] = recording.at("type");
  const Json text = {{"model_type", "llama"},
                     {"hidden_size", 4096},
                     {"num_attention_heads", 32},
                     {"num_hidden_layers", 2}};
  return *posenc::read_hf_config(
              Json{{"model_type", "some_model"}, {"text_config", text}, {"vision_config", tower}})
              .vision;
}

/// Compares a tower; a refusal is a difference.
inline Differences compare_tower(const Json& recording) {
  const auto tower = read_tower(recording);
  if (!tower.refused.empty()) return {"refused: " + tower.refused};
  const auto dim = tower.attention.head_dim.value_or(0);
  Differences all;
  for (const Json& kind : recording.at("kinds")) {
    const bool rotates = !kind.at("rotation").is_null();
    if (kind.at("head_dim") != dim) {
      all.push_back(say("head_dim ", kind.at("head_dim"), ", read as ", dim));
      continue;
    }
    const double scale = tower.softmax_scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
    if (!close(scale, kind.at("factor"))) {
      all.push_back(say("factor of scores ", kind.at("factor"), ", read as ", scale));
    }
    if (kind.at("mask") != "all") all.push_back(say("mask ", kind.at("mask")));
    if (rotates != tower.rotary.has_value()) {
      all.push_back(rotates ? "rotated, read as not rotated" : "not rotated, read as rotated");
    } else if (rotates) {
      const auto found = compare_turns(kind, posenc::rope(tower), grid_of(*tower.rotary));
      all.insert(all.end(), found.begin(), found.end());
    }
  }
  return all;
}

/// Compares DINOv3, whose settings are those of a model. Its image has 4 x 4 patches.
inline Differences compare_dinov3(const Json& recording) {
  const auto model = posenc::read_hf_config(recording.at("config"));
  const Grid grid{
      4, 4, posenc::dinov3_grid({.rows = 4, .cols = 4}, posenc::PatchNormalization::Separate)};
  return compare_turns(recording.at("kinds").at(0), posenc::rope(model), grid);
}

}  // namespace oracle
