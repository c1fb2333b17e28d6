// SPDX-License-Identifier: MIT
// What read_gguf() returns for a file, against what a running llama.cpp did with the same file.
#include "oracles/llama_cpp/recordings.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/gguf.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace llama_cpp_graphs_test {

using llama_cpp::Graph;
using llama_cpp::Layer;
using llama_cpp::Recordings;
using llama_cpp::Rotation;
using llama_cpp::Variant;
using posenc::AnyRope;
using posenc::Index;
using posenc::ModelSettings;
using posenc::Positions;

constexpr std::array<Index, 11> queries{0, 1, 7, 8, 9, 14, 15, 16, 17, 23, 39};  // of rows
constexpr Index last_query = 39;

const Recordings& recordings() {
  static const Recordings all;
  return all;
}

bool is_near(double a, double b, double relative = 1e-6) {
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b));
}

Positions positions_of(const AnyRope& rope, Index position) {
  std::vector<Positions> axes;
  for (Index axis = 0; axis < rope.axis_count(); ++axis) {
    axes.push_back(Positions::range(position + 3 * axis, 1));
  }
  return axes.size() == 1 ? axes.front() : Positions::axes(axes);
}

/// Returns the difference of a rope from a recorded rotation; empty if there is none.
std::string difference(const AnyRope& rope, const Rotation& rotation, Index head_dim) {
  const Index channels = rope.rotary_dim(), offset = rope.rotary_offset();
  if (channels != rotation.channels) {
    return "rotates " + std::to_string(channels) + " channels, not " +
           std::to_string(rotation.channels);
  }
  const Index pairs = channels / 2;
  const auto& inv_freq = rope.frequencies().inv_freq();
  const auto first = [&](Index pair) { return rotation.is_interleaved() ? 2 * pair : pair; };
  const auto second = [&](Index pair) {
    return rotation.is_interleaved() ? 2 * pair + 1 : pair + pairs;
  };
  for (std::size_t at = 0; at < Rotation::positions.size(); ++at) {
    const Index position = Rotation::positions[at];
    support::Heads<float> x(1, 1, 1, head_dim);
    float* row = x.view().row(0, 0, 0);
    std::fill_n(row, head_dim, 0.0F);
    for (Index i = 0; i < channels; ++i) row[offset + i] = Rotation::input(i);
    rope.rotate(x.view(), positions_of(rope, position));
    const auto& output = rotation.outputs[at];
    for (Index pair = 0; pair < pairs; ++pair) {
      const auto frequency = inv_freq[static_cast<std::size_t>(pair)];
      // ggml multiplies a float32 by a power of the base once per pair.
      const double angle = frequency * static_cast<double>(position + 9);
      const double bound = 3e-6 + angle * static_cast<double>(pair + 2) * 2.4e-7;
      for (const Index channel : {first(pair), second(pair)}) {
        const double ours = row[offset + channel],
                     theirs = output[static_cast<std::size_t>(channel)];
        if (!(std::abs(ours - theirs) <= bound)) {
          std::ostringstream text;
          text << "channel " << channel << " at position " << position << " is " << ours << ", not "
               << theirs;
          return text.str();
        }
      }
    }
  }
  // Position 1 of one axis gives the frequencies themselves, because they are at most 1.
  for (Index pair = 0; pair < pairs && !rotation.has_axes(); ++pair) {
    const double a = Rotation::input(first(pair)), b = Rotation::input(second(pair));
    if (a == 0 && b == 0) continue;
    const double c = rotation.outputs[1][static_cast<std::size_t>(first(pair))];
    const double d = rotation.outputs[1][static_cast<std::size_t>(second(pair))];
    const double recorded = std::atan2(a * d - b * c, a * c + b * d);
    const double ours = inv_freq[static_cast<std::size_t>(pair)];
    if (std::abs(recorded - ours) > 3e-7) {
      return "frequency " + std::to_string(pair) + " is " + std::to_string(ours) + ", not " +
             std::to_string(recorded);
    }
  }
  return "";
}

/// Returns the keys that a query sees, as first-last. Files do not state whether models are causal.
std::string visible(const posenc::LayerWindow& window, Index query, Index first, bool is_causal) {
  Index from = 0, to = is_causal ? query : last_query;
  switch (window.kind) {
    case posenc::WindowKind::Sliding:
      from = query - window.size + 1;
      break;
    case posenc::WindowKind::Chunked:
      from = (first + query) / window.size * window.size - first;
      break;
    case posenc::WindowKind::BothSides:
      from = query - window.size / 2;
      to = std::min(to, query + window.size / 2);
      break;
    default:
      break;
  }
  return std::to_string(std::max<Index>(from, 0)) + "-" + std::to_string(to);
}

std::string difference_of_visible(const posenc::LayerWindow& window,
                                  const std::vector<std::string>& rows, Index first) {
  for (const bool is_causal : {true, false}) {
    const auto agrees = [&](std::size_t i) {
      return rows[i] == visible(window, queries[i], first, is_causal);
    };
    std::size_t i = 0;
    while (i < rows.size() && agrees(i)) ++i;
    if (i == rows.size()) return "";
  }
  return "the last query sees " + visible(window, last_query, first, true) + ", not " + rows.back();
}

