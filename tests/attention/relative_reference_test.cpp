// SPDX-License-Identifier: MIT
// Compares the references of relative attention with examples worked by hand, and with each other.
#include "reference/cope.hpp"
#include "reference/deberta_bucket.hpp"
#include "reference/forgetting.hpp"
#include "reference/relative.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace relative_reference_test {

using reference::Matrix;
using reference::Positions;
using reference::positions_from;
using reference::SinusoidalLayout;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double root_half = std::sqrt(0.5);

/// True if a value equals the given one to nine decimals, or is the same infinity.
bool is_printed(double value, double printed) {
  return value == printed || std::abs(value - printed) <= 6e-10;
}

void check_printed(const Matrix& values, const Matrix& printed) {
  REQUIRE(values.rows == printed.rows);
  REQUIRE(values.cols == printed.cols);
  for (std::int64_t r = 0; r < values.rows; ++r) {
    for (std::int64_t c = 0; c < values.cols; ++c) {
      INFO("(" << r << ", " << c << "): " << values(r, c) << ", not " << printed(r, c));
      CHECK(is_printed(values(r, c), printed(r, c)));
    }
  }
}

/// Checks equality up to roundings where the key is at most `ahead` rows after the query's.
void check_close(const Matrix& a, const Matrix& b, std::int64_t ahead) {
  REQUIRE(a.rows == b.rows);
  REQUIRE(a.cols == b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.cols && j <= i + ahead; ++j) {
      INFO("(" << i << ", " << j << ")");
      CHECK(a(i, j) == Approx(b(i, j)).epsilon(1e-13).margin(1e-13));
    }
  }
}

Matrix random_matrix(support::Random& random, std::int64_t rows, std::int64_t cols) {
  Matrix result(rows, cols);
  random.fill_normal(result.values);
  return result;
}

const Matrix three_queries(3, 2, {1, 0, 0, 1, 1, 1});
const Matrix three_keys(3, 2, {1, 2, 0, 1, -1, 1});

reference::TransformerXlHead random_head(support::Random& random, SinusoidalLayout layout) {
  return {layout,
          {random_matrix(random, 4, 6), {}},
          random_matrix(random, 1, 4).values,
          random_matrix(random, 1, 4).values};
}

}  // namespace

TEST_CASE("reference of RelativeBias: Shaw's scores by hand", "[relative][reference]") {
  const Matrix table(3, 2, {1, 0, 0, 0, 0, -1});
  const Positions places = positions_from(0, 3);
  const Matrix part = reference::shaw_part(three_queries, table, places, places);
  check_printed(reference::scaled_scores(three_queries, three_keys, part, root_half),
                Matrix(3, 3,
                       {.7071067812, 0, -.7071067812, 1.414213562, .7071067812, 0, 2.828427125,
                        1.414213562, 0}));
  const auto bias = reference::bias_of(part, root_half);
  CHECK(is_printed(bias(2, 0), .7071067812));
  const std::vector<Matrix> shared{table}, own{table, three_keys};
  CHECK(reference::table_of_head(shared, 1).values == table.values);
  CHECK(reference::table_of_head(own, 1).values == three_keys.values);
}

TEST_CASE(
    "reference of RelativeBias: Music Transformer's scores are Shaw's up to the query's own key",
    "[relative][reference]") {
  const Positions places = positions_from(0, 3);
  const Matrix table(3, 2, {1, 0, 1, 0, 0, 0});
  check_printed(
      reference::scaled_scores(
          three_queries, three_keys,
          reference::music_transformer_part(three_queries, table, places, places), root_half),
      Matrix(3, 3,
             {.7071067812, -infinity, -infinity, 1.414213562, .7071067812, -infinity, 2.828427125,
              1.414213562, 0}));
  // A table of two rows has none for the farthest key.
  const Matrix shorter(2, 2, {1, 0, 0, 0});
  CHECK(reference::music_transformer_part(three_queries, shorter, places, places).row(2) ==
        std::vector<double>{0, 1, 0});
}

TEST_CASE("reference of RelativeBias: Music Transformer's skewing is a choice of rows",
          "[relative][reference]") {
  support::Random random(1);
  const Matrix q = random_matrix(random, 5, 4);
  const Positions places = positions_from(0, 5);
  for (const std::int64_t rows : {1, 3, 5, 8}) {
    INFO(rows << " rows");
    const Matrix table = random_matrix(random, rows, 4);
    check_close(reference::music_transformer_skewed(q, table),
                reference::music_transformer_part(q, table, places, places), 0);
  }
}

TEST_CASE("reference of RelativeBias: the relative shift", "[relative][reference]") {
  CHECK(reference::relative_shift(Matrix(2, 3, {1, 2, 3, 4, 5, 6})).values ==
        std::vector<double>{2, 3, 0, 4, 5, 6});
}

