// SPDX-License-Identifier: MIT
// Tests a QueryBias that is defined outside the library: scores and gradients of a type that reads
// queries and keys, over tensors and caches. RelativeBias has tests of its own.
#define EIGEN_USE_THREADS
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/tensor/eigen.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace query_bias_test {

using posenc::Causal;
using posenc::Index;
using support::Heads;

namespace {

/// Bias scale * u_h . k_j - sigmoid(w_h . q_i) |i - j| / 8: a content term of Transformer-XL, and a
/// slope that depends on the query.
template <class T>
class SlopeOfQuery {
 public:
  using Real = posenc::Compute<T>;
  static constexpr bool reads_keys = true;

  SlopeOfQuery(Index heads, Index dim) : heads_(heads), dim_(dim) {
    for (Index n = 0; n < 2 * heads * dim; ++n) parameters.push_back(std::sin(1.0 + double(n)));
  }

  Index heads() const { return heads_; }
  void check(const char* function, const posenc::HeadsView<const T>& q) const {
    if (q.dim != dim_) throw posenc::ShapeError(std::string(function) + ": wrong channels");
  }

  void add(const posenc::QueryBiasTile<T>& tile, posenc::MatrixView<Real> scores) const {
    for (Index i = 0; i < scores.rows; ++i) {
      const double slope = slope_of(tile, i);
      for (Index j = 0; j < scores.cols; ++j) {
        scores.row(i)[j] += static_cast<Real>(static_cast<double>(tile.block.scale) *
                                                  dot(u(tile.tokens.head), tile.keys.row(j)) -
                                              slope * distance(tile, i, j));
      }
    }
  }

  std::vector<double> zero_gradient() const { return std::vector<double>(parameters.size()); }
  void add_gradient(const posenc::QueryBiasTile<T>& tile, posenc::MatrixView<const Real> grad,
                    const posenc::QueryBiasGradients<T>& to, std::vector<double>& gradient) const {
    const Index first = tile.tokens.head * dim_;
    const double scale = static_cast<double>(tile.block.scale);
    for (Index i = 0; i < grad.rows; ++i) {
      const double slope = slope_of(tile, i);
      double grad_product = 0;
      for (Index j = 0; j < grad.cols; ++j) {
        const auto g = static_cast<double>(grad.row(i)[j]);
        grad_product -= g * slope * (1 - 8 * slope) * distance(tile, i, j);
        for (Index d = 0; d < dim_; ++d) {
          gradient[at(first + d)] += g * scale * static_cast<double>(tile.keys.row(j)[d]);
          if (to.keys.data != nullptr) {
            to.keys.row(j)[d] += static_cast<Real>(g * scale * u(tile.tokens.head)[d]);
          }
        }
      }
      for (Index d = 0; d < dim_; ++d) {
        gradient[at(heads_ * dim_ + first + d)] +=
            grad_product * static_cast<double>(tile.query(i)[d]);
        to.queries.row(i)[d] += static_cast<Real>(grad_product * w(tile.tokens.head)[d]);
      }
    }
  }

  const double* u(Index head) const { return parameters.data() + head * dim_; }
  const double* w(Index head) const { return u(heads_ + head); }
  template <class X>
  double dot(const double* weights, const X* x) const {
    double sum = 0;
    for (Index d = 0; d < dim_; ++d) sum += weights[d] * static_cast<double>(x[d]);
    return sum;
  }
  template <class X>
  double slope_of(Index head, const X* query) const {
    return 0.125 / (1 + std::exp(-dot(w(head), query)));
  }

  std::vector<double> parameters;  ///< u, then w, both [heads, dim]

 private:
  static std::size_t at(Index n) { return static_cast<std::size_t>(n); }
  static double distance(const posenc::QueryBiasTile<T>& tile, Index i, Index j) {
    return std::abs(tile.tokens.query_positions[at(i)] - tile.tokens.key_positions[at(j)]);
  }
  double slope_of(const posenc::QueryBiasTile<T>& tile, Index i) const {
    return slope_of(tile.tokens.head, tile.query(i));
  }

  Index heads_, dim_;
};
static_assert(posenc::DifferentiableQueryBias<SlopeOfQuery<float>, float, std::vector<double>>);
static_assert(!posenc::TokenBias<SlopeOfQuery<float>, float>);

constexpr Index batch = 2, queries = 70, keys = 300, heads = 4, kv_heads = 2, dim = 6;

template <class T>
struct Call {
  support::Random random{3};
  Heads<T> q = Heads<T>::random(random, batch, queries, heads, dim),
           k = Heads<T>::random(random, batch, keys, kv_heads, dim),
           v = Heads<T>::random(random, batch, keys, kv_heads, dim), weight = q, out = q,
           grad_q = q, grad_k = k, grad_v = v;
  std::vector<T> lse = std::vector<T>(static_cast<std::size_t>(batch * heads * queries));
  SlopeOfQuery<T> bias{heads, dim};
  std::vector<double> gradient = bias.zero_gradient();
  posenc::AttentionOptions<T> options{.causal = Causal::BottomRight};

  posenc::LseView<T> lse_view() { return {lse.data(), batch, heads, queries}; }
  double loss() {
    posenc::attention(q.view(), k.view(), v.view(), out.view(), options, bias, {.lse = lse_view()});
    double sum = 0;
    for (Index b = 0; b < batch; ++b) {
      for (Index i = 0; i < queries; ++i) {
        for (Index h = 0; h < heads; ++h) {
          for (Index d = 0; d < dim; ++d) {
            sum += static_cast<double>(out.view().row(b, i, h)[d]) *
                   static_cast<double>(weight.view().row(b, i, h)[d]);
          }
        }
      }
    }
    return sum;
  }
  template <class Device = Eigen::DefaultDevice, class... Gradient>
  void back(const Device& device, Gradient&... of_bias) {
    const posenc::AttentionGradients<T> gradients{
        .q = grad_q.view(), .k = grad_k.view(), .v = grad_v.view()};
    if constexpr (sizeof...(Gradient) == 0) {
      posenc::attention_backward(q.view(), k.view(), v.view(), out.view(), lse_view(),
                                 weight.view(), gradients, options, bias);
    } else {
      posenc::attention_backward(q.view(), k.view(), v.view(), out.view(), lse_view(),
                                 weight.view(), gradients, options, bias, of_bias..., nullptr,
                                 device);
    }
  }
};

/// Compares the gradient of a number with a difference of losses.
template <class X>
void check_slope(Call<double>& call, X& x, double gradient) {
  const X before = x;
  x = before + 1e-5;
  const double above = call.loss();
  x = before - 1e-5;
  const double slope = (above - call.loss()) / 2e-5;
  x = before;
  CHECK(gradient == Approx(slope).epsilon(1e-6).margin(1e-8));
}

}  // namespace

TEST_CASE("attention: a user's QueryBias is added to the scores", "[attention][query_bias]") {
  // With a window, tiles do not start at their first key.
  const Index left = GENERATE(1000, 60);
  Call<double> call;
  if (left < keys) call.options.window.left = left;
  call.loss();
  double worst = 0;
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < queries; ++i) {
      for (Index h = 0; h < heads; ++h) {
        const double* const q = call.q.view().row(b, i, h);
        const Index place = keys - queries + i;
        std::vector<double> sums(dim);
        double total = 0;
        for (Index j = std::max(place - left, Index{0}); j <= place; ++j) {
          const double* const k = call.k.view().row(b, j, h / 2);
          const double p = std::exp((call.bias.dot(q, k) + call.bias.dot(call.bias.u(h), k)) /
                                        std::sqrt(double(dim)) -
                                    call.bias.slope_of(h, q) * static_cast<double>(place - j));
          total += p;
          for (Index d = 0; d < dim; ++d) {
            sums[static_cast<std::size_t>(d)] += p * call.v.view().row(b, j, h / 2)[d];
          }
        }
        for (Index d = 0; d < dim; ++d) {
          worst = std::max(worst, std::abs(call.out.view().row(b, i, h)[d] -
                                           sums[static_cast<std::size_t>(d)] / total));
        }
      }
    }
  }
  CHECK(worst < 1e-12);
}

