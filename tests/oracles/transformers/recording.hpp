// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/hf_config.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

// Comparison of a recording of record.py with what the reader of config.json makes of the same file.
namespace oracle {

using Json = nlohmann::json;
using Differences = std::vector<std::string>;

constexpr double tolerance = 3e-6;    ///< of frequencies and factors, which classes hold in float32
constexpr posenc::Index tokens = 24;  ///< length of recorded sequences
constexpr double shown[] = {1, 7, 23};   ///< positions of recorded temperatures
constexpr double far_position = 100000;  ///< position of far_temperature

inline bool close(double a, double b) { return std::abs(a - b) <= tolerance * std::abs(b); }

/// Returns a text of any printable values.
template <class... Values>
std::string say(const Values&... values) {
  std::ostringstream text;
  (text << ... << values);
  return text.str();
}

/// A rotated pair of channels of a head.
struct Pair {
  posenc::Index first = 0, second = 0;
  double inv_freq = 0;
  int axis = 0;
};

/// Returns the pairs of a recorded rotation.
inline std::vector<Pair> recorded_pairs(const Json& kind) {
  const Json& rotation = kind.at("rotation");
  const auto offset = rotation.at("offset").get<posenc::Index>();
  const auto pairs = rotation.at("width").get<posenc::Index>() / 2;
  const auto form = rotation.at("pairs").get<std::string>();
  const auto axes = rotation.value("axes", std::string());
  std::vector<Pair> result;
  for (posenc::Index i = 0; i < pairs; ++i) {
    Pair pair;
    if (form == "interleaved") {
      pair.first = offset + 2 * i, pair.second = pair.first + 1;
    } else if (form == "other") {
      const Json& channels = kind.at("pairs").at(static_cast<std::size_t>(i));
      pair.first = channels.at(0), pair.second = channels.at(1);
    } else {
      pair.first = offset + i;
      pair.second =
          pair.first + (form == "half" ? pairs : kind.at("head_dim").get<posenc::Index>() / 2);
    }
    pair.inv_freq = rotation.contains("base")
                        ? std::pow(rotation.at("base").get<double>(),
                                   -2.0 * static_cast<double>(i) / rotation.at("dim").get<double>())
                        : rotation.at("inv_freq").at(static_cast<std::size_t>(i)).get<double>();
    if (!axes.empty()) pair.axis = axes.at(static_cast<std::size_t>(i)) - '0';
    result.push_back(pair);
  }
  return result;
}

/// Returns the pairs of settings, except those with a frequency of 0.
inline std::vector<Pair> read_pairs(const posenc::RotarySettings& settings, bool with_axes) {
  const auto frequencies = posenc::frequencies(settings, tokens);
  std::vector<Pair> result;
  for (posenc::Index i = 0; i < frequencies.pairs(); ++i) {
    const bool half = *settings.pairing == posenc::PairingKind::HalfRotate;
    Pair pair;
    pair.first = settings.rotary_offset + (half ? i : 2 * i);
    pair.second = pair.first + (half ? frequencies.pairs() : 1);
    pair.inv_freq = frequencies.inv_freq()[static_cast<std::size_t>(i)];
    if (with_axes && !settings.axes.plain()) pair.axis = static_cast<int>(settings.axes.axis(i));
    if (pair.inv_freq != 0) result.push_back(pair);
  }
  return result;
}

/// Compares one layer.
class Layer {
 public:
  Layer(const Json& kind, const posenc::ModelSettings& model, posenc::Index number, bool lenient)
      : kind_(kind), model_(model), number_(number), lenient_(lenient) {}

  Differences compare() {
    if (kind_.contains("unexplained")) return {};
    try {
      compare_rotation();
      compare_scores();
      compare_window();
    } catch (const posenc::ConfigError& error) {  // a value that the file does not give
      if (!lenient_) differs(error.what());
    }
    return differences_;
  }

 private:
  template <class... Values>
  void differs(const Values&... values) {
    differences_.push_back(say(values...));
  }

