// SPDX-License-Identifier: MIT
#pragma once

#include "laws/support.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/concepts.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace laws {

/// Laws of posenc::ScoreBias. To check a type of your own, for scores of float or double and for
/// each of its heads:
///
///   laws::check_bias<float>(bias, heads);
template <class Real, class Bias>
class BiasLaws {
 public:
  BiasLaws(const Bias& bias, Index head) : bias_(bias), head_(head) {
    increments_ = biased(std::vector<Real>(cells()));
  }

  /// Checks that S + B equals S plus a bias B of zeros, up to rounding.
  void increment_does_not_depend_on_scores() const {
    std::vector<Real> scores(cells());
    support::Random(1).fill_normal(scores);
    const auto sum = biased(scores);
    double worst = 0;
    for (std::size_t i = 0; i < cells(); ++i) {
      const auto before = static_cast<double>(scores[i]);
      const auto increment = static_cast<double>(increments_[i]);
      const double error = static_cast<double>(sum[i]) - (before + increment);
      const double magnitude = std::abs(before) + std::abs(increment);
      worst = support::worse(worst, std::abs(error) / (epsilon<Real>() * magnitude));
    }
    CHECK(worst <= 1);
  }

  /// Checks that scores are bit-identical for any cut into tiles with wider rows; a decoded row is
  /// such a tile. Cells between the tiles must not change.
  void tiles_give_the_bits_of_the_whole() const {
    for (const Index height : {Index{1}, Index{3}, queries()}) {
      for (const Index width : {Index{1}, Index{4}, keys()}) {
        CAPTURE(height, width);
        for (Index i = 0; i < queries(); i += height) {
          for (Index j = 0; j < keys(); j += width) {
            check_tile(i, j, std::min(height, queries() - i), std::min(width, keys() - j));
          }
        }
      }
    }
  }

  /// Checks that equal calls give equal results, whatever was called in between.
  void nothing_is_remembered() const {
    check_tile(2, 3, 4, 5);
    CHECK(biased(std::vector<Real>(cells())) == increments_);
  }

  /// Checks that a tile without queries or without keys is accepted.
  void empty_tiles_are_legal() const {
    Real cell = 5;
    const std::span<const double> none, some(key_positions_);
    bias_.add(head_, none, some, tile(&cell, 0, keys(), keys()));
    bias_.add(head_, some, none, tile(&cell, keys(), 0, 0));
    CHECK(cell == 5);
  }

  /// Checks that a posenc::DistanceBias writes the values that it adds, for integer positions.
  void values_are_what_tiles_get() const {
    std::vector<double> keys(1200);
    for (std::size_t j = 0; j < keys.size(); ++j) keys[j] = static_cast<double>(j);
    for (const double farthest : {0.0, 7.0, 600.0, -3.0, 40000.0, 0x1p51}) {
      for (const std::size_t count :
           {std::size_t{1}, std::size_t{16}, std::size_t{37}, keys.size()}) {
        CAPTURE(farthest, count);
        std::vector<Real> scores(count), values(count + 1, Real{42});
        const auto columns = static_cast<Index>(count);
        bias_.add(head_, std::span(&farthest, 1), std::span<const double>(keys).first(count),
                  tile(scores.data(), 1, columns, columns));
        bias_.write_values(head_, farthest, std::span(values).first(count));
        REQUIRE(values.back() == 42);
        for (Real& value : values) value += 0;  // -0 becomes 0, as in a tile of zeros
        REQUIRE(same_bits<Real>(values.data(), scores.data(), columns));
      }
    }
  }

 private:
  Index queries() const { return static_cast<Index>(query_positions_.size()); }
  Index keys() const { return static_cast<Index>(key_positions_.size()); }
  std::size_t cells() const { return query_positions_.size() * key_positions_.size(); }

  static posenc::MatrixView<Real> tile(Real* data, Index rows, Index cols, Index row_stride) {
    return {.data = data, .rows = rows, .cols = cols, .row_stride = row_stride};
  }

  std::vector<Real> biased(std::vector<Real> scores) const {
    bias_.add(head_, std::span<const double>(query_positions_),
              std::span<const double>(key_positions_),
              tile(scores.data(), queries(), keys(), keys()));
    return scores;
  }

