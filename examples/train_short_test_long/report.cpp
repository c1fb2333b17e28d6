// SPDX-License-Identifier: MIT
#include "../tour/report.hpp"

#include "../tour/gnuplot.hpp"
#include "../tour/numbers.hpp"
#include "results.hpp"
#include <posenc/core/build_info.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace study {
namespace {

using tour::cat;
using tour::fixed;
using tour::grouped;
using tour::percent;

std::string spelled(const std::string& method) {
  static const std::map<std::string, std::string> names = {{"nope", "NoPE (none)"},
                                                           {"sinusoidal", "sinusoidal"},
                                                           {"learned", "learned table"},
                                                           {"rope", "RoPE"},
                                                           {"xpos", "xPos"},
                                                           {"alibi", "ALiBi"},
                                                           {"t5", "T5"},
                                                           {"kerple", "KERPLE"},
                                                           {"fire", "FIRE"},
                                                           {"fox", "FoX"}};
  return names.at(method);
}

/// Bits per byte at one length, over all seeds.
struct Point {
  Index length = 0;
  std::vector<double> bits = {};  ///< empty if the method does not support it

  double mean() const {
    double sum = 0;
    for (const double value : bits) sum += value;
    return sum / static_cast<double>(bits.size());
  }
  double least() const { return *std::min_element(bits.begin(), bits.end()); }
  double most() const { return *std::max_element(bits.begin(), bits.end()); }

  std::string text() const {
    if (bits.empty()) return "refused";
    const std::string mean_text = fixed(mean(), 3);
    return bits.size() == 1 ? mean_text : cat(mean_text, " ± ", fixed((most() - least()) / 2, 3));
  }
};

/// Line of a picture, or row of a table.
struct Line {
  std::string name;
  std::vector<Point> points = {};
};

/// Returns the line of a method, under a rule; its points are in the order of lengths.
Line line_of(const Results& results, const std::string& name, const std::string& method,
             const std::string& scaling = "", bool further = false) {
  Line line{name};
  for (const Score& score : results.scores) {
    if (score.method != method || score.scaling != scaling || score.further != further) continue;
    auto at = std::find_if(line.points.begin(), line.points.end(),
                           [&](const Point& point) { return point.length == score.length; });
    if (at == line.points.end()) at = line.points.insert(at, Point{score.length});
    if (score.bits) at->bits.push_back(*score.bits);
  }
  return line;
}

tour::Table table_of(const std::string& title, const std::vector<Line>& lines) {
  tour::Table table{title, {"method"}, {}};
  for (const Point& point : lines.front().points) table.header.push_back(cat(point.length));
  for (const Line& line : lines) {
    std::vector<std::string> row = {line.name};
    for (const Point& point : line.points) row.push_back(point.text());
    table.rows.push_back(row);
  }
  return table;
}

/// Returns a figure with a line per method, and a bar from the lowest to the highest seed.
tour::Figure picture_of(const std::string& name, const std::string& title,
                        const std::vector<Line>& lines) {
  tour::Figure figure{.name = name, .title = title, .width = 860, .height = 520};
  std::string tics, plots;
  for (const Point& point : lines.front().points) {
    tics += cat(tics.empty() ? "" : ",", point.length);
  }
  for (const Line& line : lines) {
    tour::Block block{line.name, Eigen::MatrixXd(0, 4)};
    for (const Point& point : line.points) {
      if (point.bits.empty()) continue;
      block.rows.conservativeResize(block.rows.rows() + 1, 4);
      block.rows.bottomRows(1) << static_cast<double>(point.length), point.mean(), point.least(),
          point.most();
    }
    const std::size_t number = figure.blocks.size();
    plots += cat(number == 0 ? "plot " : ", \\\n  ", "data index ", number,
                 " using 1:2:3:4 with yerrorlines lt ", number % 7 + 1, " dt ", number / 7 + 1,
                 " title '", line.name, "'");
    figure.blocks.push_back(std::move(block));
  }
  figure.commands =
      cat("set logscale x 2\nset xtics (", tics, ")\n",
          "set xlabel 'bytes of the text'\nset ylabel 'bits per byte'\n",
          "set key outside right\nset grid ytics lc '#dddddd'\nset offsets graph 0.03, "
          "graph 0.03, 0, 0\n",
          plots, "\n");
  return figure;
}

tour::Figure attention_picture(const Options& options, const Results& results) {
  const auto panels = static_cast<Index>(options.methods.size());
  const Index columns = std::min(panels, Index{3}), rows = (panels + columns - 1) / columns;
  tour::Figure figure{.name = "attention_by_distance",
                      .title = "Attention by distance for each head of each method",
                      .width = 900,
                      .height = static_cast<int>(80 + 220 * rows)};
  figure.commands =
      cat("set multiplot layout ", rows, ",", columns,
          "\nset logscale xy\nset yrange [1e-4:1]\nset format y '10^{%T}'\nunset key\n",
          "set xlabel 'distance + 1' offset 0,0.6\n");
  Index number = 0;
  for (const std::string& method : options.methods) {
    const Matrix<double>& means = results.attention.at(method);
    Eigen::MatrixXd block(means.cols(), 1 + means.rows());
    block.col(0).setLinSpaced(1, static_cast<double>(means.cols()));
    block.rightCols(means.rows()) = means.transpose();
    figure.commands += cat("set title '", spelled(method), "'\nplot for [h=2:", means.rows() + 1,
                           "] data index ", number++, " using 1:h with lines lw 1.5 lt (h - 2) / ",
                           options.budget.shape.heads, " + 1\n");
    figure.blocks.push_back({method, std::move(block)});
  }
  figure.commands += "unset multiplot\n";
  return figure;
}

void show_setting(tour::Report& page, const Options& options, const Text& text,
                  const Results& results) {
  const Budget& budget = options.budget;
  const Shape& shape = budget.shape;
  page.section("Models, text, budget");
  page.paragraph(
      cat("Budget `", budget.name, "`: models of ", shape.layers,
          shape.layers == 1 ? " layer" : " layers", ", width ", shape.width, ", ", shape.heads,
          " heads, trained for ", budget.steps, " steps of Adam, each on ", budget.batch,
          " texts of ", shape.length, " bytes; ",
          budget.seeds == 1
              ? "one seed, so that differences of a few hundredths of a bit may be chance."
              : cat(budget.seeds,
                    " seeds: means, ± half the difference between the highest and the "
                    "lowest.")));
  page.paragraph(cat("Text: ", text.training_files, " files of ",
                     grouped(static_cast<Index>(text.training.size())), " bytes for training; of ",
                     text.held_out_files, " others, about ", grouped(budget.held_out_bytes),
                     " bytes for evaluation, the same at every length. A model that knows only the "
                     "frequencies of bytes needs ",
                     fixed(results.unigram_bits, 3), " bits per byte. ", posenc::build_info(),
                     "."));
}

void show_speed(tour::Report& page, const Options& options, const Results& results) {
  if (results.speeds.empty()) return;
  page.section("Throughput of training");
  tour::Table table{cat("With ", options.threads, options.threads == 1 ? " thread" : " threads",
                        " with a peak of ", fixed(results.peak * 1e-9, 0),
                        " GFLOP/s of multiply-adds (measured)"),
                    {"method", "tokens/s", "of the peak", "in products", "in attention"},
                    {}};
  for (const std::string& method : options.methods) {
    const auto found = results.speeds.find(method);
    if (found == results.speeds.end()) continue;
    const Speed& speed = found->second;
    const double of_threads = speed.seconds * options.threads;
    table.rows.push_back(
        {spelled(method), grouped(static_cast<Index>(speed.tokens / speed.seconds)),
         percent(speed.operations / speed.seconds / results.peak),
         percent(speed.spent.products / of_threads), percent(speed.spent.attention / of_threads)});
  }
  page.paragraph(
      "Shares are of the time of all threads over complete steps, with batches, optimiser, sums of "
      "gradients and waiting for other threads. Attention is posenc's module with its four "
      "projections; products are the other linear layers.");
  page.table(table);
}

}  // namespace

