// SPDX-License-Identifier: MIT
// Bias of ALiBi: values, tiles, absolute positions, gradients, bad input.
#include "reference/alibi.hpp"

#include "bias/tiles.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/throws.hpp"
#include "support/worse.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/concepts.hpp>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace alibi_test {

using posenc::Alibi;
using posenc::AlibiForm;
using posenc::ConfigError;
using posenc::Index;
using posenc::MatrixView;
using posenc::ShapeError;
using support::message_of;
using Values = std::vector<double>;

static_assert(posenc::ScoreBias<Alibi, float> && posenc::ScoreBias<Alibi, double>);
static_assert(posenc::ScoreBias<Alibi, Eigen::half> && posenc::ScoreBias<Alibi, Eigen::bfloat16>);

namespace {

/// Tile [queries, keys] with padding after each row.
template <class Real>
struct Tile {
  Index queries, keys, stride;
  std::vector<Real> values;

  Tile(Index q, Index k)
      : queries(q), keys(k), stride(k + 3), values(static_cast<std::size_t>(q * stride), Real{0}) {}
  MatrixView<Real> view() { return {values.data(), queries, keys, stride}; }
  MatrixView<Real> part(Index first_query, Index first_key, Index q, Index k) {
    return {values.data() + first_query * stride + first_key, q, k, stride};
  }
};

template <class Real>
Tile<Real> random_tile(std::uint64_t seed, Index queries, Index keys) {
  Tile<Real> tile(queries, keys);
  support::Random(seed).fill_normal(tile.values);
  return tile;
}

Values run(Index first, Index count) {
  Values positions;
  for (Index i = 0; i < count; ++i) positions.push_back(static_cast<double>(first + i));
  return positions;
}

std::span<const double> cut(const Values& positions, Index first, Index count) {
  return std::span(positions).subspan(static_cast<std::size_t>(first),
                                      static_cast<std::size_t>(count));
}

reference::AlibiForm reference_form(AlibiForm form) {
  return form == AlibiForm::Causal ? reference::AlibiForm::Causal : reference::AlibiForm::Symmetric;
}

}  // namespace

TEMPLATE_TEST_CASE("Alibi: is added to the scores of a tile", "[alibi]", float, double) {
  using Real = TestType;
  const Values queries{5, 6, 9, -2, 0.5}, keys{0, 1, 2, 3, 4, 5, 100, -7.25};
  for (const auto form : {AlibiForm::Causal, AlibiForm::Symmetric}) {
    for (const double scale : {1.0, 0.125, 0.3}) {
      const Alibi alibi({.heads = 6, .form = form, .scale = scale});
      REQUIRE(alibi.heads() == 6);
      const auto slopes = reference::alibi_slopes(6);
      for (Index head = 0; head < 6; ++head) {
        auto tile = random_tile<Real>(1, 5, 8);
        const auto before = tile;
        alibi.add(head, queries, keys, tile.view());
        double worst = 0;
        for (std::size_t i = 0; i < 5; ++i) {
          for (std::size_t j = 0; j < 8; ++j) {
            const std::size_t at = i * static_cast<std::size_t>(tile.stride) + j;
            const double old = static_cast<double>(before.values[at]);
            const double bias =
                scale * reference::alibi_bias(slopes[static_cast<std::size_t>(head)], queries[i],
                                              keys[j], reference_form(form));
            // 1 ulp (two half ulps) of the bias in the tile's type and one rounding of the sum. The
            // slope and the scale in double add a few roundings of double.
            const double tolerance = support::rounding<Real>(2 * std::abs(bias)) +
                                     support::rounding<Real>(1.01 * std::abs(old + bias)) +
                                     support::rounding<double>(8 * std::abs(bias));
            const double error = std::abs(static_cast<double>(tile.values[at]) - (old + bias));
            worst = support::worse(worst, tolerance == 0 ? error : error / tolerance);
          }
          for (Index room = tile.keys; room < tile.stride; ++room) {
            const std::size_t at =
                i * static_cast<std::size_t>(tile.stride) + static_cast<std::size_t>(room);
            CHECK(tile.values[at] == before.values[at]);
          }
        }
        CHECK(worst <= 1);
      }
    }
  }
}

TEST_CASE("Alibi: causal and symmetric forms agree where keys are not after the query", "[alibi]") {
  const Values positions = run(0, 6);
  Tile<double> causal(6, 6), symmetric(6, 6);
  Alibi({.heads = 2, .form = AlibiForm::Causal}).add(1, positions, positions, causal.view());
  Alibi({.heads = 2, .form = AlibiForm::Symmetric}).add(1, positions, positions, symmetric.view());
  for (Index i = 0; i < 6; ++i) {
    for (Index j = 0; j < 6; ++j) {
      INFO("query " << i << ", key " << j);
      CHECK(symmetric.view().row(i)[j] == symmetric.view().row(j)[i]);
      CHECK(causal.view().row(i)[j] == (j <= i ? 1 : -1) * symmetric.view().row(i)[j]);
    }
  }
}

