// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/rotation.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace conformance {
namespace {

posenc::Frequencies given(const std::vector<double>& inv_freq) {
  return posenc::Frequencies::from_inv_freq(inv_freq);
}

/// The module's frequencies, its "freqs" parameter; interpolation is not part of them.
posenc::Frequencies frequencies_of(Case& c) {
  if (const auto custom = c.parameter<std::vector<double>>("custom_freqs")) return given(*custom);
  if (const auto count = c.parameter<std::size_t>("num_freqs")) {
    return given(std::vector<double>(*count, 1.0));
  }
  if (c.has("freqs")) {
    const auto freqs = c.read<double>("freqs");
    return given({freqs.data.begin(), freqs.data.end()});
  }
  const Index dim = c.required<Index>("dim");
  const double theta = c.parameter<double>("theta", 10000);
  if (const auto rescale = c.parameter<double>("theta_rescale_factor")) {
    return posenc::frequencies(
        posenc::NtkScaling{.rotary_dim = dim, .base = theta, .factor = *rescale});
  }
  return posenc::frequencies(posenc::Unscaled{.rotary_dim = dim, .base = theta});
}

Index length_of_keys(const Case& c) {
  const auto& shape = c.shape("k");
  return named_axes(shape, c.parameter<std::string>("layout", "(batch, heads, seq, dim)"))["seq"]
      .extent;
}

/// Positions count from "offset"; those of queries that follow cached keys end with the keys.
posenc::Positions position_of_tokens(Case& c, const std::string& input, Index seq) {
  double first = c.parameter<double>("offset", 0);
  if (c.is_about("cached") && input == "q") {
    first += static_cast<double>(length_of_keys(c) - seq);
  }
  const double factor = c.parameter<double>("interpolate_factor", 1);
  if (factor == 1) return positions_from(first, seq);
  std::vector<double> positions;
  for (Index s = 0; s < seq; ++s) {
    positions.push_back((first + static_cast<double>(s)) / factor);
  }
  return posenc::Positions::real(positions);
}

}  // namespace

void run_lucidrains(Case& c) {
  for (const char* word : {"axial", "xpos", "pixel"}) {
    if (c.is_about(word)) throw NotSupported(std::string(word) + " frequencies");
  }
  c.knows({"lucidrains", "lang", "partial", "offset", "seq", "before", "head", "theta", "cached",
           "keys", "interpolate", "factor", "rescale", "custom", "freqs", "constant", "learned",
           "freq", "grad"},
          {"dim", "head_dim", "theta", "offset", "layout", "interpolate_factor",
           "theta_rescale_factor", "custom_freqs", "num_freqs", "start_index"});
  const auto frequencies = frequencies_of(c);
  check_inv_freq(c, "freqs_parameter", frequencies);
  const posenc::Rope<posenc::Interleaved> rope(frequencies, c.parameter<Index>("start_index", 0));
  in_both_precisions([&]<class T>() {
    check_rotations<T>(
        c, rope,
        [&c](const std::string& input, Index seq) { return position_of_tokens(c, input, seq); },
        c.parameter<std::string>("layout", ""));
  });
}

}  // namespace conformance
