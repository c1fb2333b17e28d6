// SPDX-License-Identifier: MIT
// Model types, pairing and widths of config.json.
#include "hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/hf_config_options.hpp>

#include <nlohmann/json.hpp>

#include <variant>

namespace hf_config_options_test {

using nlohmann::json;
using posenc::PairingKind;
using posenc::read_hf_config;
using posenc::Unscaled;
using support::hf::rotary_config;
using support::hf::with;

namespace {

template <class Rule>
Rule rule_of(const json& of) {
  return std::get<Rule>(rotary(read_hf_config(of)).rule);
}

}  // namespace

TEST_CASE("model_type: decides the pairing", "[interop]") {
  const auto pairing = [](const json& of) { return rotary(read_hf_config(of)).pairing; };
  for (const char* name : {"llama", "mistral", "qwen2", "gemma", "phi", "gpt_neox", "glm4_moe"}) {
    CHECK(pairing(rotary_config(name)) == PairingKind::HalfRotate);
  }
  for (const char* name : {"glm", "glm4", "ernie4_5"}) {
    CHECK(pairing(rotary_config(name)) == PairingKind::Interleaved);
  }
  CHECK(pairing(with(rotary_config("cohere"), {{"rope_theta", 10000}})) ==
        PairingKind::Interleaved);
  CHECK(rotary(read_hf_config(rotary_config("x"), {.pairing = PairingKind::Interleaved,
                                                   .rotary_share = 1,
                                                   .softmax_scale = 0.125}))
            .pairing == PairingKind::Interleaved);
  CHECK(rotary(read_hf_config(rotary_config(), {.pairing = PairingKind::Interleaved})).pairing ==
        PairingKind::Interleaved);
  auto nameless = rotary_config();
  nameless.erase("model_type");
  CHECK(rotary(read_hf_config(
                   nameless,
                   {.pairing = PairingKind::HalfRotate, .rotary_share = 1, .softmax_scale = 0.125}))
            .pairing == PairingKind::HalfRotate);
}

TEST_CASE("read_hf_config widths: names of widths", "[interop]") {
  CHECK(rotary(read_hf_config(rotary_config())).head_dim == 128);
  CHECK(rotary(read_hf_config(with(rotary_config(), {{"head_dim", 64}}))).head_dim == 64);
  CHECK(rotary(read_hf_config(with(rotary_config(), {{"head_dim", nullptr}}))).head_dim == 128);
  CHECK(rotary(read_hf_config(rotary_config("gemma"))).head_dim == 256);
  CHECK(rule_of<Unscaled>(with(rotary_config(), {{"partial_rotary_factor", 0.25}})).rotary_dim ==
        32);
  CHECK(rule_of<Unscaled>(with(rotary_config(), {{"rotary_pct", 0.5}})).rotary_dim == 64);
  CHECK(rule_of<Unscaled>(with(rotary_config(), {{"rotary_dim", 48}})).rotary_dim == 48);
  CHECK(rule_of<Unscaled>(rotary_config("phi")).rotary_dim == 64);
  CHECK(rule_of<Unscaled>(rotary_config("gpt_neox")).rotary_dim == 32);
  for (const char* key : {"max_seq_len", "n_positions", "seq_length"}) {
    auto other = rotary_config();
    other.erase("max_position_embeddings");
    other[key] = 77;
    CHECK(read_hf_config(other).trained_length == 77);
  }
}

// Without the check such a share was converted to an integer that cannot hold it.
TEST_CASE("partial_rotary_factor: a share beyond the head is rejected in every place",
          "[interop]") {
  const json dict = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  const json turned = with(dict, {{"partial_rotary_factor", 1e300}});
  const json nested = {{"main", turned}, {"compress", dict}};
  const json latent = {{"qk_nope_head_dim", 64},
                       {"qk_rope_head_dim", 64},
                       {"v_head_dim", 64},
                       {"rope_parameters", turned}};
  for (const json& of : {with(rotary_config(), {{"partial_rotary_factor", 1e300}}),
                         with(rotary_config("deepseek_v4"), {{"partial_rotary_factor", 1e300}}),
                         with(rotary_config("deepseek_v4"), {{"rope_parameters", nested}}),
                         with(rotary_config("mistral4"), latent)}) {
    INFO(of.dump());
    CHECK_THROWS_MATCHES(read_hf_config(of), posenc::ConfigError,
                         Catch::Matchers::Message("posenc::read_hf_config: partial_rotary_factor "
                                                  "must lie in (0, 1] but is 1e+300"));
  }
}

}  // namespace hf_config_options_test
