// SPDX-License-Identifier: MIT
// The score of a rotated query and a rotated key depends on the distance only.
#include "chapters.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <cmath>

namespace tour::relative_scores {

namespace {

constexpr Index rotary_dim = 128, distances = 513;
constexpr Index fine = 4, fine_distances = (distances - 1) * fine + 1;  // 0, 1/4, 2/4, ... 512

template <class Scalar>
using Rows = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

posenc::Rope<posenc::HalfRotate> rope_of(double base) {
  return posenc::Rope<posenc::HalfRotate>(posenc::Unscaled{.rotary_dim = rotary_dim, .base = base});
}

/// Returns one vector at `count` positions from `start` on, one per row.
template <class Scalar, class Rope, class Vector>
Rows<Scalar> rotated(const Rope& rope, const Vector& vector, Index start, Index count) {
  Rows<Scalar> x = vector.template cast<Scalar>().replicate(count, 1);
  rope.rotate(posenc::split_heads(posenc::sd(x), 1), posenc::Positions::range(start, count));
  return x;
}

/// Returns the scores of a key at `start` with the query at start + 0, 1, 2, ...
template <class Scalar, class Vector>
Eigen::VectorXd scores(double base, const Vector& query, const Vector& key, Index start) {
  const auto rope = rope_of(base);
  const Rows<Scalar> q = rotated<Scalar>(rope, query, start, distances);
  const Rows<Scalar> k = rotated<Scalar>(rope, key, start, 1);
  return (q * k.transpose()).template cast<double>();
}

/// Returns the scores as other libraries compute them: the angle is a product of floats.
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

/// Returns the scores of a key at 0 with the query at 0, 1/4, 2/4, ... 512.
Eigen::VectorXd fine_scores(double base, const Eigen::RowVectorXd& query,
                            const Eigen::RowVectorXd& key) {
  std::vector<double> at(static_cast<std::size_t>(fine_distances));  // 0, 1/4, 2/4, ... 512
  for (std::size_t n = 0; n < at.size(); ++n) at[n] = static_cast<double>(n) / fine;
  // excerpt: rope_distance
  Rows<double> q = query.replicate(fine_distances, 1);
  rope_of(base).rotate(posenc::split_heads(posenc::sd(q), 1), posenc::Positions::real(at));
  return q * key.transpose();  // the key is at position 0: no rotation
  // end of excerpt
}

/// Returns the first word of the text that differs from token 1.
Eigen::RowVectorXd other_word(const Sample& sample) {
  Matrix word = embed({"another word"}, model_dim);
  for (Index t = sample_length - 1; t > 1; --t) {
    if (sample.embeddings.row(t) != sample.embeddings.row(1)) word = sample.embeddings.row(t);
  }
  return word.row(0).cast<double>().normalized();
}

/// Returns the root mean square score over pairs of different words, by distance; query and key
/// have length 1.
Eigen::VectorXd typical_score(const Sample& sample) {
  Eigen::VectorXd squares = Eigen::VectorXd::Zero(distances);
  Index pairs = 0;
  for (Index t = 0; t + 1 < sample_length; ++t) {
    const Eigen::RowVectorXd q = sample.embeddings.row(t).cast<double>().normalized();
    const Eigen::RowVectorXd k = sample.embeddings.row(t + 1).cast<double>().normalized();
    if (q == k) continue;
    squares += scores<double>(1e4, q, k, 0).cwiseAbs2();
    ++pairs;
  }
  return (squares / static_cast<double>(std::max(pairs, Index{1}))).cwiseSqrt();
}

/// Returns the figure. ones: base 10,000 and 500,000; far: base 10,000, key at a million, integer
/// distances; random: a query and a key that differ, and a query that is its own key.
Figure picture(const Eigen::MatrixXd& ones, const Eigen::MatrixXd& far,
               const Eigen::MatrixXd& random) {
  Figure figure{.name = "rope_distance",
                .title = "Score against the distance: queries and keys of ones, and random ones",
                .width = 960,
                .height = 470,
                .blocks = {{"ones", ones}, {"far", far}, {"random", random}}};
  figure.commands =
      R"(set multiplot layout 1,2 margins 0.08,0.98,0.145,0.83 spacing 0.06,0 \
  title 'RoPE, 128 rotary channels: score by distance'
set xlabel 'distance between query and key, positions'
set ylabel 'score / (length of q x length of k)'
set xrange [0:512]
set yrange [-0.4:1.05]
set xtics 128
set grid lc '#dddddd'
set key top right
set title 'query = key, all channels 1'
plot data index 'ones' using ($0 / 4):1 with lines lw 1.5 title 'base 10,000, key at 0', \
  data index 'far' using (16 * $0):1 every 16 with points ps 0.7 lt 7 title '10,000, key at 1,000,000', \
  data index 'ones' using ($0 / 4):2 with lines lw 1.5 lt 2 title 'base 500,000, key at 0'
unset ylabel
set title 'random vectors of words, base 10,000'
plot data index 'random' using ($0 / 4):2 with lines lw 1.5 lt 1 title 'query = key', \
  data index 'random' using ($0 / 4):1 with lines lw 1.5 lt 2 title 'query and key of two words'
unset multiplot
)";
  return figure;
}

}  // namespace

