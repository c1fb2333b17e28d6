// SPDX-License-Identifier: MIT
#pragma once

#include "interop/gguf_writer.hpp"
#include <posenc/core/config.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Recordings of a running llama.cpp, and the files that it read. README.md of this folder describes
// the formats.
namespace llama_cpp {

using posenc::Index;

inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

inline double number(const std::string& text) { return std::stod(text); }
inline std::vector<double> numbers(std::string_view text) {
  std::vector<double> list;
  for (const auto& part : split(text, ' ')) list.push_back(number(part));
  return list;
}

/// Returns the fields of the lines of a table, without lines that start with '#'.
inline std::vector<std::vector<std::string>> table(const std::string& name) {
  std::ifstream file(std::string(POSENC_LLAMA_CPP_RECORDINGS) + "/" + name);
  if (!file) throw std::runtime_error("no " + name);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') rows.push_back(split(line, '\t'));
  }
  return rows;
}

/// Returns the recorded release, with which every table begins.
inline std::string release() {
  std::ifstream file(std::string(POSENC_LLAMA_CPP_RECORDINGS) + "/graphs.tsv");
  std::string line;
  std::getline(file, line);
  return line.substr(2, line.find(". ") - 2);
}

/// Rotation of ggml: its parameters, and its outputs for input() at the positions.
struct Rotation {
  Index channels = 0;
  int mode = 0;
  double base = 0;
  std::vector<std::vector<double>> outputs;  ///< by position

  static constexpr std::array<Index, 4> positions{0, 1, 1000, 100000};
  static float input(Index channel) { return static_cast<float>((7 * channel + 3) % 11 - 5) / 4; }
  bool has_axes() const { return (mode & 8) != 0; }
  /// Pairs are (2i, 2i + 1) instead of (i, i + n / 2).
  bool is_interleaved() const { return mode == 0; }
};

/// Layer of a graph.
struct Layer {
  bool attends = false;
  std::optional<std::size_t> queries, keys;  ///< rotations
  std::optional<double> scale;
  double softcap = 0, max_bias = 0;
  bool sinks = false;
  std::optional<std::size_t> visible, temperature;  ///< rows
};

using Keys = std::vector<std::pair<std::string, std::string>>;  // in the order of the file

struct Variant {
  Index context = 0, first = 0;
  Keys changes;
  std::vector<std::string> tensors;
};

struct Graph {
  std::string architecture, variant;
  std::vector<Layer> layers;
  Keys further_keys;
};

inline Keys keys_of(std::string_view text) {
  Keys keys;
  if (text.empty()) return keys;
  for (const auto& part : split(text, ' ')) {
    const auto at = part.find('=');
    keys.emplace_back(part.substr(0, at), part.substr(at + 1));
  }
  return keys;
}

class Recordings {
 public:
  static constexpr std::size_t listed_layers = 8;  // entries of lists of keys, LAYERS of models.py

  Recordings() {
    for (const auto& row : table("architectures.tsv")) {
      architectures_[row[0]] = keys_of(row[1]);
      for (std::size_t i = 2; i < row.size(); ++i) {
        const auto tensor = split(row[i], ':');
        divisors_[row[0]][tensor[0]] = std::stoull(tensor[1]);
      }
    }
    for (const auto& row : table("variants.tsv")) {
      variants_[row[0]] = {std::stoll(row[1]), std::stoll(row[2]), keys_of(row[3]),
                           row[4].empty() ? std::vector<std::string>{} : split(row[4], ' ')};
    }
    for (const auto& row : table("rows.tsv")) rows_.push_back(split(row[1], ' '));
    for (const auto& row : table("rotations.tsv")) {
      const auto parameters = split(row[1], ' ');
      Rotation rotation{
          std::stoll(parameters[0]), std::stoi(parameters[1]), number(parameters[3]), {}};
      for (std::size_t i = 2; i < row.size(); ++i) rotation.outputs.push_back(numbers(row[i]));
      rotations_.push_back(std::move(rotation));
    }
    std::map<std::string, std::string> plain;
    for (const auto& row : table("graphs.tsv")) {
      if (row[1] == "plain") plain[row[0]] = row[2];
      const std::string& text = row[2] == "=" ? plain.at(row[0]) : row[2];
      graphs_.push_back({row[0], row[1], layers_of(text), keys_of(row.size() > 3 ? row[3] : "")});
      auto& layers = graphs_.back().layers;
      const std::size_t depth = std::stoull(value(graphs_.back(), ".block_count").substr(1));
      const std::size_t period = layers.size();
      for (std::size_t i = period; i < depth; ++i) layers.push_back(layers[i % period]);
      if (layers.size() != depth) throw std::runtime_error(row[0] + " has too many layers");
    }
  }

  const std::vector<Graph>& graphs() const { return graphs_; }
  const Variant& variant(const Graph& graph) const { return variants_.at(graph.variant); }
  const Rotation& rotation(std::size_t number) const { return rotations_.at(number); }
  const std::vector<std::string>& row(std::size_t number) const { return rows_.at(number); }

