// SPDX-License-Identifier: MIT
// Forward pass of the linear layers.
#include "reference/attention.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/guarded.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/throws.hpp"
#include "support/worse.hpp"
#include <posenc/core/build_info.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/tensor/eigen.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace linear_test {

using posenc::FixedOrderLinear;
using posenc::Index;
using posenc::Linear;
using posenc::ShapeError;
using support::message_of;

namespace {

template <class Layer>
using ScalarOf = typename Layer::Scalar;

template <class T>
using Tensor3 = Eigen::Tensor<T, 3, Eigen::RowMajor>;

template <class Layer>
Layer random_layer(std::uint64_t seed, Index in, Index out, bool with_bias) {
  using T = ScalarOf<Layer>;
  Layer layer(in, out, with_bias);
  layer.randomize(seed);
  support::Random random(seed);
  for (Index i = 0; i < layer.bias.size(); ++i) layer.bias(i) = static_cast<T>(random.normal());
  return layer;
}

template <class T>
reference::Linear reference_of(const posenc::LinearParameters<T>& layer) {
  reference::Linear r{{layer.out_dim(), layer.in_dim()}, {}};
  for (Index o = 0; o < layer.out_dim(); ++o) {
    for (Index i = 0; i < layer.in_dim(); ++i) {
      r.weight(o, i) = static_cast<double>(layer.weight(o, i));
    }
  }
  for (Index o = 0; o < layer.bias.size(); ++o) {
    r.bias.push_back(static_cast<double>(layer.bias(o)));
  }
  return r;
}

}  // namespace

TEMPLATE_TEST_CASE("Linear: equals the reference", "[linear]", Linear<float>, Linear<double>,
                   FixedOrderLinear<float>, FixedOrderLinear<double>) {
  using T = ScalarOf<TestType>;
  struct Size {
    Index batch, seq, in, out;
  };
  for (const Size size : {Size{1, 1, 1, 1}, Size{2, 5, 7, 3}, Size{3, 1, 16, 8},
                          Size{2, 40, 33, 65}, Size{1, 34, 600, 9}, Size{2, 7, 20, 300},
                          Size{2, 3, 5, 0}, Size{2, 3, 0, 4}, Size{0, 3, 4, 4}, Size{2, 0, 4, 4}}) {
    for (const bool with_bias : {false, true}) {
      const auto layer = random_layer<TestType>(1, size.in, size.out, with_bias);
      CHECK(layer.in_dim() == size.in);
      CHECK(layer.out_dim() == size.out);
      CHECK(layer.parameter_count() == size.in * size.out + (with_bias ? size.out : 0));
      // Rows with gaps: a slice of the features of a wider tensor.
      Eigen::Tensor<T, 3, Eigen::RowMajor> x(size.batch, size.seq, size.in + 3);
      Eigen::Tensor<T, 3, Eigen::RowMajor> y(size.batch, size.seq, size.out + 2);
      support::Random random(2);
      for (Index n = 0; n < x.size(); ++n) x.data()[n] = static_cast<T>(random.normal());
      y.setConstant(static_cast<T>(77));
      layer.apply(posenc::slice_features(posenc::bsd(x), 1, size.in),
                  posenc::slice_features(posenc::bsd(y), 1, size.out));
      const auto of_layer = reference_of(layer);
      double worst = 0;
      for (Index b = 0; b < size.batch; ++b) {
        for (Index s = 0; s < size.seq; ++s) {
          reference::Matrix row(1, size.in);
          for (Index i = 0; i < size.in; ++i) row(0, i) = static_cast<double>(x(b, s, i + 1));
          const auto want = of_layer(row);
          for (Index o = 0; o < size.out; ++o) {
            double sizes = with_bias ? std::abs(static_cast<double>(layer.bias(o))) : 0;
            for (Index i = 0; i < size.in; ++i) {
              sizes += std::abs(row(0, i) * static_cast<double>(layer.weight(o, i)));
            }
            // In a sum of n products in any order each product is rounded at most n times, and once
            // for the bias. The reference adds one rounding to double.
            const double roundings = static_cast<double>(size.in) + 2;
            const double error = std::abs(static_cast<double>(y(b, s, o + 1)) - want(0, o));
            if (error != 0) {
              worst = support::worse(worst, error / support::rounding<T>(1.01 * roundings * sizes));
            }
          }
          CHECK(y(b, s, 0) == 77);
          CHECK(y(b, s, size.out + 1) == 77);
        }
      }
      INFO("[" << size.batch << ", " << size.seq << ", " << size.in << "] to " << size.out);
      CHECK(worst <= 1);
    }
  }
}

TEMPLATE_TEST_CASE("Linear: an output of the fixed order is one chain over the inputs",
                   "[linear][bits]", float, double) {
  using T = TestType;
  const bool fused = posenc::build_info().fma;
  constexpr Index in = 577;  // larger than a depth slice of SumOrder::Any
  const auto layer = random_layer<FixedOrderLinear<T>>(1, in, 200, true);
  Tensor3<T> x(1, 3, in), y(1, 3, 200);
  support::Random random(2);
  for (Index n = 0; n < x.size(); ++n) x.data()[n] = static_cast<T>(random.normal());
  layer.apply(posenc::bsd(x), posenc::bsd(y));
  bool same = true;
  for (Index s = 0; s < 3; ++s) {
    for (Index o = 0; o < 200; ++o) {
      T sum = 0;
      for (Index i = 0; i < in; ++i) {
        const volatile T product = x(0, s, i) * layer.weight(o, i);
        sum = fused ? std::fma(x(0, s, i), layer.weight(o, i), sum) : sum + product;
      }
      same &= y(0, s, o) == sum + layer.bias(o);
    }
  }
  CHECK(same);
}

