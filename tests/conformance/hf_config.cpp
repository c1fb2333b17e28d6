// SPDX-License-Identifier: MIT
#include "conformance/hf_config.hpp"

#include <cmath>
#include <set>
#include <string>

namespace conformance {
namespace {

template <class T>
std::optional<T> get(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? std::nullopt : std::optional(at->get<T>());
}

double magnitude(double factor, double mscale = 1) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

posenc::Frequencies yarn(const Json& parameters, Index dim, double base, Index max_position) {
  const Index original =
      get<Index>(parameters, "original_max_position_embeddings").value_or(max_position);
  const double factor =
      get<double>(parameters, "factor")
          .value_or(static_cast<double>(max_position) / static_cast<double>(original));
  const double mscale = get<double>(parameters, "mscale").value_or(0);
  const double mscale_all_dim = get<double>(parameters, "mscale_all_dim").value_or(0);
  const double ratio = mscale != 0 && mscale_all_dim != 0
                           ? magnitude(factor, mscale) / magnitude(factor, mscale_all_dim)
                           : magnitude(factor);
  const auto or_default = [&](const char* key, double value) {
    const double given = get<double>(parameters, key).value_or(value);
    return given == 0 ? value : given;
  };
  const auto frequencies = posenc::frequencies(posenc::YarnScaling{
      .rotary_dim = dim,
      .base = base,
      .factor = factor,
      .original_max_position = original,
      .beta_fast = or_default("beta_fast", 32),
      .beta_slow = or_default("beta_slow", 1),
      .truncate = get<bool>(parameters, "truncate").value_or(true),
      .attention_factor = get<double>(parameters, "attention_factor").value_or(ratio)});
  if (mscale_all_dim == 0) return frequencies;
  // DeepSeek's attention takes the second magnitude into its softmax scale.
  const auto exact = frequencies.exact_inv_freq();
  const double softmax = magnitude(factor, mscale_all_dim);
  return posenc::Frequencies({exact.begin(), exact.end()}, frequencies.attention_factor(),
                             softmax * softmax);
}

void check_keys(const Json& parameters) {
  static const std::set<std::string> known{"rope_type",
                                           "type",
                                           "rope_theta",
                                           "partial_rotary_factor",
                                           "mrope_section",
                                           "factor",
                                           "truncate",
                                           "beta_fast",
                                           "beta_slow",
                                           "attention_factor",
                                           "mscale",
                                           "mscale_all_dim",
                                           "original_max_position_embeddings"};
  for (const auto& [key, value] : parameters.items()) {
    if (!value.is_null() && known.count(key) == 0) {
      throw NotSupported("the rope parameter '" + key + "'");
    }
  }
}

}  // namespace

posenc::Frequencies hf_frequencies(const Json& standardized, std::optional<Index> length) {
  const auto type = standardized.at("rope_type").get<std::string>();
  const auto base = standardized.at("rope_theta").get<double>();
  const auto dim = standardized.at("rotary_dim").get<Index>();
  const auto max_position = get<Index>(standardized, "max_position_embeddings").value_or(0);
  const Json parameters = standardized.value("rope_parameters", Json::object());
  const auto factor = [&parameters] { return parameters.at("factor").get<double>(); };
  if (type != "default" && type != "linear" && type != "dynamic" && type != "yarn") {
    throw NotSupported("rope_type '" + type + "'");
  }
  check_keys(parameters);
  if (type == "default") {
    return posenc::frequencies(posenc::Unscaled{.rotary_dim = dim, .base = base});
  }
  if (type == "linear") {
    return posenc::frequencies(
        posenc::LinearScaling{.rotary_dim = dim, .base = base, .factor = factor()});
  }
  if (type == "dynamic") {
    return posenc::frequencies(posenc::DynamicNtkScaling{.rotary_dim = dim,
                                                         .base = base,
                                                         .factor = factor(),
                                                         .original_max_position = max_position},
                               length.value_or(0));
  }
  return yarn(parameters, dim, base, max_position);
}

Json hf_standardize(const Json& config, Index rotary_dim) {
  Json parameters = Json::object();
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (const auto given = get<Json>(config, key)) parameters = *given;
  }
  const auto type = get<std::string>(parameters, "rope_type")
                        .value_or(get<std::string>(parameters, "type").value_or("default"));
  double base = 10000;
  for (const Json* source : {&config, static_cast<const Json*>(&parameters)}) {
    for (const char* key : {"rotary_emb_base", "rope_theta"}) {
      base = get<double>(*source, key).value_or(base);
    }
  }
  return {{"rope_type", type},
          {"rope_theta", base},
          {"rotary_dim", rotary_dim},
          {"max_position_embeddings", get<Index>(config, "max_position_embeddings").value_or(0)},
          {"rope_parameters", parameters}};
}

}  // namespace conformance
