// SPDX-License-Identifier: MIT
// Tests BinaryEncoding: its bits, what wraps, and what it rejects.
#include "additive/embeddings.hpp"
#include "reference/integer_binary.hpp"
#include "support/catch.hpp"
#include <posenc/additive/binary.hpp>
#include <posenc/concepts.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>
#include <unsupported/Eigen/CXX11/Tensor>

#include <vector>

namespace binary_test {

namespace {

using Catch::Matchers::Message;
using posenc::BinaryEncoding;
using posenc::BinaryOverflow;
using posenc::BinaryValues;
using posenc::Index;
using posenc::Positions;

static_assert(posenc::AdditiveEncoding<BinaryEncoding, float>);
static_assert(posenc::AdditiveEncoding<BinaryEncoding, double>);
static_assert(posenc::AdditiveEncoding<BinaryEncoding, Eigen::half>);
static_assert(posenc::AdditiveEncoding<BinaryEncoding, Eigen::bfloat16>);

std::vector<float> bits(const posenc::BinaryEncodingConfig& config, Index position) {
  std::vector<float> row(static_cast<std::size_t>(config.model_dim), 0.0f);
  BinaryEncoding(config).add_to(
      posenc::EmbeddingsView<float>{
          .data = row.data(), .batch = 1, .seq = 1, .dim = config.model_dim},
      Positions::ids({position}));
  return row;
}

}  // namespace

TEMPLATE_TEST_CASE("BinaryEncoding: adds bit k to channel k", "", float, double, Eigen::half,
                   Eigen::bfloat16) {
  const auto values = GENERATE(BinaryValues::ZeroOne, BinaryValues::PlusMinusOne);
  const Index width = GENERATE(54, 64, 70);
  const std::vector<Index> ids{0, 1, 2, 3, 255, 256, 1234567890123, Index{1} << 53};
  const auto table =
      reference::binary_encoding(ids, width, values == BinaryValues::ZeroOne ? 0.0 : -1.0, 1.0);
  GuardedEmbeddings<TestType> x(2, 4, width), before(2, 4, width);
  x.fill(4);
  before.fill(4);
  BinaryEncoding({.model_dim = width, .values = values}).add_to(x.view(), Positions::ids(2, ids));
  CHECK(is_sum(x, before, table));
  CHECK(x.guards_hold());
}

TEST_CASE("BinaryEncoding: the lowest bit comes first") {
  CHECK(bits({.model_dim = 4}, 6) == std::vector<float>{0, 1, 1, 0});
  CHECK(bits({.model_dim = 4, .values = BinaryValues::PlusMinusOne}, 6) ==
        std::vector<float>{-1, 1, 1, -1});
  CHECK(bits({.model_dim = 3}, 7) == std::vector<float>{1, 1, 1});
}

TEST_CASE("BinaryEncoding: positions past the width wrap where asked to") {
  CHECK(bits({.model_dim = 3, .overflow = BinaryOverflow::Wrap}, 8 + 5) ==
        std::vector<float>{1, 0, 1});
  CHECK(bits({.model_dim = 3, .overflow = BinaryOverflow::Wrap}, Index{1} << 53) ==
        std::vector<float>{0, 0, 0});
}

TEST_CASE("BinaryEncoding: one row of positions serves all rows of a column-major tensor") {
  Eigen::Tensor<float, 3> x(2, 3, 2);
  x.setZero();
  BinaryEncoding({.model_dim = 2}).add_to(posenc::dsb(x), Positions::range(1, 3));
  for (Index b = 0; b < 2; ++b) {
    CHECK(x(0, 0, b) == 1);
    CHECK(x(1, 0, b) == 0);
    CHECK(x(0, 1, b) == 0);
    CHECK(x(1, 1, b) == 1);
    CHECK(x(0, 2, b) == 1);
    CHECK(x(1, 2, b) == 1);
  }
}

TEST_CASE("BinaryEncoding: empty tensors are left alone") {
  const BinaryEncoding encoding({.model_dim = 3});
  CHECK_NOTHROW(encoding.add_to(posenc::EmbeddingsView<float>{.batch = 0, .seq = 2, .dim = 3},
                                Positions::range(0, 2)));
  CHECK_NOTHROW(encoding.add_to(posenc::EmbeddingsView<float>{.batch = 2, .seq = 0, .dim = 3},
                                Positions::range(9, 0)));
}

TEST_CASE("BinaryEncoding: rejects bad input, and writes nothing") {
  using posenc::PositionError;
  CHECK_THROWS_MATCHES(
      BinaryEncoding({.values = BinaryValues::ZeroOne}), posenc::ConfigError,
      Message("posenc::BinaryEncoding: model_dim must be set and positive but is 0"));
  GuardedEmbeddings<float> x(1, 3, 3), before(1, 3, 3), narrow(1, 3, 2);
  x.fill(6);
  before.fill(6);
  const BinaryEncoding encoding({.model_dim = 3});
  const BinaryEncoding wrapping({.model_dim = 3, .overflow = BinaryOverflow::Wrap});
  CHECK_THROWS_MATCHES(
      encoding.add_to(x.view(), Positions::ids({0, 9, 1})), PositionError,
      Message("posenc::BinaryEncoding::add_to: position 9 needs 4 bits, but model_dim is 3"));
  CHECK_THROWS_AS(encoding.add_to(x.view(), Positions::ids({0, 8, 1})), PositionError);
  CHECK_THROWS_MATCHES(
      wrapping.add_to(x.view(), Positions::ids({0, 1, -1})), PositionError,
      Message("posenc::BinaryEncoding::add_to: positions must not be negative but one is -1"));
  CHECK_THROWS_MATCHES(encoding.add_to(x.view(), Positions::real({0, 1, 1.5})), PositionError,
                       Message("posenc::BinaryEncoding::add_to: positions must be integers, but "
                               "some have a fraction"));
  CHECK_THROWS_MATCHES(
      encoding.add_to(narrow.view(), Positions::range(0, 3)), posenc::ShapeError,
      Message("posenc::BinaryEncoding::add_to: x must be [B, S, 3] but is [1, 3, 2]"));
  CHECK_THROWS_AS(encoding.add_to(x.view(), Positions::range(0, 2)), posenc::ShapeError);
  CHECK_THROWS_AS(encoding.add_to(x.view(), Positions::grid(1, 3)), posenc::ShapeError);
  CHECK(x.matrix().values == before.matrix().values);
}

TEST_CASE("BinaryEncoding: real positions that no integer holds") {
  const auto of = [](double position, Index width, BinaryOverflow overflow) {
    std::vector<float> row(static_cast<std::size_t>(width), 0.0f);
    BinaryEncoding({.model_dim = width, .overflow = overflow})
        .add_to(posenc::EmbeddingsView<float>{row.data(), 1, 1, width, width, width},
                Positions::real({position}));
    return row;
  };
  const auto only = [](Index width, std::vector<Index> ones) {
    std::vector<float> row(static_cast<std::size_t>(width), 0.0f);
    for (const Index k : ones) row[static_cast<std::size_t>(k)] = 1;
    return row;
  };
  const auto reject = BinaryOverflow::Reject, wrap = BinaryOverflow::Wrap;
  CHECK(of(0x1p70, 8, wrap) == only(8, {}));
  CHECK(of(0x1p70, 71, reject) == only(71, {70}));
  CHECK(of(0x1p64, 65, reject) == only(65, {64}));
  CHECK(of(0x1p63, 64, reject) == only(64, {63}));
  CHECK(of(0x1.0000000000001p1023, 1024, reject) == only(1024, {971, 1023}));
  CHECK(of(0x1.8p1023, 1000, wrap) == only(1000, {}));
  CHECK(of(-0.0, 3, reject) == only(3, {}));
  CHECK_THROWS_MATCHES(of(0x1p70, 64, reject), posenc::PositionError,
                       Message("posenc::BinaryEncoding::add_to: position 1180591620717411303424 "
                               "needs 71 bits, but model_dim is 64"));
}

}  // namespace binary_test
