// SPDX-License-Identifier: MIT
#include "study.hpp"

#include "../tour/files.hpp"
#include "../tour/numbers.hpp"
#include "checkpoint.hpp"
#include "peak.hpp"
#include <posenc/core/build_info.hpp>
#include <posenc/core/error.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numbers>
#include <utility>

namespace study {
namespace {

using tour::cat;

/// Lengths that every model is evaluated at, as multiples of the trained one.
constexpr Index multiples[] = {1, 2, 4, 8};

std::string file_name(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '_');
  return name + ".checkpoint";
}

/// Returns RoPE's further trainings: one under each rule, and one without a rule, which separates
/// the effect of the rule from that of training on longer texts.
std::vector<Scaling> further_scalings() {
  std::vector<Scaling> all = {{"none", [](const Shape& shape, double, Index length) {
                                 return scalings().front().frequencies(shape, 1, length);
                               }}};
  all.insert(all.end(), scalings().begin(), scalings().end());
  return all;
}

}  // namespace

double Study::all_bytes(const Options& options) {
  const Budget& budget = options.budget;
  double bytes = 0;
  for (const std::string& method : options.methods) {
    const Index further = static_cast<Index>(further_scalings().size()) * budget.further_steps();
    bytes += static_cast<double>(budget.steps + (method == "rope" ? further : 0));
  }
  return bytes * static_cast<double>(budget.seeds * budget.batch * budget.shape.length);
}

Results Study::run() {
  const Budget& budget = options_.budget;
  tour::make_folder(options_.out / "checkpoints");
  results_.peak = multiply_add_peak(options_.threads);
  results_.unigram_bits = unigram_bits(text_, held_out(budget.longest()));
  for (Index seed = 1; seed <= budget.seeds; ++seed) {
    for (const std::string& method : options_.methods) {
      const TrainingState state = train({.name = method,
                                         .model = config_of(method),
                                         .seed = seed,
                                         .steps = budget.steps,
                                         .batch = budget.batch,
                                         .length = budget.shape.length,
                                         .rate = budget.rate});
      ask({.method = method, .scaling = "", .seed = seed}, state,
          [](Index) { return std::nullopt; });
      if (seed == 1) see_attention(method, state);
      if (method == "rope") ask_rescaled(seed, state);
    }
  }
  progress_.end();
  return std::move(results_);
}

TrainingState Study::train(const Job& job) {
  const Budget& budget = options_.budget;
  const std::string name = cat(job.name, " ", job.seed);
  const auto path = options_.out / "checkpoints" / file_name(name);
  // Bits of products depend on the instruction set, and so on the build.
  const std::string settings =
      cat(name, ", ", budget.name, ", ", job.steps, " steps of ", job.batch, " x ", job.length,
          ", text ", text_.fingerprint, ", ", posenc::build_info());
  Training training(job.model, options_.threads);
  TrainingState state = training.begin(static_cast<std::uint64_t>(job.seed));
  if (job.begin != nullptr) state.parameters = *job.begin;
  if (options_.resume) {
    if (auto saved = load(path, settings)) state = std::move(*saved);
  }

  const double bytes = static_cast<double>(job.batch * job.length);
  progress_.skip(static_cast<double>(state.step) * bytes);
  progress_.begin(cat(job.name, ", seed ", job.seed), job.steps);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const Index first = state.step;
  auto last_saved = begin;
  while (state.step < job.steps) {
    if (stop_ || steps_done_ == options_.stop_after) {
      save(path, settings, state);
      progress_.end();
      throw Interrupted(cat("stopped in step ", state.step, " of ", job.name, ", seed ", job.seed,
                            "; --resume continues from there"));
    }
    const Windows batch = training_windows(text_, static_cast<std::uint64_t>(job.seed), state.step,
                                           job.batch, job.length);
    const double nats = training.step(batch, learning_rate(job.rate, state.step, job.steps), state);
    ++steps_done_;
    progress_.step(state.step, nats / std::numbers::ln2, bytes);
    if (Clock::now() - last_saved > std::chrono::seconds(30)) {
      save(path, settings, state);
      last_saved = Clock::now();
    }
  }
  if (state.step == first) return state;
  save(path, settings, state);
  Speed& speed = results_.speeds[job.model.method];
  const auto steps = static_cast<double>(state.step - first);
  speed.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  speed.tokens += steps * bytes;
  speed.operations += steps * training.step_operations(job.batch, job.length);
  speed.spent.products += training.spent().products;
  speed.spent.attention += training.spent().attention;
  return state;
}

/// frequencies(length): those of RoPE, if they are not its own.
void Study::ask(Score score, const TrainingState& state,
                const std::function<std::optional<posenc::Frequencies>(Index)>& frequencies) {
  for (const Index multiple : multiples) {
    score.length = multiple * options_.budget.shape.length;
    score.bits.reset();
    Training model(config_of(score.method, frequencies(score.length)), options_.threads);
    try {
      score.bits = model.evaluate(held_out(score.length), state.parameters);
    } catch (const posenc::PositionError& error) {
      if (results_.refusal.empty()) results_.refusal = error.what();
    }
    results_.scores.push_back(score);
  }
}

void Study::ask_rescaled(Index seed, const TrainingState& state) {
  const Budget& budget = options_.budget;
  const Shape& shape = budget.shape;
  for (const Scaling& scaling : scalings()) {
    ask({.method = "rope", .scaling = scaling.name, .seed = seed}, state, [&](Index length) {
      const double factor = static_cast<double>(length) / static_cast<double>(shape.length);
      return scaling.frequencies(shape, factor, length);
    });
  }
  const Index longest = budget.longest(), multiple = longest / shape.length;
  const auto factor = static_cast<double>(multiple);
  for (const Scaling& scaling : further_scalings()) {
    const TrainingState further =
        train({.name = "rope further with " + scaling.name,
               .model = config_of("rope", scaling.frequencies(shape, factor, longest)),
               .seed = seed,
               .steps = budget.further_steps(),
               .batch = budget.batch / multiple,
               .length = longest,
               .rate = budget.rate / 3,
               .begin = &state.parameters});
    ask({.method = "rope", .scaling = scaling.name, .further = true, .seed = seed}, further,
        [&](Index length) { return scaling.frequencies(shape, factor, length); });
  }
}

void Study::see_attention(const std::string& method, const TrainingState& state) {
  // Texts are as long as those of training, which every method supports.
  Windows windows = held_out(options_.budget.shape.length);
  windows.rows = std::min(windows.rows, Index{64});
  Training model(config_of(method), options_.threads);
  results_.attention[method] = model.attention_by_distance(windows, state.parameters);
}

}  // namespace study
