// SPDX-License-Identifier: MIT
// Reads config.json files of published models and compares with the results of the models' own
// code. The files are outside the repository, in POSENC_CONFIGS_DIR of the environment or of the
// build, or else in "configs" beside POSENC_CONFORMANCE_DIR of the environment. A file must be read
// correctly, or rejected by a message that names one of its keys or its type.
#include "support/catch.hpp"
#include <posenc/frequency/rule_description.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/hf_config.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <iterator>
#include <numeric>
#include <optional>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace {

using Json = nlohmann::json;
using posenc::Index;
using posenc::ModelSettings;
using posenc::PairAxes;
using posenc::RotarySettings;

std::filesystem::path configs_directory() {
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (const auto named = environment("POSENC_CONFIGS_DIR"); !named.empty()) return named;
  if (const auto data = environment("POSENC_CONFORMANCE_DIR"); !data.empty()) {
    if (const auto beside = data / ".." / "configs"; is_directory(beside)) return beside;
  }
#ifdef POSENC_CONFIGS_DIR
  return POSENC_CONFIGS_DIR;
#else
  return {};
#endif
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Error of a misread file.
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void wrong(const std::string& key, const std::string& found, const Json& expected) {
  throw Wrong(key + " is " + found + ", not " + expected.dump());
}

void check_number(const std::string& key, double found, const Json& expected) {
  const double number = expected.is_boolean() ? expected.get<bool>() : expected.get<double>();
  if (!(std::abs(found - number) <= 1e-9 * std::abs(number))) {
    wrong(key, Json(found).dump(), expected);
  }
}

/// Checks one key of a rule. If there is no value, the rule must not have the key.
template <class Rule>
std::optional<double> rule_field(const Rule& rule, const std::string& key) {
  std::optional<double> found;
  if constexpr (!std::is_same_v<Rule, std::monostate>) {
    for_each_field(rule, [&]<class T>(const std::string& name, const T& field) {
      if constexpr (std::is_arithmetic_v<T>) {
        if (key == name) found = static_cast<double>(field);
      } else if constexpr (std::is_same_v<T, std::vector<double>>) {
        if (key == name + "_count") found = static_cast<double>(field.size());
      }
    });
  }
  return found;
}

/// Returns the name of a rule's type in the files: Llama3Scaling is "llama3".
template <class Rule>
std::string rule_name(const Rule&) {
  if constexpr (std::is_same_v<Rule, std::monostate>) {
    return "none";
  } else if constexpr (std::is_same_v<Rule, posenc::Unscaled>) {
    return "default";
  } else {
    std::string name = posenc::RuleDescription<Rule>::name;
    name.erase(name.rfind("Scaling"));
    for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
    return name;
  }
}

/// Returns the axis of each pair; empty if all pairs read the same axis.
std::vector<Index> axes_of_pairs(const Json& group) {
  const Json& axes = group.at("axes");
  std::vector<Index> of_pairs;
  if (!axes.is_array()) return of_pairs;
  auto left = axes.get<std::vector<Index>>();
  const auto layout = group.at("axes_layout").get<std::string>();
  if (layout == "halves") return of_pairs;
  const Index pairs = std::accumulate(left.begin(), left.end(), Index{0});
  const auto count = left.size();
  for (std::size_t axis = 0; static_cast<Index>(of_pairs.size()) < pairs;) {
    if (left[axis] > 0) {
      of_pairs.push_back(static_cast<Index>(axis));
      --left[axis];
      if (layout == "blocks") continue;
    }
    axis = (axis + 1) % count;
  }
  return of_pairs;
}

void check_axes(const RotarySettings& settings, const Json& group) {
  const bool halves = group.value("axes_layout", "") == "halves";
  if (settings.chatglm_halves != halves) throw Wrong("axes: halves or not");
  const auto expected = axes_of_pairs(group);
  if (expected.empty() != settings.axes.plain()) throw Wrong("axes: one or several");
  if (static_cast<Index>(expected.size()) != settings.axes.pairs()) throw Wrong("axes: pairs");
  for (Index pair = 0; pair < settings.axes.pairs(); ++pair) {
    if (settings.axes.axis(pair) != expected[static_cast<std::size_t>(pair)]) {
      throw Wrong("axes: pair " + std::to_string(pair));
    }
  }
}

/// Checks the axes, if the file states them, and every other key of the group.
void check_rotary(const RotarySettings& settings, const Json& group, Index max_position) {
  const auto shortest = frequencies(settings, 1), longest = frequencies(settings, max_position);
  for (const auto& [key, value] : group.items()) {
    if (key == "which" || key == "kind" || key == "rotary" || key == "axes_layout") continue;
    if (key == "axes") {
      check_axes(settings, group);
    } else if (key == "rule") {
      const auto name = std::visit([](const auto& rule) { return rule_name(rule); }, settings.rule);
      if (value != Json(name)) wrong(key, name, value);
    } else if (key == "pairing") {
      const bool half = settings.pairing == posenc::PairingKind::HalfRotate;
      if ((value == "half") != half) wrong(key, half ? "half" : "interleaved", value);
    } else if (key == "head_dim") {
      check_number(key, static_cast<double>(settings.head_dim), value);
    } else if (key == "rotary_dim") {
      const Index parts = settings.chatglm_halves ? 2 : 1;
      check_number(key, static_cast<double>(parts * rotary_dim(settings)), value);
    } else if (key == "attention_factor") {
      check_number(key, shortest.attention_factor(), value);
      check_number(key, longest.attention_factor(), value);
    } else if (key == "frequency_dim") {
      check_number(key, static_cast<double>(rotary_dim(settings)), value);
    } else if (key == "pair_distance") {
      check_number(key, static_cast<double>(rotary_dim(settings) / 2), value);
    } else if (key == "turning_pairs") {
      Index turning = 0;
      for (const double w : shortest.inv_freq()) turning += w != 0 ? 1 : 0;
      check_number(key, static_cast<double>(turning), value);
    } else if (key != "rotary_offset") {
      const bool derived = key == "factor" && group.value("rule", "") == "longrope";
      const auto found = std::visit(
          [&name = key](const auto& rule) { return rule_field(rule, name); }, settings.rule);
      if (!found && derived) continue;  // included in the attention factor
      if (!found) throw Wrong("the rule has no " + key);
      check_number(key, *found, value);
    }
  }
  check_number("rotary_offset", static_cast<double>(settings.rotary_offset),
               group.value("rotary_offset", Json(0)));
}

void check_kind(const ModelSettings& model, Index layer, const std::string& name) {
  using posenc::LayerKind;
  const std::pair<const char*, LayerKind> kinds[] = {
      {"full_attention", LayerKind::Global},     {"self_attention", LayerKind::Global},
      {"sliding_attention", LayerKind::Sliding}, {"chunked_attention", LayerKind::Chunked},
      {"cross_attention", LayerKind::Cross},     {"conv", LayerKind::Convolution},
      {"linear_attention", LayerKind::Linear},   {"compressed", LayerKind::Compressed}};
  for (const auto& [known, kind] : kinds) {
    if (name == known && attention_of_layer(model, layer).kind != kind) {
      throw Wrong("layer " + std::to_string(layer) + " is of another kind than " + name);
    }
  }
}

void check_group(const ModelSettings& model, const Json& group, const Json& expect) {
  const bool turns = group.at("rotary").get<bool>();
  std::vector<Index> layers;
  if (group.at("which").is_array()) {
    layers = group.at("which").get<std::vector<Index>>();
  } else if (model.layer_types.empty() && model.layers_without_rotary.empty()) {
    layers = {0};
  } else {
    layers.resize(expect.at("layer_count").get<std::size_t>());
    std::iota(layers.begin(), layers.end(), Index{0});
  }
  const RotarySettings* checked = nullptr;
  for (const Index layer : layers) {
    const auto at = static_cast<std::size_t>(layer);
    const RotarySettings* settings = rotary_of_layer(model, layer);
    const auto number = "layer " + std::to_string(layer);
    if ((settings != nullptr) != turns) throw Wrong(number + (turns ? " turns" : " does not turn"));
    if (group.contains("kind")) {
      if (at >= model.layer_types.size()) throw Wrong(number + " has no type");
      const std::string& type = model.layer_types[at];
      if (group["kind"] != Json(type)) wrong(number, type, group["kind"]);
      check_kind(model, layer, type);
    }
    if (settings == nullptr || settings == checked) continue;
    check_rotary(*settings, group, expect.value("max_position", Index{1}));
    checked = settings;
  }
}

/// Returns the layers that a key names.
std::vector<Index> named_layers(const ModelSettings& model, const Json& which) {
  if (which.is_array()) return which.get<std::vector<Index>>();
  std::vector<Index> all(static_cast<std::size_t>((std::max)(model.layer_count, Index{1})));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

bool names(const Json& which, Index layer) {
  return !which.is_array() || std::find(which.begin(), which.end(), layer) != which.end();
}

bool attends(const ModelSettings& model, Index layer) {
  const auto kind = attention_of_layer(model, layer).kind;
  return !kind || posenc::detail::has_softmax(*kind);
}

void check_temperature(const ModelSettings& model, const Json& expected) {
  for (const Index layer : named_layers(model, "all")) {
    const auto found = temperature_of_layer(model, layer);
    const bool is_expected = !expected.is_null() && names(expected.value("which", Json()), layer);
    const auto number = "layer " + std::to_string(layer);
    if (found.has_value() != is_expected) throw Wrong(number + ": temperature there or not");
    if (!found) continue;
    const bool is_floor = found->formula == posenc::QueryTemperatureFormula::LogFloor;
    if (is_floor != (expected.at("kind") == "log_floor")) throw Wrong("temperature: formula");
    check_number("temperature", found->length,
                 expected.at(is_floor ? "floor_scale" : "seq_length"));
    if (!is_floor) continue;
    check_number("temperature", found->scale, expected.at("scale"));
    const bool shifted =
        expected.at("formula").get<std::string>().find("+ 1)") != std::string::npos;
    if (found->offset != (shifted ? 1 : 0)) throw Wrong("temperature: offset");
  }
}

std::string window_name(posenc::WindowKind kind) {
  switch (kind) {
    case posenc::WindowKind::None:
      return "none";
    case posenc::WindowKind::Sliding:
      return "sliding";
    case posenc::WindowKind::Chunked:
      return "chunked";
    default:
      return "both_sides";
  }
}

void check_windows(const ModelSettings& model, const Json& expected) {
  for (const Index layer : named_layers(model, "all")) {
    if (!attends(model, layer)) continue;
    const auto number = "the window of layer " + std::to_string(layer);
    const auto found = attention_of_layer(model, layer).window;
    if (!found) throw Wrong(number + " is not told");
    std::string kind = "none";
    for (const Json& window : expected) {
      if (!names(window.at("which"), layer)) continue;
      kind = window.at("kind").get<std::string>();
      check_number(number, static_cast<double>(found->size), window.at("size"));
    }
    if (window_name(found->kind) != kind) wrong(number, window_name(found->kind), kind);
  }
}

/// Checks a number, or numbers for the layers that they name.
void check_heads(const std::string& key, const ModelSettings& model, const Json& expected) {
  if (expected.is_array()) {
    for (const Json& group : expected) {
      for (const Index layer : group.at("which")) {
        const auto found = attention_of_layer(model, layer).kv_heads;
        check_number(key, static_cast<double>(found.value_or(0)), group.at("value"));
      }
    }
    return;
  }
  for (const Index layer : named_layers(model, "all")) {
    if (!attends(model, layer)) continue;
    const auto attention = attention_of_layer(model, layer);
    const auto found = key == "heads" ? attention.heads : attention.kv_heads;
    check_number(key, static_cast<double>(found.value_or(0)), expected);
  }
}

void check_model(const ModelSettings& model, const Json& expect) {
  for (const auto& [key, value] : expect.items()) {
    if (key == "layers") {
      for (const Json& group : value) check_group(model, group, expect);
    } else if (key == "layer_count") {
      check_number(key, static_cast<double>(model.layer_count), value);
    } else if (key == "attention_layers") {
      for (const Index layer : named_layers(model, "all")) {
        if (attends(model, layer) != names(value, layer)) throw Wrong(key);
      }
    } else if (key == "softmax_scale") {
      check_number(key, softmax_scale(model), value);
    } else if (key == "max_position") {
      check_number(key, static_cast<double>(model.trained_length), value);
    } else if (key == "softcap") {
      if (model.softcap.has_value() == value.is_null()) throw Wrong("softcap: there or not");
      if (model.softcap) check_number(key, *model.softcap, value);
    } else if (key == "temperature") {
      check_temperature(model, value);
    } else if (key == "window") {
      check_windows(model, value);
    } else if (key == "heads" || key == "kv_heads") {
      check_heads(key, model, value);
    } else if (key != "may_refuse" && key != "note") {
      throw Wrong("nobody compares " + key);
    }
  }
}

/// Returns the value of the first key that the file has.
Json first_of(const Json& file, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (file.contains(key) && !file[key].is_null()) return file[key];
  }
  return {};
}

template <class T>
void check_size(const char* key, const std::optional<T>& found, const Json& expected) {
  if (found.has_value() == expected.is_null()) throw Wrong(std::string(key) + ": there or not");
  if (found) check_number(key, static_cast<double>(*found), expected);
}

/// Checks the sizes with the keys of the file. None of the files contradicts itself. Parts of a
/// model that are saved without default sizes are skipped, because a class gives them.
void check_sizes(const ModelSettings& model, const Json& file) {
  Json text = file;
  for (const char* part : {"text_config", "language_config"}) {
    if (file.contains(part)) text = file[part];
  }
  if (text.contains("hidden_size") || !file.contains("text_config")) {
    check_size("hidden_size", model.hidden_size, first_of(text, {"hidden_size", "n_embd"}));
  }
  check_size("vocabulary_size", model.vocabulary_size,
             first_of(text, {"vocab_size", "padded_vocab_size"}));
  const Json epsilon = first_of(text, {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                       "norm_eps", "layernorm_epsilon"});
  // Otherwise it is the default of the class.
  if (!epsilon.is_null()) check_size("norm_epsilon", model.norm_epsilon, epsilon);
  check_size("intermediate_size", intermediate_size_of_layer(model, 0),
             first_of(text, {"intermediate_size", "ffn_hidden_size", "inner_hidden_size"}));
  const Json tie = first_of(text, {"tie_word_embeddings"});
  check_size("tied_embeddings", model.tied_embeddings,
             tie.is_null() ? first_of(file, {"tie_word_embeddings"}) : tie);
}

/// True if an error message states which key or type it is about.
bool names_something(const std::string& message, const Json& file) {
  if (message.find("must have ") != std::string::npos) return true;
  if (file.is_array()) {
    for (const Json& element : file) {
      if (element.is_structured() && names_something(message, element)) return true;
    }
  }
  if (!file.is_object()) return false;
  for (const auto& [key, value] : file.items()) {
    if (message.find("'" + key + "'") != std::string::npos) return true;
    if (key.find('_') != std::string::npos && message.find(key) != std::string::npos) return true;
    if (key == "model_type" &&
        message.find("'" + value.get<std::string>() + "'") != std::string::npos) {
      return true;
    }
    if (value.is_structured() && names_something(message, value)) return true;
  }
  return false;
}

enum class Outcome { Passed, Failed, NotSupported };

Outcome run(const std::filesystem::path& directory, const Json& one, std::string& said) {
  const std::string text = text_of(directory / "files" / one.at("file").get<std::string>());
  const Json& expect = one.at("expect");
  const bool must_refuse = expect.contains("refuse");
  std::optional<ModelSettings> model;
  try {
    model = posenc::read_hf_config(text);
    if (must_refuse) throw Wrong("it is read, but cannot be: " + expect["refuse"].dump());
    check_model(*model, expect);
    // Sizes are finite, and nlohmann-json does not read the words of Python.
    check_sizes(*model,
                Json::parse(std::regex_replace(text, std::regex("-?Infinity|NaN"), "null")));
    return Outcome::Passed;
  } catch (const posenc::ConfigError& refused) {
    said = refused.what();
    if (model) return Outcome::Failed;
  } catch (const std::exception& other) {
    said = other.what();
    return Outcome::Failed;
  }
  if (must_refuse || expect.contains("may_refuse")) return Outcome::Passed;
  const Json file = Json::parse(text, nullptr, false);
  return names_something(said, file) ? Outcome::NotSupported : Outcome::Failed;
}

}  // namespace

