// SPDX-License-Identifier: MIT
// Results of the study of trained models, from a run in this folder or from the recorded one.
#include "chapters.hpp"
#include "files.hpp"
#include "numbers.hpp"
#include "recorded_study.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tour::study {

namespace {

const char* const results_file = "build/study/results.csv";

/// Line of the study's results.csv.
struct Score {
  std::string method, scaling, further, seed, length, bits;
};

/// Reads the scores; lines that begin with # are comments.
std::vector<Score> read_scores(const std::string& text) {
  std::istringstream lines(text);
  std::vector<Score> scores;
  bool named = false;  // true after the line with the columns
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#') || !std::exchange(named, true)) continue;
    std::istringstream cells(line);
    Score score;
    for (std::string* cell :
         {&score.method, &score.scaling, &score.further, &score.seed, &score.length, &score.bits}) {
      std::getline(cells, *cell, ',');
    }
    scores.push_back(score);
  }
  return scores;
}

/// Returns the comment in the first line, with date, commit and machine.
std::string origin(const std::string& text) { return text.substr(2, text.find('\n') - 2); }

std::string name_of(const Score& score) {
  return cat(score.method, score.scaling.empty() ? "" : ", " + score.scaling,
             score.further == "yes" ? ", trained further" : "");
}

/// Returns a table of means over seeds, one method per row, one length per column.
Table table_of(const std::vector<Score>& scores) {
  struct Mean {
    double sum = 0;
    int count = 0;
  };
  std::map<std::string, std::map<std::string, Mean>> means;
  std::vector<std::string> methods, lengths;
  const auto note = [](std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Score& score : scores) {
    if (score.method == "unigram") continue;
    const std::string name = name_of(score);
    note(methods, name);
    note(lengths, score.length);
    Mean& mean = means[name][score.length];
    if (!score.bits.empty()) mean.sum += std::stod(score.bits), ++mean.count;
  }
  Table table{"Bits per byte by length of the text in bytes; the first length is that of training",
              {"method"},
              {}};
  table.header.insert(table.header.end(), lengths.begin(), lengths.end());
  for (const std::string& method : methods) {
    std::vector<std::string> row = {method};
    for (const std::string& length : lengths) {
      const Mean& mean = means[method][length];
      row.push_back(mean.count == 0 ? "refused" : fixed(mean.sum / mean.count, 2));
    }
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace

void show(Tour& tour) {
  Report& report = tour.report;
  report.paragraph(
      "Only training shows how a model performs at positions beyond its training length. "
      "`examples/train_short_test_long` trains a small language model for each encoding on texts "
      "of 64 bytes and evaluates it on texts up to 8 times as long. Fewer bits per byte are "
      "better. "
      "A row that rises from left to right means that the encoding does not extrapolate.");
  std::error_code error;
  const bool own = std::filesystem::exists(results_file, error);
  const std::string text = own ? read_file(results_file) : recorded_study;
  report.paragraph(
      own ? cat("These results are from `", results_file,
                "`; `build/study/report.html` has the pictures, and says how large the models are.")
          : cat("These results were ", origin(text),
                ". This run of the tour did not compute them, because training takes some minutes. "
                "Run `train_short_test_long` in this folder, then the tour again, to see those of "
                "this machine."));
  report.table(table_of(read_scores(text)));
  report.paragraph(
      "\"Refused\" is the learned table's PositionError. \"Trained further\" is RoPE after some "
      "more steps on long texts under the rule that scales it.");
}

}  // namespace tour::study