TEMPLATE_TEST_CASE("Linear: an output of the fixed order is written where it belongs alone",
                   "[linear]", float, double) {
  for (const Index out : {1, 8, 16, 48}) {
    const auto layer = random_layer<FixedOrderLinear<TestType>>(4, 5, out, false);
    const std::vector<TestType> x{1, 2, 3, 4, 5};
    std::vector<TestType> whole(static_cast<std::size_t>(out) + 64);
    support::Guarded<TestType> memory(out);
    TestType* const y = memory.last(out);
    layer.apply(posenc::EmbeddingsView<const TestType>{x.data(), 1, 1, 5},
                posenc::EmbeddingsView<TestType>{y, 1, 1, out});
    layer.apply(posenc::EmbeddingsView<const TestType>{x.data(), 1, 1, 5},
                posenc::EmbeddingsView<TestType>{whole.data(), 1, 1, out});
    CHECK(support::same_bits<TestType>(y, whole.data(), out));
    CHECK(std::count(whole.begin() + out, whole.end(), TestType{0}) == 64);
  }
}

TEMPLATE_TEST_CASE("Linear: in the fixed order a row has the same bits alone and among others",
                   "[linear][bits]", float, double) {
  using T = TestType;
  for (const Index batch : {1, 3}) {
    for (const Index out : {1, 31, 128, 300}) {
      const auto layer = random_layer<FixedOrderLinear<T>>(3, 67, out, out != 31);
      Tensor3<T> x(batch, 29, 67), all(batch, 29, out), some(batch, 29, out);
      support::Random random(4);
      for (Index n = 0; n < x.size(); ++n) x.data()[n] = static_cast<T>(random.normal());
      layer.apply(posenc::bsd(x), posenc::bsd(all));
      for (const Index count : {1, 2, 3, 5, 8, 13, 29}) {
        INFO(count << " rows at once in each of " << batch << ", " << out << " outputs");
        some.setZero();
        for (Index first = 0; first < 29; first += count) {
          const Index n = std::min(count, 29 - first);
          layer.apply(posenc::slice_seq(posenc::bsd(x), first, n),
                      posenc::slice_seq(posenc::bsd(some), first, n));
        }
        CHECK(support::same_bits(some.data(), all.data(), all.size()));
      }
    }
  }
}

TEMPLATE_TEST_CASE("Linear: among few rows the bits of a row do not depend on the others",
                   "[linear][bits]", float, double) {
  using T = TestType;
  constexpr Index in = 1100,
                  most = 32;  // several channel blocks, the last one with a partial vector
  for (const Index out : {1, 6, 35, 300}) {
    const auto layer = random_layer<Linear<T>>(3, in, out, out != 6);
    Tensor3<T> x(1, most, in), all(1, most, out), some(1, most, out);
    support::Random random(4);
    for (Index n = 0; n < x.size(); ++n) x.data()[n] = static_cast<T>(random.normal());
    layer.apply(posenc::bsd(x), posenc::bsd(all));
    for (const Index count : {1, 2, 3, 5, 7, 8, 13, 16, 27}) {
      INFO(count << " rows at once, " << out << " outputs");
      some.setZero();
      for (Index first = 0; first < most; first += count) {
        const Index n = std::min(count, most - first);
        layer.apply(posenc::slice_seq(posenc::bsd(x), first, n),
                    posenc::slice_seq(posenc::bsd(some), first, n));
      }
      CHECK(support::same_bits(some.data(), all.data(), all.size()));
    }
    // Batch rows of two tokens, in another order.
    const posenc::EmbeddingsView<const T> backwards{
        x.data() + (most - 1) * in, most / 2, 2, in, -2 * in, -in};
    const posenc::EmbeddingsView<T> turned{
        some.data() + (most - 1) * out, most / 2, 2, out, -2 * out, -out};
    some.setZero();
    layer.apply(backwards, turned);
    CHECK(support::same_bits(some.data(), all.data(), all.size()));
  }
}

TEST_CASE("Linear: checks its shapes before it writes", "[linear][errors]") {
  auto layer = random_layer<Linear<float>>(1, 4, 3, true);
  FixedOrderLinear<float> fixed(4, 3, true);
  Eigen::Tensor<float, 3, Eigen::RowMajor> x(2, 5, 4), narrow(2, 5, 3), y(2, 5, 3), wide(2, 5, 4),
      short_y(2, 4, 3), one(1, 5, 3);
  x.setZero();
  narrow.setZero();
  y.setConstant(77);
  const auto error = [&](auto& in, auto& out) {
    return message_of<ShapeError>([&] { layer.apply(posenc::bsd(in), posenc::bsd(out)); });
  };
  const std::string name = "posenc::Linear::apply: ";
  CHECK(error(narrow, y) == name + "x [2, 5, 3] and bias (3) must fit the weight [3, 4]");
  CHECK(error(x, wide) == name + "out [2, 5, 4] must be [2, 5, 3]");
  CHECK(error(x, short_y) == name + "out [2, 4, 3] must be [2, 5, 3]");
  CHECK(error(x, one) == name + "out [1, 5, 3] must be [2, 5, 3]");
  for (const Index size : {1, 2, 4, 6}) {
    layer.bias.resize(1, size);
    CHECK(error(x, y) ==
          name + "x [2, 5, 4] and bias (" + std::to_string(size) + ") must fit the weight [3, 4]");
  }
  CHECK(message_of<ShapeError>([&] { fixed.apply(posenc::bsd(narrow), posenc::bsd(y)); }) ==
        "posenc::Linear::apply: x [2, 5, 3] and bias (3) must fit the weight [3, 4]");
  for (Index n = 0; n < y.size(); ++n) CHECK(y.data()[n] == 77);
}

}  // namespace linear_test
