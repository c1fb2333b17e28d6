// SPDX-License-Identifier: MIT
// Properties of any rotation: adjoint, inverse, relative positions, norms, and its other forms.
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/worse.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <cmath>
#include <vector>

namespace rope_laws_test {

using posenc::Index;
using posenc::Positions;
using support::Heads;

namespace {

constexpr Index seq = 5, dim = 32;

template <class Pairing>
posenc::Rope<Pairing> make_rope(double attention_factor = 1) {
  return posenc::Rope<Pairing>(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(dim), attention_factor));
}

/// Returns the norm of each pair of one head vector.
template <class Pairing>
std::vector<double> pair_norms(const std::vector<double>& x) {
  std::vector<double> norms;
  for (Index i = 0; i < dim / 2; ++i) {
    norms.push_back(std::hypot(x[static_cast<std::size_t>(Pairing::first(i, dim / 2))],
                               x[static_cast<std::size_t>(Pairing::second(i, dim / 2))]));
  }
  return norms;
}

long double dot(const std::vector<double>& x, const std::vector<double>& y) {
  long double sum = 0;
  for (std::size_t d = 0; d < x.size(); ++d) {
    sum += static_cast<long double>(x[d]) * static_cast<long double>(y[d]);
  }
  return sum;
}

/// Returns the allowed error of <R x, y> that comes from the error of R x: both channels of a pair,
/// by Cauchy-Schwarz.
template <class T, class Pairing>
double dot_tolerance(const std::vector<double>& x, const std::vector<double>& y, double m) {
  const auto nx = pair_norms<Pairing>(x), ny = pair_norms<Pairing>(y);
  double sum = 0;
  for (std::size_t i = 0; i < nx.size(); ++i) {
    sum += std::sqrt(2.0) * rotation::tolerance<T>(m * nx[i]) * ny[i];
  }
  return sum;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("Rope: <rotate(x), y> == <x, adjoint(y)>", "[rope]", rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(1);
    for (const double m : {1.0, 1.25}) {
      const auto rope = make_rope<Pairing>(m);
      auto x = Heads<T>::random(random, 1, seq, 2, dim), y = x;
      y.for_each([&](T& value) { value = static_cast<T>(random.normal()); });
      auto rx = x, ay = y;
      rope.rotate(rx.view(), Positions::range(300, seq));
      rope.adjoint(ay.view(), Positions::range(300, seq));
      for (Index s = 0; s < seq; ++s) {
        const auto at = [s](Heads<T>& heads) { return support::row_of(heads.view(), 0, s, 1); };
        const double tolerance =
            dot_tolerance<T, Pairing>(at(x), at(y), m) + dot_tolerance<T, Pairing>(at(y), at(x), m);
        CHECK(std::abs(static_cast<double>(dot(at(rx), at(y)) - dot(at(x), at(ay)))) <= tolerance);
      }
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Rope: inverse undoes rotate, adjoint leaves m^2", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(2);
    for (const double m : {1.0, 1.25, 0.5}) {
      const auto rope = make_rope<Pairing>(m);
      const auto positions = Positions::range(12345, seq);
      auto x = Heads<T>::random(random, 1, seq, 2, dim);
      auto back = x, twice = x;
      rope.rotate(back.view(), positions);
      rope.inverse(back.view(), positions);
      rope.rotate(twice.view(), positions);
      rope.adjoint(twice.view(), positions);
      double worst = 0;
      for (Index s = 0; s < seq; ++s) {
        const auto want = support::row_of(x.view(), 0, s, 0);
        const auto inverse = support::row_of(back.view(), 0, s, 0);
        const auto adjoint = support::row_of(twice.view(), 0, s, 0);
        const auto norms = pair_norms<Pairing>(want);
        for (Index i = 0; i < dim / 2; ++i) {
          const double n = norms[static_cast<std::size_t>(i)];
          // The second rotation adds its own error. It also rotates the first one's error (both
          // channels' errors may then add up in one) and scales it.
          const double first = std::sqrt(2.0) * rotation::tolerance<T>(m * n);
          const double of_inverse = first / m + rotation::tolerance<T>(n, 4e-16, 2);
          const double of_adjoint = first * m + rotation::tolerance<T>(m * m * n);
          for (const Index d : {Pairing::first(i, dim / 2), Pairing::second(i, dim / 2)}) {
            const auto at = static_cast<std::size_t>(d);
            // Both tolerances leave 1 % for errors of errors.
            worst = support::worse(worst, std::abs(inverse[at] - want[at]) / (1.01 * of_inverse));
            worst = support::worse(worst,
                                   std::abs(adjoint[at] - m * m * want[at]) / (1.01 * of_adjoint));
          }
        }
      }
      INFO(Pairing::name << ", m " << m);
      CHECK(worst <= 1);
    }
  });
}

TEMPLATE_TEST_CASE("Rope: inverse undoes factors whose square a float does not hold", "[rope]",
                   float, double) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(5);
    for (const double m : {1e-25, 1e-20, 1e-18, 1e-10, 1e10, 1e18, 1e20, 1e25}) {
      const auto rope = make_rope<Pairing>(m);
      const auto positions = Positions::range(12345, seq);
      auto x = Heads<T>::random(random, 1, seq, 2, dim);
      auto back = x;
      rope.rotate(back.view(), positions);
      rope.inverse(back.view(), positions);
      double worst = 0;
      for (Index s = 0; s < seq; ++s) {
        const auto want = support::row_of(x.view(), 0, s, 0);
        const auto got = support::row_of(back.view(), 0, s, 0);
        const auto norms = pair_norms<Pairing>(want);
        for (Index i = 0; i < dim / 2; ++i) {
          const double n = norms[static_cast<std::size_t>(i)];
          const double both = 1.01 * (1 + std::sqrt(2.0)) * rotation::tolerance<T>(n, 4e-16, 2);
          for (const Index d : {Pairing::first(i, dim / 2), Pairing::second(i, dim / 2)}) {
            const auto at = static_cast<std::size_t>(d);
            worst = support::worse(worst, std::abs(got[at] - want[at]) / both);
          }
        }
      }
      INFO(Pairing::name << ", m " << m);
      CHECK(worst <= 1);
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Rope: scores depend on the difference of positions alone", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(3);
    const auto rope = make_rope<Pairing>();
    auto q = Heads<T>::random(random, 1, 1, 1, dim), k = Heads<T>::random(random, 1, 1, 1, dim);
    const auto score = [&](Index query, Index key) {
      auto rq = q, rk = k;
      rope.rotate(rq.view(), Positions::range(query, 1));
      rope.rotate(rk.view(), Positions::range(key, 1));
      return dot(support::row_of(rq.view(), 0, 0, 0), support::row_of(rk.view(), 0, 0, 0));
    };
    const auto x = support::row_of(q.view(), 0, 0, 0), y = support::row_of(k.view(), 0, 0, 0);
    // Errors of q and k in each of the two scores, and 1 % for errors of errors.
    const double tolerance =
        2.02 * (dot_tolerance<T, Pairing>(x, y, 1) + dot_tolerance<T, Pairing>(y, x, 1));
    for (const Index distance : {0, 1, 7, -3, 1000}) {
      const auto near = score(distance, 0);
      for (const Index shift : {Index{1}, Index{4096}, Index{1'000'000'000}, Index{-77}}) {
        INFO("distance " << distance << ", shift " << shift);
        const auto far = score(shift + distance, shift);
        CHECK(std::abs(static_cast<double>(far - near)) <= tolerance);
      }
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Rope: rotation multiplies every pair's norm by m", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(4);
    for (const double m : {1.0, 1.75}) {
      auto x = Heads<T>::random(random, 1, seq, 1, dim);
      auto y = x;
      make_rope<Pairing>(m).rotate(y.view(), Positions::range(99, seq));
      double worst = 0;
      for (Index s = 0; s < seq; ++s) {
        const auto before = pair_norms<Pairing>(support::row_of(x.view(), 0, s, 0));
        const auto after = pair_norms<Pairing>(support::row_of(y.view(), 0, s, 0));
        for (std::size_t i = 0; i < before.size(); ++i) {
          const double n = m * before[i];
          worst = support::worse(
              worst, std::abs(after[i] - n) / (std::sqrt(2.0) * rotation::tolerance<T>(n)));
        }
      }
      CHECK(worst <= 1);
    }
  });
}

TEST_CASE("Rope: rotation is multiplication by m e^(j p w), the complex form", "[rope]") {
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(5);
    const double m = 1.25, position = 1234;
    auto x = Heads<double>::random(random, 1, 1, 1, dim);
    const auto want = reference::rotate_complex(support::row_of(x.view(), 0, 0, 0), position,
                                                rotation::exact(rotation::plain_frequencies(dim)),
                                                {rotation::reference_pairing<Pairing>, 0, m});
    make_rope<Pairing>(m).rotate(x.view(), Positions::range(1234, 1));
    // The reference rounds its angle. Its documented error is 1e-13 of the norm, which is below 10
    // here.
    CHECK(support::max_abs_difference(support::row_of(x.view(), 0, 0, 0), want) <= 1e-12);
  });
}