TEMPLATE_TEST_CASE("Alibi: a decoded row has the bits of the last prefilled one", "[alibi]", float,
                   double) {
  const Alibi alibi({.heads = 3, .form = AlibiForm::Causal});
  const Values all = run(1000, 7);
  auto prefill = random_tile<TestType>(2, 7, 7);
  auto decode = prefill;
  alibi.add(2, all, all, prefill.view());
  alibi.add(2, cut(all, 6, 1), all, decode.part(6, 0, 1, 7));
  CHECK(support::same_bits(prefill.view().row(6), decode.view().row(6), 7));
}

TEMPLATE_TEST_CASE("Alibi: any cut into tiles gives the same bits", "[alibi]", float, double) {
  using Real = TestType;
  const Index queries = 9, keys = 11;
  const Values query_positions = run(40, queries), key_positions = run(38, keys);
  for (const auto form : {AlibiForm::Causal, AlibiForm::Symmetric}) {
    const Alibi alibi({.heads = 5, .form = form, .scale = 0.3});
    auto whole = random_tile<Real>(3, queries, keys);
    const auto before = whole;
    alibi.add(4, query_positions, key_positions, whole.view());
    for (const Index rows : {1, 2, 4, 9}) {
      for (const Index cols : {1, 3, 5, 11}) {
        auto tiled = before;
        for (Index i = 0; i < queries; i += rows) {
          for (Index j = 0; j < keys; j += cols) {
            const Index height = std::min(rows, queries - i), width = std::min(cols, keys - j);
            alibi.add(4, cut(query_positions, i, height), cut(key_positions, j, width),
                      tiled.part(i, j, height, width));
          }
        }
        INFO("tiles of " << rows << " by " << cols);
        CHECK(support::same_bits(tiled.values.data(), whole.values.data(),
                                 static_cast<Index>(whole.values.size())));
      }
    }
  }
}

TEMPLATE_TEST_CASE("Alibi: scores do not depend on the tile", "[alibi]", float, double) {
  for (const auto form : {AlibiForm::Causal, AlibiForm::Symmetric}) {
    tiles::check_single_scores<TestType>(Alibi({.heads = 5, .form = form, .scale = 0.3}), 4);
  }
}

TEST_CASE("Alibi: given slopes are used as they are", "[alibi]") {
  const Alibi alibi({0.3, 0.0, -2.5}, AlibiForm::Causal, 0.5);
  CHECK(alibi.heads() == 3);
  CHECK(alibi.slopes() == Values{0.3, 0.0, -2.5});
  for (Index head = 0; head < 3; ++head) {
    Tile<double> tile(1, 1);
    alibi.add(head, Values{7}, Values{3}, tile.view());
    // Two products in either order, each rounded.
    CHECK(tile.values[0] ==
          Approx(-0.5 * alibi.slopes()[static_cast<std::size_t>(head)] * 4).epsilon(0x1p-51));
  }
}

TEST_CASE("Alibi: the bias has all bits of the distance", "[alibi]") {
  const posenc::Alibi bias({1}, posenc::AlibiForm::Causal);
  const double query = 1 + 0x1p-52, key = 0;
  double score = 0;
  bias.add(0, std::span(&query, 1), std::span(&key, 1), posenc::MatrixView<double>{&score, 1, 1});
  CHECK(score == -1 - 0x1p-52);
}

TEST_CASE("Alibi: the same at positions moved together", "[alibi]") {
  const Alibi alibi({.heads = 4, .form = AlibiForm::Symmetric});
  for (const Index shift : {Index{1}, Index{1} << 40, -(Index{1} << 33)}) {
    Tile<float> here(4, 6), there(4, 6);
    alibi.add(3, run(0, 4), run(0, 6), here.view());
    alibi.add(3, run(shift, 4), run(shift, 6), there.view());
    CHECK(here.values == there.values);
  }
}

TEMPLATE_TEST_CASE("Alibi: gradient equals finite differences", "[alibi]", float, double) {
  using Real = TestType;
  const Values queries{3, 4, 8}, keys{0, 1, 2, 3, 9};
  for (const auto form : {AlibiForm::Causal, AlibiForm::Symmetric}) {
    const Values slopes{0.5, 0.25};
    auto grad = random_tile<Real>(4, 3, 5);
    // The loss <grad, bias> is linear in the slope, so a difference of any width gives the
    // gradient. 2^-3 is exact in all sums.
    const auto loss = [&](double step, Index head) {
      Values moved = slopes;
      moved[static_cast<std::size_t>(head)] += step;
      Tile<double> tile(3, 5);
      Alibi(moved, form, 0.5).add(head, queries, keys, tile.view());
      double sum = 0;
      for (Index i = 0; i < 3; ++i) {
        for (Index j = 0; j < 5; ++j) {
          sum += tile.view().row(i)[j] * static_cast<double>(grad.view().row(i)[j]);
        }
      }
      return sum;
    };
    for (Index head = 0; head < 2; ++head) {
      const double want = (loss(0.125, head) - loss(-0.125, head)) / 0.25;
      const Alibi alibi(slopes, form, 0.5);
      Values got = alibi.zero_gradient();
      alibi.template add_gradient<Real>(head, queries, keys, grad.view(), got);
      // Sums of 15 terms below 9 * 4 in double, a few dozen roundings in all.
      CHECK(std::abs(got[static_cast<std::size_t>(head)] - want) <= 0x1p-53 * 64 * 15 * 36);
      CHECK(got[static_cast<std::size_t>(1 - head)] == 0);
    }
  }
}

