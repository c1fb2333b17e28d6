// SPDX-License-Identifier: MIT
// Angles of every preset, against stored values computed by the project.
#include "support/catch.hpp"
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/interop/presets.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace presets_golden_test {

using posenc::Frequencies;
using posenc::Index;
using posenc::RotaryPreset;

namespace {

/// A name or a number.
struct Cell {
  const char* name = nullptr;
  double number = 0;

  constexpr Cell(const char* text) : name(text) {}  // NOLINT: the rows are written plainly
  constexpr Cell(double value) : number(value) {}   // NOLINT
};

constexpr Cell cells[] = {
#include "golden/presets.csv"
};

struct Row {
  static constexpr std::size_t width = 9;

  std::string name, layer;
  Index pair;
  double position, inv_freq, cos, sin, attention_factor, softmax_scale_multiplier;

  explicit Row(const Cell* c)
      : name(c[0].name),
        layer(c[1].name),
        pair(static_cast<Index>(c[2].number)),
        position(c[3].number),
        inv_freq(c[4].number),
        cos(c[5].number),
        sin(c[6].number),
        attention_factor(c[7].number),
        softmax_scale_multiplier(c[8].number) {}
};

std::vector<Row> golden_rows() {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < std::size(cells); i += Row::width) rows.emplace_back(cells + i);
  return rows;
}

}  // namespace

TEST_CASE("presets: rotate as their publications say", "[interop][golden]") {
  STATIC_REQUIRE(std::size(cells) % Row::width == 0);
  // Bound of the oscillator, plus half an ulp of the stored value.
  constexpr double tolerance = 4e-16 + 0x1p-54;
  for (const Row& row : golden_rows()) {
    CAPTURE(row.name, row.layer, row.pair, row.position);
    const Frequencies ours = frequencies(rotary(posenc::presets::model(row.name), row.layer));
    REQUIRE(row.pair < ours.pairs());
    CHECK(ours.inv_freq()[static_cast<std::size_t>(row.pair)] == row.inv_freq);
    CHECK(ours.attention_factor() == row.attention_factor);
    CHECK(ours.softmax_scale_multiplier() == row.softmax_scale_multiplier);
    const auto angle =
        posenc::detail::Oscillator(posenc::detail::exact_inv_freq(ours)).at(row.position, row.pair);
    CHECK(std::abs(angle.cos - row.cos) <= tolerance);
    CHECK(std::abs(angle.sin - row.sin) <= tolerance);
  }
}

TEST_CASE("presets: the stored truth holds every type of layer and the last pair of every preset",
          "[interop][golden]") {
  std::set<std::pair<std::string, std::string>> stored, there;
  for (const Row& row : golden_rows()) stored.insert({row.name, row.layer});
  for (const RotaryPreset& preset : posenc::presets::all()) {
    for (const auto& layer : preset.model.layers) {
      CAPTURE(preset.name, layer.layer_type);
      there.insert({preset.name, layer.layer_type});
      Index last = 0;
      for (const Row& row : golden_rows()) {
        if (row.name == preset.name && row.layer == layer.layer_type) {
          last = std::max(last, row.pair);
        }
      }
      CHECK(last == frequencies(layer.rotary).pairs() - 1);
    }
  }
  CHECK(stored == there);
}

}  // namespace presets_golden_test
