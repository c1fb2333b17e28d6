// SPDX-License-Identifier: MIT
// What the study of trained models found, where it was run.
#include "chapters.hpp"
#include "files.hpp"
#include "numbers.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace tour::study {

namespace {

const char* const results_file = "build/study/results.csv";

/// A line of the study's results.csv.
struct Score {
  std::string method, scaling, further, seed, length, bits;
};

std::vector<Score> read_scores() {
  std::istringstream lines(read_file(results_file));
  std::vector<Score> scores;
  std::string line;
  std::getline(lines, line);  // the names of the columns
  while (std::getline(lines, line)) {
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

/// Means over seeds, a method a row, a length a column.
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
    if (score.method == "unigram" || score.further == "yes") continue;
    const std::string name = score.method + (score.scaling.empty() ? "" : ", " + score.scaling);
    note(methods, name);
    note(lengths, score.length);
    Mean& mean = means[name][score.length];
    if (!score.bits.empty()) mean.sum += std::stod(score.bits), ++mean.count;
  }
  Table table{"Bits per byte at texts of so many bytes; the first length is that of training",
              {"method"},
              {}};
  table.header.insert(table.header.end(), lengths.begin(), lengths.end());
  for (const std::string& method : methods) {
    std::vector<std::string> row = {method};
    for (const std::string& length : lengths) {
      const Mean& mean = means[method][length];
      row.push_back(mean.count == 0 ? "refused" : fixed(mean.sum / mean.count, 3));
    }
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace

void show(Tour& tour) {
  Report& report = tour.report;
  report.paragraph(
      "What a trained model makes of places that it never saw takes training to see. "
      "`examples/train_short_test_long` trains a small language model for each encoding on short "
      "texts and asks it about texts up to 8 times as long.");
  std::error_code error;
  if (!std::filesystem::exists(results_file, error)) {
    report.paragraph(cat("It was not run here: there is no `", results_file,
                         "`. Run `train_short_test_long` in this folder, then the tour again."));
    return;
  }
  report.paragraph(
      cat("Its results, from `", results_file,
          "`; `build/study/report.html` has the pictures, and says how large the models are."));
  report.table(table_of(read_scores()));
}

}  // namespace tour::study
