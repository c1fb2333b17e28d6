// SPDX-License-Identifier: MIT
// The score of a rotated query and a rotated key depends on the distance alone.
#include "chapters.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <cmath>

namespace tour {

namespace {

constexpr Index rotary_dim = 128, distances = 513;

template <class Scalar>
using Rows = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

posenc::Rope<posenc::HalfRotate> rope_of(double base) {
  return posenc::Rope<posenc::HalfRotate>(posenc::Unscaled{.rotary_dim = rotary_dim, .base = base});
}

/// The same vector at `count` positions from `start` on, one a row.
template <class Scalar, class Rope, class Vector>
Rows<Scalar> rotated(const Rope& rope, const Vector& vector, Index start, Index count) {
  Rows<Scalar> x = vector.template cast<Scalar>().replicate(count, 1);
  rope.rotate(posenc::split_heads(posenc::sd(x), 1), posenc::Positions::range(start, count));
  return x;
}

/// Scores of one key at `start` with the query at start + 0, 1, 2, ...
template <class Scalar, class Vector>
Eigen::VectorXd scores(double base, const Vector& query, const Vector& key, Index start) {
  const auto rope = rope_of(base);
  const Rows<Scalar> q = rotated<Scalar>(rope, query, start, distances);
  const Rows<Scalar> k = rotated<Scalar>(rope, key, start, 1);
  return (q * k.transpose()).template cast<double>();
}

/// The same as others compute it: the angle is a product of floats.
template <class Vector>
Eigen::VectorXd float_angle_scores(double base, const Vector& query, const Vector& key,
                                   Index start) {
  const auto w = frequencies(posenc::Unscaled{.rotary_dim = rotary_dim, .base = base}).inv_freq();
  const auto turned = [&](const Vector& x, Index position) {
    Eigen::VectorXd y(rotary_dim);
    for (Index i = 0; i < rotary_dim / 2; ++i) {
      const float angle =
          static_cast<float>(position) * static_cast<float>(w[static_cast<std::size_t>(i)]);
      const auto c = static_cast<double>(std::cos(angle)), s = static_cast<double>(std::sin(angle));
      const double a = x(i), b = x(i + rotary_dim / 2);
      y(i) = c * a - s * b;
      y(i + rotary_dim / 2) = s * a + c * b;
    }
    return y;
  };
  const Eigen::VectorXd k = turned(key, start);
  Eigen::VectorXd result(distances);
  for (Index d = 0; d < distances; ++d) result(d) = turned(query, start + d).dot(k);
  return result;
}

Figure picture(const Eigen::MatrixXd& curves) {
  Figure figure{.name = "rope_distance",
                .title = "Score of a query and a key against their distance",
                .blocks = {{"scores", curves}}};
  figure.commands =
      R"(set title 'RoPE: score of equal vectors (all channels 1), 128 rotary channels'
set xlabel 'distance between query and key, positions'
set ylabel 'score / score at distance 0'
set xrange [0:512]
set yrange [0:1.05]
set xtics 64
set grid lc '#dddddd'
set key top right
plot data index 'scores' using 0:1 with lines title 'base 10,000, key at 0', \
  '' index 'scores' using (16 * $0):2 every 16 with points ps 0.8 lt 7 title 'base 10,000, key at 1,000,000', \
  '' index 'scores' using 0:3 with lines lt 2 title 'base 500,000, key at 0'
)";
  return figure;
}

}  // namespace

void show_relative_scores(Tour& tour) {
  using Vector = Eigen::RowVectorXd;
  const Vector ones = Vector::Ones(rotary_dim) / std::sqrt(static_cast<double>(rotary_dim));
  Eigen::MatrixXd curves(distances, 3);
  curves << scores<double>(1e4, ones, ones, 0), scores<double>(1e4, ones, ones, 1'000'000),
      scores<double>(5e5, ones, ones, 0);
  const double apart = (curves.col(0) - curves.col(1)).cwiseAbs().maxCoeff();

  tour.report.paragraph(
      "A query at position m, turned by m w_i, and a key at n, turned by n w_i, stand at the "
      "angle (m - n) w_i to each other: turning both by the same amount changes nothing.");
  tour.report.picture(
      picture(curves),
      cat("The score falls with the distance, though not evenly: with base 10,000 it is ",
          fixed(curves(16, 0), 2), " at distance 16, ", fixed(curves(64, 0), 2), " at 64 and ",
          fixed(curves(512, 0), 2),
          " at 512. The points, a million positions further on, lie on "
          "the line: they differ by at most ",
          scientific(apart), "."));

  const Vector q = tour.sample.embeddings.row(1).cast<double>();
  const Vector k = tour.sample.embeddings.row(2).cast<double>();
  const double size = q.norm() * k.norm();
  const Eigen::VectorXd truth = scores<double>(1e4, q, k, 0);
  Table table{
      "Queries and keys of two words of the text, distances 0 to 512, both moved on by a "
      "shift: largest change of a score, as a share of |q| |k|",
      {"shift", "posenc, double", "posenc, float", "float32 angles, as others"},
      {}};
  for (const Index shift : {100, 10'000, 1'000'000, 10'000'000}) {
    const auto change = [&](const Eigen::VectorXd& moved) {
      return scientific((moved - truth).cwiseAbs().maxCoeff() / size);
    };
    table.rows.push_back({grouped(shift), change(scores<double>(1e4, q, k, shift)),
                          change(scores<float>(1e4, q, k, shift)),
                          change(float_angle_scores(1e4, q, k, shift))});
  }
  tour.report.table(table);
}

}  // namespace tour
