// SPDX-License-Identifier: MIT
// Errors of cos and sin at far positions, for three ways to compute them.
#include "chapters.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace tour::accuracy {

namespace {

constexpr Index rotary_dim = 128, pairs = rotary_dim / 2, furthest = 10'000'000;
constexpr double base = 10000;

struct Wave {
  long double cos, sin;
};

/// Returns cos and sin of position * w, for positions up to 2^24. w is split into parts whose
/// products with the position are exact in double, and so is 2 pi, for the full rotations that are
/// subtracted.
Wave truth(Index position, double w) {
  constexpr long double two_pi = 0x1.921fb5444p+2L, rest_of_two_pi = 0x2.d18469898cc51701b8p-38L;
  const auto p = static_cast<double>(position);
  const auto upper = static_cast<double>(static_cast<float>(w));
  const auto first = static_cast<long double>(p * upper);
  const auto second = static_cast<long double>(p * (w - upper));
  const long double turns = std::rint((first + second) / two_pi);
  const long double angle = (first - turns * two_pi) + second - turns * rest_of_two_pi;
  return {std::cos(angle), std::sin(angle)};
}

/// Returns inv_freq as float32 code computes it.
std::array<float, pairs> float_inv_freq() {
  std::array<float, pairs> w{};
  for (Index i = 0; i < pairs; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dim);
    w[static_cast<std::size_t>(i)] = 1 / std::pow(static_cast<float>(base), exponent);
  }
  return w;
}

/// Returns cos and sin in float of the rounded angle, with position, frequency and angle in T.
template <class T>
std::array<float, 2> rounded_angle(Index position, float w) {
  const auto angle =
      static_cast<float>(static_cast<T>(static_cast<float>(position)) * static_cast<T>(w));
  return {std::cos(angle), std::sin(angle)};
}

/// Returns the positions of the points of the picture: 40 per decade.
std::vector<Index> checkpoints() {
  std::vector<Index> points{1};
  for (int n = 1; n <= 280; ++n) {
    const auto next = static_cast<Index>(std::llround(std::pow(10.0, n / 40.0)));
    if (next > points.back()) points.push_back(next);
  }
  return points;
}

/// Largest errors up to each checkpoint, from at most 64 positions before it. Columns: position,
/// bfloat16, float32, posenc in float, posenc in double.
class Survey {
 public:
  Survey() {
    Index last = 0;
    for (const Index point : checkpoints()) {
      visit(std::max(last + 1, point - 63), point);
      rows_.push_back({static_cast<double>(point), worst_[0], worst_[1], worst_[2], worst_[3]});
      last = point;
    }
  }

  Eigen::MatrixXd table() const {
    Eigen::MatrixXd result(static_cast<Index>(rows_.size()), 5);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      for (std::size_t c = 0; c < 5; ++c) {
        result(static_cast<Index>(r), static_cast<Index>(c)) = rows_[r][c];
      }
    }
    return result;
  }

 private:
  void visit(Index first, Index last) {
    // excerpt: angle_error
    const auto positions = posenc::Positions::range(first, last - first + 1);
    const auto floats = rope_.table<float>(positions);
    const auto doubles = rope_.table<double>(positions);
    // end of excerpt
    for (Index s = 0; s < positions.count(); ++s) {
      for (Index i = 0; i < pairs; ++i) {
        const auto k = static_cast<std::size_t>(i);
        // excerpt: angle_error
        const Wave exact = truth(first + s, inv_freq_[k]);
        const auto bf16 = rounded_angle<Eigen::bfloat16>(first + s, float_inv_freq_[k]);
        const auto f32 = rounded_angle<float>(first + s, float_inv_freq_[k]);
        // end of excerpt
        record(0, exact, bf16[0], bf16[1]);
        record(1, exact, f32[0], f32[1]);
        record(2, exact, floats.cos().row(0, s)[i], floats.sin().row(0, s)[i]);
        record(3, exact, doubles.cos().row(0, s)[i], doubles.sin().row(0, s)[i]);
      }
    }
  }

  template <class T>
  void record(std::size_t way, const Wave& exact, T cos, T sin) {
    const long double error = std::max(std::abs(static_cast<long double>(cos) - exact.cos),
                                       std::abs(static_cast<long double>(sin) - exact.sin));
    worst_[way] = std::max(worst_[way], static_cast<double>(error));
  }

  /// Frequencies rounded to double, which both the rope and the reference use.
  std::vector<double> inv_freq_ =
      frequencies(posenc::Unscaled{.rotary_dim = rotary_dim, .base = base}).inv_freq();
  posenc::Rope<posenc::HalfRotate> rope_{posenc::Frequencies::from_inv_freq(inv_freq_)};
  std::array<float, pairs> float_inv_freq_ = float_inv_freq();
  std::array<double, 4> worst_{};
  std::vector<std::array<double, 5>> rows_;
};

