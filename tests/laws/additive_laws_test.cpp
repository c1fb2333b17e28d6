// SPDX-License-Identifier: MIT
// Laws of AdditiveEncoding for all of its models.
#include "laws/additive_laws.hpp"

#include "support/catch.hpp"
#include <posenc/additive/binary.hpp>
#include <posenc/additive/integer.hpp>
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/additive/sinusoidal_2d.hpp>
#include <posenc/concepts.hpp>

#include <Eigen/Core>

#include <array>
#include <vector>

namespace additive_laws_test {

using posenc::Index;
using posenc::Positions;

namespace {

/// Positions with and without a batch axis, with repeats.
const std::vector<Positions>& small_positions() {
  static const std::array<Index, 8> rows{0, 7, 7, 3, 15, 3, 0, 1};
  static const std::vector<Positions> all{Positions::ids({0, 7, 7, 3, 12}), Positions::range(2, 6),
                                          Positions::starts({0, 9, 4}, 5), Positions::ids(2, rows)};
  return all;
}

/// Positions for encodings without a maximum.
const std::vector<Positions>& far_positions() {
  static const std::vector<Positions> all{Positions::ids({0, 131071, -5, 131071, 1000003}),
                                          Positions::real({0.5, -7.25, 0.5, 1e-9}),
                                          Positions::starts({1 << 30, -12}, 3)};
  return all;
}

}  // namespace

TEMPLATE_TEST_CASE("additive laws: nothing", "[laws]", float, double, Eigen::half,
                   Eigen::bfloat16) {
  for (const Positions& positions : small_positions()) {
    laws::check_additive<TestType>(posenc::NoEncoding{}, 8, positions);
  }
}

TEMPLATE_TEST_CASE("additive laws: sinusoidal", "[laws]", float, double, Eigen::half,
                   Eigen::bfloat16) {
  using enum posenc::SinusoidalLayout;
  for (const auto layout : {Interleaved, Concatenated, ConcatenatedEndInclusive}) {
    for (const Index model_dim : {16, 7}) {
      CAPTURE(static_cast<int>(layout), model_dim);
      const posenc::Sinusoidal plain({.model_dim = model_dim, .layout = layout});
      const posenc::Sinusoidal moved(
          {.model_dim = model_dim, .layout = layout, .start = 2, .scale = 0.25});
      for (const Positions& positions : small_positions()) {
        laws::check_additive<TestType>(plain, model_dim, positions);
        laws::check_additive<TestType>(moved, model_dim, positions);
      }
      for (const Positions& positions : far_positions()) {
        laws::check_additive<TestType>(plain, model_dim, positions);
      }
    }
  }
}

TEMPLATE_TEST_CASE("additive laws: sinusoidal on a grid", "[laws]", float, double, Eigen::half,
                   Eigen::bfloat16) {
  using enum posenc::GridAxisOrder;
  const std::array<Positions, 2> points{Positions::real({0.5, 1.5, 0.5}),
                                        Positions::real({2.25, -3.0, 2.25})};
  for (const auto axis_order : {ColumnFirst, RowFirst}) {
    const posenc::Sinusoidal2d encoding({.model_dim = 12,
                                         .axis_order = axis_order,
                                         .layout = posenc::SinusoidalLayout::Concatenated});
    laws::check_additive<TestType>(encoding, 12, Positions::grid(3, 4));
    laws::check_additive<TestType>(encoding, 12, Positions::axes(points));
  }
}

TEMPLATE_TEST_CASE("additive laws: learned", "[laws]", float, double, Eigen::half,
                   Eigen::bfloat16) {
  using Table = Eigen::Matrix<TestType, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Table table(18, 6);
  support::Random(9).fill_normal(std::span<TestType>(table.data(), 18 * 6));
  const posenc::Learned<TestType> plain(posenc::table_view(table));
  const posenc::Learned<TestType> opt(posenc::table_view(table),
                                      {.row_offset = 2, .padding_row = 1});
  for (const Positions& positions : small_positions()) {
    laws::check_additive<TestType>(plain, 6, positions);
    laws::check_additive<TestType>(opt, 6, positions);
  }
}

TEMPLATE_TEST_CASE("additive laws: integer", "[laws]", float, double, Eigen::half,
                   Eigen::bfloat16) {
  const posenc::IntegerEncoding plain, divided({.max_length = 100});
  for (const Positions& positions : small_positions()) {
    laws::check_additive<TestType>(plain, 5, positions);
    laws::check_additive<TestType>(divided, 5, positions);
  }
  laws::check_additive<TestType>(plain, 5, Positions::real({0.5, -7.25, 0.5}));
}

TEMPLATE_TEST_CASE("additive laws: binary", "[laws]", float, double, Eigen::half, Eigen::bfloat16) {
  using enum posenc::BinaryValues;
  for (const auto values : {ZeroOne, PlusMinusOne}) {
    const posenc::BinaryEncoding encoding({.model_dim = 4, .values = values});
    const posenc::BinaryEncoding wrapping(
        {.model_dim = 3, .values = values, .overflow = posenc::BinaryOverflow::Wrap});
    for (const Positions& positions : small_positions()) {
      laws::check_additive<TestType>(encoding, 4, positions);
      laws::check_additive<TestType>(wrapping, 3, positions);
    }
  }
}

namespace {

/// Wrong encoding: multiplies X by the position instead of adding.
struct Scaling {
  template <class T>
  void add_to(posenc::EmbeddingsView<T> x, const Positions& positions) const {
    for (Index b = 0; b < x.batch; ++b) {
      for (Index s = 0; s < x.seq; ++s) {
        for (Index d = 0; d < x.dim; ++d) x.row(b, s)[d] *= static_cast<T>(positions.at(b, s));
      }
    }
  }
};

/// Wrong encoding: counts tokens instead of reading their positions.
struct Counting {
  template <class T>
  void add_to(posenc::EmbeddingsView<T> x, const Positions&) const {
    for (Index s = 0; s < x.seq; ++s) {
      for (Index b = 0; b < x.batch; ++b) x.row(b, s)[0] += static_cast<T>(s);
    }
  }
};

}  // namespace

TEST_CASE("additive laws: catch an encoding that does not add", "[laws][!shouldfail]") {
  laws::check_additive<float>(Scaling{}, 4, Positions::range(0, 3));
}

TEST_CASE("additive laws: catch an encoding that does not read positions", "[laws][!shouldfail]") {
  laws::check_additive<float>(Counting{}, 4, Positions::ids({5, 5}));
}

}  // namespace additive_laws_test