  /// Returns the file that llama.cpp read for a graph, with its rope tensors alone.
  std::vector<std::byte> file(const Graph& graph) const {
    const Keys keys = keys_of_graph(graph);
    const std::size_t depth = std::stoull(value(graph, ".block_count").substr(1));
    support::GgufWriter writer;
    writer.architecture(graph.architecture);
    for (const auto& [name, text] : keys) {
      write(writer, name.front() == '.' ? graph.architecture + name : name, text, depth);
    }
    std::map<std::string, std::size_t> sizes;
    if (const auto at = divisors_.find(graph.architecture); at != divisors_.end())
      sizes = at->second;
    for (const auto& name : variant(graph).tensors) sizes[name] = pairs(graph);
    for (const auto& [name, size] : sizes) writer.floats(name, divisors(name, size));
    return writer.bytes();
  }

 private:
  static void set(Keys& keys, const std::pair<std::string, std::string>& change) {
    const auto at = std::find_if(keys.begin(), keys.end(),
                                 [&](const auto& key) { return key.first == change.first; });
    if (at == keys.end()) {
      if (change.second != "-") keys.push_back(change);
    } else if (change.second == "-") {
      keys.erase(at);
    } else {
      at->second = change.second;
    }
  }

  Keys keys_of_graph(const Graph& graph) const {
    Keys keys = architectures_.at(graph.architecture);
    for (const auto& change : variant(graph).changes) set(keys, change);
    for (const auto& key : graph.further_keys) set(keys, key);
    return keys;
  }

  std::string value(const Graph& graph, const std::string& name) const {
    for (const auto& [key, text] : keys_of_graph(graph)) {
      if (key == name) return text;
    }
    throw std::runtime_error("no " + name);
  }

  /// Writes a value: b, i, f, s or a (a list of integers) and its text.
  static void write(support::GgufWriter& writer, const std::string& name, const std::string& text,
                    std::size_t depth) {
    const std::string rest = text.substr(1);
    switch (text.front()) {
      case 'b':
        writer.flag(name, rest == "1");
        break;
      case 'i':
        writer.number(name, support::GgufWriter::UInt32,
                      static_cast<std::uint32_t>(std::stoul(rest)));
        break;
      case 'f':
        writer.real(name, std::stof(rest));
        break;
      case 's':
        writer.text(name, rest);
        break;
      default: {
        std::vector<std::int32_t> list;
        for (const auto& entry : split(rest, ',')) list.push_back(std::stoi(entry));
        if (list.size() == listed_layers) {
          for (std::size_t i = listed_layers; i < depth; ++i)
            list.push_back(list[i % listed_layers]);
        }
        writer.array(name, support::GgufWriter::Int32, list);
      }
    }
  }

  /// Returns the divisors that variants.py writes.
  static std::vector<float> divisors(const std::string& name, std::size_t count) {
    const std::size_t step = name == "rope_freqs.weight"          ? 8
                             : name == "rope_factors_long.weight" ? 4
                                                                  : 16;
    std::vector<float> list;
    for (std::size_t i = 0; i < count; ++i) {
      list.push_back(1 + static_cast<float>(i * i / step) / 4);
    }
    return list;
  }

  /// Returns the pairs of the first rotation of a graph.
  std::size_t pairs(const Graph& graph) const {
    for (const Layer& layer : graph.layers) {
      if (layer.queries)
        return static_cast<std::size_t>(rotations_.at(*layer.queries).channels / 2);
    }
    return 32;
  }

  static std::optional<std::size_t> reference(const std::string& text) {
    return text == "-" ? std::nullopt : std::optional<std::size_t>(std::stoull(text));
  }

  static Layer layer_of(const std::string& text) {
    if (text == "-") return {};
    const auto fields = split(text, ',');
    return {true,
            reference(fields[0]),
            reference(fields[1]),
            fields[2] == "-" ? std::nullopt : std::optional(number(fields[2])),
            number(fields[3]),
            number(fields[4]),
            fields[5] == "1",
            reference(fields[6]),
            reference(fields[7])};
  }

  /// Returns the layers of "n*layer;..." or one period of "repeat;layer;...".
  static std::vector<Layer> layers_of(const std::string& text) {
    std::vector<Layer> layers;
    for (const auto& part : split(text, ';')) {
      if (part == "repeat") continue;
      const auto at = part.find('*');
      const std::size_t count = at == std::string::npos ? 1 : std::stoull(part.substr(0, at));
      layers.insert(layers.end(), count,
                    layer_of(at == std::string::npos ? part : part.substr(at + 1)));
    }
    return layers;
  }

  std::map<std::string, Keys> architectures_;
  std::map<std::string, std::map<std::string, std::size_t>> divisors_;  // by architecture
  std::map<std::string, Variant> variants_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<Rotation> rotations_;
  std::vector<Graph> graphs_;
};

}  // namespace llama_cpp