TEST_CASE("Alibi: 0 makes 0 of a score of -0, whatever the keys beside it", "[alibi]") {
  for (const AlibiForm form : {AlibiForm::Causal, AlibiForm::Symmetric}) {
    for (const double slope : {0.0, -0.0, 0.1, -0.1}) {
      const Alibi alibi(Values{slope}, form, 0.3);
      for (const double second : {1.0 / 7, 3.0, 1.7e308}) {
        for (const double query : {95.0, -1.7e308}) {
          const Values keys{2593, second, -40, query};
          Tile<double> tile(1, 4);
          tile.values.assign(tile.values.size(), -0.0);
          alibi.add(0, Values{query}, keys, tile.view());
          for (std::size_t j = 0; j < 4; ++j) {
            CAPTURE(slope, query, keys[j]);
            if (slope != 0 && keys[j] != query) continue;
            CHECK((tile.values[j] == 0 && !std::signbit(tile.values[j])));
          }
        }
      }
    }
  }
}

TEST_CASE("Alibi: empty tiles are legal", "[alibi]") {
  const Alibi alibi({.heads = 1, .form = AlibiForm::Causal});
  const Values none, two{0, 1};
  CHECK_NOTHROW(alibi.add(0, none, two, MatrixView<float>{nullptr, 0, 2, 2}));
  CHECK_NOTHROW(alibi.add(0, two, none, MatrixView<float>{nullptr, 2, 0, 0}));
  Values gradient{3};
  alibi.add_gradient(0, none, two, MatrixView<const float>{nullptr, 0, 2, 2}, gradient);
  CHECK(gradient == Values{3});
  CHECK(Alibi(Values{}, AlibiForm::Symmetric).heads() == 0);
}

TEST_CASE("Alibi: checks its settings", "[alibi][errors]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(message_of<ConfigError>([] { Alibi({.form = AlibiForm::Causal}); }) ==
        "posenc::alibi_slopes: heads must be set and positive but is 0");
  CHECK(message_of<ConfigError>([] { Alibi({.heads = 4}); }) ==
        "posenc::Alibi: form must be set to Causal or Symmetric");
  CHECK(message_of<ConfigError>([] { Alibi(Values{1}, AlibiForm::Unspecified); }) ==
        "posenc::Alibi: form must be set to Causal or Symmetric");
  CHECK(message_of<ConfigError>([] {
          Alibi({.heads = 4, .form = AlibiForm::Causal, .max_bias = -8});
        }) == "posenc::alibi_slopes: max_bias must be positive and finite but is -8");
  CHECK(message_of<ConfigError>([&] {
          Alibi({1, nan}, AlibiForm::Causal);
        }) == "posenc::Alibi: slopes must be finite but one is nan");
  CHECK(message_of<ConfigError>([&] { Alibi(Values{1}, AlibiForm::Causal, nan); }) ==
        "posenc::Alibi: scale must be finite but is nan");
}

TEST_CASE("Alibi: checks head and tile before it writes", "[alibi][errors]") {
  const Alibi alibi({.heads = 4, .form = AlibiForm::Causal});
  const Values two = run(0, 2), three = run(0, 3);
  auto tile = random_tile<float>(5, 2, 3);
  const auto before = tile.values;
  const auto add = [&](Index head, const Values& queries, const Values& keys) {
    return message_of<ShapeError>([&] { alibi.add(head, queries, keys, tile.view()); });
  };
  Values sums = run(7, 4);
  const auto gradient = [&](Index head, const Values& queries, const Values& keys) {
    return message_of<ShapeError>(
        [&] { alibi.add_gradient<float>(head, queries, keys, tile.view(), sums); });
  };
  const std::string outside = ": head must lie within the 4 heads but is ";
  CHECK(add(4, two, three) == "posenc::Alibi::add" + outside + "4");
  CHECK(add(-1, two, three) == "posenc::Alibi::add" + outside + "-1");
  CHECK(gradient(4, two, three) == "posenc::Alibi::add_gradient" + outside + "4");
  const std::string shape = ": the tile [2, 3] must be queries by keys, ";
  CHECK(add(0, three, three) == "posenc::Alibi::add" + shape + "3 by 3");
  CHECK(add(0, two, two) == "posenc::Alibi::add" + shape + "2 by 2");
  CHECK(gradient(0, three, two) == "posenc::Alibi::add_gradient" + shape + "3 by 2");
  CHECK(tile.values == before);
  CHECK(sums == run(7, 4));
  Values short_by_one(3);
  CHECK(
      message_of<ShapeError>(
          [&] { alibi.add_gradient<float>(0, two, three, tile.view(), short_by_one); }) ==
      "posenc::Alibi::add_gradient: gradient must have a value for each of the 4 slopes but has 3");
}

}  // namespace alibi_test
