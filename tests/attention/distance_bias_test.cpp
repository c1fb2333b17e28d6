// SPDX-License-Identifier: MIT
// Tests that a DistanceBias, which attention evaluates in rows, gives the bits of a bias that only
// adds tiles.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/concepts.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <vector>

namespace distance_bias_test {

using attention_test::Case;
using attention_test::Shape;
using posenc::Causal;
using posenc::Index;
using posenc::SoftcapOrder;

namespace {

/// Bias that counts its calls.
template <class Bias>
struct Counted : Bias {
  using DistanceBiasSelf = Counted;
  explicit Counted(const Bias& bias) : Bias(bias) {}

  template <std::floating_point Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
    ++*tiles;
    Bias::add(head, query_positions, key_positions, tile);
  }
  template <std::floating_point Real>
  void write_values(Index head, double farthest, std::span<Real> values) const noexcept {
    ++*rows;
    Bias::write_values(head, farthest, values);
  }

  std::shared_ptr<int> tiles = std::make_shared<int>(0), rows = std::make_shared<int>(0);
};

/// Equal bias that only adds tiles, because it does not declare itself a DistanceBias.
template <class Bias>
struct ByTiles : Bias {
  explicit ByTiles(const Bias& bias) : Bias(bias) {}
};

enum class Way { Rows, Tiles };

template <class T, class Bias>
void check_same(const Shape& shape, const posenc::AttentionOptions<T>& options, const Bias& bias,
                Way way) {
  static_assert(posenc::DistanceBias<Bias, T> && !posenc::DistanceBias<ByTiles<Bias>, T>);
  Case<T> rows(shape, 5), tiles(shape, 5);
  const Counted counted(bias);
  rows.run(options, counted);
  tiles.run(options, ByTiles<Bias>(bias));
  for (Index b = 0; b < shape.batch; ++b) {
    for (Index h = 0; h < shape.heads; ++h) {
      for (Index i = 0; i < shape.queries; ++i) {
        REQUIRE(support::same_bits(rows.out.view().row(b, i, h), tiles.out.view().row(b, i, h),
                                   shape.value_dim));
      }
    }
  }
  CHECK((*counted.rows > 0) == (way == Way::Rows));
  CHECK((*counted.tiles > 0) == (way == Way::Tiles));
}

const posenc::Alibi alibi({.heads = 6, .form = posenc::AlibiForm::Symmetric});
const posenc::Kerple kerple({.form = posenc::KerpleForm::Logarithmic,
                             .r1 = {1.5, 0.3, 1, 2, 0.7, 0.1},
                             .r2 = {0.7, 1.25, 0.5, 1, 2, 3}});

}  // namespace

TEMPLATE_TEST_CASE("DistanceBias: the bits that its tiles give", "[attention]", float, double,
                   Eigen::bfloat16) {
  using Options = posenc::AttentionOptions<TestType>;
  // Shapes with several blocks, tiles and groups, and with partial blocks and tiles.
  for (const Shape& shape : {Shape{1, 6, 2, 150, 290, 5, 7}, Shape{2, 6, 6, 30, 40, 3, 9},
                             Shape{1, 6, 1, 70, 131, 8, 8}}) {
    CAPTURE(shape.queries, shape.keys);
    Options options{.causal = Causal::BottomRight};
    check_same(shape, options, alibi, Way::Rows);
    check_same(shape, options, kerple, Way::Rows);
    options.window = posenc::sliding_window(37);
    check_same(shape, options, kerple, Way::Rows);
    options = {.causal = Causal::No};
    options.query_positions = posenc::Positions::range(shape.keys - shape.queries, shape.queries);
    options.softcap = 3;
    options.softcap_order = SoftcapOrder::AfterBias;
    check_same(shape, options, kerple, Way::Rows);
    options.softcap_order = SoftcapOrder::BeforeBias;
    check_same(shape, options, alibi, Way::Rows);
  }
}

TEST_CASE("DistanceBias: applied by tiles where positions are not consecutive", "[attention]") {
  const Shape shape{1, 6, 2, 20, 150, 4, 4};
  std::vector<double> queries(20), keys(150);
  for (std::size_t j = 0; j < keys.size(); ++j) keys[j] = static_cast<double>(j);
  for (std::size_t i = 0; i < queries.size(); ++i) queries[i] = 130 + static_cast<double>(i);
  const auto check = [&](Way way) {
    posenc::AttentionOptions<float> options{.causal = Causal::No};
    options.query_positions = posenc::Positions::real(queries);
    options.key_positions = posenc::Positions::real(keys);
    check_same(shape, options, kerple, way);
  };
  check(Way::Rows);
  queries[19] += 1;
  check(Way::Tiles);
  queries[19] -= 1;
  for (double& key : keys) key += 0.5;
  check(Way::Tiles);
  for (double& key : keys) key -= 0.5;
  keys[3] = 7;
  keys[140] = 7;
  check(Way::Tiles);
}

}  // namespace distance_bias_test
