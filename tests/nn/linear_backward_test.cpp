// SPDX-License-Identifier: MIT
// Backward pass of the linear layers.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/cutter.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/throws.hpp"
#include "support/worse.hpp"
#include <posenc/nn/linear.hpp>
#include <posenc/tensor/eigen.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace linear_backward_test {

using posenc::EmbeddingsView;
using posenc::FixedOrderLinear;
using posenc::Index;
using posenc::Linear;
using posenc::LinearParameters;
using posenc::ShapeError;
using support::message_of;

namespace {

static_assert(posenc::DifferentiableProjection<Linear<float>, float>);
static_assert(posenc::DifferentiableProjection<FixedOrderLinear<double>, double>);

template <class T>
using Tensor3 = Eigen::Tensor<T, 3, Eigen::RowMajor>;

template <class T>
Tensor3<T> random_tensor(support::Random& random, Index batch, Index seq, Index dim) {
  Tensor3<T> x(batch, seq, dim);
  for (Index n = 0; n < x.size(); ++n) x.data()[n] = static_cast<T>(random.normal());
  return x;
}

template <class Layer>
Layer random_layer(Index in, Index out, bool with_bias) {
  using T = typename Layer::Scalar;
  Layer layer(in, out, with_bias);
  layer.randomize(1);
  support::Random random(1);
  for (Index i = 0; i < layer.bias.size(); ++i) layer.bias(i) = static_cast<T>(random.normal());
  return layer;
}

/// Returns the tokens in reverse order, through a negative stride.
template <class T>
EmbeddingsView<T> backwards(EmbeddingsView<T> x) {
  x.data += (x.seq - 1) * x.seq_stride;
  x.seq_stride = -x.seq_stride;
  return x;
}

/// Sum of products, and the sum of their absolute values, which bounds of rounding errors are
/// relative to.
struct Sum {
  double value = 0, size = 0;
  void add(double term) {
    value += term;
    size += std::abs(term);
  }
};

template <class T>
double error_of(T got, const Sum& want, Index terms) {
  const double error = std::abs(static_cast<double>(got) - want.value);
  return error == 0
             ? 0
             : error / support::rounding<T>(1.01 * static_cast<double>(terms + 2) * want.size);
}

/// Returns the largest error of backward() as a multiple of the documented bound. Every gradient
/// starts at 2.
template <class Layer, class T>
double worst_error(const Layer& layer, EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
                   EmbeddingsView<const T> grad_x, const LinearParameters<T>& gradient) {
  double worst = 0;
  const auto number = [](T value) { return static_cast<double>(value); };
  for (Index b = 0; b < x.batch; ++b) {
    for (Index s = 0; s < x.seq; ++s) {
      for (Index i = 0; i < x.dim; ++i) {
        Sum want;
        for (Index o = 0; o < grad_out.dim; ++o) {
          want.add(number(grad_out.row(b, s)[o]) * number(layer.weight(o, i)));
        }
        worst = support::worse(worst, error_of(grad_x.row(b, s)[i], want, grad_out.dim));
      }
    }
  }
  const auto of_tokens = [&](const auto& term) {
    Sum sum;
    sum.add(2);
    for (Index b = 0; b < x.batch; ++b) {
      for (Index s = 0; s < x.seq; ++s) sum.add(term(b, s));
    }
    return sum;
  };
  const Index tokens = x.batch * x.seq;
  for (Index o = 0; o < grad_out.dim; ++o) {
    for (Index i = 0; i < x.dim; ++i) {
      const auto want = of_tokens(
          [&](Index b, Index s) { return number(grad_out.row(b, s)[o]) * number(x.row(b, s)[i]); });
      worst = support::worse(worst, error_of(gradient.weight(o, i), want, tokens));
    }
    if (gradient.bias.size() == 0) continue;
    const auto want = of_tokens([&](Index b, Index s) { return number(grad_out.row(b, s)[o]); });
    worst = support::worse(worst, error_of(gradient.bias(o), want, tokens));
  }
  return worst;
}

template <class T>
void fill(LinearParameters<T>& gradient, T value) {
  gradient.weight.fill(value);
  gradient.bias.fill(value);
}

}  // namespace

