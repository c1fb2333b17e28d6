// SPDX-License-Identifier: MIT
// Compares the backward of relative biases with central differences along random directions.
#define EIGEN_USE_THREADS

#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/devices.hpp"
#include "support/random.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/attention/relative_bias.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace relative_backward_test {

using posenc::BeyondTable;
using posenc::Causal;
using posenc::HeadsView;
using posenc::Index;
using posenc::RelativeOrder;
using posenc::RelativeScale;
using support::message_of;

struct Shape {
  Index batch = 1, queries = 9, keys = 9, heads = 2, kv_heads = 2, dim = 4;
  Causal causal = Causal::No;
  RelativeOrder order = RelativeOrder::KeyMinusQuery;
  BeyondTable beyond = BeyondTable::Nearest;
  RelativeScale scale = RelativeScale::Scaled;
  Index first = -3, rows = 7, table_heads = 1;
  bool of_query = true, of_key = false;
  Index own_queries = 0;  ///< width of RelativeBias::queries, 0: attention's q
  bool mapped = false;
};

template <class T>
struct Tensor {
  std::vector<T> values, gradient;
  Index batch, seq, heads, dim;

  Tensor(Index b, Index s, Index h, Index d, support::Random& random)
      : values(static_cast<std::size_t>(b * s * h * d)),
        gradient(values.size()),
        batch(b),
        seq(s),
        heads(h),
        dim(d) {
    for (T& value : values) value = static_cast<T>(random.normal());
  }
  HeadsView<const T> view() const { return {values.data(), batch, seq, heads, dim}; }
  HeadsView<T> grad() { return {gradient.data(), batch, seq, heads, dim}; }
};

/// Call with a relative bias, and its gradients.
template <class T>
class Call {
 public:
  explicit Call(const Shape& s)
      : shape(s),
        random_(7),
        q(s.batch, s.queries, s.heads, s.dim, random_),
        k(s.batch, s.keys, s.kv_heads, s.dim, random_),
        v(s.batch, s.keys, s.kv_heads, s.dim, random_),
        of_out(s.batch, s.queries, s.heads, s.dim, random_),
        out(s.batch, s.queries, s.heads, s.dim, random_),
        table(1, s.rows, s.table_heads, width(), random_),
        key_table(1, s.rows, s.table_heads, s.dim, random_),
        queries(s.batch, s.queries, s.heads, s.own_queries, random_),
        lse(static_cast<std::size_t>(s.batch * s.heads * s.queries)) {
    if (s.mapped) {
      for (Index n = 0; n < 2 * s.rows; ++n) rows_.push_back(n * 5 % s.rows);
    }
  }

  posenc::AttentionOptions<T> options() {
    return {.causal = shape.causal, .cu_seqlens_q = cu_seqlens_q, .cu_seqlens_k = cu_seqlens_k};
  }
  posenc::LseView<posenc::Compute<T>> lse_view() {
    return {lse.data(), shape.batch, shape.heads, shape.queries};
  }
  posenc::RelativeBias<T> bias() const {
    posenc::RelativeBias<T> b{.index = {shape.order, shape.first, shape.beyond, rows_},
                              .scale = shape.scale};
    if (shape.of_query) b.table = table.view();
    if (shape.of_key) b.key_table = key_table.view();
    if (shape.own_queries > 0) b.queries = queries.view();
    return b;
  }
  posenc::RelativeGradient<T> gradient() {
    posenc::RelativeGradient<T> g;
    if (shape.of_query) g.table = table.grad();
    if (shape.of_key) g.key_table = key_table.grad();
    if (shape.own_queries > 0) g.queries = queries.grad();
    return g;
  }