TEST_CASE("read_hf_config and read_gguf: read the configurations of published models") {
  const auto directory = configs_directory();
  if (!std::filesystem::is_regular_file(directory / "expected.json")) {
    // If a directory is given, it must exist.
    REQUIRE(std::getenv("POSENC_CONFIGS_DIR") == nullptr);
    std::cout << "skipped: no configurations; POSENC_CONFIGS_DIR names their directory\n";
    return;
  }
  const char* wish = std::getenv("POSENC_CONFORMANCE_VERBOSE");
  const bool verbose = wish != nullptr && *wish != '\0';
  int passed = 0, failed = 0, unsupported = 0;
  for (const Json& one : Json::parse(text_of(directory / "expected.json"))) {
    std::string said;
    const Outcome outcome = run(directory, one, said);
    const bool is_failed = outcome == Outcome::Failed;
    passed += outcome == Outcome::Passed ? 1 : 0;
    failed += is_failed ? 1 : 0;
    unsupported += outcome == Outcome::NotSupported ? 1 : 0;
    if (is_failed || (verbose && !said.empty())) {
      std::cout << (is_failed ? "failed " : "refused ") << one.at("file").get<std::string>() << ": "
                << said << '\n';
    }
  }
  std::cout << "conformance configs: " << passed << " passed, " << failed << " failed, "
            << unsupported << " not supported\n";
  CHECK(failed == 0);
  CHECK(passed > 0);
}