TEST_CASE("Linear backward: few tokens in batch rows with gaps have the gradients of dense ones",
          "[linear][backward]") {
  constexpr Index batch = 3, seq = 4, in = 20, out = 9, room = 5;
  const auto layer = random_layer<Linear<float>>(in, out, true);
  support::Random random(3);
  const auto x = random_tensor<float>(random, batch, seq, in);
  const auto grad_out = random_tensor<float>(random, batch, seq, out);
  Tensor3<float> wide_x(batch, seq + room, in), wide_grad(batch, seq + room, out);
  wide_x.slice(Eigen::array<Index, 3>{0, 0, 0}, x.dimensions()) = x;
  wide_grad.slice(Eigen::array<Index, 3>{0, 0, 0}, grad_out.dimensions()) = grad_out;
  auto strided_x = posenc::bsd(wide_x), strided_grad = posenc::bsd(wide_grad);
  strided_x.seq = strided_grad.seq = seq;
  Tensor3<float> grad_x(batch, seq, in), strided_grad_x(batch, seq, in);
  auto dense = layer.zero_gradient(), strided = layer.zero_gradient();
  layer.backward(posenc::bsd(x), posenc::bsd(grad_out), posenc::bsd(grad_x), dense);
  layer.backward(strided_x, strided_grad, posenc::bsd(strided_grad_x), strided);
  CHECK(support::same_bits(dense.weight.data(), strided.weight.data(), in * out));
  CHECK(support::same_bits(dense.bias.data(), strided.bias.data(), out));
  CHECK(support::same_bits(grad_x.data(), strided_grad_x.data(), grad_x.size()));
}

TEST_CASE("Linear backward: tokens at any strides have the gradients of dense ones",
          "[linear][backward]") {
  // Batch rows of 3 tokens, 4 numbers apart, begin 7 numbers apart.
  constexpr Index batch = 2, seq = 3, in = 3, out = 2;
  const auto layer = random_layer<Linear<float>>(in, out, true);
  support::Random random(5);
  std::vector<float> x(18), grad_out(18), wide(batch * (seq + 1) * in);
  random.fill_normal(std::span<float>(x));
  random.fill_normal(std::span<float>(grad_out));
  const auto strided = [](std::vector<float>& values, Index dim) {
    return EmbeddingsView<float>{values.data(), batch, seq, dim, 7, 4};
  };
  Tensor3<float> dense_x(batch, seq, in), dense_grad(batch, seq, out), grad_x(batch, seq, in);
  const auto copy = [](const EmbeddingsView<float>& from, const EmbeddingsView<float>& to) {
    for (Index b = 0; b < batch; ++b) {
      for (Index s = 0; s < seq; ++s) std::copy_n(from.row(b, s), from.dim, to.row(b, s));
    }
  };
  copy(strided(x, in), posenc::bsd(dense_x));
  copy(strided(grad_out, out), posenc::bsd(dense_grad));
  auto dense = layer.zero_gradient(), gradient = layer.zero_gradient(), other = gradient;
  layer.backward(posenc::bsd(dense_x), posenc::bsd(dense_grad), posenc::bsd(grad_x), dense);
  layer.backward(strided(x, in), strided(grad_out, out), {}, gradient);
  CHECK(gradient.weight == dense.weight);
  CHECK(gradient.bias == dense.bias);

  // The gradient of dense tokens, in batch rows with a gap.
  const EmbeddingsView<float> wide_x{wide.data(), batch, seq, in, (seq + 1) * in, in};
  layer.backward(posenc::bsd(dense_x), posenc::bsd(dense_grad), wide_x, other);
  Tensor3<float> from_wide(batch, seq, in);
  copy(wide_x, posenc::bsd(from_wide));
  CHECK(support::same_bits(from_wide.data(), grad_x.data(), grad_x.size()));
  CHECK(wide[seq * in] == 0);
}