/// Comparison of one graph with the settings that posenc reads from its file.
class Comparison {
 public:
  Comparison(const Graph& graph, const ModelSettings& model)
      : graph_(graph), variant_(recordings().variant(graph)), model_(model) {}

  std::string difference() {
    for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
      const auto text = difference_of_layer(static_cast<Index>(i), graph_.layers[i]);
      if (!text.empty()) return "layer " + std::to_string(i) + ": " + text;
    }
    return "";
  }

 private:
  std::string difference_of_layer(Index number, const Layer& layer) {
    const auto& attention = attention_of_layer(model_, number);
    const bool attends = !attention.kind || posenc::detail::has_softmax(*attention.kind);
    if (attends != layer.attends) return attends ? "has attention" : "has no attention";
    if (!attends) return "";
    const auto* rotary = rotary_of_layer(model_, number);
    if ((rotary != nullptr) != layer.queries.has_value()) {
      return rotary != nullptr ? "has a rotation" : "has no rotation";
    }
    if (layer.max_bias != 0) return "has no ALiBi";
    if (rotary != nullptr) {
      for (const auto& rotation : {layer.queries, layer.keys}) {
        if (!rotation) continue;
        const auto text = difference_of_rotation(*rotary, *rotation);
        if (!text.empty()) return text;
      }
    }
    if (attention.sinks != layer.sinks) return "sinks differ";
    if (layer.visible && attention.window) {
      const auto text = difference_of_visible(*attention.window, recordings().row(*layer.visible),
                                              variant_.first);
      if (!text.empty()) return text;
    }
    return difference_of_scores(number, layer, attention);
  }

  std::string difference_of_rotation(const posenc::RotarySettings& rotary, std::size_t number) {
    const auto key = std::make_pair(&rotary, number);
    const auto known = rotations_.find(key);
    if (known != rotations_.end()) return known->second;
    return rotations_[key] =
               llama_cpp_graphs_test::difference(posenc::rope(rotary, variant_.context),
                                                 recordings().rotation(number), rotary.head_dim);
  }

  std::string difference_of_scores(Index number, const Layer& layer,
                                   const posenc::LayerAttention& attention) const {
    if (!attention.window || !layer.scale) return "";  // chosen keys: see LayerKind
    // Neither windows of chunks nor chosen keys are options, but all else is.
    ModelSettings model = model_;
    for (auto& one : model.attention) {
      one.kind.reset();
      one.window = posenc::LayerWindow{};
      one.output_inverse_rotated = false;
    }
    const std::vector<float> sinks(attention.sinks.value_or(false) ? attention.heads.value_or(1)
                                                                   : 0);
    const auto options = posenc::attention_options<float>(model, number, sinks);
    const double scale = *options.scale * options.softmax_scale_multiplier;
    std::ostringstream text;
    if (!is_near(scale, *layer.scale)) {
      text << "scores are scaled by " << scale << ", not " << *layer.scale;
    } else if (!is_near(options.softcap, layer.softcap)) {
      text << "the soft cap is " << options.softcap << ", not " << layer.softcap;
    } else if (layer.temperature.has_value() || options.temperature) {
      for (std::size_t i = 0; i < queries.size(); ++i) {
        const double recorded =
            layer.temperature ? llama_cpp::number(recordings().row(*layer.temperature)[i]) : 1;
        const double ours =
            options.temperature
                ? options.temperature(static_cast<double>(variant_.first + queries[i]))
                : 1;
        if (is_near(ours, recorded)) continue;
        text << "the temperature of query " << queries[i] << " is " << ours << ", not " << recorded;
        break;
      }
    }
    return text.str();
  }

  const Graph& graph_;
  const Variant& variant_;
  const ModelSettings& model_;
  std::map<std::pair<const posenc::RotarySettings*, std::size_t>, std::string> rotations_;
};

enum class Outcome { Agrees, Refused, Differs };

struct Result {
  Outcome outcome = Outcome::Agrees;
  std::string text;  ///< of the refusal or difference
};

Result compare(const Graph& graph) {
  const auto bytes = recordings().file(graph);
  try {
    const auto model = posenc::read_gguf(bytes);
    const auto text = Comparison(graph, model).difference();
    return {text.empty() ? Outcome::Agrees : Outcome::Differs, text};
  } catch (const posenc::ConfigError& error) {
    return {Outcome::Refused, error.what()};
  }
}

TEST_CASE("print outcomes", "[.print]") {
  for (const Graph& graph : recordings().graphs()) {
    const auto result = compare(graph);
    if (result.outcome == Outcome::Agrees) continue;
    std::printf("%s\t%s\t%s\t%s\n", graph.architecture.c_str(), graph.variant.c_str(),
                result.outcome == Outcome::Refused ? "refused" : "differs", result.text.c_str());
  }
}

}  // namespace llama_cpp_graphs_test
