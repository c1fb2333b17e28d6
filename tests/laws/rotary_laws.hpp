// SPDX-License-Identifier: MIT
#pragma once

#include "laws/support.hpp"
#include "support/catch.hpp"
#include "support/worse.hpp"
#include <posenc/concepts.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace laws {

/// Inputs that an encoding accepts, if not one axis, any number of heads, and far positions.
struct RotaryDomain {
  Index axes = 1;
  Index heads = 2;
  Index farthest = Index{1} << 40;  ///< at least 1300
};

/// Laws of posenc::RotaryEncoding. To check a type of your own:
///
///   laws::check_rotary<float>(rotary, head_dim, first, last);
///
/// where the encoding rotates the channels [first, last).
template <class T, class Rotary>
class RotaryLaws {
 public:
  RotaryLaws(const Rotary& rotary, Index head_dim, Index first, Index last,
             const RotaryDomain& domain)
      : rotary_(rotary),
        first_(first),
        last_(last),
        domain_(domain),
        shape_(2, 3, domain.heads, head_dim),
        positions_(positions_of(domain)) {}

  /// Checks that R(2x - y/2) == 2 R(x) - R(y)/2, up to rounding.
  void linear() const {
    const auto x = random_like(shape_, 1), y = random_like(shape_, 2);
    auto mixed = shape_;
    for (Index i = 0; i < x.size(); ++i) {
      mixed.data()[i] = static_cast<T>(2 * value(x, i) - 0.5 * value(y, i));
    }
    for_each_map([&](const auto& map) {
      const auto rx = map(x), ry = map(y), rm = map(mixed);
      for_each_row([&](Index row) {
        const double tolerance =
            4 * epsilon<T>() * (2 * norm(rx.data() + row, dim()) + norm(ry.data() + row, dim()));
        double worst = 0;
        for (Index i = row; i < row + dim(); ++i) {
          worst = support::worse(worst,
                                 std::abs(value(rm, i) - (2 * value(rx, i) - 0.5 * value(ry, i))));
        }
        REQUIRE(worst / tolerance <= 1);
      });
    });
  }

  /// Checks that <R x, y> == <x, adjoint(y)> for queries and for keys.
  void adjoint_is_the_transpose() const {
    const auto x = random_like(shape_, 3), y = random_like(shape_, 4);
    check_transpose(queries(x), y, x, adjoint_queries(y));
    check_transpose(keys(x), y, x, adjoint_keys(y));
  }

  /// Checks that the score of a query and a key depends only on the difference of their positions.
  void score_depends_on_the_difference_of_positions() const {
    const Heads<T> one(1, 1, 1, dim());
    const auto q = random_like(one, 5), k = random_like(one, 6);
    // Starts of queries and keys differ on every axis, and so do their differences.
    const auto at = [&](Index start, Index difference) {
      std::vector<Positions> axes;
      for (Index axis = 0; axis < domain_.axes; ++axis) {
        axes.push_back(
            Positions::ids({start + 3 * axis + (difference == 0 ? 0 : difference - axis)}));
      }
      return axes.size() == 1 ? axes[0]
                              : Positions::axes(axes).with_kind(posenc::PositionKind::Unspecified);
    };
    const auto score = [&](Index start, Index difference, double& scale) {
      Heads<T> rq = q, rk = k;
      rotary_.rotate_queries(posenc::bshd(rq), at(start, difference));
      rotary_.rotate_keys(posenc::bshd(rk), at(start, 0));
      scale = norm(rq.data(), dim()) * norm(rk.data(), dim());
      return dot(rq.data(), rk.data(), dim());
    };
    for (const Index difference : {0, 1, 7, -3, 100}) {
      double scale = 0;
      const double expected = score(0, difference, scale);
      for (const Index start : {1, 5, 1000, 131071, -64}) {
        if (start + 200 > domain_.farthest) continue;
        CAPTURE(difference, start);
        double scale_here = 0;
        const double shifted = score(start, difference, scale_here);
        const double tolerance = 2 * epsilon<T>() * (std::max)(scale, scale_here);
        REQUIRE(std::abs(shifted - expected) / tolerance <= 1);
      }
    }
  }

  /// Checks that channels outside the rotary slice keep their bits, NaN included.
  void channels_outside_the_slice_keep_their_bits() const {
    auto x = random_like(shape_, 7);
    for_each_row([&](Index row) {
      for (Index d = row % 3; d < dim(); d += 2) {
        const bool outside = d < first_ || d >= last_;
        // A NaN with all bits of its payload.
        if (outside) std::memset(static_cast<void*>(x.data() + row + d), 0xff, sizeof(T));
      }
    });
    for_each_map([&](const auto& map) {
      const auto rotated = map(x);
      for_each_row([&](Index row) {
        REQUIRE(same_bits(rotated.data() + row, x.data() + row, first_));
        REQUIRE(same_bits(rotated.data() + row + last_, x.data() + row + last_, dim() - last_));
      });
    });
  }

