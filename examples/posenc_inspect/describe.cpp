// SPDX-License-Identifier: MIT
#include "describe.hpp"

#include "../tour/numbers.hpp"
#include "float32_loss.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <type_traits>

namespace inspect {

namespace {

using tour::cat;
using tour::grouped;

/// Fields of a rule in words; those that are not set are left out.
class Fields {
 public:
  explicit Fields(const char* rule) : text_(rule) {}

  template <class T>
  Fields& add(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      text_ += cat(separator_, name, value ? " yes" : " no");
    } else {
      text_ += cat(separator_, name, ' ', std::setprecision(10), value);
    }
    separator_ = ", ";
    return *this;
  }
  template <class T>
  Fields& add(const char* name, const std::optional<T>& value) {
    return value ? add(name, *value) : *this;
  }
  /// A list by its ends.
  Fields& add(const char* name, const std::vector<double>& list) {
    return list.empty() ? *this : add(name, cat(list.front(), " ... ", list.back()));
  }

  std::string text() const { return text_; }

 private:
  std::string text_;
  const char* separator_ = ": ";
};

std::string words(const std::monostate&) { return "none"; }
std::string words(const posenc::Unscaled& r) {
  return Fields("Unscaled").add("base", r.base).text();
}
std::string words(const posenc::LinearScaling& r) {
  return Fields("LinearScaling").add("base", r.base).add("factor", r.factor).text();
}
std::string words(const posenc::AlphaNtkScaling& r) {
  return Fields("AlphaNtkScaling").add("base", r.base).add("alpha", r.alpha).text();
}
std::string words(const posenc::DynamicNtkScaling& r) {
  return Fields("DynamicNtkScaling")
      .add("base", r.base)
      .add("factor", r.factor)
      .add("original_max_position", r.original_max_position)
      .text();
}
std::string words(const posenc::VllmNtkScaling& r) {
  return Fields("VllmNtkScaling").add("base", r.base).add("factor", r.factor).text();
}
std::string words(const posenc::VllmMixedNtkScaling& r) {
  return Fields("VllmMixedNtkScaling")
      .add("base", r.base)
      .add("factor", r.factor)
      .add("mixed_b", r.mixed_b)
      .text();
}
std::string words(const posenc::YarnScaling& r) {
  return Fields("YarnScaling")
      .add("base", r.base)
      .add("factor", r.factor)
      .add("original_max_position", r.original_max_position)
      .add("beta_fast", r.beta_fast)
      .add("beta_slow", r.beta_slow)
      .add("truncate", r.truncate)
      .add("attention_factor", r.attention_factor)
      .add("mscale", r.mscale)
      .add("mscale_all_dim", r.mscale_all_dim)
      .text();
}
std::string words(const posenc::DynamicYarnScaling& r) {
  return Fields("DynamicYarnScaling")
      .add("base", r.base)
      .add("original_max_position", r.original_max_position)
      .add("finetuned_max_position", r.finetuned_max_position)
      .text();
}
std::string words(const posenc::LongRopeScaling& r) {
  return Fields("LongRopeScaling")
      .add("base", r.base)
      .add("original_max_position", r.original_max_position)
      .add("factor", r.factor)
      .add("attention_factor", r.attention_factor)
      .add("short_mscale", r.short_mscale)
      .add("long_mscale", r.long_mscale)
      .add("short_factor", r.short_factor)
      .add("long_factor", r.long_factor)
      .text();
}
std::string words(const posenc::Llama3Scaling& r) {
  return Fields("Llama3Scaling")
      .add("base", r.base)
      .add("factor", r.factor)
      .add("low_freq_factor", r.low_freq_factor)
      .add("high_freq_factor", r.high_freq_factor)
      .add("original_max_position", r.original_max_position)
      .text();
}
std::string words(const posenc::ProportionalScaling& r) {
  return Fields("ProportionalScaling")
      .add("base", r.base)
      .add("partial_rotary_factor", r.partial_rotary_factor)
      .add("factor", r.factor)
      .text();
}
std::string words(const posenc::DivisorScaling& r) {
  return Fields("DivisorScaling")
      .add("base", r.base)
      .add("divisors", r.divisors)
      .add("attention_factor", r.attention_factor)
      .text();
}

std::string pairing_of(const posenc::RotarySettings& settings) {
  return *settings.pairing == posenc::PairingKind::Interleaved
             ? "Interleaved: channels (2i, 2i + 1) form a pair"
             : "HalfRotate: channels (i, i + half) form a pair";
}

std::string channels_of(const posenc::RotarySettings& settings) {
  const Index first = settings.rotary_offset, dim = rotary_dim(settings);
  const Index turned = settings.chatglm_halves ? 2 * dim : dim;
  std::string text =
      cat(turned, " of ", settings.head_dim, " turn, ", first, " to ", first + turned - 1);
  if (settings.chatglm_halves) text += ", each half of them by an id of its own";
  return text;
}

std::string axes_of(const posenc::PairAxes& axes) {
  if (axes.plain()) return "1";
  std::vector<Index> pairs(static_cast<std::size_t>(axes.axis_count()));
  for (Index i = 0; i < axes.pairs(); ++i) ++pairs[static_cast<std::size_t>(axes.axis(i))];
  std::string text = cat(axes.axis_count(), ", with");
  for (const Index count : pairs) text += cat(' ', count);
  return text + " pairs";
}

std::string length_of(double wavelength) {
  return std::isfinite(wavelength) ? cat(std::setprecision(6), wavelength) : "no turn";
}

std::string ends_of(const std::vector<double>& wavelengths) {
  return cat(length_of(wavelengths.front()), " to ", length_of(wavelengths.back()), " tokens");
}

std::string line(const char* name, const std::string& value) {
  return cat("  ", std::left, std::setw(20), name, value, '\n');
}

std::string report(const posenc::RotarySettings& settings, Index length) {
  const auto found = frequencies(settings, length);
  const auto loss = first_lossy_position(found, 1e-2);
  std::string text = line("rule", describe(settings.rule));
  if (depends_on_length(settings)) text += line("shown for length", grouped(length));
  text += line("pairing", pairing_of(settings));
  text += line("channels of a head", channels_of(settings));
  text += line("axes of positions", settings.chatglm_halves ? "2" : axes_of(settings.axes));
  text += line("attention factor", cat(std::setprecision(6), found.attention_factor()));
  text += line("softmax scale times", cat(std::setprecision(6), found.softmax_scale_multiplier()));
  text += line("wavelengths", ends_of(wavelengths(found)));
  text += line("without scaling", ends_of(wavelengths(without_scaling(settings))));
  text += line("float32 loses 1e-2",
               loss ? "at position " + grouped(*loss) : std::string("nowhere up to 16,777,216"));
  return text;
}

std::string comparison(const posenc::RotarySettings& a, const posenc::RotarySettings& b,
                       Index length) {
  std::string text;
  const auto differ = [&text](const char* name, const auto& first, const auto& second) {
    if (first != second) text += line(name, cat(first, "  |  ", second));
  };
  differ("pairing", pairing_of(a), pairing_of(b));
  differ("channels of a head", channels_of(a), channels_of(b));
  differ("axes of positions", axes_of(a.axes), axes_of(b.axes));
  if (text.empty() && !(a.axes == b.axes)) text += line("axes of positions", "in another order");
  const auto first = frequencies(a, length), second = frequencies(b, length);
  differ("attention factor", first.attention_factor(), second.attention_factor());
  differ("softmax scale times", first.softmax_scale_multiplier(),
         second.softmax_scale_multiplier());
  if (first.pairs() != second.pairs()) return text;

  const auto w = first.inv_freq(), v = second.inv_freq();
  std::size_t worst = 0;
  const auto gap = [&](std::size_t i) {
    const double size = std::max(std::abs(w[i]), std::abs(v[i]));
    return size == 0 ? 0 : std::abs(w[i] - v[i]) / size;
  };
  for (std::size_t i = 1; i < w.size(); ++i) {
    if (gap(i) > gap(worst)) worst = i;
  }
  if (gap(worst) != 0) {
    text += line("rule", cat(describe(a.rule), "  |  ", describe(b.rule)));
    text += line("frequencies", cat("up to ", tour::percent(gap(worst), 3), " apart, in pair ",
                                    worst, " of ", w.size(), ": ", w[worst], "  |  ", v[worst]));
  }
  return text;
}

std::string title_of(const std::string& layer_type) {
  return layer_type.empty() ? "all rotary layers" : "layers of the type " + layer_type;
}

}  // namespace

