// SPDX-License-Identifier: MIT
// Memory that a rotation must not change, and values on which a row's result must not depend.
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/rotary/rope.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace rope_isolation_test {

using posenc::Index;
using posenc::Positions;
using support::Heads;

namespace {

template <class Pairing>
posenc::Rope<Pairing> make_rope(Index rotary_dim, Index offset) {
  return posenc::Rope<Pairing>(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(rotary_dim), 1.5), offset);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("Rope: channels outside the rotary slice keep their bits", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    const auto rope = make_rope<decltype(pairing)>(6, 3);
    support::Random random(1);
    auto x = Heads<T>::random(random, 2, 3, 2, 13);
    const auto outside = [](Index d) { return d < 3 || d >= 9; };
    // Infinity with other low bits: NaNs of several payloads, which a conversion would not
    // preserve.
    unsigned char payload = 1;
    const auto poison = [&](Heads<T>& heads) {
      Index n = 0;
      heads.for_each([&](T& value) {
        if (!outside(n++ % 13)) return;
        value = static_cast<T>(std::numeric_limits<float>::infinity());
        std::memset(static_cast<void*>(&value), payload++, 1);
      });
    };
    poison(x);
    auto in_place = x;
    Heads<T> out(2, 3, 2, 13);
    rope.rotate(in_place.view(), Positions::range(9, 3));
    rope.rotate_into(x.view(), out.view(), Positions::range(9, 3));
    for (auto* y : {&in_place, &out}) {
      CHECK(support::same_bits(posenc::slice_features(y->view(), 0, 3),
                               posenc::slice_features(x.view(), 0, 3)));
      CHECK(support::same_bits(posenc::slice_features(y->view(), 9, 4),
                               posenc::slice_features(x.view(), 9, 4)));
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Rope: NaN and inf stay within their pair", "[rope]", rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    constexpr Index pairs = 5, offset = 2;
    const auto rope = make_rope<Pairing>(2 * pairs, offset);
    support::Random random(2);
    auto clean = Heads<T>::random(random, 1, 2, 2, 14);
    const auto infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
      auto x = clean, y = clean;
      const Index first = offset + Pairing::first(3, pairs),
                  second = offset + Pairing::second(3, pairs);
      x.view().row(0, 1, 1)[first] = static_cast<T>(bad);
      rope.rotate(x.view(), Positions::range(6, 2));
      rope.rotate(y.view(), Positions::range(6, 2));
      CHECK_FALSE(std::isfinite(support::to_double(x.view().row(0, 1, 1)[first])));
      CHECK_FALSE(std::isfinite(support::to_double(x.view().row(0, 1, 1)[second])));
      for (const Index d : {first, second}) x.view().row(0, 1, 1)[d] = y.view().row(0, 1, 1)[d];
      CHECK(support::same_bits(x.view(), y.view()));
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Rope: a row's bits depend on itself and its position alone", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    const auto rope = make_rope<decltype(pairing)>(266, 1);
    constexpr Index batch = 3, seq = 4, heads = 3, dim = 270;
    const std::vector<double> positions{0, 5, 1e6, -3, 0.5, 2, 2, 2, 9, 8, 7, 6};
    support::Random random(3);
    auto x = Heads<T>::random(random, batch, seq, heads, dim);
    auto together = x;
    rope.rotate(together.view(), Positions::real(batch, positions));
    for (Index b = 0; b < batch; ++b) {
      for (Index s = 0; s < seq; ++s) {
        for (Index h = 0; h < heads; ++h) {
          Heads<T> alone(1, 1, 1, dim);
          const auto one = [&](Heads<T>& of) {
            return posenc::slice_heads(posenc::slice_seq(support::batch_row(of.view(), b), s, 1), h,
                                       1);
          };
          support::copy(one(x), alone.view());
          rope.rotate(alone.view(),
                      Positions::real({positions[static_cast<std::size_t>(b * seq + s)]}));
          CHECK(support::same_bits(alone.view(), one(together)));
        }
      }
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Rope: empty tensors are legal", "[rope]", rotation::Scalars) {
  using T = TestType;
  const auto rope = make_rope<posenc::Interleaved>(4, 0);
  const posenc::HeadsView<T> no_batch{nullptr, 0, 3, 2, 4, 24, 8, 4};
  const posenc::HeadsView<T> no_seq{nullptr, 2, 0, 2, 4, 0, 8, 4};
  const posenc::HeadsView<T> no_heads{nullptr, 2, 3, 0, 4, 0, 0, 4};
  for (const auto& x : {no_batch, no_seq, no_heads}) {
    const auto positions = Positions::range(0, x.seq);
    CHECK_NOTHROW(rope.rotate(x, positions));
    CHECK_NOTHROW(rope.rotate_into(x, x, positions));
    CHECK_NOTHROW(rope.adjoint(x, positions));
    CHECK_NOTHROW(rope.inverse(x, positions));
    CHECK_NOTHROW(rope.template table<posenc::Compute<T>>(positions).rotate(x));
  }
  CHECK_NOTHROW(rope.rotate(no_batch, Positions::starts(std::span<const Index>{}, 3)));
  CHECK(rope.template table<double>(Positions::range(0, 0)).cos().empty());

  // Without frequencies nothing is rotated, and all channels are copied.
  const posenc::Rope<posenc::HalfRotate> idle(posenc::Frequencies::from_inv_freq({}));
  support::Random random(4);
  auto x = Heads<T>::random(random, 1, 2, 2, 3);
  Heads<T> y(1, 2, 2, 3);
  idle.rotate_into(x.view(), y.view(), Positions::range(5, 2));
  CHECK(support::same_bits(x.view(), y.view()));
  const posenc::HeadsView<T> no_dim{nullptr, 2, 3, 2, 0, 0, 0, 0};
  CHECK_NOTHROW(idle.rotate(no_dim, Positions::range(0, 3)));
}

}  // namespace rope_isolation_test
