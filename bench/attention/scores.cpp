// SPDX-License-Identifier: MIT
// Cost of a bias with learned parameters, dropout or sinks on top of a prompt's time.
#include "../support/random_values.hpp"
#include "cases.hpp"
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>

#include <string>

namespace {

using bench::Index, bench::Options, bench::random_values, bench::Tokens;

constexpr bench::AttentionModel model = bench::llama3_8b;
constexpr Index seq = 1024;

/// Measures the same prompt with a bias, or with options that change(options).
template <class Bias, class Change>
void variant(benchmark::State& state, const Bias& bias, const Change& change) {
  Tokens tokens(model, seq, seq);
  Options options = tokens.causal();
  change(options);
  bench::variant_case(state, tokens, bench::causal_work(seq, seq), options, bias);
}

template <class Bias>
void with_bias(benchmark::State& state, const Bias& bias) {
  variant(state, bias, [](Options&) {});
}

void t5(benchmark::State& state) {
  const auto table = random_values<float>(32 * model.heads, -1, 1);
  with_bias(state, posenc::T5Bias<float>({table.data(), 32, model.heads, model.heads},
                                         {.direction = posenc::T5Direction::Causal}));
}

void kerple(benchmark::State& state, posenc::KerpleForm form) {
  with_bias(state, posenc::Kerple({.form = form,
                                   .r1 = random_values<double>(model.heads, 0.1, 2),
                                   .r2 = random_values<double>(model.heads, 0.1, 1)}));
}

void fire(benchmark::State& state) {
  constexpr Index width = 32;
  with_bias(state,
            posenc::Fire({.c = 0.1,
                          .threshold = 512,
                          .hidden_weight = random_values<double>(width, -1, 1),
                          .hidden_bias = random_values<double>(width, -1, 1),
                          .output_weight = random_values<double>(model.heads * width, -0.2, 0.2),
                          .output_bias = random_values<double>(model.heads, -0.2, 0.2)}));
}

void dropout(benchmark::State& state) {
  variant(state, posenc::NoBias(), [](Options& options) { options.dropout = {0.1, 1}; });
}

void sinks(benchmark::State& state) {
  const auto values = random_values<float>(model.heads, -1, 1);
  variant(state, posenc::NoBias(), [&](Options& options) { options.sinks = values; });
}

void add_scores() {
  using benchmark::State;
  using posenc::KerpleForm;
  const std::string prefill = std::string("attention/") + model.name + "/prefill_1024/";
  bench::add(prefill + "t5", t5);
  bench::add(prefill + "kerple_logarithmic",
             [](State& state) { kerple(state, KerpleForm::Logarithmic); });
  bench::add(prefill + "kerple_power", [](State& state) { kerple(state, KerpleForm::Power); });
  bench::add(prefill + "fire", fire);
  bench::add(prefill + "dropout", dropout);
  bench::add(prefill + "sinks", sinks);
}

const bool added = (add_scores(), true);

}  // namespace
