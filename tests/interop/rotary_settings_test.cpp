// SPDX-License-Identifier: MIT
// Settings give frequencies and rotations; wrong ones are rejected.
#include "support/catch.hpp"
#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/presets.hpp>
#include <posenc/tensor/eigen.hpp>

#include <algorithm>
#include <string>

namespace rotary_settings_test {

using Catch::Matchers::Message;
using posenc::ConfigError;
using posenc::Index;
using posenc::ModelSettings;
using posenc::PairingKind;
using posenc::RotarySettings;
using posenc::Unscaled;
namespace presets = posenc::presets;

namespace {

using Heads = Eigen::Tensor<float, 4, Eigen::RowMajor>;

const RotarySettings plain{.rule = Unscaled{.rotary_dim = 64, .base = 10000},
                           .pairing = PairingKind::HalfRotate,
                           .head_dim = 96,
                           .rotary_offset = 32};

template <class Change>
void check_rejected(const Change& change, const std::string& message) {
  CHECK_NOTHROW(frequencies(plain));
  RotarySettings settings = plain;
  change(settings);
  CHECK_THROWS_MATCHES(frequencies(settings), ConfigError, Message("posenc::" + message));
}

template <class Rope>
Heads rotated(const Rope& rope, const posenc::Positions& positions, Index head_dim) {
  Heads x(1, 3, 2, head_dim);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i % 13) - 6;
  rope.rotate(posenc::bshd(x), positions);
  return x;
}

bool same(const Heads& a, const Heads& b) {
  return std::equal(a.data(), a.data() + a.size(), b.data(), b.data() + b.size());
}

}  // namespace

TEST_CASE("RotarySettings: settings make the rope that they describe", "[interop]") {
  const posenc::Rope<posenc::HalfRotate> half(Unscaled{.rotary_dim = 64, .base = 10000}, 32);
  const auto positions = posenc::Positions::range(5, 3);
  CHECK(same(rotated(rope(plain), positions, 96), rotated(half, positions, 96)));
  CHECK(same(rotated(rope(plain, 77), positions, 96), rotated(half, positions, 96)));

  RotarySettings neighbours = plain;
  neighbours.pairing = PairingKind::Interleaved;
  const posenc::Rope<posenc::Interleaved> interleaved(Unscaled{.rotary_dim = 64, .base = 10000},
                                                      32);
  CHECK(same(rotated(rope(neighbours), positions, 96), rotated(interleaved, positions, 96)));
  CHECK_FALSE(same(rotated(rope(neighbours), positions, 96), rotated(half, positions, 96)));
}

TEST_CASE("RotarySettings: settings on several axes and in halves keep their form", "[interop]") {
  CHECK(rope(presets::model("qwen2_vl_2b")).axis_count() == 3);
  CHECK(rope(presets::model("chatglm_6b")).axis_count() == 2);
  CHECK(rope(presets::model("chatglm_6b")).rotary_dim() == 128);
  CHECK(rope(presets::model("deepseek_v3")).rotary_offset() == 128);
  CHECK(rope(presets::model("deepseek_v3")).softmax_scale_multiplier() ==
        Approx(1.8739).epsilon(1e-4));
}

TEST_CASE("RotarySettings: an index that begins anew on every axis makes ropes side by side",
          "[interop]") {
  RotarySettings settings{.rule = Unscaled{.rotary_dim = 128, .base = 10000},
                          .pairing = PairingKind::Interleaved,
                          .head_dim = 128,
                          .axes = posenc::PairAxes::sections({8, 28, 0, 28}),
                          .index_per_axis = true};
  const auto all = frequencies(settings);
  const auto w = posenc::detail::exact_inv_freq(all);
  const auto narrow = frequencies(Unscaled{.rotary_dim = 16, .base = 10000});
  const auto wide = frequencies(Unscaled{.rotary_dim = 56, .base = 10000});
  REQUIRE(w.size() == 64);
  for (std::size_t i = 0; i < 8; ++i) CHECK(w[i] == posenc::detail::exact_inv_freq(narrow)[i]);
  for (std::size_t i = 0; i < 28; ++i) {
    CHECK(w[8 + i] == posenc::detail::exact_inv_freq(wide)[i]);
    CHECK(w[36 + i] == posenc::detail::exact_inv_freq(wide)[i]);
  }
  const auto in_float = posenc::hf_float32_frequencies(settings, 1);
  CHECK(in_float.inv_freq()[35] ==
        posenc::hf_float32_frequencies(Unscaled{.rotary_dim = 56, .base = 10000}).inv_freq()[27]);
  // Alternating axes: Lumina's first version.
  std::vector<Index> in_turn;
  for (Index i = 0; i < 64; ++i) in_turn.push_back(i % 2);
  settings.axes = posenc::PairAxes(2, in_turn);
  const auto mixed = frequencies(settings);
  const auto turns = posenc::detail::exact_inv_freq(mixed);
  const auto half = frequencies(Unscaled{.rotary_dim = 64, .base = 10000});
  for (std::size_t i = 0; i < 64; ++i)
    CHECK(turns[i] == posenc::detail::exact_inv_freq(half)[i / 2]);
}