  template <class Device>
  void run(const Device& device) {
    posenc::attention(q.view(), k.view(), v.view(), out_view(), options(), bias(),
                      {.lse = lse_view(), .workspace = workspace}, device);
    back(device, gradient());
  }
  template <class Device>
  void back(const Device& device, posenc::RelativeGradient<T> of_bias) {
    posenc::attention_backward(
        q.view(), k.view(), v.view(), out.view(), lse_view(), of_out.view(),
        posenc::AttentionGradients<T>{.q = q.grad(), .k = k.grad(), .v = v.grad()}, options(),
        bias(), of_bias, workspace, device);
  }
  double loss() {
    posenc::attention(q.view(), k.view(), v.view(), out_view(), options(), bias(),
                      {.lse = lse_view(), .workspace = workspace});
    double sum = 0;
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      sum += static_cast<double>(out.values[i]) * static_cast<double>(of_out.values[i]);
    }
    return sum;
  }
  HeadsView<T> out_view() { return {out.values.data(), out.batch, out.seq, out.heads, out.dim}; }

  /// Compares the slope of the loss along a random direction of x with that of the gradient.
  void check_slope(Tensor<T>& x) {
    const auto before = x.values;
    std::vector<T> direction(before.size());
    for (T& d : direction) d = static_cast<T>(random_.normal());
    const auto at = [&](T step) {
      for (std::size_t i = 0; i < before.size(); ++i) x.values[i] = before[i] + step * direction[i];
      return loss();
    };
    const double slope = (at(1e-5) - at(-1e-5)) / 2e-5;
    x.values = before;
    double want = 0;
    for (std::size_t i = 0; i < before.size(); ++i) want += x.gradient[i] * direction[i];
    CHECK(slope == Approx(want).epsilon(1e-6).margin(1e-6));
  }

  Shape shape;
  std::span<const Index> cu_seqlens_q, cu_seqlens_k;
  posenc::AttentionWorkspace* workspace = nullptr;

 private:
  Index width() const { return shape.own_queries > 0 ? shape.own_queries : shape.dim; }

  support::Random random_;

 public:
  Tensor<T> q, k, v, of_out, out, table, key_table, queries;
  std::vector<T> lse;

 private:
  std::vector<Index> rows_;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{
      {},
      // Shaw; Music Transformer; Inkling; DeBERTa with both tables, and with a map; a table of keys
      // alone.
      {2, 150, 150, 4, 2, 8, Causal::TopLeft, RelativeOrder::KeyMinusQuery, BeyondTable::Nearest,
       RelativeScale::Scaled, -16, 33, 1},
      {1, 200, 200, 2, 2, 5, Causal::TopLeft, RelativeOrder::KeyMinusQuery, BeyondTable::Nothing,
       RelativeScale::Scaled, -99, 100, 2},
      {2, 70, 260, 4, 2, 6, Causal::BottomRight, RelativeOrder::QueryMinusKey, BeyondTable::Nothing,
       RelativeScale::Unscaled, 0, 60, 1, true, false, 16},
      {1, 210, 210, 2, 2, 8, Causal::No, RelativeOrder::QueryMinusKey, BeyondTable::Nearest,
       RelativeScale::Scaled, -64, 128, 2, true, true},
      {1, 140, 140, 2, 1, 8, Causal::No, RelativeOrder::QueryMinusKey, BeyondTable::Nearest,
       RelativeScale::Scaled, -50, 50, 2, true, true, 0, true},
      {1, 140, 135, 2, 1, 8, Causal::TopLeft, RelativeOrder::QueryMinusKey, BeyondTable::Refused,
       RelativeScale::Unscaled, -140, 280, 1, false, true},
      // Columns far from the first one.
      {1, 9, 9, 2, 2, 4, Causal::No, RelativeOrder::KeyMinusQuery, BeyondTable::Refused,
       RelativeScale::Scaled, -300, 400, 1},
  };
  return all;
}

TEST_CASE("RelativeBias gradients: equal finite differences", "[relative][backward]") {
  for (const Shape& shape : shapes()) {
    Call<double> call(shape);
    call.run(Eigen::DefaultDevice());
    call.check_slope(call.q);
    call.check_slope(call.k);
    call.check_slope(call.v);
    if (shape.of_query) call.check_slope(call.table);
    if (shape.of_key) call.check_slope(call.key_table);
    if (shape.own_queries > 0) call.check_slope(call.queries);
  }
}

TEST_CASE("RelativeBias gradients: the same bits on every device", "[relative][backward]") {
  Eigen::ThreadPool pool(3);
  const Eigen::ThreadPoolDevice device(&pool, 3);
  for (const Shape& shape : shapes()) {
    Call<float> one(shape), many(shape);
    one.run(Eigen::DefaultDevice());
    many.run(device);
    for (const auto& [a, b] :
         {std::pair(&one.q, &many.q), std::pair(&one.k, &many.k), std::pair(&one.v, &many.v),
          std::pair(&one.table, &many.table), std::pair(&one.key_table, &many.key_table),
          std::pair(&one.queries, &many.queries)}) {
      CHECK(a->gradient == b->gradient);
    }
  }
}

TEST_CASE("RelativeBias gradients: queries of heads without channels have gradients of 0",
          "[relative][backward]") {
  Shape shape;
  shape.dim = 0;
  shape.own_queries = 4;
  Call<double> call(shape);
  std::fill(call.queries.gradient.begin(), call.queries.gradient.end(), 7.0);
  call.run(Eigen::DefaultDevice());
  CHECK(call.queries.gradient == std::vector<double>(call.queries.gradient.size()));
}