TEST_CASE("attention_backward: gradients of a user's QueryBias are derivatives",
          "[attention][query_bias][backward]") {
  Call<double> call;
  if (GENERATE(false, true)) call.options.window.left = 60;
  call.loss();
  call.back(Eigen::DefaultDevice(), call.gradient);
  for (const Index n : {0, 13, 24, 40, 47}) {
    const auto i = static_cast<std::size_t>(n);
    check_slope(call, call.bias.parameters[i], call.gradient[i]);
  }
  for (const Index n : {Index{0}, Index{33}, queries - 1}) {
    check_slope(call, call.q.view().row(1, n, 3)[2], call.grad_q.view().row(1, n, 3)[2]);
    check_slope(call, call.k.view().row(0, 2 * n, 1)[5], call.grad_k.view().row(0, 2 * n, 1)[5]);
    check_slope(call, call.v.view().row(1, 4 * n, 0)[1], call.grad_v.view().row(1, 4 * n, 0)[1]);
  }
}

TEST_CASE("attention_backward: a QueryBias has gradients of q and k without that of parameters",
          "[attention][query_bias][backward]") {
  Call<float> all, some;
  all.loss();
  all.back(Eigen::DefaultDevice(), all.gradient);
  some.loss();
  some.back(Eigen::DefaultDevice());
  CHECK(support::same_bits(all.grad_q.view(), some.grad_q.view()));
  CHECK(support::same_bits(all.grad_k.view(), some.grad_k.view()));
}

