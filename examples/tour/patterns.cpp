// SPDX-License-Identifier: MIT
// Attention weights over words of the text, with each encoding. One word is repeated far away.
#include "chapters.hpp"
#include "layer.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>
#include <vector>

namespace tour::patterns {

namespace {

constexpr Index shown = 16, far = 8, near = 2;
constexpr float strength = 0.4F;  // of words, so that positions stay visible

using Words = std::vector<std::string>;

/// Position at which a word is repeated.
struct Repeat {
  Index first = 0, second = 0;
  Index distance() const { return second - first; }
};

bool is_word(const std::string& token) {
  return std::all_of(token.begin(), token.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x80 ||
           std::isalpha(static_cast<unsigned char>(c)) != 0;
  });
}

/// Returns the only equal tokens if all tokens are words and these are far apart; otherwise
/// distance 0.
Repeat only_repeat(const Words& tokens) {
  if (!std::all_of(tokens.begin(), tokens.end(), is_word)) return {};
  std::vector<Repeat> found;
  for (Index i = 0; i < shown; ++i) {
    for (Index j = i + 1; j < shown; ++j) {
      if (tokens[static_cast<std::size_t>(i)] == tokens[static_cast<std::size_t>(j)]) {
        found.push_back({i, j});
      }
    }
  }
  const bool fits = found.size() == 1 && found[0].distance() >= far;
  return fits ? found[0] : Repeat{};
}

/// Input of the layer: the first such window of the text, or else a sentence that is one.
struct Reading {
  Words tokens;
  Index start = -1;  ///< in the text; -1: the sentence
  Repeat repeat;
};

Reading choose(const Sample& sample) {
  for (Index start = 0; start + shown <= sample_length; ++start) {
    const auto begin = sample.tokens.begin() + start;
    const Words window(begin, begin + shown);
    const Repeat repeat = only_repeat(window);
    if (repeat.distance() > 0) return {window, start, repeat};
  }
  const Words sentence = split_words(
      "my dog sleeps near a warm stove while their small dog runs across our wet garden");
  return {sentence, -1, only_repeat(sentence)};
}

/// Returns embeddings that are orthogonal, head by head, to the shared part of queries and keys, so
/// that no word gets weight for its own sake.
Matrix words_apart(const Words& tokens) {
  Matrix x = strength * embed(tokens, model_dim);
  const Eigen::RowVectorXf shared = shared_part();
  for (Index h = 0; h < heads; ++h) {
    const auto part = shared.segment(h * head_dim, head_dim);
    auto channels = x.middleCols(h * head_dim, head_dim);
    const Eigen::VectorXf along = channels * part.transpose() / part.squaredNorm();
    channels -= along * part;
  }
  return x;
}

/// Returns the mean over queries of the weight on keys at most `near` positions away, without the
/// query's own key.
double weight_nearby(const Eigen::MatrixXd& weights) {
  double sum = 0;
  for (Index i = 0; i < shown; ++i) {
    for (Index j = 0; j < shown; ++j) {
      if (i != j && std::abs(i - j) <= near) sum += weights(i, j);
    }
  }
  return sum / shown;
}

/// Returns tics like ('the' 0, ...) in single quotes, in which gnuplot interprets nothing.
std::string word_tics(const Words& tokens) {
  std::string tics = "font 'sans-serif,12' scale 0 (";
  for (Index t = 0; t < shown; ++t) {
    std::string quoted;
    for (const char c : shortened(tokens[static_cast<std::size_t>(t)], 10)) {
      quoted += c == '\'' ? std::string("''") : std::string(1, c);
    }
    tics += cat(t == 0 ? "" : ", ", "'", quoted, "' ", t);
  }
  return tics + ")";
}

/// Returns a script of five panels, three above two, with words along the left and the lower edge.
/// The first shows the weights without an encoding, the others the changes by each encoding.
std::string script(const Words& tokens, const std::vector<Scheme>& schemes, double largest_weight,
                   double largest_change) {
  const std::string words = word_tics(tokens);
  std::string text = R"(set termoption noenhanced
set multiplot title 'Attention weights, mean of 4 heads, no mask (rows: query, columns: key)'
unset key
set xrange [-0.5:15.5]
set yrange [15.5:-0.5]
)";
  for (std::size_t n = 0; n < schemes.size(); ++n) {
    const double left = 0.1 + 0.3 * static_cast<double>(n % 3), top = n < 3 ? 0.91 : 0.47;
    text += cat("set lmargin at screen ", left, "\nset rmargin at screen ", left + 0.28,
                "\nset bmargin at screen ", top - 0.35, "\nset tmargin at screen ", top, "\n");
    text += n % 3 == 0 ? cat("set ytics ", words, "\n") : "unset ytics\n";
    text += n >= 2 ? cat("set xtics rotate by 90 right ", words, "\n") : "unset xtics\n";
    text += "unset colorbox\n";
    if (n == 0) {
      text += magnitude_palette() +
              cat("set cbrange [0:", largest_weight, "]\n",
                  "set title 'no encoding: the weights' offset 0,-0.6\n",
                  "set cblabel 'weight (no encoding)'\nset cbtics offset -0.5,0\n",
                  "set colorbox user origin 0.74,0.12 size 0.018,0.22\n");
    } else {
      text += signed_palette() + symmetric_colours(largest_change) +
              cat("set title '", schemes[n].name, " less no encoding' offset 0,-0.6\n");
      if (n == 4) {
        text +=
            "set cblabel 'change of the weight'\n"
            "set colorbox user origin 0.875,0.12 size 0.018,0.22\n";
      }
    }
    text += cat("plot data index '", schemes[n].name, "' matrix with image\n");
  }
  return text + "unset multiplot\n";
}

}  // namespace

