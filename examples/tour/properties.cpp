// SPDX-License-Identifier: MIT
// Six desirable properties, each decided by a computation.
#include "chapters.hpp"
#include "encode.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <Eigen/QR>

#include <functional>
#include <limits>
#include <numeric>

namespace tour::properties {

namespace {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index width = 32, alibi_heads = 8;

/// Encoding as functions that return numbers.
struct Candidate {
  std::string name;
  /// Code of each position of a range, one per row.
  std::function<Rows(posenc::Positions)> codes;
  /// Information that attention gets about each pair of positions of a range.
  std::function<Rows(posenc::Positions)> pairs;
  /// Code of each cell of a grid of rows x cols.
  std::function<Rows(Index, Index)> grid;
};

/// Returns the code of the row next to the code of the column: each axis gets its own channels.
std::function<Rows(Index, Index)> one_axis_each(std::function<Rows(posenc::Positions)> codes) {
  return [codes](Index rows, Index cols) {
    const Rows by_row = codes(posenc::Positions::range(0, rows));
    const Rows by_col = codes(posenc::Positions::range(0, cols));
    Rows cells(rows * cols, by_row.cols() + by_col.cols());
    for (Index cell = 0; cell < rows * cols; ++cell) {
      cells.row(cell) << by_row.row(cell / cols), by_col.row(cell % cols);
    }
    return cells;
  };
}

/// Returns the products of codes, by which attention compares additive codes.
std::function<Rows(posenc::Positions)> products(std::function<Rows(posenc::Positions)> codes) {
  return [codes](const posenc::Positions& positions) {
    const Rows rows = codes(positions);
    return Rows(rows * rows.transpose());
  };
}

template <class Encoding>
Candidate additive(const std::string& name, const Encoding& encoding) {
  const auto codes = [encoding](const posenc::Positions& positions) {
    return increments<Rows>(encoding, positions, width);
  };
  return {name, codes, products(codes), one_axis_each(codes)};
}

Candidate sinusoidal() {
  Candidate candidate = additive(
      "sinusoidal",
      posenc::Sinusoidal({.model_dim = width, .layout = posenc::SinusoidalLayout::Interleaved}));
  candidate.grid = [](Index rows, Index cols) {
    const posenc::Sinusoidal2d encoding({.model_dim = 2 * width,
                                         .axis_order = posenc::GridAxisOrder::RowFirst,
                                         .layout = posenc::SinusoidalLayout::Interleaved});
    return increments<Rows>(encoding, posenc::Positions::grid(rows, cols), 2 * width);
  };
  return candidate;
}

/// Returns a table of `count` rows for a text, and one with a row per cell for a grid.
Candidate learned(Index count, std::uint64_t seed) {
  const auto codes = [count, seed](const posenc::Positions& positions) {
    const Rows table = random_table(count, width, seed).cast<double>();
    const posenc::Learned<double> encoding(posenc::table_view(table));
    return increments<Rows>(encoding, positions, width);
  };
  const auto grid = [seed](Index rows, Index cols) {
    return Rows(random_table(rows * cols, width, seed).cast<double>());
  };
  return {"learned", codes, products(codes), grid};
}

/// Returns the rotations; the product of two of their rows is the score of equal vectors.
Candidate rope() {
  const auto codes = [](const posenc::Positions& positions) {
    const posenc::Rope<posenc::Interleaved> encoding(
        posenc::Unscaled{.rotary_dim = width, .base = 10000});
    const auto table = encoding.table<double>(positions);
    Rows rows(positions.count(), width);
    rows << rows_of(table.cos()), rows_of(table.sin());
    return rows;
  };
  return {"RoPE", codes, products(codes), one_axis_each(codes)};
}

std::vector<double> values(const posenc::Positions& positions) {
  std::vector<double> result;
  for (Index s = 0; s < positions.count(); ++s) result.push_back(positions.at(0, s));
  return result;
}

/// Returns the biases of all heads against a key at 0; on a grid, half of the heads use rows, half
/// columns.
Candidate alibi() {
  const posenc::Alibi encoding({.heads = alibi_heads, .form = posenc::AlibiForm::Causal});
  const auto tile = [encoding](Index head, const std::vector<double>& queries,
                               const std::vector<double>& keys) {
    Rows scores = Rows::Zero(static_cast<Index>(queries.size()), static_cast<Index>(keys.size()));
    encoding.add(head, queries, keys, posenc::table_view(scores));
    return scores;
  };
  const auto codes = [tile](const posenc::Positions& positions) {
    Rows rows(positions.count(), alibi_heads);
    for (Index h = 0; h < alibi_heads; ++h) rows.col(h) = tile(h, values(positions), {0.0});
    return rows;
  };
  const auto pairs = [tile](const posenc::Positions& positions) {
    return tile(0, values(positions), values(positions));
  };
  return {"ALiBi", codes, pairs, one_axis_each(codes)};
}

std::vector<Candidate> candidates(Index table_rows, std::uint64_t seed) {
  return {additive("integer", posenc::IntegerEncoding()),
          additive("binary", posenc::BinaryEncoding({.model_dim = width})),
          sinusoidal(),
          learned(table_rows, seed),
          rope(),
          alibi()};
}

std::string verdict(bool holds, double number) {
  return cat(holds ? "yes, " : "no, ", compact(number));
}

double smallest_distance(const Rows& codes) {
  double smallest = std::numeric_limits<double>::infinity();
  for (Index p = 1; p < codes.rows(); ++p) {
    const Rows apart = codes.topRows(p).rowwise() - codes.row(p);
    smallest = std::min(smallest, apart.rowwise().norm().minCoeff());
  }
  return smallest;
}

/// Fits after = before M + c on even rows. Returns the error on odd rows as a share of their
/// spread: near 0 if one fixed linear map leads from each code to the code one step further.
double linear_map_error(const Rows& before, const Rows& after) {
  const Index half = before.rows() / 2;
  const auto even = Eigen::seqN(0, half, 2), odd = Eigen::seqN(1, half, 2);
  Rows with_one(before.rows(), before.cols() + 1);
  with_one << before, Rows::Ones(before.rows(), 1);
  const auto rows = [](const Rows& x, const auto& which) -> Eigen::MatrixXd {
    return x(which, Eigen::seqN(0, x.cols()));
  };
  const Eigen::MatrixXd from = rows(with_one, even), to = rows(after, even);
  const Eigen::MatrixXd map = from.completeOrthogonalDecomposition().solve(to);
  const Eigen::MatrixXd held_out = rows(with_one, odd), truth = rows(after, odd);
  const Eigen::MatrixXd spread = truth.rowwise() - truth.colwise().mean();
  return (held_out * map - truth).norm() / spread.norm();
}

constexpr double tolerance = 1e-3;

std::string unique_and_independent_of_length(const Candidate& candidate) {
  const Rows codes = candidate.codes(posenc::Positions::range(0, 512));
  const Rows shorter = candidate.codes(posenc::Positions::range(0, 256));
  const double smallest = smallest_distance(codes);
  return verdict(smallest > tolerance && codes.topRows(256) == shorter, smallest);
}

std::string simple_step(const Candidate& candidate) {
  constexpr Index step = 5, count = 507;
  const Rows codes = candidate.codes(posenc::Positions::range(0, count + step));
  const double error = linear_map_error(codes.topRows(count), codes.bottomRows(count));
  return verdict(error < tolerance, error);
}

/// Tests whether a pair of positions has the same meaning at any place in a text.
std::string moves_along(const Candidate& candidate) {
  try {
    const Rows seen = candidate.pairs(posenc::Positions::range(0, trained_length));
    const Rows next = candidate.pairs(posenc::Positions::range(trained_length, trained_length));
    const double change = (next - seen).cwiseAbs().maxCoeff() / seen.cwiseAbs().maxCoeff();
    return verdict(change < tolerance, change);
  } catch (const posenc::PositionError&) {
    return "no, PositionError";
  }
}

/// Tests how much of a code takes only values beyond the trained length that it takes within it.
std::string nothing_new(const Candidate& candidate) {
  try {
    const double share =
        share_in_trained_range(candidate.codes(posenc::Positions::range(0, 2 * trained_length)));
    return cat(share == 1 ? "yes, " : "no, ", percent(share));
  } catch (const posenc::PositionError&) {
    return "no, PositionError";
  }
}

std::string deterministic(const Candidate& candidate, const Candidate& rebuilt) {
  const auto positions = posenc::Positions::range(0, 512);
  const double change =
      (candidate.codes(positions) - rebuilt.codes(positions)).cwiseAbs().maxCoeff();
  return verdict(change == 0, change);
}

/// Tests whether cells of a grid have different codes, and a step of 3 rows and 5 columns is one
/// linear map.
std::string several_dimensions(const Candidate& candidate) {
  constexpr Index side = 16, down = 3, right = 5, rows = side + down, cols = side + right;
  const Rows all = candidate.grid(rows, cols);
  Rows before(side * side, all.cols()), after(side * side, all.cols());
  for (Index cell = 0; cell < side * side; ++cell) {
    // A diagonal order, so that even and odd cells form a chessboard.
    const Index r = cell / side, c = (cell + r) % side;
    before.row(cell) = all.row(r * cols + c);
    after.row(cell) = all.row((r + down) * cols + c + right);
  }
  const double error = linear_map_error(before, after);
  return verdict(smallest_distance(before) > tolerance && error < tolerance, error);
}

}  // namespace

void show(Tour& tour) {
  const std::vector<Candidate> all = candidates(512, 1), rebuilt = candidates(512, 2),
                               trained = candidates(trained_length, 1);
  Table table{"Number that decides each property",
              {"encoding", "1. unique for any length", "2. simple relation of p and p + 5",
               "3. same meaning at later positions", "4. nothing new in a longer text",
               "5. deterministic", "6. several dimensions"},
              {}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    table.rows.push_back({all[i].name, unique_and_independent_of_length(all[i]),
                          simple_step(all[i]), moves_along(trained[i]), nothing_new(trained[i]),
                          deterministic(all[i], rebuilt[i]), several_dimensions(all[i])});
  }
  Report& report = tour.report;
  report.paragraph(cat("Each verdict is a computation on codes of ", width,
                       " channels (ALiBi: the biases of ", alibi_heads,
                       " heads against a key at 0). The numbers are:"));
  report.paragraph(
      "1. The smallest distance of two codes, positions 0 to 511. Yes if it is above 0.001 and no "
      "code changes when the text is half as long.");
  report.paragraph(
      "2. One linear map that leads from the code of p to that of p + 5 is fitted on every other "
      "position. Its error on the rest, as a share of their spread. Yes if below 0.001.");
  report.paragraph(cat(
      "3. The information of attention about a pair of positions: its change when both move from "
      "the trained ",
      trained_length, " positions to the next ", trained_length,
      ". Yes if below 0.001 of the largest."));
  report.paragraph(cat(
      "4. The share of the channels (for RoPE of the cosines and sines, for ALiBi of the biases "
      "against a key at 0) that have no value at positions ",
      trained_length, " to ", 2 * trained_length - 1,
      " which they do not have, to within 1 %, at "
      "positions 0 to ",
      trained_length - 1, ". Yes if all."));
  report.paragraph("5. The largest change with another seed. Yes if 0.");
  report.paragraph(
      "6. As 2, for a step of 3 rows and 5 columns on a grid of 16 x 16 cells, each axis with "
      "separate channels (heads), the learned table with a row for each cell. Yes if below 0.001 "
      "and all cells differ.");
  report.table(table);
  report.paragraph(
      "No encoding has all six. With sinusoidal codes, RoPE and ALiBi a distance has the same "
      "meaning "
      "at later positions (3). But a longer text has longer distances, and most channels then have "
      "values that do not occur in a text of the trained length (4). The sections on longer texts "
      "show how scaling avoids that for RoPE.");
  report.paragraph(
      "Property 4 is about values, not about their effect on a model. ALiBi's biases are new "
      "beyond "
      "the trained length too, so the answer is no. But a larger distance only makes a key fade "
      "more, and trained models with ALiBi keep their quality on texts up to 8 times as long "
      "(\"Trained models "
      "on longer texts\"). Integer codes fail 3 and 4 because their size has no bound; divided by "
      "the length they would have one, but a code would then change with the length.");
}

}  // namespace tour::properties
