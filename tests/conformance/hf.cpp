// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/hf_config.hpp"
#include "conformance/rotation.hpp"

#include <optional>
#include <string>

namespace conformance {
namespace {

std::optional<Index> length_of(const Case& c) {
  const Json length = c.description().value("seq_len", Json());
  return length.is_null() ? std::nullopt : std::optional(length.get<Index>());
}

constexpr double close = 1e-12;  ///< relative

}  // namespace

void run_hf_rope(Case& c) {
  c.knows_feature({});
  const Json& description = c.description();
  if (!description.contains("standardized")) {
    throw NotSupported("a config without the library's own reading of it");
  }
  const auto frequencies = hf_frequencies(description.at("standardized"), length_of(c));
  check_inv_freq(c, "inv_freq", frequencies);
  if (c.expects("expected_printed")) {
    Array<double> inv_freq({frequencies.pairs()});
    const auto values = frequencies.inv_freq();
    std::copy(values.begin(), values.end(), inv_freq.data.begin());
    c.check("expected_printed", inv_freq,
            Allowed(Tolerance{.absolute = description.at("atol").get<double>(),
                              .relative = description.at("rtol").get<double>()}));
  }
  c.check("attention_factor", frequencies.attention_factor(),
          description.at("attention_factor").get<double>(), close);
  if (description.contains("softmax_scale")) {
    const Json& scale = description.at("softmax_scale");
    c.check("softmax_scale",
            scale.at("base").get<double>() * frequencies.softmax_scale_multiplier(),
            scale.at("value").get<double>(), close);
  }
}

void run_hf_apply(Case& c) {
  c.knows({"hf", "apply", "half", "interleaved"},
          {"layout", "pairs", "attention_factor", "rotary_dim", "head_dim"});
  if (!c.description().value("layer_type", Json()).is_null()) {
    throw NotSupported("a config with one rope a layer type");
  }
  const auto rotary_dim = c.required<Index>("rotary_dim");
  const auto frequencies =
      hf_frequencies(hf_standardize(c.description().at("config"), rotary_dim), length_of(c));
  check_inv_freq(c, "inv_freq", frequencies);
  c.check("attention_factor", frequencies.attention_factor(),
          c.parameter<double>("attention_factor", 1), close);
  with_pairing(c, [&]<class Pairing>(Pairing) {
    const posenc::Rope<Pairing> rope(frequencies);
    in_both_precisions([&]<class T>() {
      check_cos_sin<T>(c, rope, positions_of(c, 0));
      check_rotations<T>(
          c, rope, [&c](const std::string&, Index seq) { return positions_of(c, seq); },
          c.parameter<std::string>("layout", ""));
    });
  });
}

}  // namespace conformance
