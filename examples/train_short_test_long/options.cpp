// SPDX-License-Identifier: MIT
#include "options.hpp"

#include "../tour/error.hpp"
#include "../tour/numbers.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <string_view>

namespace study {
namespace {

using tour::cat;
using tour::UsageError;

Index number_from(const std::string& name, const std::string& text, Index least, Index most) {
  Index number{};
  std::istringstream in(text);
  if (!(in >> number) || in.peek() != std::istringstream::traits_type::eof() || number < least ||
      number > most) {
    throw UsageError(cat(name, " needs a number from ", least, " to ", most, ", not ", text));
  }
  return number;
}

Budget budget_from(const std::string& name) {
  if (name == "default") return {.name = name, .shape = {}};
  if (name == "long") return {.name = name, .shape = {}, .seeds = 3, .held_out_bytes = 262144};
  if (name == "smoke") {
    return {.name = name,
            .shape = {.layers = 1, .width = 32, .heads = 2, .length = 32},
            .batch = 8,
            .steps = 100,
            .held_out_bytes = 4096,
            .rate = 1e-2};
  }
  throw UsageError("--budget needs smoke, default or long, not " + name);
}

std::vector<std::string> methods_from(const std::string& list) {
  std::vector<std::string> chosen;
  std::istringstream in(list);
  for (std::string method; std::getline(in, method, ',');) {
    const auto& all = methods();
    if (std::find(all.begin(), all.end(), method) == all.end()) {
      throw UsageError(cat("--methods: there is no method ", method));
    }
    chosen.push_back(method);
  }
  return chosen;
}

constexpr std::array<std::string_view, 6> valued{"--text",    "--budget", "--methods",
                                                 "--threads", "--out",    "--stop-after"};

}  // namespace

std::string usage() {
  std::string all;
  for (const std::string& method : methods()) all += (all.empty() ? "" : ",") + method;
  return cat(R"(train_short_test_long [options]

Trains small language models that differ only in their positional encoding, on bytes of text, and evaluates them on
texts up to 8 times as long as in training.

  --text PATH      a file, or a folder with all its files; may be repeated. Default: the headers of Eigen
  --budget NAME    smoke: a test of some seconds; default: 2 layers of width 64, one seed, some minutes; long: the same
                   with three seeds
  --methods A,B    of )",
             all, R"(
  --threads N      from 1 to 4; default 2. The number changes no bit of the results
  --out DIR        folder for results and checkpoints; default build/study, where the tour searches them
  --resume         continue from the checkpoints in DIR, with the same bits
  --help           this text

Ctrl-C saves and stops. The exit status is 0; 1 if a file cannot be read or written, or a model learns nothing; 2 if the
command line is invalid; 130 after Ctrl-C.
)");
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  options.budget = budget_from("default");
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    if (name == "--resume") {
      options.resume = true;
      continue;
    }
    if (std::find(valued.begin(), valued.end(), name) == valued.end()) {
      throw UsageError("unknown option " + name);
    }
    if (++i == arguments.size() || arguments[i].empty()) throw UsageError(name + " needs a value");
    const std::string& value = arguments[i];
    if (name == "--text") {
      options.text.emplace_back(value);
    } else if (name == "--budget") {
      options.budget = budget_from(value);
    } else if (name == "--methods") {
      options.methods = methods_from(value);
    } else if (name == "--threads") {
      options.threads = static_cast<int>(number_from(name, value, 1, 4));
    } else if (name == "--out") {
      options.out = value;
    } else {
      options.stop_after = number_from(name, value, 0, std::numeric_limits<int>::max());
    }
  }
  if (options.methods.empty()) options.methods = methods();
  return options;
}

}  // namespace study