TEST_CASE("Linear backward: gradients of few tokens do not depend on the split of work",
          "[linear][backward]") {
  constexpr Index in = 600, out = 3;
  const auto layer = random_layer<Linear<float>>(in, out, true);
  support::Random random(6);
  const auto x = random_tensor<float>(random, 1, 2, in);
  const auto grad_out = random_tensor<float>(random, 1, 2, out);
  Tensor3<float> grad_x(1, 2, in), split_x(1, 2, in);
  auto gradient = layer.zero_gradient(), split = gradient;
  layer.backward(posenc::bsd(x), posenc::bsd(grad_out), posenc::bsd(grad_x), gradient);
  layer.backward(posenc::bsd(x), posenc::bsd(grad_out), posenc::bsd(split_x), split, nullptr,
                 support::Cutter{1});
  CHECK(split.weight == gradient.weight);
  CHECK(split.bias == gradient.bias);
  CHECK(support::same_bits(split_x.data(), grad_x.data(), grad_x.size()));
}

TEMPLATE_TEST_CASE("Linear backward: equals the mathematical sums", "[linear][backward]",
                   Linear<float>, Linear<double>, FixedOrderLinear<float>) {
  using T = typename TestType::Scalar;
  struct Size {
    Index batch, seq, in, out;
  };
  for (const Size size : {Size{1, 1, 1, 1}, Size{2, 5, 7, 3}, Size{3, 1, 16, 8},
                          Size{2, 90, 33, 65}, Size{2, 7, 20, 200}, Size{1, 1, 207, 5},
                          Size{2, 5, 70, 600}, Size{2, 17, 70, 600}, Size{1, 530, 6, 5},
                          Size{2, 3, 5, 0}, Size{2, 3, 0, 4}, Size{0, 3, 4, 4}, Size{2, 0, 4, 4}}) {
    for (const bool with_bias : {false, true}) {
      INFO("[" << size.batch << ", " << size.seq << ", " << size.in << "] to " << size.out);
      const auto layer = random_layer<TestType>(size.in, size.out, with_bias);
      support::Random random(2);
      // Rows with gaps: a slice of the features of a wider tensor.
      auto x = random_tensor<T>(random, size.batch, size.seq, size.in + 3);
      auto grad_out = random_tensor<T>(random, size.batch, size.seq, size.out + 2);
      Tensor3<T> grad_x(size.batch, size.seq, size.in + 2);
      const auto in = posenc::slice_features(posenc::bsd(std::as_const(x)), 1, size.in);
      const auto of_out = posenc::slice_features(posenc::bsd(std::as_const(grad_out)), 1, size.out);
      const auto of_x = posenc::slice_features(posenc::bsd(grad_x), 1, size.in);
      const auto check = [&](EmbeddingsView<const T> from, EmbeddingsView<const T> grad,
                             EmbeddingsView<T> to) {
        auto gradient = layer.zero_gradient();
        fill<T>(gradient, 2);
        grad_x.setConstant(77);
        layer.backward(from, grad, to, gradient);
        CHECK(worst_error<TestType, T>(layer, from, grad, to, gradient) <= 1);
        for (Index n = 0; n < size.batch * size.seq; ++n) {
          CHECK(grad_x.data()[n * (size.in + 2)] == 77);
          CHECK(grad_x.data()[n * (size.in + 2) + size.in + 1] == 77);
        }
      };
      check(in, of_out, of_x);
      if (size.batch * size.seq == 0 || size.in == 0 || size.out == 0) continue;
      check(backwards(in), of_out, of_x);
      check(in, backwards(of_out), backwards(of_x));
      // One token, repeated by a stride of 0.
      auto repeated = in;
      repeated.seq_stride = repeated.batch_stride = 0;
      check(repeated, of_out, of_x);
      // A part of each batch row, so that tokens are not equally spaced.
      const Index some = (size.seq + 1) / 2;
      check(posenc::slice_seq(in, 0, some), posenc::slice_seq(of_out, 0, some),
            posenc::slice_seq(of_x, 0, some));
    }
  }
}