  void compare_rotation() {
    rotary_ = posenc::rotary_of_layer(model_, number_);
    const bool rotates = !kind_.at("rotation").is_null();
    if ((rotary_ != nullptr) != rotates) {
      return differs(rotates ? "rotated, read as not rotated" : "not rotated, read as rotated");
    }
    if (rotary_ == nullptr) return;
    if (rotary_->head_dim != kind_.at("head_dim")) {
      differs("head_dim ", kind_.at("head_dim"), ", read as ", rotary_->head_dim);
    }
    const auto recorded = recorded_pairs(kind_);
    const auto read = read_pairs(*rotary_, kind_.at("rotation").contains("axes"));
    if (recorded.size() != read.size()) {
      return differs(recorded.size(), " pairs, read as ", read.size());
    }
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      const Pair &a = recorded[i], &b = read[i];
      if (a.first != b.first || a.second != b.second) {
        return differs("pair ", i, " is channels ", a.first, " and ", a.second, ", read as ",
                       b.first, " and ", b.second);
      }
      if (!close(b.inv_freq, a.inv_freq)) {
        return differs("frequency ", i, " is ", a.inv_freq, ", read as ", b.inv_freq);
      }
      if (a.axis != b.axis)
        return differs("axis of pair ", i, " is ", a.axis, ", read as ", b.axis);
    }
  }

  void compare_scores() {
    const auto& attention = posenc::attention_of_layer(model_, number_);
    const bool sinks = kind_.value("sinks", false);
    if (attention.sinks.value_or(sinks) != sinks)
      differs(sinks ? "sinks, read as none" : "no sinks, read as some");

    double plain = model_.softmax_scale.value_or(1 / std::sqrt(kind_.at("head_dim").get<double>()));
    double rotated = plain;
    if (rotary_ != nullptr) {
      const auto frequencies = posenc::frequencies(*rotary_, tokens);
      plain *= frequencies.softmax_scale_multiplier();
      rotated = plain * multiplier() * multiplier();
    }
    const double factor = kind_.at("factor");
    const bool is_traced = !kind_.contains("untraced") || multiplier() == 1;
    if (is_traced && !close(rotated, factor))
      differs("factor of scores ", factor, ", read as ", rotated);
    const double factor_of_plain = kind_.value("plain", factor);
    const bool has_plain = rotary_ != nullptr && posenc::rotary_dim(*rotary_) < rotary_->head_dim;
    if (has_plain && !close(plain, factor_of_plain)) {
      differs("factor of channels without rotation ", factor_of_plain, ", read as ", plain);
    }

    const double softcap = kind_.value("softcap", 0.0);
    if (!close(model_.softcap.value_or(0), softcap)) {
      differs("soft cap ", softcap, ", read as ", model_.softcap.value_or(0));
    }

    const auto temperature = posenc::temperature_of_layer(model_, number_);
    const auto read = [&](double position) {
      return temperature ? (*temperature)(position) / (*temperature)(0) : 1;
    };
    for (std::size_t i = 0; i < std::size(shown); ++i) {
      const double recorded =
          kind_.contains("temperature") ? kind_.at("temperature").at(i).get<double>() : 1;
      if (!close(read(shown[i]), recorded)) {
        differs("temperature of position ", shown[i], " is ", recorded, ", read as ",
                read(shown[i]));
        break;
      }
    }
    if (kind_.contains("far_temperature") &&
        !close(read(far_position), kind_.at("far_temperature"))) {
      differs("temperature of position ", far_position, " is ", kind_.at("far_temperature"),
              ", read as ", read(far_position));
    }
    compare_options(attention, sinks);
  }

  /// Returns the factor of queries and keys. A norm after the rotation removes it.
  double multiplier() const {
    const auto& norm = posenc::attention_of_layer(model_, number_).qk_norm;
    const bool is_removed =
        norm && norm->is_after_rotation && norm->kind != posenc::LayerQkNormKind::None;
    return rotary_ == nullptr || is_removed
               ? 1
               : posenc::frequencies(*rotary_, tokens).attention_factor();
  }

