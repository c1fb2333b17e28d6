// SPDX-License-Identifier: MIT
#pragma once

#include "laws/support.hpp"
#include "support/catch.hpp"
#include "support/worse.hpp"
#include <posenc/concepts.hpp>

#include <cmath>

namespace laws {

/// Laws of posenc::AdditiveEncoding. To check a type of your own:
///
///   laws::check_additive<float>(encoding, model_dim, posenc::Positions::ids({0, 7, 7, 3}));
///
/// Pass any positions that the encoding accepts, with or without a batch axis; repeat some.
template <class T, class Encoding>
class AdditiveLaws {
 public:
  AdditiveLaws(const Encoding& encoding, Index model_dim, const Positions& positions)
      : encoding_(encoding),
        positions_(positions),
        shape_(positions.batch() == 1 ? 2 : positions.batch(), positions.count(), model_dim),
        increments_(shape_) {
    increments_.setZero();
    increments_ = encoded(increments_);
  }

  /// Checks that X + P equals X plus an encoding P of zeros, up to rounding.
  void increment_does_not_depend_on_x() const {
    const auto x = random_like(shape_, 1);
    const auto y = encoded(x);
    double worst = 0;
    for (Index i = 0; i < x.size(); ++i) {
      const double before = value(x, i), increment = value(increments_, i);
      worst = support::worse(worst, error_share(value(y, i) - (before + increment),
                                                std::abs(before) + std::abs(increment)));
    }
    CHECK(worst <= 1);
  }

  /// Checks that a token's increment is bit-identical to that of its position alone, in any row and
  /// beside any other tokens.
  void equal_positions_get_equal_increments() const {
    const Index dim = shape_.dimension(2);
    Embeddings<T> token(1, 1, dim);
    for (Index b = 0; b < shape_.dimension(0); ++b) {
      for (Index s = 0; s < shape_.dimension(1); ++s) {
        token.setZero();
        encoding_.add_to(posenc::bsd(token), alone(positions_, b, s));
        CAPTURE(b, s, positions_.at(b, s));
        REQUIRE(same_bits(token.data(), &increments_(b, s, 0), dim));
      }
    }
  }

  /// Checks that a change of X appears unchanged in the output, so that the gradient of X is that
  /// of the output.
  void adjoint_is_the_identity() const {
    const auto x = random_like(shape_, 2), change = random_like(shape_, 3);
    Embeddings<T> moved(shape_);
    for (Index i = 0; i < x.size(); ++i) {
      moved.data()[i] = static_cast<T>(value(x, i) + value(change, i));
    }
    const auto before = encoded(x), after = encoded(moved);
    double worst = 0;
    for (Index i = 0; i < x.size(); ++i) {
      worst = support::worse(
          worst, error_share((value(after, i) - value(before, i)) - (value(moved, i) - value(x, i)),
                             2 * std::abs(value(x, i)) + std::abs(value(change, i)) +
                                 2 * std::abs(value(increments_, i))));
    }
    CHECK(worst <= 1);
  }

 private:
  static double value(const Embeddings<T>& x, Index i) { return static_cast<double>(x.data()[i]); }

  /// Returns an error as a share of the rounding error of T for numbers of this magnitude.
  static double error_share(double error, double magnitude) {
    return error == 0 ? 0 : std::abs(error) / (epsilon<T>() * magnitude);
  }

  Embeddings<T> encoded(Embeddings<T> x) const {
    encoding_.add_to(posenc::bsd(x), positions_);
    return x;
  }

  const Encoding& encoding_;
  const Positions& positions_;
  Embeddings<T> shape_, increments_;
};

template <class T, class Encoding>
void check_additive(const Encoding& encoding, Index model_dim, const Positions& positions) {
  STATIC_REQUIRE(posenc::AdditiveEncoding<Encoding, T>);
  const AdditiveLaws<T, Encoding> laws(encoding, model_dim, positions);
  laws.increment_does_not_depend_on_x();
  laws.equal_positions_get_equal_increments();
  laws.adjoint_is_the_identity();
}

}  // namespace laws
