// SPDX-License-Identifier: MIT
#include "fields.hpp"

#include "../tour/numbers.hpp"
#include <posenc/frequency/rule_description.hpp>

#include <cstddef>
#include <cstdlib>
#include <iomanip>
#include <optional>
#include <tuple>
#include <type_traits>
#include <variant>

namespace inspect {

namespace {

using posenc::Index;

/// Returns references to all members of a struct, which must have N of them.
template <std::size_t N, class T>
auto members(const T& t) {
  if constexpr (N == 7) {
    const auto& [a, b, c, d, e, f, g] = t;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (N == 11) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else {
    static_assert(N == 19, "a case for a struct of this size is missing");
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s);
  }
}

// Conversion of one value to text.

std::string word(Index value) { return std::to_string(value); }
/// Returns few digits if they read back as the same number, else as many as needed.
std::string word(double value) {
  const std::string few = tour::cat(std::setprecision(10), value);
  return std::strtod(few.c_str(), nullptr) == value ? few : posenc::detail::to_text(value);
}
std::string word(bool value) { return value ? "yes" : "no"; }
std::string word(const std::string& value) { return value; }
std::string word(posenc::PairingKind value) {
  return value == posenc::PairingKind::Interleaved
             ? "Interleaved: channels (2i, 2i + 1) form a pair"
             : "HalfRotate: channels (i, i + half) form a pair";
}
std::string word(posenc::YarnCrossing value) {
  return value == posenc::YarnCrossing::Step ? "Step" : "Backwards";
}
std::string word(posenc::QueryTemperatureFormula value) {
  switch (value) {
    case posenc::QueryTemperatureFormula::LogN:
      return "LogN";
    case posenc::QueryTemperatureFormula::LogRatio:
      return "LogRatio";
    default:
      return "LogFloor";
  }
}
std::string word(const posenc::RotaryRule& rule) { return name_of(rule); }

std::string word(const posenc::QueryTemperature& temperature) {
  const auto& [formula, scale, length, offset, only_without_rotary] = temperature;
  return word(formula) + ", scale " + word(scale) + ", length " + word(length) + ", offset " +
         word(offset) + (only_without_rotary ? ", in layers without rotary encoding alone" : "");
}

const char* name_of(posenc::LayerKind kind) {
  switch (kind) {
    case posenc::LayerKind::Global:
      return "Global";
    case posenc::LayerKind::Sliding:
      return "Sliding";
    case posenc::LayerKind::Chunked:
      return "Chunked";
    case posenc::LayerKind::Compressed:
      return "Compressed";
    case posenc::LayerKind::Sparse:
      return "Sparse";
    case posenc::LayerKind::Cross:
      return "Cross";
    case posenc::LayerKind::Linear:
      return "Linear";
    case posenc::LayerKind::Convolution:
      return "Convolution";
    default:
      return "None";
  }
}

std::string word(const posenc::LayerWindow& window) {
  switch (window.kind) {
    case posenc::WindowKind::None:
      return "none";
    case posenc::WindowKind::Sliding:
      return "the last " + word(window.size);
    case posenc::WindowKind::Chunked:
      return "chunks of " + word(window.size);
    default:
      return word(window.size / 2) + " on both sides";
  }
}

std::string word(const posenc::LayerQkNorm& norm) {
  using posenc::LayerQkNormKind;
  using posenc::LayerQkNormWeights;
  const auto& [kind, is_over_all_heads, weights, has_bias, is_after_rotation, epsilon] = norm;
  if (kind == LayerQkNormKind::None) return "none";
  std::string text = kind == LayerQkNormKind::LayerNorm ? "layer norm " : "";
  text += is_over_all_heads ? "of all heads" : "of heads";
  if (is_after_rotation) text += " after rotation";
  if (weights == LayerQkNormWeights::None) text += " without weights";
  if (weights == LayerQkNormWeights::FactorsMinusOne) text += " (weights lack 1)";
  if (weights == LayerQkNormWeights::FactorsPerHead) text += " (weights of each head)";
  if (weights == LayerQkNormWeights::FactorsOfKeys) text += " (weights of keys alone)";
  if (has_bias) text += " with a bias";
  if (epsilon) text += " (epsilon " + word(*epsilon) + ")";
  return text;
}

/// Unknown values are omitted.
std::string word(const posenc::LayerAttention& attention) {
  const auto& [kind, heads, kv_heads, head_dim, value_dim, window, sinks, turns_back, qkv_clip,
               qk_norm] = attention;
  std::string text = kind ? name_of(*kind) : "of an unknown kind";
  const auto add = [&text](const char* name, const auto& value) {
    if (value) text += std::string(", ") + name + " " + word(*value);
  };
  add("heads", heads);
  add("kv_heads", kv_heads);
  add("head_dim", head_dim);
  add("value_dim", value_dim);
  add("window", window);
  add("sinks", sinks);
  if (turns_back) text += ", output rotated back";
  add("qkv_clip", qkv_clip);
  add("qk_norm", qk_norm);
  return text;
}

std::string word(const posenc::PatchTable& table) {
  const auto& [rows, cols, class_token, sum_of_axes] = table;
  std::string text = word(rows) + (sum_of_axes ? " rows and " : " by ") + word(cols) +
                     (sum_of_axes ? " columns, added" : " patches");
  if (class_token == posenc::ClassToken::First) text += ", a class token before them";
  if (class_token == posenc::ClassToken::Last) text += ", a class token behind them";
  return text;
}

std::string word(const posenc::VisionRotary& rotary) {
  const auto& [form, base] = rotary;
  const char* name = form == posenc::VisionRotaryForm::Qwen2Vl   ? "Qwen2Vl"
                     : form == posenc::VisionRotaryForm::Llama4  ? "Llama4"
                     : form == posenc::VisionRotaryForm::Pixtral ? "Pixtral"
                                                                 : "Gemma4";
  return std::string(name) + ", base " + word(base);
}

/// The tower has its own part of the report.
std::string word(const posenc::VisionSettings& tower) { return tower.model_type; }

// Conversion of a member to text.

template <class T>
Field field(const char* name, const T& value);
template <class T>
Field field(const char* name, const std::optional<T>& value) {
  return value ? field(name, *value) : Field{name, {}};
}
Field field(const char* name, const posenc::PairAxes& axes) {
  if (axes.plain()) return {name, {"1"}};
  Field list{name, {}, true};
  for (Index i = 0; i < axes.pairs(); ++i) list.values.push_back(word(axes.axis(i)));
  list.values.push_back("of " + word(axes.axis_count()) + " axes");
  return list;
}
template <class T>
Field field(const char* name, const std::vector<T>& values) {
  Field list{name, {}, true};
  for (const T& value : values) list.values.push_back(word(value));
  return list;
}
Field field(const char* name, const std::vector<posenc::LayerRotary>& layers) {
  Field list{name, {}, true};
  for (const auto& [layer_type, rotary] : layers) {
    static_cast<void>(rotary);  // compared separately
    list.values.push_back(layer_type);
  }
  return list;
}
template <class T>
Field field(const char* name, const T& value) {
  return {name, {word(value)}};
}

/// Returns the members of a struct with their names, in order.
template <class T, class... Names>
std::vector<Field> named(const T& t, const Names*... names) {
  return std::apply(
      [&](const auto&... values) { return std::vector<Field>{field(names, values)...}; },
      members<sizeof...(Names)>(t));
}

}  // namespace

std::string shown(const Field& field) {
  if (!field.is_list) return field.values.empty() ? "none" : field.values.front();
  constexpr std::size_t longest = 16;
  const std::size_t count = field.values.size();
  if (count == 0) return "none";
  if (count > longest) {
    return field.values.front() + " ... " + field.values.back() + ", " + std::to_string(count) +
           " of them";
  }
  std::string text;
  for (const std::string& value : field.values) text += (text.empty() ? "" : " ") + value;
  return text;
}

std::string difference(const Field& first, const Field& second) {
  if (first.values == second.values) return "";
  const std::size_t m = first.values.size(), n = second.values.size();
  std::string place;
  Field a = first, b = second;
  if (first.is_list && second.is_list && m == n) {
    std::size_t i = 0;
    while (first.values[i] == second.values[i]) ++i;
    place = " from entry " + std::to_string(i) + " on";
    a = {first.name, {first.values[i]}};
    b = {second.name, {second.values[i]}};
  }
  return shown(a) + "  |  " + shown(b) + place;
}

std::string name_of(const posenc::RotaryRule& rule) {
  return std::visit(
      []<class Rule>(const Rule&) -> std::string {
        if constexpr (std::is_same_v<Rule, std::monostate>) {
          return "none";
        } else {
          return posenc::RuleDescription<Rule>::name;
        }
      },
      rule);
}

std::vector<Field> fields(const posenc::RotaryRule& rule) {
  std::vector<Field> all;
  std::visit(
      [&all]<class Rule>(const Rule& r) {
        if constexpr (!std::is_same_v<Rule, std::monostate>) {
          for_each_field(r, [&all](const char* name, const auto& value) {
            all.push_back(field(name, value));
          });
        }
      },
      rule);
  return all;
}

std::vector<Field> fields(const posenc::RotarySettings& settings) {
  return named(settings, "rule", "pairing", "head_dim", "rotary_offset", "axes of positions",
               "index_per_axis", "chatglm_halves");
}

std::vector<Field> fields(const posenc::ModelSettings& model) {
  return named(model, "model_type", "types of layers", "layer_types", "layers_without_rotary",
               "types_without_rotary", "layer_count", "attention", "trained_length",
               "softmax_scale", "softcap", "query_temperature", "vision tower", "part",
               "parts of the file", "hidden_size", "vocabulary_size", "intermediate_sizes",
               "norm_epsilon", "tied_embeddings");
}

std::vector<Field> fields(const posenc::VisionSettings& tower) {
  return named(tower, "model_type", "not read", "layer_count", "attention", "softmax_scale",
               "patch_size", "merge", "learned positions", "rotary", "window",
               "layers_without_window");
}

}  // namespace inspect