  /// Compares attention_options() with the settings that were compared, where options can express the layer.
  void compare_options(const posenc::LayerAttention& attention, bool sinks) {
    using enum posenc::LayerKind;
    const auto kind = attention.kind;
    if (kind == Chunked || kind == Compressed || kind == Sparse || attention.output_inverse_rotated)
      return;
    const std::vector<float> logits(sinks ? static_cast<std::size_t>(attention.heads.value_or(1))
                                          : 0);
    const auto options = posenc::attention_options<float>(model_, number_, logits);
    const double factor =
        *options.scale * options.softmax_scale_multiplier * multiplier() * multiplier();
    const bool is_traced = !kind_.contains("untraced") || multiplier() == 1;
    if (is_traced && !close(factor, kind_.at("factor"))) {
      differs("factor of scores ", kind_.at("factor"), ", in the options ", factor);
    }
  }

  void compare_window() {
    const auto& window = posenc::attention_of_layer(model_, number_).window;
    if (!window) {
      if (!lenient_) differs("the window is not known");
      return;
    }
    if (kind_.at("mask") == "other") return;
    using posenc::WindowKind;
    posenc::LayerWindow recorded;
    if (kind_.contains("window")) recorded = {WindowKind::Sliding, kind_.at("window")};
    if (kind_.contains("chunk")) recorded = {WindowKind::Chunked, kind_.at("chunk")};
    if (kind_.contains("reach"))
      recorded = {WindowKind::BothSides, 2 * kind_.at("reach").get<posenc::Index>()};
    const bool is_beyond = recorded.kind == WindowKind::None && window->size >= tokens;
    if (!(*window == recorded) && !is_beyond) {
      differs("window ", name(recorded), ", read as ", name(*window));
    }
  }

  static std::string name(const posenc::LayerWindow& window) {
    constexpr const char* names[] = {"none", "of ", "chunks of ", "on both sides, "};
    const auto kind = static_cast<std::size_t>(window.kind);
    return names[kind] + (kind == 0 ? "" : std::to_string(window.size));
  }

  const Json& kind_;
  const posenc::ModelSettings& model_;
  posenc::Index number_;
  bool lenient_;
  const posenc::RotarySettings* rotary_ = nullptr;
  Differences differences_;
};

/// Compares all layers of a recording with settings that were read. A lenient comparison accepts that settings lack a
/// value.
inline Differences compare(const Json& recording, const posenc::ModelSettings& model,
                           bool lenient) {
  Differences all;
  const Json& layers = recording.at("layers");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto number = static_cast<posenc::Index>(i);
    Differences found;
    if (layers[i].get<int>() < 0) {
      try {
        const auto kind = posenc::attention_of_layer(model, number).kind;
        // Layers that attend to an image do not run without one.
        const bool is_cross = kind == posenc::LayerKind::Cross;
        if (kind && posenc::detail::has_softmax(*kind) && !is_cross)
          found = {"no softmax, read as attention"};
      } catch (const posenc::ConfigError& error) {
        if (!lenient) found = {error.what()};
      }
    } else {
      found = Layer(recording.at("kinds").at(layers[i].get<std::size_t>()), model, number, lenient)
                  .compare();
    }
    for (const std::string& one : found) {
      const bool is_known = std::any_of(all.begin(), all.end(), [&](const std::string& text) {
        return text.substr(text.find(": ") + 2) == one;
      });
      if (!is_known) all.push_back(say("layer ", i, ": ", one));
    }
  }
  return all;
}

/// Returns the recording with the keys of a variant of its type.
inline Json with_patch(const Json& plain, const Json& variant) {
  Json result = plain;
  for (const char* key : {"given", "config"}) {
    if (result.contains(key)) result.at(key).merge_patch(variant.at("patch"));
  }
  for (const char* key : {"kinds", "layers"}) result[key] = variant.at(key);
  return result;
}

/// Returns the file of the keys that were passed to the class.
inline Json given_file(const Json& recording) {
  Json file = recording.at("given");
  file["model_type"] = recording.at("type");
  return file;
}

}  // namespace oracle
