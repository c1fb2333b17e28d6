// SPDX-License-Identifier: MIT
// Rules that stretch RoPE's wavelengths, so that a model can read longer texts than in training.
#include "chapters.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <cmath>

namespace tour::scaling {

namespace {

constexpr Index rotary_dim = 128, trained = 4096, extended = 16384;
constexpr double base = 10000, factor = 4;
const double turn = 2 * std::acos(-1.0);

struct Rule {
  std::string name;
  posenc::Frequencies frequencies;
};

/// Returns the rules, plain RoPE first.
std::vector<Rule> rules() {
  const posenc::DynamicNtkScaling dynamic{
      .rotary_dim = rotary_dim, .base = base, .factor = factor, .original_max_position = trained};
  // excerpt: scaled_wavelengths
  const posenc::YarnScaling yarn{
      .rotary_dim = rotary_dim, .base = base, .factor = factor, .original_max_position = trained};
  // end of excerpt
  return {{"none", frequencies(posenc::Unscaled{.rotary_dim = rotary_dim, .base = base})},
          {"linear", frequencies(posenc::LinearScaling{
                         .rotary_dim = rotary_dim, .base = base, .factor = factor})},
          {"NTK-aware", frequencies(posenc::NtkScaling{
                            .rotary_dim = rotary_dim, .base = base, .factor = factor})},
          {"dynamic NTK at length 16384", frequencies(dynamic, extended)},
          {"YaRN", frequencies(yarn)}};
}

Eigen::ArrayXd inv_freq(const Rule& rule) {
  const std::vector<double> w = rule.frequencies.inv_freq();
  return Eigen::Map<const Eigen::ArrayXd>(w.data(), static_cast<Index>(w.size()));
}

/// Returns the number of pairs that make less than one rotation in training and exceed their
/// largest trained angle at the extended length. (A pair that made a full rotation has had every
/// angle.)
Index untrained_pairs(const Rule& plain, const Rule& rule) {
  const Eigen::ArrayXd seen = inv_freq(plain) * static_cast<double>(trained - 1);
  const Eigen::ArrayXd reached = inv_freq(rule) * static_cast<double>(extended - 1);
  constexpr double rounding = 1 + 1e-3;
  return (seen < turn && reached > rounding * seen).count();
}

/// Returns the largest ratio of an angle of those pairs to the largest trained one.
double largest_excess(const Rule& plain, const Rule& rule) {
  const Eigen::ArrayXd seen = inv_freq(plain) * static_cast<double>(trained - 1);
  const Eigen::ArrayXd reached = inv_freq(rule) * static_cast<double>(extended - 1);
  return (seen < turn).select(reached / seen, 0).maxCoeff();
}

/// Returns the number of pairs that keep their trained frequency to within 0.1 %.
Index kept_pairs(const Rule& plain, const Rule& rule) {
  return ((inv_freq(rule) / inv_freq(plain) - 1).abs() < 1e-3).count();
}

std::string plot_all(const std::vector<Rule>& all, const std::string& block,
                     const std::string& style) {
  std::string plot = "plot ";
  for (std::size_t i = 0; i < all.size(); ++i) {
    plot +=
        cat(i == 0 ? "data" : ", \\\n  ''", " index '", block, "' using 0:", i + 1, " with ", style,
            all[i].name == "YaRN" ? " dt (12, 8) lw 2.5" : "", " title '", all[i].name, "'");
  }
  return plot + "\n";
}

Figure wavelength_picture(const std::vector<Rule>& all) {
  Eigen::MatrixXd columns(rotary_dim / 2, static_cast<Index>(all.size()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    // excerpt: scaled_wavelengths
    columns.col(static_cast<Index>(i)) = turn / inv_freq(all[i]);  // 2 pi / frequencies(rule)
    // end of excerpt
  }
  Figure figure{.name = "scaled_wavelengths",
                .title = "Wavelengths of RoPE's pairs before and after scaling",
                .height = 480,
                .blocks = {{"wavelengths", columns}}};
  figure.commands =
      R"(set title 'Wavelengths before and after scaling by 4: 128 channels, base 10000, L = 4096'
set xlabel 'pair i'
set ylabel 'wavelength, positions per rotation'
set logscale y
set format y '10^{%T}'
set xrange [-1:64]
set yrange [3:2e6]
set grid lc '#dddddd'
set key bottom right title 'scaling'
set arrow from -1,4096 to 64,4096 nohead lc '#000000' dt 2
set arrow from -1,16384 to 64,16384 nohead lc '#000000' dt 3
set label 'trained length L = 4,096' at 0,5800 front
set label 'extended length 16,384' at 0,23000 front
)" + plot_all(all, "wavelengths", "lines");
  return figure;
}

Figure angle_picture(const std::vector<Rule>& all) {
  Eigen::MatrixXd columns(rotary_dim / 2, static_cast<Index>(all.size()));
  // excerpt: angles_past_training
  const Eigen::ArrayXd seen = inv_freq(all[0]) * static_cast<double>(trained - 1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    columns.col(static_cast<Index>(i)) =
        inv_freq(all[i]) * static_cast<double>(extended - 1) / seen;
  }
  // end of excerpt
  const auto first_slow = static_cast<double>((seen >= turn).count()) - 0.5;
  Figure figure{.name = "angles_past_training",
                .title = "Largest angle at the extended length over the largest trained angle",
                .height = 480,
                .blocks = {{"angles", columns}}};
  figure.commands =
      cat("set object 1 rectangle from ", first_slow,
          ",0.2 to 64,1.03 behind fs solid 0.25 noborder fc '#009e73'\n",
          "set object 2 rectangle from ", first_slow,
          ",1.03 to 64,5.5 behind fs solid 0.15 noborder fc '#d55e00'\n") +
      R"(set title 'Angle at position 16,383 / largest angle in training (position 4,095)'
set xlabel 'pair i'
set ylabel 'ratio of angles'
set logscale y 2
set xrange [-1:64]
set yrange [0.2:5.5]
set ytics (0.25, 0.5, 1, 2, 4)
set grid y lc '#dddddd'
set key bottom left reverse Left title 'scaling'
set label 'untrained angles' at 63,3.4 right front
set label 'trained angles' at 63,0.85 right front
set label 'pairs with full rotations in training' at 22,4.8 center front
)" + plot_all(all, "angles", "lines");
  return figure;
}

}  // namespace