TEST_CASE("Linear backward: gradients without data are omitted", "[linear][backward]") {
  const auto layer = random_layer<Linear<float>>(6, 5, true);
  support::Random random(3);
  const auto x = random_tensor<float>(random, 2, 7, 6);
  const auto grad_out = random_tensor<float>(random, 2, 7, 5);
  Tensor3<float> grad_x(2, 7, 6), alone(2, 7, 6);
  auto gradient = layer.zero_gradient(), of_parameters = layer.zero_gradient();
  const auto in = posenc::bsd(x), of_out = posenc::bsd(grad_out);
  layer.backward(in, of_out, posenc::bsd(grad_x), gradient);
  layer.backward(in, of_out, {}, of_parameters);
  CHECK(of_parameters.weight == gradient.weight);
  CHECK(of_parameters.bias == gradient.bias);
  LinearParameters<float> none;
  layer.backward(in, of_out, posenc::bsd(alone), none);
  CHECK(none.parameter_count() == 0);
  CHECK(support::same_bits(alone.data(), grad_x.data(), alone.size()));
  // grad_x in the memory of x.
  auto aliased = x;
  auto again = layer.zero_gradient();
  layer.backward(posenc::bsd(std::as_const(aliased)), of_out, posenc::bsd(aliased), again);
  CHECK(again.weight == gradient.weight);
  CHECK(support::same_bits(aliased.data(), grad_x.data(), grad_x.size()));
}

TEST_CASE("Linear backward: checks shapes before it writes", "[linear][backward][errors]") {
  auto layer = random_layer<Linear<float>>(4, 3, true);
  const FixedOrderLinear<float> fixed(4, 3, true);
  Tensor3<float> x(2, 5, 4), narrow(2, 5, 3), grad_out(2, 5, 3), short_grad(2, 4, 3),
      grad_x(2, 5, 4);
  x.setConstant(1);
  narrow.setConstant(1);
  grad_out.setConstant(1);
  grad_x.setConstant(77);
  auto gradient = layer.zero_gradient();
  fill(gradient, 2.0F);
  const auto error = [&](auto& in, auto& grad, EmbeddingsView<float> to) {
    return message_of<ShapeError>(
        [&] { layer.backward(posenc::bsd(in), posenc::bsd(grad), to, gradient); });
  };
  const std::string name = "posenc::Linear::backward: ";
  const auto to = posenc::bsd(grad_x);
  CHECK(error(narrow, grad_out, to) ==
        name + "x [2, 5, 3] and bias (3) must fit the weight [3, 4]");
  CHECK(error(x, x, to) == name + "grad_out [2, 5, 4] must be [2, 5, 3]");
  CHECK(error(x, short_grad, to) == name + "grad_out [2, 4, 3] must be [2, 5, 3]");
  CHECK(error(x, grad_out, posenc::bsd(narrow)) ==
        name + "grad_x [2, 5, 3] must have the shape of x, [2, 5, 4]");
  auto overlapping = to;
  overlapping.seq_stride = 3;
  CHECK(error(x, grad_out, overlapping).starts_with(name + "grad_x is an output, so its elements"));
  CHECK(error(x, grad_out, {nullptr, 2, 5, 4}) ==
        name + "grad_x [2, 5, 4] has elements but no memory: data is null");
  CHECK(message_of<ShapeError>([&] {
          fixed.backward(posenc::bsd(narrow), posenc::bsd(grad_out), to, gradient);
        }).starts_with("posenc::Linear::backward: x [2, 5, 3]"));
  const posenc::Linear<float> none(0, 0, false);
  auto of_none = none.zero_gradient();
  constexpr Index many = Index{1} << 32;
  CHECK(message_of<ShapeError>([&] {
          none.backward({nullptr, many, many, 0}, {nullptr, many, many, 0}, {}, of_none);
        }) == name + "the tokens of x [4294967296, 4294967296, 0] exceed 2^63 - 1");
  for (auto wrong : {LinearParameters<float>(3, 4, true), LinearParameters<float>(4, 3, false)}) {
    CHECK(message_of<ShapeError>(
              [&] { layer.backward(posenc::bsd(x), posenc::bsd(grad_out), to, wrong); })
              .starts_with(name + "gradient must have the shapes of its layer, a weight [3, 4] "
                                  "and a bias of 3, but has ["));
  }
  for (Index n = 0; n < grad_x.size(); ++n) CHECK(grad_x.data()[n] == 77);
  for (Index n = 0; n < 12; ++n) CHECK(gradient.weight(n) == 2);
}

}  // namespace linear_backward_test