/// Returns the first row at or after a position.
Eigen::RowVectorXd row_at(const Eigen::MatrixXd& table, double position) {
  Index row = 0;
  while (row + 1 < table.rows() && table(row, 0) < position) ++row;
  return table.row(row);
}

/// Returns the first checkpoint at which bfloat16 angles give an error above 1.
Index beyond_one(const Eigen::MatrixXd& table) {
  Index row = 0;
  while (row + 1 < table.rows() && table(row, 1) <= 1) ++row;
  return static_cast<Index>(table(row, 0));
}

Figure picture(const Eigen::MatrixXd& table) {
  Figure figure{.name = "angle_error",
                .title = "Error of cosine and sine against the position, up to ten million",
                .height = 500,
                .blocks = {{"errors", table}}};
  figure.commands =
      R"(set title 'Worst error of cos and sin up to a position: 128 rotary channels, base 10000'
set xlabel 'position'
set ylabel 'absolute error'
set logscale xy
set format x '10^{%T}'
set format y '10^{%T}'
set xrange [1:1.2e7]
set yrange [1e-17:10]
set ytics 100
set grid lc '#dddddd'
unset key
set label 'bfloat16 angles' at 3e3,0.25 left
set label 'float32 angles (other libraries)' at 3e3,8e-6 left
set label 'posenc, float results' at 3e3,4e-9 left
set label 'posenc, double results' at 3e3,3e-15 left
plot data index 'errors' using 1:2 with lines lt 2, '' index 'errors' using 1:3 with lines lt 5, \
  '' index 'errors' using 1:4 with lines lt 1, '' index 'errors' using 1:5 with lines lt 3
)";
  return figure;
}

}  // namespace

void show(Tour& tour) {
  const Eigen::MatrixXd errors = Survey().table();
  Table table{"Worst error of cos and sin, all pairs, up to a position",
              {"position", "bfloat16 angles", "float32 angles (other libraries)", "posenc, float",
               "posenc, double"},
              {}};
  for (const Index position :
       {Index{256}, Index{4096}, Index{131'072}, Index{1'000'000}, furthest}) {
    const Eigen::RowVectorXd row = row_at(errors, static_cast<double>(position));
    table.rows.push_back({grouped(position), compact(row(1)), compact(row(2)), scientific(row(3)),
                          scientific(row(4))});
  }
  const Eigen::RowVectorXd end = errors.row(errors.rows() - 1);
  Report& report = tour.report;
  report.paragraph(
      "Other libraries multiply position and frequency in float32, or keep positions in bfloat16. "
      "That "
      "rounds the angle, which no sine function can undo. posenc stores frequencies in quarter "
      "turns "
      "with twice the digits of a double, and subtracts full rotations exactly before it rounds. "
      "The exact values are computed here with long double from an exact product. At far positions "
      "they are sampled: the 64 positions before each of 40 points per decade.");
  report.table(table);
  report.picture(
      picture(errors),
      cat("The two upper lines grow with the position. With bfloat16 angles the error passes "
          "1 by position ",
          grouped(beyond_one(errors)), " and ends at ", fixed(end(1), 2),
          ", near the largest possible difference of 2; with float32 angles it is ",
          fixed(end(2), 2), " at ", grouped(furthest),
          ". Those of posenc stay constant: ", scientific(end(3)),
          " in float, which is its rounding, and ", scientific(end(4)), " in double."));
}

}  // namespace tour::accuracy