void show_wavelengths(Tour& tour) {
  const std::vector<Rule> all = rules();
  const Eigen::ArrayXd plain = inv_freq(all[0]);
  Table table{cat("Frequencies after scaling by ", factor, ", as a share of the plain ones"),
              {"scaling", "pair 0", "pair 21", "pair 32", "pair 46", "pair 63", "attention factor"},
              {}};
  for (const Rule& rule : all) {
    const Eigen::ArrayXd ratio = inv_freq(rule) / plain;
    table.rows.push_back({rule.name});
    for (const Index pair : {0, 21, 32, 46, 63}) {
      table.rows.back().push_back(fixed(ratio(pair), 3));
    }
    table.rows.back().push_back(fixed(rule.frequencies.attention_factor(), 4));
  }
  tour.report.paragraph(
      "Here a model trained on L = 4096 positions reads 16384. Each rule is a struct of settings. "
      "`frequencies(rule)` evaluates it, and `Rope` accepts either. Linear divides every "
      "frequency. "
      "NTK-aware raises the base: it keeps the fastest pair and divides the last. Dynamic NTK does "
      "so "
      "for the current length, here with the factor as Hugging Face reads it. YaRN keeps pairs "
      "with "
      "more than 32 rotations in L, divides those with less than one, interpolates in between, and "
      "multiplies cos and sin by an attention factor.");
  tour.report.table(table);
  tour.report.picture(wavelength_picture(all),
                      cat("Linear makes every wavelength 4 times as long. NTK-aware keeps that of "
                          "pair 0 and makes pair "
                          "63's ",
                          fixed(plain(63) / inv_freq(all[2])(63), 3),
                          " times as long. YaRN follows the plain line for its first ",
                          kept_pairs(all[0], all[4]), " pairs and the linear one from pair ",
                          ((inv_freq(all[4]) / plain - 1 / factor).abs() > 1e-9).count(), " on."));
}

void show_angles_past_training(Tour& tour) {
  const std::vector<Rule> all = rules();
  Table table{cat("A model trained on ", grouped(trained), " positions, at ", grouped(extended),
                  ", of ", rotary_dim / 2, " pairs"),
              {"scaling", "pairs that reach new angles", "pairs as trained",
               "rotation of the fastest pair per position"},
              {}};
  for (const Rule& rule : all) {
    table.rows.push_back({rule.name, cat(untrained_pairs(all[0], rule)),
                          cat(kept_pairs(all[0], rule)),
                          cat(fixed(inv_freq(rule)(0), 2), " radians")});
  }
  tour.report.paragraph(
      "Beyond the trained length a slow pair reaches angles that do not occur in training. A pair "
      "with "
      "at least one full rotation in training has had all angles. A rule should therefore slow "
      "down "
      "the slow pairs and keep the fast ones, which distinguish adjacent positions.");
  tour.report.table(table);
  tour.report.picture(
      angle_picture(all),
      cat("The right part has the pairs without a full rotation in training. Without "
          "scaling all ",
          untrained_pairs(all[0], all[0]), " of them rise to ",
          fixed(largest_excess(all[0], all[0]), 2),
          " times the largest trained angle; with linear scaling ", untrained_pairs(all[0], all[1]),
          " stay above it, with YaRN ", untrained_pairs(all[0], all[4]), ". NTK-aware leaves ",
          untrained_pairs(all[0], all[2]), " of them somewhat above, up to ",
          fixed(largest_excess(all[0], all[2]), 2),
          " times. The cost of linear scaling is on the left: it slows the fast pairs too, to a "
          "quarter "
          "of their speed."));
}

}  // namespace tour::scaling
