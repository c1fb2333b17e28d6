// SPDX-License-Identifier: MIT
#pragma once

#include "laws/support.hpp"
#include "support/catch.hpp"
#include "support/worse.hpp"
#include <posenc/concepts.hpp>

#include <cmath>

namespace laws {

/// The laws of posenc::AdditiveEncoding. To put a type of your own through them:
///
///   laws::check_additive<float>(encoding, model_dim, posenc::Positions::ids({0, 7, 7, 3}));
///
/// The positions may be any that the encoding accepts, with a batch axis or without; repeat some.
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

  /// X + P is what adding P, made on zeros, to X gives; up to rounding.
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

  /// A token's increment is the one that its position has alone, whatever row it stands in and
  /// whatever stands beside it. Bit for bit.
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

  /// A change of X comes through as it is, so that the gradient of the output is that of X.
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

  /// Of what rounding to T may change numbers of this magnitude.
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