TEST_CASE("attention_backward: gradients of a QueryBias have the same bits on all devices",
          "[attention][query_bias][backward]") {
  Eigen::ThreadPool pool(3);
  const Eigen::ThreadPoolDevice device(&pool, 3);
  Call<float> one, many;
  one.loss();
  one.back(Eigen::DefaultDevice(), one.gradient);
  many.loss();
  many.back(device, many.gradient);
  CHECK(one.gradient == many.gradient);
  CHECK(support::same_bits(one.grad_q.view(), many.grad_q.view()));
  CHECK(support::same_bits(one.grad_k.view(), many.grad_k.view()));
}

TEST_CASE("attention: a QueryBias over a cache has the bits of tensors with its keys",
          "[attention][query_bias]") {
  Call<float> call;
  const std::vector<Index> sequences{0, 1};
  const posenc::KvCacheConfig config{
      .sequences = batch, .kv_heads = kv_heads, .head_dim = dim, .capacity = keys};
  const auto run = [&]<class S>(S) {
    Heads<S> k(batch, keys, kv_heads, dim), v = k;
    Heads<float> rounded_k(batch, keys, kv_heads, dim), rounded_v = rounded_k;
    for (Index b = 0; b < batch; ++b) {
      for (Index j = 0; j < keys; ++j) {
        for (Index h = 0; h < kv_heads; ++h) {
          for (Index d = 0; d < dim; ++d) {
            k.view().row(b, j, h)[d] = static_cast<S>(call.k.view().row(b, j, h)[d]);
            v.view().row(b, j, h)[d] = static_cast<S>(call.v.view().row(b, j, h)[d]);
            rounded_k.view().row(b, j, h)[d] = static_cast<float>(k.view().row(b, j, h)[d]);
            rounded_v.view().row(b, j, h)[d] = static_cast<float>(v.view().row(b, j, h)[d]);
          }
        }
      }
    }
    posenc::KvCache<S> cache(config);
    cache.append(sequences, k.view(), v.view());
    Heads<float> cached = call.q;
    posenc::attention(call.q.view(), cache, sequences, cached.view(), call.options, call.bias);
    posenc::attention(call.q.view(), rounded_k.view(), rounded_v.view(), call.out.view(),
                      call.options, call.bias);
    CHECK(support::same_bits(cached.view(), call.out.view()));
  };
  run(0.0F);
  run(Eigen::half());
  run(Eigen::bfloat16());
}

TEST_CASE("attention: a QueryBias rejects tensors that it does not fit",
          "[attention][query_bias][errors]") {
  Call<float> call;
  call.bias = SlopeOfQuery<float>(heads, dim + 1);
  CHECK(support::message_of<posenc::ShapeError>([&] { call.loss(); }) ==
        "attention: wrong channels");
  call.bias = SlopeOfQuery<float>(heads + 1, dim);
  CHECK(support::message_of<posenc::ShapeError>([&] { call.loss(); }) ==
        "posenc::attention: the bias is for 5 heads but q has 4");
}

}  // namespace query_bias_test