void report(const Options& options, const Text& text, const Results& results) {
  const tour::Gnuplot gnuplot(options.out / "pictures");
  const bool has_rope =
      std::find(options.methods.begin(), options.methods.end(), "rope") != options.methods.end();
  tour::Report page(std::cout, gnuplot, has_rope ? 6 : 4);
  page.chapter("The study");
  show_setting(page, options, text, results);

  page.chapter("Trained on short texts, evaluated on long ones");
  page.section("All methods as trained");
  std::vector<Line> lines;
  for (const std::string& method : options.methods) {
    lines.push_back(line_of(results, spelled(method), method));
  }
  const std::string title =
      cat("Bits per byte by length of the text in bytes, trained on ", options.budget.shape.length);
  page.table(table_of(title, lines));
  if (!results.refusal.empty()) {
    page.paragraph("A learned table has no rows beyond the trained length. It throws:");
    page.verbatim(results.refusal);
  }
  page.picture(
      picture_of("bits_by_length", "Bits per byte against the length of the text", lines),
      "Every byte is predicted once at each length, from all of its text before it. A line that "
      "rises means that the encoding does not extrapolate beyond the trained length.");
  if (has_rope) {
    page.section("RoPE rescaled, without further training");
    lines = {line_of(results, "as trained", "rope")};
    for (const Scaling& scaling : scalings()) {
      lines.push_back(line_of(results, scaling.name, "rope", scaling.name));
    }
    page.paragraph(
        "The factor is the ratio of the lengths, so nothing changes at the trained length.");
    page.table(table_of(title, lines));
    page.picture(
        picture_of("rescaled_rope", "RoPE under rules that rescale its frequencies", lines),
        "One checkpoint under each rule.");
    page.section("RoPE rescaled, with further training");
    lines = {line_of(results, "no rule", "rope", "none", true)};
    for (const Scaling& scaling : scalings()) {
      lines.push_back(line_of(results, scaling.name, "rope", scaling.name, true));
    }
    page.paragraph(
        cat("Trained for ", options.budget.further_steps(), " more steps on texts of ",
            options.budget.longest(),
            " bytes with factor 8, with the same number of bytes per step, and "
            "evaluated with that factor at every length. Dynamic NTK computes its own factor "
            "from the length."));
    page.table(table_of(title, lines));
  }

  page.chapter("The trained models");
  page.section("Attention by distance");
  page.picture(attention_picture(options, results),
               "Weight of the key by its distance in bytes, averaged over the queries that have "
               "such a key, at "
               "the trained length. A line is a head, a colour is a layer.");
  show_speed(page, options, results);
  page.paragraph(
      "These numbers do not apply to models of another size, to longer training, or to other text. "
      "Models as small as these mainly use the last few bytes.");

  const auto path = options.out / "report.html";
  page.write(path, "Train short, test long: positional encodings on longer texts");
  std::cout << "\nPage:    " << path.string()
            << "\nNumbers: " << (options.out / "results.csv").string() << ", "
            << (options.out / "speed.csv").string() << std::endl;
}

}  // namespace study