TEST_CASE("RotarySettings: rules that depend on the length ask for it", "[interop]") {
  RotarySettings dynamic = plain;
  dynamic.rule = posenc::DynamicNtkScaling{
      .rotary_dim = 64, .base = 10000, .factor = 2, .original_max_position = 4096};
  CHECK(depends_on_length(dynamic));
  CHECK_FALSE(depends_on_length(plain));
  CHECK_THROWS_MATCHES(
      rope(dynamic), ConfigError,
      Message("posenc::frequencies: this rule's frequencies depend on the length of the sequence, "
              "which must be set"));
  CHECK(frequencies(dynamic, 4096) == frequencies(plain));
  CHECK_FALSE(frequencies(dynamic, 8192) == frequencies(plain));
  CHECK_THROWS_AS(frequencies(dynamic, -1), posenc::PositionError);
}

TEST_CASE("RotarySettings: the float32 pipeline is chosen by name", "[interop]") {
  using posenc::AnglePolicy;
  const posenc::Rope<posenc::HalfRotate> expected(
      posenc::hf_float32_frequencies(Unscaled{.rotary_dim = 64, .base = 10000}), 32, {},
      AnglePolicy::HfFloat32);
  const auto far = posenc::Positions::range(100001, 3);
  const Heads in_float = rotated(rope(plain, 0, AnglePolicy::HfFloat32), far, 96);
  CHECK(same(in_float, rotated(expected, far, 96)));
  CHECK_FALSE(same(in_float, rotated(rope(plain), far, 96)));

  RotarySettings other = plain;
  other.rule = posenc::VllmNtkScaling{.rotary_dim = 64, .base = 10000, .factor = 2};
  CHECK_THROWS_MATCHES(rope(other, 0, AnglePolicy::HfFloat32), ConfigError,
                       Message("posenc::hf_float32_frequencies: Hugging Face has no float32 "
                               "pipeline for this rule"));
}

TEST_CASE("RotarySettings: invalid settings are rejected", "[interop]") {
  check_rejected([](auto& s) { s.rule = {}; }, "RotarySettings: rule must be set");
  check_rejected([](auto& s) { s.pairing.reset(); }, "RotarySettings: pairing must be set");
  const std::string head =
      "RotarySettings: head_dim must be set and lie between 1 and 65536, but is ";
  check_rejected([](auto& s) { s.head_dim = 0; }, head + "0");
  check_rejected([](auto& s) { s.head_dim = -96; }, head + "-96");
  check_rejected([](auto& s) { s.head_dim = 65537; }, head + "65537");
  check_rejected([](auto& s) { s.rotary_offset = 33; },
                 "RotarySettings: rotary_offset 33 and rotary_dim 64 do not fit into head_dim 96");
  check_rejected([](auto& s) { s.rotary_offset = -2; },
                 "RotarySettings: rotary_offset -2 and rotary_dim 64 do not fit into head_dim 96");
  check_rejected([](auto& s) { s.rule = Unscaled{.rotary_dim = 128, .base = 10000}; },
                 "RotarySettings: rotary_offset 32 and rotary_dim 128 do not fit into head_dim 96");
  check_rejected(
      [](auto& s) { s.rule = Unscaled{.rotary_dim = Index{1} << 62, .base = 10000}; },
      "RotarySettings: rotary_offset 32 and rotary_dim 4611686018427387904 do not fit into "
      "head_dim 96");
  check_rejected(
      [](auto& s) {
        s.axes = posenc::mrope_chunked({16, 24, 24});
      },
      "RotarySettings: the table of axes is for 64 pairs but there are frequencies for 32");
  check_rejected([](auto& s) { s.rule = Unscaled{.rotary_dim = 64}; },
                 "Unscaled: base must be set, finite and greater than 1, but is 0");
  const std::string anew = "RotarySettings: index_per_axis requires axes and the rule Unscaled";
  check_rejected([](auto& s) { s.index_per_axis = true; }, anew);
  check_rejected(
      [](auto& s) {
        s.rule = posenc::LinearScaling{.rotary_dim = 64, .base = 10000, .factor = 2};
        s.axes = posenc::PairAxes::sections({16, 16});
        s.index_per_axis = true;
      },
      anew);
  check_rejected(
      [](auto& s) {
        s.rule = Unscaled{.rotary_dim = 63, .base = 10000};
        s.axes = posenc::PairAxes::sections({15, 16});
        s.index_per_axis = true;
      },
      "RotarySettings: rotary_dim must be even and at least 2 but is 63");
  check_rejected(
      [](auto& s) { s.chatglm_halves = true; },
      "RotarySettings: chatglm_halves requires half pairing, no axes, no rotary_offset, and a "
      "rule for head_dim / 2 channels, not 64 of 96");
}

}  // namespace rotary_settings_test
