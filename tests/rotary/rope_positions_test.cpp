// SPDX-License-Identifier: MIT
// Every form of positions, small and large.
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/rotary/rope.hpp>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace rope_positions_test {

using posenc::Index;
using posenc::Positions;
using support::Heads;

namespace {

struct PositionCase {
  std::string name;
  Positions positions;
  std::vector<double> expected;  ///< [3 * 4], spelled out
};

constexpr Index batch = 3, seq = 4;

std::vector<double> in_every_row(const std::vector<double>& row) {
  std::vector<double> all;
  for (Index b = 0; b < batch; ++b) all.insert(all.end(), row.begin(), row.end());
  return all;
}

std::vector<PositionCase> position_cases() {
  const std::vector<Index> ids{4, 4, 0, 9, 1, 2, 3, 4, -8, 70000, 5, 5};
  const std::vector<double> reals{0.5, 1.5, -2.25, 1e-3, 3, 2, 1, 0, 1e5, 0.1, 0.2, 1e5 + 0.3};
  const std::array<Index, 4> boundaries{0, 1, 1, 4};
  const std::array<Index, 3> offsets{10, 20, 30};
  const bool keep[] = {false, false, true, true, true, true, true, true, true, false, true, false};
  const posenc::MatrixView<const bool> mask{keep, batch, seq, seq};
  return {
      {"range", Positions::range(7, 4), in_every_row({7, 8, 9, 10})},
      {"a start for each batch row",
       Positions::starts({5, 0, -2}, 4),
       {5, 6, 7, 8, 0, 1, 2, 3, -2, -1, 0, 1}},
      {"ids for all rows", Positions::ids({9, 0, 3, 3}), in_every_row({9, 0, 3, 3})},
      {"ids for each row", Positions::ids(3, ids), {ids.begin(), ids.end()}},
      {"negative ids", Positions::ids({-1, -2, -3, -4000}), in_every_row({-1, -2, -3, -4000})},
      {"real positions", Positions::real({0.5, -1.25, 3.75, 1e-3}),
       in_every_row({0.5, -1.25, 3.75, 1e-3})},
      {"real positions for each row", Positions::real(3, reals), reals},
      {"packed", Positions::packed(boundaries), in_every_row({0, 0, 1, 2})},
      {"packed with starts", Positions::packed(boundaries, offsets),
       in_every_row({10, 30, 31, 32})},
      {"a padding mask", Positions::from_padding_mask(mask), {1, 1, 0, 1, 0, 1, 2, 3, 0, 1, 1, 1}},
  };
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("Rope: takes positions of every form", "[rope]", rotation::Scalars) {
  using T = TestType;
  const auto w = rotation::plain_frequencies(10);
  rotation::for_each_pairing([&](auto pairing) {
    using Pairing = decltype(pairing);
    const posenc::Rope<Pairing> rope(posenc::Frequencies::from_inv_freq(w), 1);
    const rotation::Expectation expect{rotation::exact(w),
                                       {rotation::reference_pairing<Pairing>, 1}};
    support::Random random(1);
    for (const PositionCase& c : position_cases()) {
      INFO(Pairing::name << ", " << c.name);
      auto x = Heads<T>::random(random, batch, seq, 2, 12);
      auto y = x;
      rope.rotate(y.view(), c.positions);
      CHECK(rotation::worst_error(x.view(), y.view(), c.expected, expect) <= 1);
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Rope: is as accurate far away as it is near", "[rope]",
                        rotation::Scalars) {
  using T = TestType;
  const auto w = rotation::plain_frequencies(64);
  const posenc::Rope<posenc::Interleaved> rope(posenc::Frequencies::from_inv_freq(w));
  rotation::Expectation expect{rotation::exact(w), {reference::Pairing::Interleaved}};
  support::Random random(2);
  auto x = Heads<T>::random(random, 1, seq, 2, 64);

  // Angles up to 2^40 within 4e-16, up to 2^50 within 1e-15, as the oscillator promises.
  struct Reach {
    double position, angle_error;
  };
  for (const Reach reach :
       {Reach{131072, 4e-16}, Reach{1e6, 4e-16}, Reach{10000019, 4e-16}, Reach{0x1p31 + 1, 4e-16},
        Reach{0x1p40 - 3, 4e-16}, Reach{1e15, 1e-15}, Reach{0x1p50 - 3, 1e-15}}) {
    for (const double sign : {1.0, -1.0}) {
      const double p = sign * reach.position;
      const std::vector<double> positions{p, p + 1, p - 1, p + 0.25};
      INFO("position " << p);
      auto y = x;
      rope.rotate(y.view(), Positions::real(positions));
      expect.angle_error = reach.angle_error;
      CHECK(rotation::worst_error(x.view(), y.view(), positions, expect) <= 1);
    }
  }
}

TEST_CASE("Rope: ids, runs and reals of the same positions give the same bits", "[rope]") {
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(16)));
  support::Random random(3);
  auto x = Heads<float>::random(random, 2, 3, 2, 16);
  auto run = x;
  rope.rotate(run.view(), Positions::range(41, 3));
  const std::vector<Index> ids{41, 42, 43, 41, 42, 43};
  for (const Positions& same : {Positions::starts({41, 41}, 3), Positions::ids({41, 42, 43}),
                                Positions::ids(2, ids), Positions::real({41, 42, 43})}) {
    auto y = x;
    rope.rotate(y.view(), same);
    CHECK(support::same_bits(y.view(), run.view()));
  }
}

}  // namespace rope_positions_test