TEST_CASE("reference of RelativeBias: sinusoids of a distance", "[relative][reference]") {
  reference::TransformerXlHead head;
  head.project.weight = Matrix(4, 4, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  check_printed(reference::relative_keys(head, {2}),
                Matrix(1, 4, {.9092974268, .0199986667, -.4161468365, .9998000067}));
  head.layout = SinusoidalLayout::Interleaved;
  check_printed(reference::relative_keys(head, {2}),
                Matrix(1, 4, {.9092974268, -.4161468365, .0199986667, .9998000067}));
}

TEST_CASE("reference of RelativeBias: Transformer-XL's and a Conformer's scores by hand",
          "[relative][reference]") {
  const Matrix printed(3, 3,
                       {1.272792206, -.279472072, -1.303347517, 2.204932821, 1.767766953,
                        1.333985295, 2.671008748, 1.880703845, .9899494937});
  const reference::TransformerXlHead head{
      SinusoidalLayout::Interleaved, {Matrix(2, 2, {1, 0, 0, 1}), {}}, {.1, .2}, {-.1, .3}};
  const Positions places = positions_from(0, 3);
  const Matrix part =
      reference::transformer_xl_part(head, three_queries, three_keys, places, places);
  check_printed(reference::scaled_scores(three_queries, three_keys, part, root_half), printed);
  check_printed(reference::conformer_scores(head, three_queries, three_keys, root_half), printed);

  const Matrix causal =
      reference::transformer_xl_scores(head, three_queries, three_keys, root_half);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) CHECK(is_printed(causal(i, j), printed(i, j)));
  }
}

TEST_CASE("reference of RelativeBias: shifted scores are those of the distances",
          "[relative][reference]") {
  support::Random random(2);
  const Matrix q = random_matrix(random, 4, 4), k = random_matrix(random, 7, 4);
  const auto xl = random_head(random, SinusoidalLayout::Concatenated);
  // Three keys are memory. The result does not depend on the first position.
  const Matrix part =
      reference::transformer_xl_part(xl, q, k, positions_from(103, 4), positions_from(100, 7));
  check_close(reference::transformer_xl_scores(xl, q, k, 0.5),
              reference::scaled_scores(q, k, part, 0.5), 3);

  const auto conformer = random_head(random, SinusoidalLayout::Interleaved);
  const Matrix queries = random_matrix(random, 7, 4);
  const Positions places = positions_from(0, 7);
  const Matrix both_ways = reference::transformer_xl_part(conformer, queries, k, places, places);
  check_close(reference::conformer_scores(conformer, queries, k, 0.5),
              reference::scaled_scores(queries, k, both_ways, 0.5), 6);
}

TEST_CASE("reference of RelativeBias: DeBERTa's buckets by hand", "[relative][reference]") {
  const Positions x{127, 128, 129, 130, 200, 300, 511, 512, -200};
  const Positions buckets{127, 128, 129, 130, 169, 207, 255, 256, -169};
  for (std::size_t n = 0; n < x.size(); ++n) {
    INFO(x[n]);
    CHECK(reference::deberta_bucket(x[n], 256, 512) == buckets[n]);
    CHECK(reference::deberta_bucket_as_coded(x[n], 256, 512) == buckets[n]);
  }
  const Positions few{0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7, 8};
  for (std::int64_t n = 0; n <= 16; ++n) {
    INFO(n);
    CHECK(reference::deberta_bucket(n, 8, 16) == few[static_cast<std::size_t>(n)]);
    CHECK(reference::deberta_bucket_as_coded(-n, 8, 16) == -few[static_cast<std::size_t>(n)]);
  }
  CHECK(reference::deberta_bucket(-1000, 0, 4) == -1000);
  // With (M - 1) / mid = 2^3, some steps are reached exactly: those of x / mid = 2, 4, 8, 16, 64.
  const Positions doubled{8, 9, 16, 17, 32, 33, 64, 256};
  const Positions steps{5, 6, 6, 7, 7, 8, 8, 10};
  for (std::size_t n = 0; n < doubled.size(); ++n) {
    INFO(doubled[n]);
    CHECK(reference::deberta_bucket(doubled[n], 8, 33) == steps[n]);
  }
}

TEST_CASE("reference of RelativeBias: DeBERTa's buckets in float are the exact ones",
          "[relative][reference]") {
  for (std::int64_t x = -1100; x <= 1100; ++x) {
    INFO(x);
    CHECK(reference::deberta_bucket(x, 256, 512) ==
          reference::deberta_bucket_as_coded(x, 256, 512));
  }
}

