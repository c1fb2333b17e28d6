// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/rotation.hpp"

#include <cmath>
#include <concepts>
#include <string>
#include <utility>
#include <vector>

namespace conformance {
namespace {

/// Checks the bounds of the oscillator: double results within 4e-16 for angles up to 2^40, and
/// within 1e-15 up to 2^50. Float results may be half an ulp worse.
template <class T>
Allowed promise(const posenc::Positions& positions, std::vector<double> inv_freq) {
  return [&positions, w = std::move(inv_freq)](std::size_t index, double expected, double) {
    const double position = positions.at(0, static_cast<Index>(index / w.size()));
    const double angle = std::abs(position * w[index % w.size()]);
    const double rounding =
        std::same_as<T, float>
            ? 0.5 * static_cast<double>(support::ulp_of(static_cast<float>(expected)))
            : 0;
    return rounding + (angle <= 0x1p40 ? 4e-16 : 1e-15);
  };
}

template <class T>
void check_truth(Case& c, const posenc::Frequencies& frequencies,
                 const posenc::Positions& positions, const std::string& suffix) {
  // A table does not depend on the pairing.
  const posenc::Rope<posenc::HalfRotate> rope(frequencies);
  const auto table = rope.table<T>(positions);
  const auto allowed = promise<T>(positions, frequencies.inv_freq());
  const auto check = [&](const std::string& name, posenc::EmbeddingsView<const T> values) {
    if (!c.expects(name)) return;
    Array<T> all({values.seq, values.dim});
    for (Index s = 0; s < values.seq; ++s) {
      std::copy_n(values.row(0, s), values.dim, all.data.data() + s * values.dim);
    }
    c.check(name, all, allowed, std::same_as<T, float> ? "float " : "");
  };
  check("cos" + suffix, table.cos());
  check("sin" + suffix, table.sin());
}

}  // namespace

void run_truth(Case& c) {
  c.knows_feature({"base", "dim"});
  const auto positions = positions_of(c, 0);
  const auto frequencies = posenc::frequencies(
      posenc::Unscaled{.rotary_dim = c.required<Index>("dim"), .base = c.required<double>("base")});
  Array<double> inv_freq({frequencies.pairs()});
  const auto rounded = frequencies.inv_freq();
  std::copy(rounded.begin(), rounded.end(), inv_freq.data.begin());
  if (c.expects("inv_freq")) c.check("inv_freq", inv_freq, Allowed(Tolerance{}));
  in_both_precisions([&]<class T>() { check_truth<T>(c, frequencies, positions, ""); });

  if (!c.has("inv_freq_float32")) return;
  const auto given = c.read<double>("inv_freq_float32");
  const auto own = posenc::Frequencies::from_inv_freq(
      {given.data.data(), static_cast<std::size_t>(given.size())});
  in_both_precisions([&]<class T>() { check_truth<T>(c, own, positions, "_of_float32_inv_freq"); });
}

}  // namespace conformance
