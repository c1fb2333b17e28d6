// SPDX-License-Identifier: MIT
// "The dog chased another dog": without positions, both dogs get the same output.
#include "chapters.hpp"
#include "layer.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <cmath>

namespace tour::permutation {

namespace {

std::vector<Scheme> all_schemes() {
  return {no_scheme(),        integer_scheme(), binary_scheme(), sinusoidal_scheme(),
          learned_scheme(64), rope_scheme(),    alibi_scheme()};
}

std::string largest(const Eigen::MatrixXf& difference) {
  return compact(static_cast<double>(difference.cwiseAbs().maxCoeff()));
}

}  // namespace

void show(Tour& tour) {
  const std::string sentence = "The dog chased another dog";
  const std::vector<Index> order{3, 4, 2, 0, 1};  // another dog chased the dog
  const Matrix x = embed(split_words(sentence), model_dim);
  const auto every_column = Eigen::seqN(0, x.cols());
  const Matrix y = x(order, every_column);
  const auto positions = posenc::Positions::range(0, x.rows());

  Table table{cat("One attention layer with random projections reads \"", sentence, "\""),
              {"encoding", "first dog and second dog differ by",
               "\"another dog chased the dog\": words change by", "distinguishes the dogs"},
              {}};
  for (const Scheme& scheme : all_schemes()) {
    const Matrix one = scheme.attend(x, positions, {}).output;
    const Matrix other = scheme.attend(y, positions, {}).output;
    const bool same = one.row(1) == one.row(4);
    const Matrix moved = one(order, every_column);
    table.rows.push_back({scheme.name, largest(one.row(1) - one.row(4)), largest(other - moved),
                          same ? "no" : "yes"});
  }
  const Matrix plain = no_scheme().attend(x, positions, {}).output;
  const double size = std::sqrt(static_cast<double>(plain.cwiseAbs2().mean()));
  tour.report.paragraph(cat(
      "Both dogs have the same embedding and see the same words. Without positions their outputs "
      "are bit-identical. A sentence with another meaning also gives every word the same output, "
      "except for the rounding of sums in another order. Every encoding distinguishes the dogs. "
      "Numbers are the largest differences of a channel, whose root mean square is ",
      fixed(size, 2), " without an encoding."));
  tour.report.table(table);
}

}  // namespace tour::permutation
