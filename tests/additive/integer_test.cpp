// SPDX-License-Identifier: MIT
// Tests IntegerEncoding: the position in every channel, and what it rejects.
#include "additive/embeddings.hpp"
#include "reference/integer_binary.hpp"
#include "support/catch.hpp"
#include <posenc/additive/integer.hpp>
#include <posenc/concepts.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>
#include <unsupported/Eigen/CXX11/Tensor>

#include <cmath>
#include <optional>
#include <vector>

namespace integer_test {

namespace {

using Catch::Matchers::Message;
using posenc::Index;
using posenc::IntegerEncoding;
using posenc::Positions;

static_assert(posenc::AdditiveEncoding<IntegerEncoding, float>);
static_assert(posenc::AdditiveEncoding<IntegerEncoding, double>);
static_assert(posenc::AdditiveEncoding<IntegerEncoding, Eigen::half>);
static_assert(posenc::AdditiveEncoding<IntegerEncoding, Eigen::bfloat16>);

const std::vector<Index> ids{0, 7, -7, 300, 1, 1, 2, 512};

}  // namespace

TEMPLATE_TEST_CASE("IntegerEncoding: adds the position to every channel", "", float, double,
                   Eigen::half, Eigen::bfloat16) {
  const Index max_length = GENERATE(0, 512, 3);
  const Index width = GENERATE(1, 6);
  const auto table = reference::integer_encoding(
      ids, width, max_length == 0 ? std::nullopt : std::optional(max_length));
  GuardedEmbeddings<TestType> x(2, 4, width), before(2, 4, width);
  x.fill(9);
  before.fill(9);
  IntegerEncoding({.max_length = max_length}).add_to(x.view(), Positions::ids(2, ids));
  CHECK(is_sum(x, before, table));
  CHECK(x.guards_hold());
}

TEST_CASE("IntegerEncoding: defaults, shared and real positions, column-major tensors") {
  Eigen::Tensor<float, 3> x(4, 2, 3);
  x.setZero();
  IntegerEncoding().add_to(posenc::dsb(x), Positions::real({2.5, -1}));
  for (Index b = 0; b < 3; ++b) {
    for (Index d = 0; d < 4; ++d) {
      CHECK(x(d, 0, b) == 2.5f);
      CHECK(x(d, 1, b) == -1.0f);
    }
  }
  std::vector<Eigen::half> narrow(1);
  IntegerEncoding().add_to(posenc::EmbeddingsView<Eigen::half>{narrow.data(), 1, 1, 1, 1, 1},
                           Positions::ids({65520}));
  CHECK(std::isinf(static_cast<float>(narrow[0])));
}

TEST_CASE("IntegerEncoding: empty tensors are left alone") {
  const IntegerEncoding encoding({.max_length = 4});
  CHECK_NOTHROW(encoding.add_to(posenc::EmbeddingsView<float>{.batch = 0, .seq = 2, .dim = 3},
                                Positions::range(0, 2)));
  CHECK_NOTHROW(encoding.add_to(posenc::EmbeddingsView<float>{.batch = 2, .seq = 0, .dim = 3},
                                Positions::range(0, 0)));
  CHECK_NOTHROW(encoding.add_to(posenc::EmbeddingsView<float>{.batch = 2, .seq = 2, .dim = 0},
                                Positions::range(0, 2)));
}

TEST_CASE("IntegerEncoding: rejects bad input") {
  CHECK_THROWS_MATCHES(
      IntegerEncoding({.max_length = -1}), posenc::ConfigError,
      Message("posenc::IntegerEncoding: max_length must not be negative but is -1"));
  GuardedEmbeddings<float> x(2, 3, 4);
  CHECK_THROWS_MATCHES(IntegerEncoding().add_to(x.view(), Positions::range(0, 5)),
                       posenc::ShapeError,
                       Message("posenc::IntegerEncoding::add_to: positions [1, 5] must match batch "
                               "and sequence of x, which is [2, 3, 4]"));
  CHECK_THROWS_AS(IntegerEncoding().add_to(x.view(), Positions::grid(1, 3)), posenc::ShapeError);
}

}  // namespace integer_test