void show(Tour& tour) {
  const Reading reading = choose(tour.sample);
  const Matrix x = words_apart(reading.tokens);
  const auto positions = posenc::Positions::range(0, shown);
  const std::vector<Scheme> schemes{no_scheme(), sinusoidal_scheme(),
                                    learned_scheme(shown, static_cast<double>(strength)),
                                    rope_scheme(), alibi_scheme()};
  Figure figure{.name = "attention_patterns",
                .title = "Attention weights without an encoding, and what four encodings change",
                .width = 980,
                .height = 860};
  const Repeat repeat = reading.repeat;
  Eigen::MatrixXd none;
  double largest_change = 0;
  std::string more, less;  // encodings with more or less weight on neighbours
  Table table{
      cat("Weight of the second \"", reading.tokens[static_cast<std::size_t>(repeat.second)],
          "\" on the first, ", repeat.distance(),
          " tokens before it, and on itself; mean "
          "weight of all words on those at distance 1 or 2"),
      {"encoding", "on the first", "on itself", "on neighbours"},
      {}};
  for (const Scheme& scheme : schemes) {
    // excerpt: attention_patterns
    const Attended attended = scheme.attend(x, positions, {.projections = Projections::Plain});
    const Eigen::MatrixXd weights = mean_weights(attended);
    if (scheme.name == "none") none = weights;
    figure.blocks.push_back({scheme.name, scheme.name == "none" ? none : weights - none});
    // end of excerpt
    if (scheme.name != "none") {
      largest_change = std::max(largest_change, largest_size(weights - none));
      std::string& list = weight_nearby(weights) > weight_nearby(none) ? more : less;
      list += cat(list.empty() ? "" : ", ", scheme.name);
    }
    table.rows.push_back({scheme.name, percent(weights(repeat.second, repeat.first), 1),
                          percent(weights(repeat.second, repeat.second), 1),
                          percent(weight_nearby(weights), 1)});
  }
  // The brightest key other than the query's own.
  Eigen::MatrixXd others = none;
  others.diagonal().setZero();
  Index query = 0, key = 0;
  const double brightest = others.maxCoeff(&query, &key);
  figure.commands = script(reading.tokens, schemes, none.maxCoeff(), largest_change);

  const auto word = [&](Index t) { return reading.tokens[static_cast<std::size_t>(t)]; };
  Report& report = tour.report;
  report.paragraph(cat(
      "Each row is a query and shows how it spreads its attention over the keys. The layer is "
      "not trained: its projections are the identity plus a constant part that all queries and "
      "keys share. So a token attends to itself and to the same word elsewhere. Everything else "
      "is an effect of the encoding. RoPE needs the constant part, because it can only fade the "
      "common part of a query and a key. Embeddings are scaled by ",
      strength,
      " and made orthogonal to the constant part, so that the effect of positions stays visible. "
      "The "
      "learned table is random, as before training, and of the same size. ",
      reading.start >= 0
          ? cat("It reads tokens ", reading.start, " to ", reading.start + shown - 1,
                " of the text: the first ", shown,
                " words in a row, without punctuation, exactly one of which occurs twice, far "
                "apart.")
          : cat("It reads a built-in sentence, because the start of the text has no ", shown,
                " words in a row, without punctuation, exactly one of which occurs twice, far "
                "apart.")));
  report.table(table);
  report.picture(
      figure,
      cat("Without an encoding (upper left) the brightest spot off the diagonal is query \"",
          word(query), "\", key \"", word(key), "\", ", std::abs(query - key), " positions ",
          key < query ? "before" : "after", ": ", percent(brightest, 1), ", ",
          query != key && word(query) == word(key)
              ? "the same word, whose position does not matter"
              : "two words whose random vectors happen to be similar",
          ". The other panels show the weight that each encoding adds (orange) and removes (blue), "
          "on "
          "one scale for all values. The neighbours of a word get more weight with these: ",
          more.empty() ? "none" : more, "; less with these: ", less.empty() ? "none" : less,
          ". An untrained table has no preference for neighbours."));
}

}  // namespace tour::patterns
