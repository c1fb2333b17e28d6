// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/hf_config.hpp"
#include "conformance/rotation.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace conformance {
namespace {

constexpr double close = 1e-12;  ///< relative

Array<double> inv_freq_of(const posenc::Frequencies& frequencies) {
  Array<double> array({frequencies.pairs()});
  const auto values = frequencies.inv_freq();
  std::copy(values.begin(), values.end(), array.data.begin());
  return array;
}

/// Permits an error of a number of float ulps.
Allowed float_ulps(double ulps) {
  return [ulps](std::size_t, double expected, double) {
    return ulps * static_cast<double>(support::ulp_of(static_cast<float>(expected)));
  };
}

/// Checks the frequencies of the float32 pipeline: at most 1 ulp off, but 2 if an operation follows
/// a power that Hugging Face did not round correctly.
void check_float32_inv_freq(Case& c, const posenc::Frequencies& float32) {
  if (!c.expects("inv_freq")) return;
  const double ulps = c.name() == "yarn_head_dim_256_original_8_beta_1000" ? 2 : 1;
  c.check("inv_freq", inv_freq_of(float32), float_ulps(ulps), "float32 pipeline ");
}

/// Checks cos and sin of Hugging Face's own frequencies, by the policy that rounds angles in the
/// same way. They are within 1 ulp, which the attention factor may increase to 2.
template <class Pairing>
void check_float32_cos_sin(Case& c, const posenc::Frequencies& frequencies,
                           const posenc::Positions& positions) {
  const auto given = c.read<double>("inv_freq");
  const std::span<const double> inv_freq(given.data.data(), static_cast<std::size_t>(given.size()));
  const posenc::Rope<Pairing> rope(
      posenc::Frequencies::from_inv_freq(inv_freq, frequencies.attention_factor()), 0, {},
      posenc::AnglePolicy::HfFloat32);
  const auto table = rope.template table<float>(positions);
  const double ulps = frequencies.attention_factor() == 1 ? 1 : 2;
  const auto check = [&c, ulps](const char* name, posenc::EmbeddingsView<const float> view) {
    Array<float> values({view.batch, view.seq, view.dim});
    const auto out = embeddings_of(values);
    for (Index b = 0; b < view.batch; ++b) {
      for (Index s = 0; s < view.seq; ++s) std::copy_n(view.row(b, s), view.dim, out.row(b, s));
    }
    c.check(name, values, float_ulps(ulps), "float32 pipeline ");
  };
  check("cos", table.cos());
  check("sin", table.sin());
}

}  // namespace

void run_hf_rope(Case& c) {
  c.knows_feature({});
  const Json& description = c.description();
  const auto [settings, frequencies, float32] = read_hf_rotary(c);
  // Hugging Face's parsed parameters, if the data have them.
  const Json standardized = description.value("standardized", Json::object());
  if (standardized.contains("rotary_dim")) {
    c.holds("rotary_dim", frequencies.rotary_dim() == standardized.at("rotary_dim").get<Index>());
  }
  check_inv_freq(c, "inv_freq", frequencies);
  check_float32_inv_freq(c, float32);
  if (c.expects("expected_printed")) {
    c.check("expected_printed", inv_freq_of(frequencies),
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
  c.knows({"hf", "apply", "half", "interleaved", "interleave", "in", "out"},
          {"layout", "pairs", "attention_factor", "rotary_dim", "head_dim"});
  const auto [settings, frequencies, float32] = read_hf_rotary(c);
  c.holds("rotary_dim", frequencies.rotary_dim() == c.required<Index>("rotary_dim"));
  const bool interleaved = is_interleaved(c) || takes_pairs_apart(c);
  c.holds("pairing", interleaved == (settings.pairing == posenc::PairingKind::Interleaved));
  check_inv_freq(c, "inv_freq", frequencies);
  check_float32_inv_freq(c, float32);
  c.check("attention_factor", frequencies.attention_factor(),
          c.parameter<double>("attention_factor", 1), close);
  with_pairing(c, [&, &frequencies = frequencies]<class Pairing>(Pairing) {
    check_float32_cos_sin<Pairing>(c, frequencies, positions_of(c, 0));
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