  void check_tile(Index first_query, Index first_key, Index height, Index width) const {
    constexpr Index gap = 3;
    constexpr Real untouched = 42;
    const Index stride = width + gap;
    std::vector<Real> memory(static_cast<std::size_t>(height * stride), untouched);
    const auto cut = tile(memory.data(), height, width, stride);
    for (Index i = 0; i < height; ++i) std::fill_n(cut.row(i), width, Real{0});
    const auto part = [](const std::vector<double>& positions, Index first, Index count) {
      return std::span<const double>(positions).subspan(static_cast<std::size_t>(first),
                                                        static_cast<std::size_t>(count));
    };
    bias_.add(head_, part(query_positions_, first_query, height),
              part(key_positions_, first_key, width), cut);
    for (Index i = 0; i < height; ++i) {
      const Real* expected = increments_.data() + (first_query + i) * keys() + first_key;
      REQUIRE(same_bits<Real>(cut.row(i), expected, width));
      REQUIRE(std::all_of(cut.row(i) + width, cut.row(i) + stride,
                          [](Real cell) { return cell == untouched; }));
    }
  }

  const Bias& bias_;
  Index head_;
  std::vector<double> query_positions_{0, 1, 2, 3, 17, 5, 5, 40000, 0.5};
  std::vector<double> key_positions_{0, 1, 2, 3, 4, 5, 6, 7, 3, 3, 40000, 100, 2.25};
  std::vector<Real> increments_;
};

template <class Real, class Bias>
void check_bias(const Bias& bias, Index heads) {
  STATIC_REQUIRE(posenc::ScoreBias<Bias, Real>);
  for (Index head = 0; head < heads; ++head) {
    CAPTURE(head);
    const BiasLaws<Real, Bias> laws(bias, head);
    laws.increment_does_not_depend_on_scores();
    laws.tiles_give_the_bits_of_the_whole();
    laws.nothing_is_remembered();
    laws.empty_tiles_are_legal();
    if constexpr (posenc::DistanceBias<Bias, Real>) laws.values_are_what_tiles_get();
  }
}

/// Law of posenc::LearnedScoreBias that needs no derivative, for a bias with zero_gradient():
/// gradients of tiles, each added to separate zeros, sum to the gradient of all scores.
/// numbers(gradient) lists the numbers of a gradient.
template <class Real, class Bias, class Numbers>
void check_gradient_sums_over_tiles(const Bias& bias, Index heads, const Numbers& numbers) {
  using Gradient = decltype(bias.zero_gradient());
  STATIC_REQUIRE(posenc::LearnedScoreBias<Bias, Real, Gradient>);
  const std::vector<double> queries{0, 1, 2, 3, 9, 4}, keys{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const auto width = static_cast<Index>(keys.size());
  std::vector<Real> grad(queries.size() * keys.size());
  support::Random(3).fill_normal(grad);
  const auto add = [&](Index head, Index i, Index j, Index rows, Index cols, Gradient& gradient) {
    const auto part = [](const std::vector<double>& positions, Index first, Index count) {
      return std::span<const double>(positions).subspan(static_cast<std::size_t>(first),
                                                        static_cast<std::size_t>(count));
    };
    bias.add_gradient(
        head, part(queries, i, rows), part(keys, j, cols),
        posenc::MatrixView<const Real>{grad.data() + i * width + j, rows, cols, width}, gradient);
  };
  Gradient whole = bias.zero_gradient(), sum = bias.zero_gradient();
  for (const double number : numbers(whole)) CHECK(number == 0);
  for (Index head = 0; head < heads; ++head) {
    add(head, 0, 0, 6, width, whole);
    for (Index i = 0; i < 6; i += 2) {
      for (Index j = 0; j < width; j += 3) {
        Gradient tile = bias.zero_gradient();
        add(head, i, j, 2, 3, tile);
        if constexpr (requires { sum += tile; }) {
          sum += tile;
        } else {
          std::transform(sum.begin(), sum.end(), tile.begin(), sum.begin(), std::plus());
        }
      }
    }
  }
  const std::vector<double> want = numbers(whole);
  CHECK(support::max_abs(want) > 0);
  CHECK(support::max_abs_difference(numbers(sum), want) <= 1e-13 * support::max_abs(want));
}

}  // namespace laws