TEMPLATE_LIST_TEST_CASE("Pairing: the pairings agree bit for bit once channels are permuted",
                        "[rope]", rotation::Scalars) {
  using T = TestType;
  support::Random random(6);
  auto interleaved = Heads<T>::random(random, 2, seq, 3, dim);
  const auto permuted = [](Heads<T> from) {
    Heads<T> to = from;
    for (Index b = 0; b < 2; ++b) {
      for (Index s = 0; s < seq; ++s) {
        for (Index h = 0; h < 3; ++h) {
          for (Index i = 0; i < dim / 2; ++i) {
            to.view().row(b, s, h)[i] = from.view().row(b, s, h)[2 * i];
            to.view().row(b, s, h)[i + dim / 2] = from.view().row(b, s, h)[2 * i + 1];
          }
        }
      }
    }
    return to;
  };
  auto half = permuted(interleaved);
  const auto positions = Positions::starts({70, 7}, seq);
  make_rope<posenc::Interleaved>(1.5).rotate(interleaved.view(), positions);
  make_rope<posenc::HalfRotate>(1.5).rotate(half.view(), positions);
  CHECK(support::same_bits(half.view(), permuted(interleaved).view()));
}

TEMPLATE_LIST_TEST_CASE("Rope: rotation commutes with powers of two and with the sign, bit for bit",
                        "[rope]", rotation::Scalars) {
  using T = TestType;
  support::Random random(7);
  const auto rope = make_rope<posenc::HalfRotate>(1.5);
  const auto x = Heads<T>::random(random, 1, seq, 2, dim);
  for (const float factor : {2.0F, -1.0F, -0.5F}) {
    const auto scaled = [factor](Heads<T> heads) {
      heads.for_each([factor](T& value) { value = value * static_cast<T>(factor); });
      return heads;
    };
    auto before = scaled(x), after = x;
    rope.rotate(before.view(), Positions::range(31, seq));
    rope.rotate(after.view(), Positions::range(31, seq));
    CHECK(support::same_bits(before.view(), scaled(after).view()));
  }
}

TEMPLATE_LIST_TEST_CASE("Rope: position 0 with m = 1 is the identity, bit for bit", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  support::Random random(8);
  const auto rope = make_rope<posenc::Interleaved>();
  auto x = Heads<T>::random(random, 2, seq, 2, dim);
  auto y = x;
  rope.rotate(y.view(), Positions::ids({0, 0, 0, 0, 0}));
  CHECK(support::same_bits(x.view(), y.view()));
}

}  // namespace rope_laws_test