  /// Checks that a token alone is bit-identical to the token among others, even beside a NaN.
  void token_does_not_depend_on_its_neighbours() const {
    auto x = random_like(shape_, 8);
    for (Index d = 0; d < dim(); ++d) {
      x(0, 0, 0, d) = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    }
    const auto all_q = queries(x), all_k = keys(x);
    for (Index b = 0; b < shape_.dimension(0); ++b) {
      for (Index s = 0; s < shape_.dimension(1); ++s) {
        for (Index h = 0; h < shape_.dimension(2); ++h) {
          if (b == 0 && s == 0 && h == 0) continue;
          CAPTURE(b, s, h);
          Heads<T> q(1, 1, 1, dim());
          std::copy_n(&x(b, s, h, 0), dim(), q.data());
          Heads<T> k = q;
          rotary_.rotate_queries(posenc::bshd(q), alone(positions_, b, s));
          rotary_.rotate_keys(posenc::bshd(k), alone(positions_, b, s));
          REQUIRE(same_bits(q.data(), &all_q(b, s, h, 0), dim()));
          REQUIRE(same_bits(k.data(), &all_k(b, s, h, 0), dim()));
        }
      }
    }
  }

  void softmax_scale_is_a_positive_number() const {
    const double multiplier = rotary_.softmax_scale_multiplier();
    CHECK(std::isfinite(multiplier));
    CHECK(multiplier > 0);
  }

 private:
  static Positions positions_of(const RotaryDomain& domain) {
    const Index far = (std::min)(Index{100000}, domain.farthest - 100);
    std::vector<Positions> axes;
    for (Index axis = 0; axis < domain.axes; ++axis) {
      axes.push_back(Positions::starts({far - 37 * axis, 5 * axis - 7}, 3));
    }
    return axes.size() == 1 ? axes[0]
                            : Positions::axes(axes).with_kind(posenc::PositionKind::Unspecified);
  }

  static double value(const Heads<T>& x, Index i) { return static_cast<double>(x.data()[i]); }
  Index dim() const { return shape_.dimension(3); }

  Heads<T> queries(Heads<T> x) const {
    rotary_.rotate_queries(posenc::bshd(x), positions_);
    return x;
  }
  Heads<T> keys(Heads<T> x) const {
    rotary_.rotate_keys(posenc::bshd(x), positions_);
    return x;
  }
  Heads<T> adjoint_queries(Heads<T> x) const {
    rotary_.adjoint_queries(posenc::bshd(x), positions_);
    return x;
  }
  Heads<T> adjoint_keys(Heads<T> x) const {
    rotary_.adjoint_keys(posenc::bshd(x), positions_);
    return x;
  }

  template <class Use>
  void for_each_map(const Use& use) const {
    use([this](const Heads<T>& x) { return queries(x); });
    use([this](const Heads<T>& x) { return keys(x); });
    use([this](const Heads<T>& x) { return adjoint_queries(x); });
    use([this](const Heads<T>& x) { return adjoint_keys(x); });
  }

  /// Calls use(offset) for every head vector.
  template <class Use>
  void for_each_row(const Use& use) const {
    for (Index row = 0; row < shape_.size(); row += dim()) use(row);
  }

  void check_transpose(const Heads<T>& rx, const Heads<T>& y, const Heads<T>& x,
                       const Heads<T>& ry) const {
    for_each_row([&](Index row) {
      const auto at = [row](const Heads<T>& t) { return t.data() + row; };
      const double tolerance = epsilon<T>() * (norm(at(rx), dim()) * norm(at(y), dim()) +
                                               norm(at(x), dim()) * norm(at(ry), dim()));
      const double difference = dot(at(rx), at(y), dim()) - dot(at(x), at(ry), dim());
      REQUIRE(std::abs(difference) / tolerance <= 1);
    });
  }

  const Rotary& rotary_;
  Index first_, last_;
  RotaryDomain domain_;
  Heads<T> shape_;
  Positions positions_;
};

template <class T, class Rotary>
void check_rotary(const Rotary& rotary, Index head_dim, Index first, Index last,
                  const RotaryDomain& domain = {}) {
  STATIC_REQUIRE(posenc::DifferentiableRotary<Rotary, T>);
  const RotaryLaws<T, Rotary> laws(rotary, head_dim, first, last, domain);
  laws.linear();
  laws.adjoint_is_the_transpose();
  laws.score_depends_on_the_difference_of_positions();
  laws.channels_outside_the_slice_keep_their_bits();
  laws.token_does_not_depend_on_its_neighbours();
  laws.softmax_scale_is_a_positive_number();
}

}  // namespace laws