TEST_CASE("RelativeBias gradients: tables are added to, and can be left out",
          "[relative][backward]") {
  Call<double> call(shapes()[4]);
  call.run(Eigen::DefaultDevice());
  const auto table = call.table.gradient, key_table = call.key_table.gradient;
  const auto q = call.q.gradient, k = call.k.gradient;
  call.back(Eigen::DefaultDevice(), call.gradient());
  for (std::size_t i = 0; i < table.size(); ++i)
    CHECK(call.table.gradient[i] == Approx(2 * table[i]).margin(1e-12));
  CHECK(call.q.gradient == q);
  call.back(Eigen::DefaultDevice(), {});
  CHECK(call.q.gradient == q);
  CHECK(call.k.gradient == k);
  CHECK(call.key_table.gradient[0] == Approx(2 * key_table[0]).margin(1e-12));
}

TEST_CASE("RelativeBias gradients: what is left out changes no other gradient",
          "[relative][backward]") {
  for (const std::size_t n : {std::size_t{4}, std::size_t{6}}) {
    Call<double> all(shapes()[n]), some(shapes()[n]);
    all.run(Eigen::DefaultDevice());
    posenc::attention(some.q.view(), some.k.view(), some.v.view(), some.out_view(), some.options(),
                      some.bias(), {.lse = some.lse_view()});
    const auto back = [&](const posenc::AttentionGradients<double>& gradients, auto&&... of_bias) {
      posenc::attention_backward(some.q.view(), some.k.view(), some.v.view(), some.out.view(),
                                 some.lse_view(), some.of_out.view(), gradients, some.options(),
                                 some.bias(), of_bias...);
    };
    auto of_bias = some.gradient();
    back({}, of_bias);
    CHECK(some.table.gradient == all.table.gradient);
    CHECK(some.key_table.gradient == all.key_table.gradient);
    back({.q = some.q.grad(), .v = some.v.grad()});
    CHECK(some.q.gradient == all.q.gradient);
    CHECK(some.v.gradient == all.v.gradient);
    back({.k = some.k.grad()});
    CHECK(some.k.gradient == all.k.gradient);
  }
}

TEST_CASE("RelativeBias gradients: NaN in a row of the table that no query meets stays there",
          "[relative][backward]") {
  // Keys after the query are masked, and their rows come first in this table.
  Call<double> call({1, 40, 40, 2, 2, 4, Causal::TopLeft, RelativeOrder::QueryMinusKey,
                     BeyondTable::Nearest, RelativeScale::Scaled, -40, 80, 1, true, true});
  for (Tensor<double>* x : {&call.table, &call.key_table}) {
    for (Index i = 0; i < 40 * x->dim; ++i) {
      x->values[static_cast<std::size_t>(i)] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  call.run(Eigen::DefaultDevice());
  for (const Tensor<double>* x : {&call.q, &call.k, &call.v, &call.table, &call.key_table}) {
    bool finite = true;
    for (const double value : x->gradient) finite &= std::isfinite(value);
    CHECK(finite);
  }
}

TEST_CASE("RelativeBias gradients: a packed sequence without queries adds nothing",
          "[relative][backward]") {
  Shape shape{1, 3, 3, 4, 2, 4};
  shape.table_heads = 4;
  Call<double> alone(shape), packed(shape), earlier({1, 400, 400, 4, 2, 90});
  alone.run(Eigen::DefaultDevice());
  const Index queries[] = {0, 0, 3}, keys[] = {0, 0, 3};
  packed.cu_seqlens_q = queries;
  packed.cu_seqlens_k = keys;
  packed.loss();
  // The block of a call without queries has no row, so it must not read data of the previous call
  // in the workspace.
  posenc::AttentionWorkspace workspace;
  earlier.workspace = packed.workspace = &workspace;
  earlier.run(Eigen::DefaultDevice());
  packed.back(Eigen::DefaultDevice(), packed.gradient());
  CHECK(packed.table.gradient == alone.table.gradient);
  CHECK(packed.q.gradient == alone.q.gradient);
}

TEST_CASE("RelativeBias gradients: reject other shapes", "[relative][backward][errors]") {
  Call<float> call({});
  posenc::RelativeGradient<float> wrong = call.gradient();
  wrong.table.seq -= 1;
  CHECK(message_of<posenc::ShapeError>([&] { call.back(Eigen::DefaultDevice(), wrong); }) ==
        "posenc::attention_backward: RelativeGradient::table [1, 6, 1, 4] must have the shape of "
        "its tensor [1, 7, 1, 4]");
  wrong = call.gradient();
  wrong.queries = wrong.key_table = wrong.table;
  CHECK(message_of<posenc::ShapeError>([&] { call.back(Eigen::DefaultDevice(), wrong); }) ==
        "posenc::attention_backward: RelativeGradient::key_table [1, 7, 1, 4] needs the tensor, "
        "which is omitted");
}

}  // namespace relative_backward_test