std::string describe(const posenc::RotaryRule& rule) {
  return std::visit([](const auto& r) { return words(r); }, rule);
}

posenc::Frequencies without_scaling(const posenc::RotarySettings& settings) {
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
                               ? std::string("a length that the file does not tell")
                               : grouped(model.trained_length) + " tokens");
  if (model.softmax_scale) text += line("softmax scale", cat(*model.softmax_scale));
  if (!model.layers_without_rotary.empty()) {
    std::string layers;
    for (const Index layer : model.layers_without_rotary) layers += cat(layer, ' ');
    text += line("no rotary in layers", layers);
  }
  for (const std::string& type : model.types_without_rotary) {
    text += line("no rotary in layers", "of the type " + type);
  }
  for (const posenc::LayerRotary& layer : model.layers) {
    text += cat('\n', title_of(layer.layer_type), '\n', report(layer.rotary, length));
  }
  return text;
}

std::string comparison(const posenc::ModelSettings& a, const posenc::ModelSettings& b,
                       Index length) {
  std::string text;
  for (const posenc::LayerRotary& layer : a.layers) {
    const auto other = std::find_if(b.layers.begin(), b.layers.end(), [&](const auto& candidate) {
      return candidate.layer_type == layer.layer_type;
    });
    const std::string found = other == b.layers.end()
                                  ? std::string("  the other model has none\n")
                                  : comparison(layer.rotary, other->rotary, length);
    if (!found.empty()) text += cat(title_of(layer.layer_type), '\n', found);
  }
  if (a.layers.size() < b.layers.size()) text += "the other model has more types of layers\n";
  if (a.layer_types != b.layer_types) text += "the layers are of other types\n";
  if (a.layers_without_rotary != b.layers_without_rotary) {
    text += "other layers have no rotary encoding\n";
  }
  return text;
}

}  // namespace inspect