TEST_CASE("reference of RelativeBias: DeBERTa's scores by hand", "[relative][reference]") {
  const Matrix table(8, 2, {.1, 0, .2, .1, .3, .2, .4, -.3, .5, .3, -.2, .2, .1, .1, 0, .4});
  const Matrix q(2, 2, {1, 0, 0, 1}), k(2, 2, {1, 2, 0, 1});
  const Positions places{0, 1};
  reference::DebertaHead head{0, 4, table, table};
  check_printed(reference::scaled_scores(q, k, reference::deberta_part(head, q, k, places, places),
                                         head.scale(2)),
                Matrix(2, 2, {1.061445555, .04082482905, .9797958971, .6531972647}));

  // The paper's p2c reads the row of key - query: that of the code with both positions negated.
  head.key_table = {};
  const Matrix p2c = reference::deberta_part(head, q, k, {0, -1}, {0, -1});
  head.key_table = table;
  head.query_table = {};
  const Matrix c2p = reference::deberta_part(head, q, k, places, places);
  const Matrix paper =
      reference::scaled_scores(q, k, reference::sum_of(c2p, p2c), std::sqrt(1. / 6));
  CHECK(is_printed(paper(0, 1), .2449489743));
  CHECK(is_printed(paper(1, 0), .8164965809));
  CHECK(head.scale(2) == 0.5);
}

TEST_CASE("reference of RelativeBias: DeBERTa's distances end at the first and the last row",
          "[relative][reference]") {
  const Matrix table(8, 1, {0, 1, 2, 3, 4, 5, 6, 7}), one(1, 1, {1});
  const reference::DebertaHead c2p{0, 4, table, {}}, p2c{0, 4, {}, table};
  for (std::int64_t x = -6; x <= 6; ++x) {
    INFO(x);
    const double row = x < -4 ? 0 : x > 3 ? 7 : static_cast<double>(x + 4);
    CHECK(reference::deberta_part(c2p, one, one, {x}, {0}).values.front() == row);
    CHECK(reference::deberta_part(p2c, one, one, {x}, {0}).values.front() == row);
  }
}

TEST_CASE("reference of RelativeBias: Inkling's relative logits by hand", "[relative][reference]") {
  const Matrix bank(2, 3, {1, 2, 3, .5, 0, -1}), r(3, 2, {.5, -1, 2, 1, 0, 1});
  const Positions places = positions_from(0, 3);
  CHECK(reference::inkling_logits(r, bank).values ==
        std::vector<double>{0, 1, 2.5, 2.5, 4, 5, .5, 0, -1});
  CHECK(reference::inkling_part(r, bank, places, places).values ==
        std::vector<double>{0, 0, 0, 4, 2.5, 0, -1, 0, .5});
  const Matrix shorter(2, 2, {1, 2, .5, 0});
  CHECK(reference::inkling_part(r, shorter, places, places).row(2) ==
        std::vector<double>{0, 0, .5});
  const Matrix own_only(2, 1, {1, .5});
  CHECK(reference::inkling_part(r, own_only, places, places).values ==
        std::vector<double>{0, 0, 0, 0, 2.5, 0, 0, 0, .5});
}

TEST_CASE("reference of ForgettingBias: by hand", "[relative][reference]") {
  std::vector<double> log_gates;
  for (const double gate : {2., 0., -1.}) log_gates.push_back(reference::log_sigmoid(gate));
  check_printed(Matrix(1, 3, log_gates), Matrix(1, 3, {-.126928011, -.6931471806, -1.313261688}));
  Matrix bias(3, 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      bias(i, j) = reference::forgetting_bias(log_gates, i, j);
    }
  }
  check_printed(bias, Matrix(3, 3,
                             {0, -infinity, -infinity, -.6931471806, 0, -infinity, -2.006408868,
                              -1.313261688, 0}));
  CHECK(reference::log_sigmoid(-1000) == -1000);
  CHECK(reference::log_sigmoid(50) == Approx(-std::exp(-50)).epsilon(1e-15));
}

TEST_CASE("reference of CoPE: positions and scores by hand", "[relative][reference]") {
  const std::vector<double> scores{0, 1, -1};
  check_printed(Matrix(1, 3, reference::cope_positions(scores, 3)),
                Matrix(1, 3, {1.5, 1, .2689414214}));
  const std::vector<double> last_gates{reference::cope_positions({0}, 3)[0],
                                       reference::cope_positions({1}, 3)[0],
                                       reference::cope_positions({-1}, 3)[0]};
  check_printed(Matrix(1, 3, last_gates), Matrix(1, 3, {.5, .7310585786, .2689414214}));
  check_printed(Matrix(1, 3, reference::cope_row({1}, Matrix(3, 1, {.5, -.25, 1}), scores)),
                Matrix(1, 3, {.375, -.25, .298293934}));
  CHECK(reference::cope_positions(scores, 2)[0] == 1);
}

}  // namespace relative_reference_test
