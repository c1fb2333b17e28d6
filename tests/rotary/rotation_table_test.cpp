// SPDX-License-Identifier: MIT
// RotationTable: bit-identical to the one-shot calls, and user-supplied cos and sin.
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/cutter.hpp"
#include "support/heads.hpp"
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotation_table.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace rotation_table_test {

using posenc::Index;
using posenc::Positions;
using rotation::Direction;
using support::Heads;

namespace {

constexpr Index batch = 2, seq = 3, heads = 2;

template <class T>
void apply(const auto& table, Direction direction, posenc::HeadsView<T> x) {
  if (direction == Direction::Forward) table.rotate(x);
  if (direction == Direction::Adjoint) table.adjoint(x);
  if (direction == Direction::Inverse) table.inverse(x);
}

template <class Real>
std::vector<Real> random_numbers(support::Random& random, Index count) {
  std::vector<Real> numbers(static_cast<std::size_t>(count));
  random.fill_normal(numbers);
  return numbers;
}

template <class Real>
std::vector<long double> row_of_table(posenc::EmbeddingsView<const Real> table, Index b, Index s) {
  return std::vector<long double>(table.row(b, s), table.row(b, s) + table.dim);
}

/// True if y is x rotated by these cos and sin, for any numbers.
template <class Pairing, class T, class Table>
bool rotated_by(const Table& table, Heads<T>& x, Heads<T>& y) {
  const auto in = x.view(), out = y.view();
  const reference::RopeRule rule{rotation::reference_pairing<Pairing>, table.rotary_offset()};
  for (Index b = 0; b < in.batch; ++b) {
    for (Index s = 0; s < in.seq; ++s) {
      for (Index h = 0; h < in.heads; ++h) {
        const Index row = table.batch() == 1 ? 0 : b;
        const reference::CosSin angles{row_of_table(table.cos(), row, s),
                                       row_of_table(table.sin(), row, s)};
        const auto before = support::row_of(in, b, s, h), after = support::row_of(out, b, s, h);
        const auto want = reference::rotate_by(before, angles, rule);
        for (std::size_t i = 0; i < angles.cos.size(); ++i) {
          const auto at = reference::pair_channels(rule, angles.cos.size(), i);
          const double x0 = before[at.first], x1 = before[at.second];
          const double c = static_cast<double>(angles.cos[i]),
                       n = static_cast<double>(angles.sin[i]);
          // Three roundings of numbers bounded by |c x0| + |s x1| or |s x0| + |c x1|, the store of
          // a 16-bit type, and the reference's rounding.
          for (const auto& [d, size] :
               {std::pair{at.first, std::abs(c * x0) + std::abs(n * x1)},
                std::pair{at.second, std::abs(n * x0) + std::abs(c * x1)}}) {
            const double tolerance = support::rounding<posenc::Compute<T>>(3 * size) +
                                     support::rounding<T>(1.01 * size) + 0x1p-53 * size;
            if (!(std::abs(after[d] - want[d]) <= tolerance)) return false;
          }
        }
        for (std::size_t d = 0; d < before.size(); ++d) {
          const auto offset = static_cast<std::size_t>(rule.offset);
          const bool outside = d < offset || d >= offset + 2 * angles.cos.size();
          if (outside && after[d] != before[d]) return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("RotationTable: gives the bits of one-shot calls", "[rotation_table]",
                        rotation::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(1);
    for (const Index rotary_dim : {2, 64, 300}) {
      for (const double m : {1.0, 1.3}) {
        const posenc::Rope<Pairing> rope(
            posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(rotary_dim), m), 3);
        for (const Positions& positions :
             {Positions::range(1'000'000, seq), Positions::starts({7, -7}, seq),
              Positions::real({0.25, 4, -1})}) {
          const auto table = rope.template table<Real>(positions);
          auto x = Heads<T>::random(random, batch, seq, heads, rotary_dim + 5);
          for (const auto direction :
               {Direction::Forward, Direction::Adjoint, Direction::Inverse}) {
            INFO(Pairing::name << ", rotary_dim " << rotary_dim << ", m " << m << ", direction "
                               << static_cast<int>(direction));
            auto by_rope = x, by_table = x;
            rotation::apply(rope, direction, by_rope.view(), positions);
            apply(table, direction, by_table.view());
            CHECK(support::same_bits(by_rope.view(), by_table.view()));
          }
          auto by_rope = x;
          rope.rotate(by_rope.view(), positions);
          Heads<T> into(batch, seq, heads, rotary_dim + 5, support::layouts().back());
          table.rotate_into(x.view(), into.view());
          CHECK(support::same_bits(by_rope.view(), into.view()));
          CHECK(into.surroundings_kept());
        }
      }
    }
  });
}

TEST_CASE("RotationTable: is the same, wherever its rows are split", "[rotation_table][threads]") {
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(6)));
  const auto positions = Positions::starts({7, -7, 100}, 5);
  CHECK_THROWS_AS(rope.table<float>(Positions::grid(2, 3)), posenc::ShapeError);
  const auto whole = rope.table<float>(positions);
  for (const Index part : {1, 3, 4}) {
    const auto split = rope.table<float>(positions, support::Cutter{part});
    for (Index b = 0; b < 3; ++b) {
      for (Index s = 0; s < 5; ++s) {
        CHECK(std::equal(whole.cos().row(b, s), whole.cos().row(b, s) + 3, split.cos().row(b, s)));
        CHECK(std::equal(whole.sin().row(b, s), whole.sin().row(b, s) + 3, split.sin().row(b, s)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("table_into: writes the numbers of a table", "[rotation_table]", float, double) {
  constexpr Index pairs = 7, gap = 2, stride = pairs + gap;
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(2 * pairs), 1.5), 4);
  for (const Positions& positions :
       {Positions::range(1'000'000, seq), Positions::starts({7, -7}, seq)}) {
    const auto table = rope.table<TestType>(positions);
    constexpr TestType untouched = -77;
    const auto size = static_cast<std::size_t>(positions.batch() * seq * stride);
    std::vector<TestType> cos(size, untouched), sin(size, untouched);
    const auto view = [&](std::vector<TestType>& x) {
      return posenc::EmbeddingsView<TestType>{x.data(), positions.batch(), seq,
                                              pairs,    seq * stride,      stride};
    };
    rope.table_into(positions, view(cos), view(sin));
    bool right = true;
    for (Index i = 0; i < positions.batch() * seq * stride; ++i) {
      const Index row = i / stride, pair = i % stride;
      const auto at = static_cast<std::size_t>(i);
      const bool inside = pair < pairs;
      right &= cos[at] == (inside ? table.cos().row(row / seq, row % seq)[pair] : untouched);
      right &= sin[at] == (inside ? table.sin().row(row / seq, row % seq)[pair] : untouched);
    }
    CHECK(right);

    auto narrow = view(cos);
    narrow.dim -= 1;
    const std::string tokens = std::to_string(positions.batch()) + ", " + std::to_string(seq);
    CHECK_THROWS_WITH(rope.table_into(positions, narrow, view(sin)),
                      "posenc::Rope::table_into: cos [" + tokens + ", 6] must be [" + tokens +
                          ", 7]: batch rows and count of the positions, and the rope's pairs");
    CHECK_THROWS_AS(rope.table_into(positions, view(cos), narrow), posenc::ShapeError);
    auto shared = view(sin);
    shared.seq_stride = pairs - 1;
    CHECK_THROWS_AS(rope.table_into(positions, view(cos), shared), posenc::ShapeError);
    CHECK_THROWS_AS(rope.table_into(Positions::range(0, seq + 1), view(cos), view(sin)),
                    posenc::ShapeError);
    CHECK_THROWS_AS(rope.table_into(Positions::real({0, 1, 1e300}), view(cos), view(sin)),
                    posenc::PositionError);
  }
}

TEST_CASE("RotationTable: reports what it holds", "[rotation_table]") {
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(6), 1.5), 4);
  const auto table = rope.table<float>(Positions::starts({0, 9}, 5));
  CHECK(table.batch() == 2);
  CHECK(table.seq() == 5);
  CHECK(table.rotary_dim() == 6);
  CHECK(table.rotary_offset() == 4);
  CHECK(table.attention_factor() == 1.5);
  CHECK(table.cos().extents() == std::array<Index, 3>{2, 5, 3});
  CHECK(table.sin().extents() == std::array<Index, 3>{2, 5, 3});
  CHECK(table.cos().row(0, 0)[2] == 1.5F);
  CHECK(table.sin().row(0, 0)[2] == 0.0F);
  CHECK(table.cos().row(1, 1)[0] == static_cast<float>(1.5 * std::cos(10.0)));
}

TEMPLATE_LIST_TEST_CASE("RotationTable: one batch row serves every batch", "[rotation_table]",
                        rotation::Scalars) {
  using T = TestType;
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(8)));
  const auto table = rope.template table<posenc::Compute<T>>(Positions::range(40, seq));
  support::Random random(2);
  auto one = Heads<T>::random(random, 1, seq, 2, 8);
  for (const Index rows : {1, 2, 5}) {
    Heads<T> x(rows, seq, 2, 8);
    for (Index b = 0; b < rows; ++b) support::copy(one.view(), support::batch_row(x.view(), b));
    auto want = one;
    table.rotate(want.view());
    table.rotate(x.view());
    for (Index b = 0; b < rows; ++b) {
      CHECK(support::same_bits(support::batch_row(x.view(), b), want.view()));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("from_cos_sin: given cos and sin are used as they are", "[rotation_table]",
                        rotation::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  constexpr Index pairs = 4;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(3);
    // No angle has such a cos and sin, so the test fails if they are recomputed or normalised.
    const auto cos = random_numbers<Real>(random, batch * seq * pairs);
    const auto sin = random_numbers<Real>(random, batch * seq * pairs);
    for (const Index rows : {Index{1}, batch}) {
      const auto table = posenc::RotationTable<Pairing, Real>::from_cos_sin(
          {cos.data(), rows, seq, pairs, seq * pairs, pairs},
          {sin.data(), rows, seq, pairs, seq * pairs, pairs}, 1);
      CHECK(support::same_bits(table.cos().data, cos.data(), rows * seq * pairs));
      CHECK(support::same_bits(table.sin().data, sin.data(), rows * seq * pairs));
      auto x = Heads<T>::random(random, batch, seq, heads, 2 * pairs + 3);
      auto y = x;
      table.rotate(y.view());
      CHECK(rotated_by<Pairing>(table, x, y));
    }
  });
}

TEMPLATE_TEST_CASE("from_cache: is read at the positions", "[rotation_table]", float, double) {
  using T = TestType;
  constexpr Index pairs = 3, stride = 5, rows = 20;
  support::Random random(4);
  const auto cos = random_numbers<T>(random, rows * stride);
  const auto sin = random_numbers<T>(random, rows * stride);
  const std::vector<Index> ids{19, 0, 7, 7, 1, 18};
  const auto table = posenc::RotationTable<posenc::Interleaved, T>::from_cache(
      {cos.data(), rows, pairs, stride}, {sin.data(), rows, pairs, stride}, Positions::ids(2, ids),
      2);
  REQUIRE(table.cos().extents() == std::array<Index, 3>{2, 3, pairs});
  CHECK(table.rotary_offset() == 2);
  for (Index b = 0; b < 2; ++b) {
    for (Index s = 0; s < 3; ++s) {
      const Index id = ids[static_cast<std::size_t>(3 * b + s)];
      CHECK(support::same_bits(table.cos().row(b, s), cos.data() + id * stride, pairs));
      CHECK(support::same_bits(table.sin().row(b, s), sin.data() + id * stride, pairs));
    }
  }
  auto x = Heads<T>::random(random, 2, 3, 2, 9);
  auto y = x;
  table.rotate(y.view());
  CHECK(rotated_by<posenc::Interleaved>(table, x, y));
}

TEMPLATE_TEST_CASE("from_cache: a cache made by the table gives the table's bits",
                   "[rotation_table]", float, double) {
  using T = TestType;
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(8), 1.25));
  const auto all = rope.template table<T>(Positions::range(0, 50));
  const posenc::MatrixView<const T> cos{all.cos().data, 50, 4, 4}, sin{all.sin().data, 50, 4, 4};
  const auto positions = Positions::ids({49, 3, 3});
  const auto cached =
      posenc::RotationTable<posenc::HalfRotate, T>::from_cache(cos, sin, positions, 0, 1.25);
  support::Random random(5);
  auto x = Heads<T>::random(random, 2, 3, 2, 8);
  for (const auto direction : {Direction::Forward, Direction::Adjoint, Direction::Inverse}) {
    auto by_rope = x, by_cache = x;
    rotation::apply(rope, direction, by_rope.view(), positions);
    apply(cached, direction, by_cache.view());
    CHECK(support::same_bits(by_rope.view(), by_cache.view()));
  }
}

}  // namespace rotation_table_test
