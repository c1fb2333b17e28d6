// SPDX-License-Identifier: MIT
// T5's buckets and the bias that reads them.
#include "reference/t5.hpp"

#include "bias/tiles.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/tensor/adapt.hpp>

#include <Eigen/Core>

#include <cmath>
#include <limits>
#include <vector>

namespace t5_test {

using posenc::ConfigError;
using posenc::Index;
using posenc::ShapeError;
using posenc::T5BiasConfig;
using posenc::T5Buckets;
using posenc::T5Direction;
using support::message_of;

namespace {

using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr T5BiasConfig encoder{.direction = T5Direction::Bidirectional};
constexpr T5BiasConfig decoder{.direction = T5Direction::Causal};

std::vector<double> log_half(const T5BiasConfig& config) {
  const T5Buckets buckets(config);
  const auto all = buckets.thresholds();
  const bool both = config.direction == T5Direction::Bidirectional;
  const auto exact = static_cast<std::size_t>(config.buckets / (both ? 4 : 2));
  return {all.begin() + static_cast<std::ptrdiff_t>(exact) - 1, all.end()};
}

}  // namespace

TEST_CASE("T5Bias: the published settings have the known thresholds", "[t5]") {
  CHECK(log_half(encoder) == std::vector<double>{8, 12, 16, 23, 32, 46, 64, 91});
  CHECK(log_half(decoder) ==
        std::vector<double>{16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113});
}

TEST_CASE("T5Bias: buckets equal the reference at every distance", "[t5]") {
  for (const bool both : {true, false}) {
    for (const auto& [count, reach] :
         {std::pair<Index, Index>{32, 128}, {32, 129}, {8, 1000}, {4, 2}, {64, 20000}, {12, 77}}) {
      CAPTURE(both, count, reach);
      const T5Buckets buckets(
          {.buckets = count,
           .max_distance = both ? reach : reach + count,
           .direction = both ? T5Direction::Bidirectional : T5Direction::Causal});
      const Index limit = buckets.config().max_distance;
      for (Index relative = -3 * limit; relative <= 3 * limit; ++relative) {
        REQUIRE(buckets.bucket(static_cast<double>(relative)) ==
                reference::t5_bucket(relative, both, count, limit));
      }
    }
  }
}

TEST_CASE("T5Bias: a score gets the value of its bucket and head", "[t5]") {
  Table table(32, 3);
  for (Index b = 0; b < 32; ++b) {
    for (Index h = 0; h < 3; ++h) table(b, h) = static_cast<float>(100 * h + b);
  }
  const posenc::T5Bias bias(posenc::table_view(table), encoder);
  CHECK(bias.heads() == 3);
  const std::vector<double> queries{0, 5, 1000}, keys{0, 7, 20, 990};
  for (Index h = 0; h < 3; ++h) {
    Table scores = Table::Constant(3, 4, 0.5F);
    bias.add(h, queries, keys, posenc::MatrixView<float>{scores.data(), 3, 4, 4});
    for (Index i = 0; i < 3; ++i) {
      for (Index j = 0; j < 4; ++j) {
        const double relative =
            keys[static_cast<std::size_t>(j)] - queries[static_cast<std::size_t>(i)];
        const auto bucket = reference::t5_bucket(static_cast<Index>(relative), true, 32, 128);
        CHECK(scores(i, j) == 0.5F + table(bucket, h));
      }
    }
  }
}

TEMPLATE_TEST_CASE("T5Bias: scores do not depend on the tile", "[t5]", float, double) {
  const Table table = Table::Random(32, 3);
  for (const auto& config : {encoder, decoder}) {
    tiles::check_single_scores<TestType>(posenc::T5Bias(posenc::table_view(table), config), 2);
  }
}

TEST_CASE("T5Bias gradient: the table collects the scores' by bucket", "[t5]") {
  const Table table = Table::Zero(32, 2);
  const posenc::T5Bias bias(posenc::table_view(table), decoder);
  const std::vector<double> positions{0, 1, 2, 3};
  Table grad(4, 4), sum = Table::Constant(32, 2, 1.0F);
  for (Index i = 0; i < 16; ++i) grad.data()[i] = static_cast<float>(i);
  bias.add_gradient(1, positions, positions, posenc::MatrixView<const float>{grad.data(), 4, 4, 4},
                    posenc::MatrixView<float>{sum.data(), 32, 2, 2});
  CHECK(sum.col(0) == Table::Constant(32, 1, 1.0F));
  CHECK(sum(1, 1) == 1 + grad(1, 0) + grad(2, 1) + grad(3, 2));
  CHECK(sum(3, 1) == 1 + grad(3, 0));
  CHECK(sum.col(1).sum() == 32 + grad.sum());
}

TEST_CASE("T5Bias: in attention, decoding gives the bits of prefill", "[t5]") {
  using Heads = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Table table = Table::Random(32, 1);
  const posenc::T5Bias bias(posenc::table_view(table), decoder);
  const Index seq = 9, dim = 8;
  const Heads q = Heads::Random(seq, dim), k = Heads::Random(seq, dim), v = Heads::Random(seq, dim);
  Heads all(seq, dim), last(1, dim);
  const auto view = [&](const Heads& x, Index first, Index count) {
    return posenc::HeadsView<const float>{
        x.data() + first * dim, 1, count, 1, dim, seq * dim, dim, dim};
  };
  const posenc::AttentionOptions<float> options{.scale = 1.0,
                                                .causal = posenc::Causal::BottomRight};
  posenc::attention(view(q, 0, seq), view(k, 0, seq), view(v, 0, seq),
                    posenc::HeadsView<float>{all.data(), 1, seq, 1, dim, seq * dim, dim, dim},
                    options, bias);
  posenc::attention(view(q, seq - 1, 1), view(k, 0, seq), view(v, 0, seq),
                    posenc::HeadsView<float>{last.data(), 1, 1, 1, dim, dim, dim, dim}, options,
                    bias);
  CHECK(last.row(0) == all.row(seq - 1));
}

TEST_CASE("T5Bias: rejects invalid settings", "[t5]") {
  const auto refuse = [](const T5BiasConfig& config) {
    return message_of<ConfigError>([&] { T5Buckets{config}; });
  };
  CHECK(refuse({}) == "posenc::T5Buckets: direction must be set to Bidirectional or Causal");
  CHECK(refuse({.buckets = 31, .direction = T5Direction::Bidirectional}) ==
        "posenc::T5Buckets: buckets must be at least 4 and even and at most 1048576 but are 31");
  CHECK(refuse({.buckets = 1, .direction = T5Direction::Causal}) ==
        "posenc::T5Buckets: buckets must be at least 2 and at most 1048576 but are 1");
  CHECK(refuse({.buckets = 1048577, .max_distance = 1 << 24, .direction = T5Direction::Causal}) ==
        "posenc::T5Buckets: buckets must be at least 2 and at most 1048576 but are 1048577");
  CHECK(refuse({.max_distance = 8, .direction = T5Direction::Bidirectional}) ==
        "posenc::T5Buckets: max_distance must be more than the 8 distances that have individual "
        "buckets, and at most 2^53, but is 8");
  const Table table(31, 2);
  CHECK(message_of<ShapeError>([&] { posenc::T5Bias(posenc::table_view(table), encoder); }) ==
        "posenc::T5Bias: table must have a row for each of the 32 buckets but is [31, 2]");
  const Table right = Table::Zero(32, 2);
  const posenc::T5Bias bias(posenc::table_view(right), encoder);
  float score = 0;
  const std::vector<double> one{0};
  CHECK(message_of<ShapeError>([&] {
          bias.add(2, one, one, posenc::MatrixView<float>{&score, 1, 1, 1});
        }) == "posenc::T5Bias::add: head must lie within the 2 heads but is 2");
}

TEST_CASE("T5Bias: any distance has a bucket", "[t5]") {
  const T5Buckets both({.direction = T5Direction::Bidirectional});
  const double infinity = std::numeric_limits<double>::infinity();
  const std::size_t buckets = 32;
  for (const double relative : {1e300, -1e300, infinity, -infinity, std::nan("")}) {
    CAPTURE(relative);
    CHECK(static_cast<std::size_t>(both.bucket(relative)) < buckets);
  }
  CHECK(both.bucket(1e300) == both.bucket(1e6));
  CHECK(both.bucket(-1e300) == both.bucket(-1e6));
  CHECK(both.bucket(std::nan("")) == both.bucket(-1e6));
}

TEST_CASE("T5Bias: consecutive keys at any distance, and buckets beyond the table", "[t5]") {
  for (const Index farthest : {Index{128}, Index{1000000}}) {
    for (const auto direction : {T5Direction::Bidirectional, T5Direction::Causal}) {
      const T5BiasConfig config{.max_distance = farthest, .direction = direction};
      Table table(32, 1);
      for (Index b = 0; b < 32; ++b) table(b, 0) = static_cast<float>(b);
      const posenc::T5Bias bias(posenc::table_view(table), config);
      const tiles::Values keys = tiles::run(5000, 300);
      for (const double first : {0.0, 4990.0, 5150.0, 20000.0, 900000.0}) {
        const tiles::Values queries = tiles::run(first, 7);
        const auto tile = tiles::added<float>(bias, 0, queries, keys);
        Index wrong = 0;
        for (std::size_t n = 0; n < tile.size(); ++n) {
          const double relative = keys[n % keys.size()] - queries[n / keys.size()];
          wrong += tile[n] == static_cast<float>(bias.buckets().bucket(relative)) ? 0 : 1;
        }
        CAPTURE(farthest, first);
        CHECK(wrong == 0);
      }
    }
  }
}

}  // namespace t5_test
