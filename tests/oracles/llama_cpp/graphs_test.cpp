// SPDX-License-Identifier: MIT
// Comparison of read_gguf() with what a running llama.cpp did with the same file.
#include "oracles/llama_cpp/recordings.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/optimised_arithmetic.hpp"
#include <posenc/bias/alibi.hpp>
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
    // Half a unit of the seventh digit, in each channel, and float32's rounding of the angle.
    const double digits = std::hypot(c, d) < 1 ? 5e-8 : 5e-7;
    if (std::abs(recorded - ours) > 2 * digits / std::hypot(a, b) + 1.2e-7) {
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
    if (attention.sinks.value_or(layer.sinks) != layer.sinks) return "sinks differ";
    const bool chooses = attention.kind == posenc::LayerKind::Sparse;  // by the values of keys
    if (layer.visible && attention.window && !chooses) {
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
    const posenc::Index num_sinks =
        attention.sinks.value_or(false) ? attention.heads.value_or(1) : 0;
    const std::vector<float> sinks(static_cast<std::size_t>(num_sinks));
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

const char* name_of(Outcome outcome) {
  return outcome == Outcome::Agrees    ? "agrees"
         : outcome == Outcome::Refused ? "refused"
                                       : "differs";
}

/// Row of expected.tsv: results that are intended, with their reason.
struct Expected {
  std::vector<std::string> architectures, variants;
  std::string outcome, text;
  bool is_used = false;

  static bool lists(const std::vector<std::string>& names, const std::string& name) {
    return names.front() == "*" || std::find(names.begin(), names.end(), name) != names.end();
  }
  bool matches(const Graph& graph, const Result& result) const {
    return outcome == name_of(result.outcome) && lists(architectures, graph.architecture) &&
           lists(variants, graph.variant) && result.text.find(text) != std::string::npos;
  }
};

std::vector<Expected> expected() {
  std::vector<Expected> rows;
  for (const auto& row : llama_cpp::table("../expected.tsv")) {
    REQUIRE(row.size() == 5);
    rows.push_back({llama_cpp::split(row[0], ' '), llama_cpp::split(row[1], ' '), row[2], row[3]});
  }
  return rows;
}

const std::vector<Result>& results() {
  static const std::vector<Result> all = [] {
    std::vector<Result> list;
    for (const Graph& graph : recordings().graphs()) list.push_back(compare(graph));
    return list;
  }();
  return all;
}

TEST_CASE("read_gguf: agrees with a running llama.cpp", "[gguf]") {
  auto rows = expected();
  std::string unexpected;
  std::size_t agreeing = 0;
  for (std::size_t i = 0; i < results().size(); ++i) {
    const Graph& graph = recordings().graphs()[i];
    const Result& result = results()[i];
    if (result.outcome == Outcome::Agrees) {
      ++agreeing;
      continue;
    }
    bool is_expected = false;
    for (Expected& row : rows) {
      if (!row.matches(graph, result)) continue;
      row.is_used = is_expected = true;
    }
    if (!is_expected) {
      unexpected += graph.architecture + '\t' + graph.variant + '\t' + name_of(result.outcome) +
                    '\t' + result.text + '\n';
    }
  }
  CHECK(unexpected == "");
  for (const Expected& row : rows) {
    INFO(row.architectures.front() << ' ' << row.variants.front() << ' ' << row.text);
    CHECK(row.is_used);
  }
  CHECK(agreeing > results().size() / 2);
}

struct Counts {
  int agree = 0, refused = 0, differ = 0;
};

/// Returns a row of status.tsv.
std::string status_row(const std::string& name, const char* status, bool is_recorded,
                       const std::string& note) {
  static const std::string release = llama_cpp::release();
  return "gguf\t" + name + '\t' + status + '\t' + (is_recorded ? release : "-") + '\t' + note +
         '\n';
}

/// Returns the reasons why architectures are not recorded, by their names.
std::map<std::string, std::string> unrecorded() {
  std::map<std::string, std::string> reasons;
  for (const auto& row : llama_cpp::table("../unrecorded.tsv")) reasons[row[0]] = row[1];
  return reasons;
}

std::string status() {
  const auto reasons = unrecorded();
  std::map<std::string, Counts> counts;
  for (std::size_t i = 0; i < results().size(); ++i) {
    const Graph& graph = recordings().graphs()[i];
    const Outcome outcome = results()[i].outcome;
    Counts& count = counts[graph.architecture];
    ++(outcome == Outcome::Agrees    ? count.agree
       : outcome == Outcome::Refused ? count.refused
                                     : count.differ);
  }
  std::map<std::string, std::string> rows;
  for (const auto& row : posenc::detail::gguf_architectures) {
    for (const auto& name : llama_cpp::split(row.names, ' ')) {
      const auto found = counts.find(name);
      if (found == counts.end()) {
        rows[name] = status_row(name, "code", false, reasons.at(name));
        continue;
      }
      const Counts& count = found->second;
      rows[name] = status_row(name, "compared", true,
                              std::to_string(count.agree) + " files agree, " +
                                  std::to_string(count.refused) + " refused, " +
                                  std::to_string(count.differ) + " differ as documented");
    }
  }
  for (const auto& row : posenc::detail::gguf_unsupported_architectures) {
    const std::string reason(row.has);
    const bool has_positions = row.has_rotary || reason.find("learned") != std::string::npos ||
                               reason.find("ALiBi") != std::string::npos ||
                               reason.find("bias") != std::string::npos;
    for (const auto& name : llama_cpp::split(row.names, ' ')) {
      const bool is_recorded = counts.count(name) != 0;
      rows[name] = status_row(name, has_positions ? "refused" : "none", is_recorded,
                              is_recorded ? reason : reason + "; " + reasons.at(name));
    }
  }
  std::string text;
  for (const auto& [name, row] : rows) text += row;
  return text;
}

TEST_CASE("alibi_slopes: are those of ggml's softmax", "[alibi]") {
  const auto rows = llama_cpp::table("alibi.tsv");
  CHECK(rows.size() == 5);
  for (const auto& row : rows) {
    const auto recorded = llama_cpp::numbers(row[2]);
    const auto slopes = posenc::alibi_slopes(std::stoll(row[0]), llama_cpp::number(row[1]));
    REQUIRE(recorded.size() == slopes.size());
    // Float32 rounds the probabilities.
    for (std::size_t h = 0; h < slopes.size(); ++h) CHECK(std::abs(recorded[h] - slopes[h]) < 4e-7);
  }
}

TEST_CASE("read_gguf: the status of every architecture is listed", "[gguf]") {
  const std::string name = std::string(POSENC_LLAMA_CPP_RECORDINGS) + "/../status.tsv";
  if (std::getenv("POSENC_WRITE_STATUS") != nullptr) std::ofstream(name) << status();
  std::ifstream file(name);
  std::ostringstream listed;
  listed << file.rdbuf();
  // POSENC_WRITE_STATUS=1 writes the file anew.
  CHECK(listed.str() == status());
}

TEST_CASE("read_gguf: every architecture is recorded, or the reason is listed", "[gguf]") {
  std::set<std::string> recorded;
  for (const Graph& graph : recordings().graphs()) recorded.insert(graph.architecture);
  const auto reasons = unrecorded();
  const auto check = [&](std::string_view names) {
    for (const auto& name : llama_cpp::split(names, ' ')) {
      INFO(name);
      CHECK(recorded.count(name) + reasons.count(name) == 1);
    }
  };
  for (const auto& row : posenc::detail::gguf_architectures) check(row.names);
  for (const auto& row : posenc::detail::gguf_unsupported_architectures) check(row.names);
}

TEST_CASE("read_gguf: every recorded architecture is known", "[gguf]") {
  for (const Graph& graph : recordings().graphs()) {
    INFO(graph.architecture);
    CHECK((posenc::detail::find_row(posenc::detail::gguf_architectures, graph.architecture) !=
               nullptr ||
           posenc::detail::find_row(posenc::detail::gguf_unsupported_architectures,
                                    graph.architecture) != nullptr));
  }
}

}  // namespace llama_cpp_graphs_test
