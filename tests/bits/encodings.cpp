// SPDX-License-Identifier: MIT
// Frequencies, tables of cos and sin, rotations, additive encodings, biases, and functions of packs.
#include "sample.hpp"
#include "seeded.hpp"
#include <posenc/additive/grid_resize.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/additive/sinusoidal_2d.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/forget_gates.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/log_cpb.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/window.hpp>
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/dynamic_yarn.hpp>
#include <posenc/frequency/hf_float32.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/longrope.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/ntk_by_parts.hpp>
#include <posenc/frequency/proportional.hpp>
#include <posenc/frequency/two_ramp_ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/vllm_ntk.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/axial.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/tanh.hpp>

#include <Eigen/Core>

#include <concepts>
#include <string>
#include <utility>
#include <vector>

namespace bits {
namespace encodings {
namespace {

using posenc::Frequencies;
using posenc::HalfRotate;
using posenc::Interleaved;
using posenc::Positions;
using posenc::Rope;
using posenc::Unscaled;

template <class T>
void report_values(const std::string& name, const std::vector<T>& values) {
  Hash hash;
  hash.add(values);
  report(name, hash);
}

std::vector<double> numbers(Index count, Random& random, double factor = 1, double least = -2) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = factor * (random.number() + 2 + least);
  return values;
}

// ---- frequencies ----

void report_frequencies_of(const std::string& name, const Frequencies& f) {
  std::vector<double> values = f.inv_freq();
  values.push_back(f.attention_factor());
  values.push_back(f.softmax_scale_multiplier());
  report_values("frequencies/" + name, values);
}

template <class Rule, class... Length>
void report_rule(const Rule& rule, Length... length) {
  report_frequencies_of(posenc::RuleDescription<Rule>::name, posenc::frequencies(rule, length...));
}

void report_frequencies() {
  std::vector<double> divisors;
  // Exact, so that a compiler that fuses product and sum changes nothing.
  for (int i = 0; i < 48; ++i) divisors.push_back(1 + 0.375 * i);
  report_rule(Unscaled{.rotary_dim = 128, .base = 500000});
  report_rule(posenc::LinearScaling{.rotary_dim = 64, .base = 10000, .factor = 3});
  report_rule(posenc::NtkScaling{.rotary_dim = 64, .base = 10000, .factor = 3});
  report_rule(posenc::AlphaNtkScaling{.rotary_dim = 96, .base = 10000, .alpha = 1000});
  report_rule(posenc::VllmNtkScaling{.rotary_dim = 64, .base = 10000, .factor = 3});
  report_rule(
      posenc::VllmMixedNtkScaling{.rotary_dim = 64, .base = 10000, .factor = 3, .mixed_b = 0.625});
  report_rule(posenc::NtkByPartsScaling{
      .rotary_dim = 128, .base = 10000, .factor = 16, .original_max_position = 4096});
  report_rule(posenc::TwoRampNtkScaling{
      .rotary_dim = 128, .base = 10000, .factor = 16, .original_max_position = 4096});
  report_rule(posenc::YarnScaling{
      .rotary_dim = 64, .base = 150000, .factor = 32, .original_max_position = 4096});
  report_rule(posenc::Llama3Scaling{.rotary_dim = 128,
                                    .base = 500000,
                                    .factor = 8,
                                    .low_freq_factor = 1,
                                    .high_freq_factor = 4,
                                    .original_max_position = 8192});
  report_rule(posenc::DivisorScaling{.rotary_dim = 96, .base = 10000, .divisors = divisors});
  report_rule(posenc::ProportionalScaling{
      .head_dim = 512, .base = 1000000, .partial_rotary_factor = 0.25, .factor = 8});
  const posenc::LongRopeScaling longrope{.rotary_dim = 96,
                                         .base = 10000,
                                         .short_factor = std::vector<double>(48, 1.0),
                                         .long_factor = divisors,
                                         .original_max_position = 4096,
                                         .factor = 32};
  report_rule(longrope, Index{100000});
  report_rule(
      posenc::DynamicNtkScaling{
          .rotary_dim = 64, .base = 10000, .factor = 2, .original_max_position = 2048},
      Index{5000});
  report_rule(
      posenc::DynamicYarnScaling{.rotary_dim = 64, .base = 10000, .original_max_position = 2048},
      Index{5000});
  report_frequencies_of(
      "hf_float32", posenc::hf_float32_frequencies(Unscaled{.rotary_dim = 128, .base = 500000}));
  report_frequencies_of("axial", posenc::axial({16, 24, 24}, 10000).frequencies);
  report_frequencies_of(
      "pixels", posenc::frequencies(posenc::PixelFrequencies{.rotary_dim = 32, .max_freq = 10}));
}

// ---- rotations ----

constexpr Index batch = 2, seq = 37, heads = 3;

/// Positions that a token may have: near, at a million, between integers, and far.
std::vector<std::pair<const char*, Positions>> all_positions() {
  std::vector<double> real;
  for (Index s = 0; s < seq; ++s) real.push_back(0.375 * static_cast<double>(s) - 5);
  return {{"near", Positions::range(0, seq)},
          {"million", Positions::starts({1'000'000, 131'072}, seq)},
          {"real", Positions::real(real)},
          {"far", Positions::range(Index{1} << 39, seq)}};
}

template <class Real>
void report_tables(const std::string& type) {
  for (const auto& [where, positions] : all_positions()) {
    for (const auto policy : {posenc::AnglePolicy::Exact, posenc::AnglePolicy::HfFloat32}) {
      const bool exact = policy == posenc::AnglePolicy::Exact;
      const Rope<HalfRotate> rope(
          posenc::YarnScaling{
              .rotary_dim = 90, .base = 10000, .factor = 4, .original_max_position = 4096},
          0, {}, policy);
      const Index rows = positions.batch();
      Heads<Real> cos(rows, seq, 1, 45), sin(rows, seq, 1, 45);
      rope.table_into(positions, cos.tokens_as_rows(), sin.tokens_as_rows(), Threads{});
      Hash hash;
      hash.add(cos.values);
      hash.add(sin.values);
      report("table/" + type + "/" + where + (exact ? "" : "/hf_float32"), hash);
    }
  }
}

template <class Pairing, class T>
void report_rotations(const std::string& name) {
  Hash by_position, by_table, backward;
  for (const Index rotary_dim : {64, 300}) {
    const Rope<Pairing> rope(Unscaled{.rotary_dim = rotary_dim, .base = 500000}, 1);
    for (const auto& [where, positions] : all_positions()) {
      Random random(static_cast<std::uint64_t>(rotary_dim));
      const Heads<T> x(batch, seq, heads, rotary_dim + 3, random);
      auto y = x;
      rope.rotate(y.view(), positions, Threads{});
      by_position.add(y.values);
      y = x;
      rope.template table<posenc::Compute<T>>(positions, Threads{}).rotate(y.view(), Threads{});
      by_table.add(y.values);
      rope.adjoint(y.view(), positions, Threads{});
      backward.add(y.values);
    }
  }
  report("rotation/" + name + "/positions", by_position);
  report("rotation/" + name + "/table", by_table);
  report("rotation/" + name + "/adjoint", backward);
}

template <class In, class Out>
void report_conversion(const std::string& name) {
  Random random(11);
  Heads<In> x(batch, seq, heads, 96, random);
  Heads<Out> y(batch, seq, heads, 96);
  const Rope<HalfRotate> rope(Unscaled{.rotary_dim = 64, .base = 500000});
  rope.rotate_into(x.view(), y.view(), Positions::range(70000, seq), Threads{});
  report_values("rotation/" + name, y.values);
}

template <class T>
void report_other_rotaries(const std::string& type) {
  Random random(12);
  const Heads<T> x(batch, seq, heads, 64, random);
  const auto positions = Positions::starts({3, 1000}, seq);
  const auto report_result = [&](const std::string& name, const auto& call) {
    auto y = x;
    call(y.view());
    report_values("rotation/" + type + "/" + name, y.values);
  };
  const posenc::XPos<Interleaved> xpos(Unscaled{.rotary_dim = 64, .base = 10000},
                                       {.scale_base = 512});
  report_result("xpos_queries", [&](auto y) { xpos.rotate_queries(y, positions, Threads{}); });
  report_result("xpos_keys", [&](auto y) { xpos.rotate_keys(y, positions, Threads{}); });

  const Rope<HalfRotate> from(Unscaled{.rotary_dim = 64, .base = 10000});
  const Rope<HalfRotate> to(posenc::LinearScaling{.rotary_dim = 64, .base = 10000, .factor = 4});
  report_result("shift_keys", [&](auto y) { posenc::shift_keys(y, from, {-5}, Threads{}); });
  report_result("rerotate",
                [&](auto y) { posenc::rerotate(y, from, positions, to, positions, Threads{}); });

  const posenc::MixedRope<Interleaved> mixed(numbers(2 * heads * 32, random),
                                             {.axes = 2, .heads = heads, .rotary_dim = 64});
  report_result("mixed", [&](auto y) {
    mixed.rotate(y, Positions::axes({positions, Positions::starts({7, -9}, seq)}), Threads{});
  });
}

// ---- additive encodings ----

template <class T>
void report_additive(const std::string& type) {
  using posenc::SinusoidalLayout;
  Random random(13);
  const auto positions = Positions::starts({0, 1'000'000}, seq);
  const std::pair<const char*, SinusoidalLayout> layouts[] = {
      {"interleaved", SinusoidalLayout::Interleaved},
      {"concatenated", SinusoidalLayout::Concatenated},
      {"end_inclusive", SinusoidalLayout::ConcatenatedEndInclusive}};
  for (const auto& [layout_name, layout] : layouts) {
    Heads<T> x(batch, seq, 1, 75, random);
    const posenc::Sinusoidal code({.model_dim = 75, .layout = layout, .scale = 0.125});
    code.add_to(x.tokens_as_rows(), positions, Threads{});
    report_values("sinusoidal/" + type + "/" + layout_name, x.values);
  }
  Heads<T> x(1, 35, 1, 64, random);
  const posenc::Sinusoidal2d grid({.model_dim = 64,
                                   .axis_order = posenc::GridAxisOrder::ColumnFirst,
                                   .layout = SinusoidalLayout::Concatenated});
  grid.add_to(x.tokens_as_rows(), Positions::grid(5, 7), Threads{});
  report_values("sinusoidal_2d/" + type, x.values);

  const Heads<T> table(1, 1 + 49, 1, 40, random);
  Heads<T> resized(1, 1 + 60, 1, 40);
  using posenc::ResizeFilter;
  for (const auto& [filter_name, filter] : {std::pair{"bilinear", ResizeFilter::Bilinear},
                                            std::pair{"bicubic", ResizeFilter::Bicubic}}) {
    posenc::resize_grid({table.values.data(), 50, 40, 40}, resized.rows(),
                        {.source = {7, 7}, .target = {6, 10}, .filter = filter, .prefix_tokens = 1},
                        Threads{});
    report_values("grid_resize/" + type + "/" + filter_name, resized.values);
  }
}

// ---- biases ----

constexpr Index bias_heads = 12, rows = 33, cols = 150;

/// Adds the bias of every head to a tile: of consecutive positions, and of positions in no order.
template <class Real, class Bias>
void report_bias(const std::string& name, const Bias& bias, bool at_any_position = true) {
  Random random(14);
  std::vector<double> queries, keys, other_queries, other_keys;
  for (Index i = 0; i < rows; ++i) queries.push_back(static_cast<double>(i + 60));
  for (Index j = 0; j < cols; ++j) keys.push_back(static_cast<double>(j));
  for (Index i = 0; i < rows; ++i) {
    other_queries.push_back(static_cast<double>(random.below(3000)));
  }
  for (Index j = 0; j < cols; ++j) other_keys.push_back(static_cast<double>(random.below(3000)));
  std::vector<Real> tile(static_cast<std::size_t>(rows * cols));
  Hash hash;
  for (Index head = 0; head < bias.heads(); ++head) {
    for (const bool in_order : {true, false}) {
      if (!in_order && !at_any_position) continue;
      for (Real& score : tile) score = static_cast<Real>(random.number());
      bias.add(head, in_order ? queries : other_queries, in_order ? keys : other_keys,
               posenc::MatrixView<Real>{tile.data(), rows, cols, cols});
      hash.add(tile);
    }
  }
  report("bias/" + name, hash);
}

template <class Real>
void report_biases(const std::string& type) {
  using posenc::AlibiForm;
  using posenc::KerpleForm;
  using posenc::T5Direction;
  Random random(15);
  const auto name = [&](const char* of_bias) { return std::string(of_bias) + "/" + type; };
  const auto alibi = [](AlibiForm form) {
    return posenc::Alibi({.heads = bias_heads, .form = form});
  };
  report_bias<Real>(name("alibi_causal"), alibi(AlibiForm::Causal));
  report_bias<Real>(name("alibi_symmetric"), alibi(AlibiForm::Symmetric));

  const auto r1 = numbers(bias_heads, random, 1, 0.1), r2 = numbers(bias_heads, random, 0.4, 0.1);
  const auto kerple = [&](KerpleForm form) { return posenc::Kerple({form, r1, r2}); };
  report_bias<Real>(name("kerple_logarithmic"), kerple(KerpleForm::Logarithmic));
  report_bias<Real>(name("kerple_power"), kerple(KerpleForm::Power));

  posenc::FireParameters parameters{.c = 0.1, .threshold = 64};
  parameters.hidden_weight = numbers(32, random);
  parameters.hidden_bias = numbers(32, random);
  parameters.output_weight = numbers(bias_heads * 32, random);
  parameters.output_bias = numbers(bias_heads, random);
  report_bias<Real>(name("fire"), posenc::Fire(parameters));

  const Heads<float> table(1, 551, 1, bias_heads, random);
  const auto first_rows = [&](Index count) {
    return posenc::MatrixView<const float>{table.values.data(), count, bias_heads, bias_heads};
  };
  const auto t5 = [&](T5Direction direction) {
    return posenc::T5Bias<float>(first_rows(32), {.direction = direction});
  };
  report_bias<Real>(name("t5_bidirectional"), t5(T5Direction::Bidirectional));
  report_bias<Real>(name("t5_causal"), t5(T5Direction::Causal));
  const posenc::WindowConfig window{.rows = 10, .cols = 15};
  report_bias<Real>(
      name("window"),
      posenc::WindowBias<float>(first_rows(posenc::WindowIndex(window).table_rows()), window),
      false);
}

void report_learned_biases() {
  Random random(16);
  posenc::LogCpbParameters parameters;
  parameters.hidden_weight = numbers(2 * 64, random);
  parameters.hidden_bias = numbers(64, random);
  parameters.output_weight = numbers(bias_heads * 64, random, 0.1);
  const posenc::LogCpb network(parameters, {.rows = 7, .cols = 5});
  Heads<double> table(1, network.index().table_rows(), 1, bias_heads);
  network.evaluate(table.rows());
  report_values("bias/log_cpb", table.values);

  const Heads<float> logits(1, 100, 1, bias_heads, random);
  posenc::ForgetGates gates(1, bias_heads);
  gates.append(0, posenc::EmbeddingsView<const float>{logits.values.data(), 1, 100, bias_heads,
                                                      100 * bias_heads, bias_heads});
  Heads<double> sums(1, 100, 1, bias_heads);
  gates.copy_sums(0, 0, sums.tokens_as_rows());
  report_values("bias/forget_gates", sums.values);
}

// ---- functions of packs, of which the softmax and the soft cap are made ----

template <class Real, class F>
void report_function(const std::string& name, double least, double greatest, const F& f) {
  using P = posenc::Pack<Real, posenc::tier::Best>;
  constexpr Index count = 1 << 16;
  std::vector<Real> x(static_cast<std::size_t>(count));
  for (Index n = 0; n < count; ++n) {
    x[static_cast<std::size_t>(n)] =
        static_cast<Real>(least + (greatest - least) * 0x1p-16 * static_cast<double>(n));
  }
  for (Index n = 0; n < count; n += P::width) f(P::load(x.data() + n)).store(x.data() + n);
  report_values("function/" + name, x);
}

template <class Real>
void report_functions(const std::string& type) {
  report_function<Real>("exp/" + type, -80, 80, [](auto x) { return posenc::exp(x); });
  report_function<Real>("exp_nonpositive/" + type, -80, 0,
                        [](auto x) { return posenc::exp_nonpositive(x); });
  report_function<Real>("tanh/" + type, -12, 12, [](auto x) { return posenc::tanh(x); });
}

template <class T>
void report_encodings_of(const std::string& type) {
  if constexpr (takes<T> && !(is_sample && POSENC_BFLOAT16_PRODUCTS)) {
    report_rotations<Interleaved, T>(type + "/interleaved");
    report_rotations<HalfRotate, T>(type + "/half_rotate");
    report_additive<T>(type);
    if constexpr (std::same_as<T, Eigen::bfloat16>) {
      report_conversion<float, T>("float_to_bfloat16");
      report_conversion<T, float>("bfloat16_to_float");
    }
    if constexpr (std::floating_point<T>) {
      report_tables<T>(type);
      report_other_rotaries<T>(type);
      report_biases<T>(type);
      report_functions<T>(type);
    }
  }
}

}  // namespace
}  // namespace encodings

void report_all_encodings() {
  using namespace encodings;
  report_encodings_of<float>("float");
  report_encodings_of<double>("double");
  report_encodings_of<Eigen::half>("half");
  report_encodings_of<Eigen::bfloat16>("bfloat16");
  report_frequencies();
  report_learned_biases();
}

}  // namespace bits