void show(Tour& tour) {
  using Vector = Eigen::RowVectorXd;
  const Vector ones = Vector::Ones(rotary_dim) / std::sqrt(static_cast<double>(rotary_dim));
  const Eigen::VectorXd near = scores<double>(1e4, ones, ones, 0),
                        far = scores<double>(1e4, ones, ones, 1'000'000);
  const double apart = (near - far).cwiseAbs().maxCoeff();
  const Vector first = tour.sample.embeddings.row(1).cast<double>().normalized();
  const Vector second = other_word(tour.sample);
  Eigen::MatrixXd curves(fine_distances, 2), random(fine_distances, 2);
  curves << fine_scores(1e4, ones, ones), fine_scores(5e5, ones, ones);
  random << fine_scores(1e4, first, second), fine_scores(1e4, first, first);
  const Eigen::VectorXd typical = typical_score(tour.sample);

  tour.report.paragraph(
      "A query at position m is rotated by m w_i, and a key at n by n w_i. The angle between them "
      "changes by (m - n) w_i, so moving both by the same distance changes nothing.");
  tour.report.picture(
      picture(curves, far, random),
      cat("Left: equal vectors of ones. The score falls with the distance, though not evenly: with "
          "base 10,000 it is ",
          fixed(near(16), 2), " at distance 16, ", fixed(near(64), 2), " at 64 and ",
          fixed(near(512), 2),
          " at 512. The points, a million positions later, lie on the line: they differ by at "
          "most ",
          scientific(apart),
          ". Right: random vectors. For equal query and key the score falls as well. For "
          "two different words it oscillates around 0 at every distance. ",
          typical.isZero(0)
              ? "(The text has no two neighbouring words that differ.)"
              : cat("Over all neighbouring words of the text that differ, its root mean square is ",
                    fixed(typical.head(64).mean(), 3), " at distances 0 to 63 and ",
                    fixed(typical.tail(64).mean(), 3), " at 449 to 512."),
          " RoPE by itself does not fade a key: only the common part of query and key fades."));

  const Vector q = tour.sample.embeddings.row(1).cast<double>();
  const Vector k = tour.sample.embeddings.row(2).cast<double>();
  const double size = q.norm() * k.norm();
  const Eigen::VectorXd truth = scores<double>(1e4, q, k, 0);
  Table table{
      "Queries and keys of two words of the text, distances 0 to 512, both moved by a "
      "shift: largest change of a score, as a share of |q| |k|",
      {"shift", "posenc, double", "posenc, float", "float32 angles (other libraries)"},
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

}  // namespace tour::relative_scores
