// SPDX-License-Identifier: MIT
#include "describe.hpp"

#include "../tour/numbers.hpp"
#include "fields.hpp"
#include "float32_loss.hpp"
#include <posenc/interop/presets.hpp>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <string_view>
#include <variant>

namespace inspect {

namespace {

using tour::cat;
using tour::grouped;

/// Returns one member as text.
std::string shown_of(const posenc::RotarySettings& settings, std::string_view name) {
  for (const Field& field : fields(settings)) {
    if (field.name == name) return shown(field);
  }
  return "";
}

std::string channels_of(const posenc::RotarySettings& settings) {
  const Index first = settings.rotary_offset, dim = rotary_dim(settings);
  const Index turned = settings.chatglm_halves ? 2 * dim : dim;
  std::string text =
      cat(turned, " of ", settings.head_dim, " rotated, ", first, " to ", first + turned - 1);
  if (settings.chatglm_halves) text += ", each half by its own id";
  return text;
}

/// True if the pairs of each axis are consecutive.
bool is_in_chunks(const posenc::PairAxes& axes) {
  std::vector<bool> is_over(static_cast<std::size_t>(axes.axis_count()));
  for (Index i = 1; i < axes.pairs(); ++i) {
    if (axes.axis(i) == axes.axis(i - 1)) continue;
    is_over[static_cast<std::size_t>(axes.axis(i - 1))] = true;
    if (is_over[static_cast<std::size_t>(axes.axis(i))]) return false;
  }
  return true;
}

std::string axes_of(const posenc::RotarySettings& settings) {
  const posenc::PairAxes& axes = settings.axes;
  if (axes.plain()) return "1";
  std::vector<Index> pairs(static_cast<std::size_t>(axes.axis_count()));
  for (Index i = 0; i < axes.pairs(); ++i) ++pairs[static_cast<std::size_t>(axes.axis(i))];
  std::string text = cat(axes.axis_count(), ", with");
  for (const Index count : pairs) text += cat(' ', count);
  text += settings.index_per_axis ? " pairs, each axis with its own frequencies" : " pairs";
  return text + (is_in_chunks(axes) ? ", in chunks" : ", alternating");
}

std::string length_of(double wavelength) {
  return std::isfinite(wavelength) ? cat(std::setprecision(6), wavelength) : "no rotation";
}

std::string ends_of(const std::vector<double>& wavelengths) {
  return cat(length_of(wavelengths.front()), " to ", length_of(wavelengths.back()), " tokens");
}

std::string line(const std::string& name, const std::string& value) {
  return cat("  ", std::left, std::setw(22), name + "  ", value, '\n');
}

std::string report(const posenc::RotarySettings& settings, Index length) {
  const auto found = frequencies(settings, length);
  const auto loss = first_lossy_position(found, 1e-2);
  std::string text = line("rule", describe(settings.rule));
  if (depends_on_length(settings)) {
    text += line("shown for length", grouped(length) + "; --length N for another");
  }
  text += line("pairing", shown_of(settings, "pairing"));
  text += line("channels of a head", channels_of(settings));
  text += line("axes of positions", settings.chatglm_halves ? "2" : axes_of(settings));
  text += line("attention factor", cat(std::setprecision(6), found.attention_factor()));
  text += line("softmax scale times", cat(std::setprecision(6), found.softmax_scale_multiplier()));
  text += line("wavelengths", ends_of(wavelengths(found)));
  text += line("without scaling", ends_of(wavelengths(without_scaling(settings))));
  text += line("float32 loses 1e-2",
               loss ? "at position " + grouped(*loss) : std::string("nowhere up to 16,777,216"));
  return text;
}

/// Returns one line per group of equal layers.
std::string attention_of(const Field& field) {
  std::string text;
  for (std::size_t i = 0; i < field.values.size(); ++i) {
    const std::string& one = field.values[i];
    const auto from = field.values.begin();
    if (std::find(from, from + static_cast<std::ptrdiff_t>(i), one) !=
        from + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    Field alike{"", {}, true};
    for (std::size_t j = i; j < field.values.size(); ++j) {
      if (field.values[j] == one) alike.values.push_back(std::to_string(j));
    }
    const bool all = alike.values.size() == field.values.size();
    text += line(all ? "all layers" : "layers", all ? one : shown(alike) + ": " + one);
  }
  return text;
}

/// Returns one line per member that differs.
template <class T>
std::string differing(const T& a, const T& b, const std::string& prefix = "") {
  std::string text;
  const auto first = fields(a), second = fields(b);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::string found = difference(first[i], second[i]);
    if (!found.empty()) text += line(prefix + first[i].name, found);
  }
  return text;
}

/// Returns the difference of the frequencies, if any; different settings may give equal
/// frequencies.
std::string comparison(const posenc::Frequencies& a, const posenc::Frequencies& b) {
  std::string text;
  const auto differ = [&text](const char* name, double first, double second) {
    if (first != second) text += line(name, cat(first, "  |  ", second));
  };
  differ("attention factor", a.attention_factor(), b.attention_factor());
  differ("softmax scale times", a.softmax_scale_multiplier(), b.softmax_scale_multiplier());
  if (a.pairs() != b.pairs()) return text;

  const auto w = a.inv_freq(), v = b.inv_freq();
  std::size_t worst = 0;
  const auto gap = [&](std::size_t i) {
    const double size = std::max(std::abs(w[i]), std::abs(v[i]));
    return size == 0 ? 0 : std::abs(w[i] - v[i]) / size;
  };
  for (std::size_t i = 1; i < w.size(); ++i) {
    if (gap(i) > gap(worst)) worst = i;
  }
  if (w.empty() || gap(worst) == 0) return text + line("frequencies", "the same in both");
  return text +
         line("frequencies", cat("up to ", tour::percent(gap(worst), 3), " apart, in pair ", worst,
                                 " of ", w.size(), ": ", w[worst], "  |  ", v[worst]));
}

std::string comparison(const posenc::RotarySettings& a, const posenc::RotarySettings& b,
                       Index length) {
  std::string text = differing(a, b);
  if (a.rule.index() == b.rule.index()) {
    text += differing(a.rule, b.rule, "rule: ");
  } else {
    text += line("the rules", describe(a.rule) + "  |  " + describe(b.rule));
  }
  if (text.empty()) return "";
  return text + comparison(frequencies(a, length), frequencies(b, length));
}

std::string report(const posenc::VisionSettings& tower) {
  std::string text = cat("\nvision tower ", tower.model_type, '\n');
  if (!tower.refused.empty()) return text + line("not read", tower.refused);
  for (const Field& field : fields(tower)) {
    const bool is_told = field.name == "model_type" || field.name == "not read" ||
                         (field.name == "merge" && tower.merge == 1) ||
                         (field.name == "window" && tower.window == 0);
    if (!is_told && !field.values.empty()) text += line(field.name, shown(field));
  }
  return text;
}

std::string title_of(const std::string& layer_type) {
  return layer_type.empty() ? "all rotary layers" : "layers of the type " + layer_type;
}

/// Word of reports and comparisons, and its meaning.
struct Word {
  std::string_view word, meaning;
};

constexpr Word words[] = {
    {"axes of positions",
     "axis of the position that rotates each pair, pair by pair: 0 is the first (the time of "
     "M-RoPE), 1 the row, 2 the column; a single 1 is the plain index of the token"},
    {"crossing",
     "YaRN's ramp if its ends cross, which does not occur with usual settings: a step, as in ggml, "
     "or a backward ramp, as in Hugging Face"},
    {"from entry", "the first entry of a list that differs, counted from 0"},
    {"index_per_axis", "true if the frequencies restart for each axis of positions"},
};

}  // namespace

std::string explanations(std::string_view comparison) {
  std::string text;
  for (const auto& [word, meaning] : words) {
    if (comparison.find(word) == std::string_view::npos) continue;
    text += line(std::string(word), std::string(meaning));
  }
  return text.empty() ? "" : "\nMeaning of words:\n" + text;
}

std::string describe(const posenc::RotaryRule& rule) {
  std::string text = name_of(rule);
  const char* separator = ": ";
  for (const Field& field : fields(rule)) {
    // The width is shown with the channels.
    if (field.values.empty() || field.name == "rotary_dim" || field.name == "head_dim") continue;
    text += separator + field.name + " " + shown(field);
    separator = ", ";
  }
  return text;
}

posenc::Frequencies without_scaling(const posenc::RotarySettings& settings) {
  if (settings.index_per_axis) return frequencies(settings);  // there is none
  return posenc::detail::with_rule("inspect", settings, [](const auto& rule) {
    return frequencies(
        posenc::Unscaled{.rotary_dim = posenc::detail::rotary_dim_of(rule), .base = rule.base});
  });
}

std::vector<double> wavelengths(const posenc::Frequencies& frequencies) {
  std::vector<double> lengths;
  for (const double w : frequencies.inv_freq()) lengths.push_back(2 * std::acos(-1.0) / w);
  return lengths;
}

Index length_for(const posenc::ModelSettings& model, std::optional<Index> given) {
  return given.value_or(std::max<Index>(model.trained_length, 1));
}

std::string report(const posenc::ModelSettings& model, Index length) {
  std::string text = cat(model.model_type, '\n');
  text += line("made for", model.trained_length == 0
                               ? std::string("a length that the file does not state")
                               : grouped(model.trained_length) + " tokens");
  // Each member that is set gets a line; the types of layers have their own parts below.
  for (const Field& field : fields(model)) {
    const bool is_told = field.name == "model_type" || field.name == "trained_length" ||
                         field.name == "types of layers" || field.name == "vision tower" ||
                         (field.name == "layer_count" && model.layer_count == 0) ||
                         (field.name == "part" && model.part.empty());
    if (field.name == "attention") {
      text += attention_of(field);
    } else if (!is_told && !field.values.empty()) {
      text += line(field.name, shown(field));
    }
  }
  for (const posenc::LayerRotary& layer : model.layers) {
    text += cat('\n', title_of(layer.layer_type), '\n', report(layer.rotary, length));
    text += line("scores times", cat(std::setprecision(6), softmax_scale(model, layer.layer_type)));
  }
  if (model.vision) text += report(*model.vision);
  return text;
}

std::string assumption(const posenc::ModelSettings& model, std::string_view text) {
  const std::string key = "original_max_position_embeddings";
  if (text.find(key) != std::string_view::npos) return "";
  const bool is_assumed =
      std::any_of(model.layers.begin(), model.layers.end(), [&](const posenc::LayerRotary& layer) {
        const posenc::RotaryRule& rule = layer.rotary.rule;
        const auto* yarn = std::get_if<posenc::YarnScaling>(&rule);
        const auto* longrope = std::get_if<posenc::LongRopeScaling>(&rule);
        return (yarn != nullptr && yarn->original_max_position == model.trained_length) ||
               (longrope != nullptr && longrope->original_max_position == model.trained_length);
      });
  if (!is_assumed) return "";
  return cat('\n',
             line("assumed", cat("the model was trained on ", grouped(model.trained_length),
                                 " tokens, its max_position_embeddings, as in transformers: the "
                                 "file has no ",
                                 key)));
}

std::string list_of_presets() {
  std::string text;
  for (const posenc::RotaryPreset& preset : posenc::presets::all()) {
    text += cat(preset.name, '\n', line("checked against", preset.source));
    for (const posenc::LayerRotary& layer : preset.model.layers) {
      const std::string name = layer.layer_type.empty() ? "rule" : layer.layer_type;
      text += line(name, describe(layer.rotary.rule));
    }
  }
  return text;
}

std::string comparison(const posenc::ModelSettings& a, const posenc::ModelSettings& b,
                       Index length) {
  std::string text = differing(a, b);
  for (const posenc::LayerRotary& layer : a.layers) {
    const auto other = std::find_if(b.layers.begin(), b.layers.end(), [&](const auto& candidate) {
      return candidate.layer_type == layer.layer_type;
    });
    const std::string found = other == b.layers.end()
                                  ? std::string("  the other model has none\n")
                                  : comparison(layer.rotary, other->rotary, length);
    if (!found.empty()) text += cat(title_of(layer.layer_type), '\n', found);
  }
  if (a.vision && b.vision) {
    const std::string found = differing(*a.vision, *b.vision);
    if (!found.empty()) text += cat("vision tower\n", found);
  }
  return text;
}

}  // namespace inspect
