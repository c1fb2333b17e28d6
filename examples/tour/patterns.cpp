// SPDX-License-Identifier: MIT
// Attention weights over the words of the text, with each encoding.
#include "chapters.hpp"
#include "layer.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <cmath>

namespace tour {

namespace {

constexpr Index shown = 24, near = 2;

/// Mean over the queries of the weight on keys at most `near` positions away, themselves left out.
double weight_nearby(const Eigen::MatrixXd& weights) {
  double sum = 0;
  for (Index i = 0; i < shown; ++i) {
    for (Index j = 0; j < shown; ++j) {
      if (i != j && std::abs(i - j) <= near) sum += weights(i, j);
    }
  }
  return sum / shown;
}

/// ('the' 0, ...): single quotes, in which gnuplot interprets nothing.
std::string word_tics(const std::vector<std::string>& tokens) {
  std::string tics = "font 'sans-serif,9' scale 0 (";
  for (Index t = 0; t < shown; ++t) {
    std::string quoted;
    for (const char c : shortened(tokens[static_cast<std::size_t>(t)], 10)) {
      quoted += c == '\'' ? std::string("''") : std::string(1, c);
    }
    tics += cat(t == 0 ? "" : ", ", "'", quoted, "' ", t);
  }
  return tics + ")";
}

/// Five panels, three above two; words along the left and the lower edge.
std::string script(const std::vector<std::string>& tokens, const std::vector<Scheme>& schemes) {
  const std::string words = word_tics(tokens);
  std::string text = magnitude_palette() + R"(set termoption noenhanced
set multiplot title \
  'Attention weights, mean of 4 heads, 24 tokens, no mask (rows: query, columns: key)'
unset key
set cbrange [0:0.5]
set xrange [-0.5:23.5]
set yrange [23.5:-0.5]
unset colorbox
)";
  for (std::size_t n = 0; n < schemes.size(); ++n) {
    const double left = 0.095 + 0.3 * static_cast<double>(n % 3), top = n < 3 ? 0.91 : 0.47;
    text += cat("set lmargin at screen ", left, "\nset rmargin at screen ", left + 0.28,
                "\nset bmargin at screen ", top - 0.36, "\nset tmargin at screen ", top,
                "\nset title '", schemes[n].name, "' offset 0,-0.6\n");
    text += n % 3 == 0 ? cat("set ytics ", words, "\n") : "unset ytics\n";
    text += n >= 2 ? cat("set xtics rotate by 90 right ", words, "\n") : "unset xtics\n";
    if (n == 4) {
      text += "set colorbox user origin 0.75,0.12 size 0.02,0.24\nset cblabel 'weight'\n";
    }
    text += cat("plot data index '", schemes[n].name, "' matrix with image\n");
  }
  return text + "unset multiplot\n";
}

}  // namespace

void show_attention_patterns(Tour& tour) {
  // Half size, so that words do not drown what the positions do.
  const Matrix x = 0.5F * tour.sample.embeddings.topRows(shown);
  const auto positions = posenc::Positions::range(0, shown);
  Figure figure{.name = "attention_patterns",
                .title = "Attention weights with five encodings, side by side",
                .width = 980,
                .height = 800};
  std::string numbers;
  for (const Scheme& scheme : main_schemes()) {
    const Attended attended = scheme.attend(x, positions, {.projections = Projections::Plain});
    figure.blocks.push_back({scheme.name, mean_weights(attended)});
    numbers += cat(numbers.empty() ? "" : ", ", scheme.name, " ",
                   percent(weight_nearby(mean_weights(attended)), 1));
  }
  figure.commands = script(tour.sample.tokens, main_schemes());
  tour.report.paragraph(
      "Each row is a query and shows how it spreads its attention over the keys. The layer is not "
      "trained: its projections are the identity plus a constant part that all queries and keys "
      "share, as trained ones do. So a token attends to itself and to the same word elsewhere, and "
      "whatever else is seen comes from the encoding. The learned table is random, as before "
      "training.");
  tour.report.picture(
      figure,
      cat("Without an encoding, spots off the diagonal are equal words, wherever they stand. "
          "Sinusoidal, RoPE and ALiBi spread weight to the neighbours along the diagonal; a "
          "learned table does not before it is trained. Mean weight on the words one or two "
          "places away: ",
          numbers, "."));
}

}  // namespace tour
