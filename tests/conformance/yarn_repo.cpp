// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/rotation.hpp"

#include <cmath>
#include <string>

namespace conformance {
namespace {

/// Scaling class of the repository. Classes that divide positions keep inv_freq, where posenc
/// divides the frequencies.
struct Scaling {
  posenc::Frequencies frequencies;
  bool keeps_inv_freq = false;
};

Scaling yarn(const Case& c, Index dim, double base, double factor, Index original) {
  if (c.parameter<double>("extrapolation_factor", 1) != 1) {
    throw NotSupported("extrapolation_factor");
  }
  const double magnitude = factor <= 1 ? 1 : 0.1 * std::log(factor) + 1;
  return {posenc::frequencies(
      posenc::YarnScaling{.rotary_dim = dim,
                          .base = base,
                          .factor = factor,
                          .original_max_position = original,
                          .beta_fast = c.parameter<double>("beta_fast", 32),
                          .beta_slow = c.parameter<double>("beta_slow", 1),
                          .attention_factor = magnitude * c.parameter<double>("attn_factor", 1)})};
}

Scaling scaling_of(const Case& c) {
  const Index dim = c.required<Index>("dim");
  const double base = c.parameter<double>("base", 10000);
  const Index trained = c.parameter<Index>("max_position_embeddings", 2048);
  const Index original = c.parameter<Index>("original_max_position_embeddings", 2048);
  const auto length = c.description().at("seq_len").get<Index>();
  const double growth = static_cast<double>(length) / static_cast<double>(trained);
  const Scaling unscaled{posenc::frequencies(posenc::Unscaled{.rotary_dim = dim, .base = base})};

  const std::string rule = c.feature().substr(c.feature().find('/') + 1);
  if (rule == "linear") {
    return {posenc::frequencies(posenc::LinearScaling{
                .rotary_dim = dim, .base = base, .factor = c.parameter<double>("scale", 1)}),
            true};
  }
  if (rule == "ntk") {
    return {posenc::frequencies(posenc::NtkScaling{
        .rotary_dim = dim, .base = base, .factor = c.parameter<double>("alpha", 1)})};
  }
  if (rule == "dynamic_linear") {
    if (length <= trained) return unscaled;
    return {posenc::frequencies(
                posenc::LinearScaling{.rotary_dim = dim, .base = base, .factor = growth}),
            true};
  }
  if (rule == "dynamic_ntk") {
    return {posenc::frequencies(posenc::DynamicNtkScaling{.rotary_dim = dim,
                                                          .base = base,
                                                          .factor = c.required<double>("ntk"),
                                                          .original_max_position = trained},
                                length)};
  }
  if (rule == "yarn") return yarn(c, dim, base, c.parameter<double>("scale", 1), original);
  if (rule == "dynamic_yarn") {
    if (trained == original && c.parameter<double>("attn_factor", 1) == 1) {
      return {posenc::frequencies(
          posenc::DynamicYarnScaling{.rotary_dim = dim,
                                     .base = base,
                                     .original_max_position = original,
                                     .beta_fast = c.parameter<double>("beta_fast", 32),
                                     .beta_slow = c.parameter<double>("beta_slow", 1)},
          length)};
    }
    // The factor grows with the length, or with the length that the model was finetuned for.
    if (length > trained) return yarn(c, dim, base, growth, original);
    if (!c.parameter<bool>("finetuned", false)) return unscaled;
    return yarn(c, dim, base, static_cast<double>(trained) / static_cast<double>(original),
                original);
  }
  if (rule == "part_ntk") {
    if (c.parameter<double>("ntk_factor", 1) != 1 ||
        c.parameter<double>("extrapolation_factor", 1) != 1) {
      throw NotSupported("ntk_factor and extrapolation_factor");
    }
    return {posenc::frequencies(posenc::TwoRampNtkScaling{.rotary_dim = dim,
                                                          .base = base,
                                                          .factor = c.parameter<double>("scale", 1),
                                                          .original_max_position = original})};
  }
  throw NotSupported("the rule '" + rule + "'");
}

}  // namespace

void run_yarn_repo(Case& c) {
  c.knows({"yarn", "repo", "linear", "ntk", "dynamic", "part"},
          {"dim", "max_position_embeddings", "base", "scale", "alpha", "ntk", "ntk_factor",
           "original_max_position_embeddings", "extrapolation_factor", "attn_factor", "beta_fast",
           "beta_slow", "finetuned"});
  const Scaling scaling = scaling_of(c);
  const posenc::Frequencies& frequencies = scaling.frequencies;
  check_inv_freq(c, "inv_freq",
                 scaling.keeps_inv_freq ? posenc::frequencies(posenc::Unscaled{
                                              .rotary_dim = frequencies.rotary_dim(),
                                              .base = c.parameter<double>("base", 10000)})
                                        : frequencies);
  c.check("mscale", frequencies.attention_factor(), c.description().at("mscale").get<double>(),
          1e-12);
  const posenc::Rope<posenc::HalfRotate> rope(frequencies);
  const auto positions = positions_of(c, 0);
  in_both_precisions([&]<class T>() { check_cos_sin<T>(c, rope, positions); });
}

}  // namespace conformance
