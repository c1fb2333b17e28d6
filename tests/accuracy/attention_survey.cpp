// SPDX-License-Identifier: MIT
// Errors of attention and its gradients against long double.
#include "accuracy/bound.hpp"
#include "accuracy/survey.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>

#include <algorithm>

namespace accuracy {
namespace {

using posenc::HeadsView;
using posenc::Index;

constexpr std::size_t dim = 64, num_queries = 3;

/// Row-major matrix of long double, and what its numbers may be off by.
struct Matrix {
  explicit Matrix(std::size_t rows) : values(rows * dim), allowed(rows * dim) {}
  std::vector<long double> values;
  std::vector<double> allowed;
};

/// One head of random numbers: its forward and backward pass by posenc, and by their definition in
/// long double with the error to first order that roundings of Real may cause.
template <class Real>
class AttentionSample {
 public:
  AttentionSample(std::size_t num_keys, std::uint64_t seed)
      : keys_(num_keys),
        q_(num_queries * dim),
        k_(num_keys * dim),
        v_(num_keys * dim),
        grad_(num_queries * dim),
        out_(grad_),
        grad_q_(grad_),
        grad_k_(k_),
        grad_v_(k_),
        lse_(num_queries),
        probabilities_(num_queries * num_keys) {
    support::Random random(seed);
    for (auto* values : {&q_, &k_, &v_, &grad_}) random.fill_normal(*values);
    const posenc::AttentionOptions<Real> options{.scale = scale, .causal = posenc::Causal::No};
    const posenc::LseView<Real> lse{
        .data = lse_.data(), .batch = 1, .heads = 1, .queries = num_queries};
    posenc::attention(view<const Real>(q_), view<const Real>(k_), view<const Real>(v_),
                      view<Real>(out_), options, {},
                      {.lse = lse,
                       .weights = {.data = probabilities_.data(),
                                   .batch = 1,
                                   .heads = 1,
                                   .queries = num_queries,
                                   .keys = static_cast<Index>(num_keys)}});
    posenc::attention_backward(
        view<const Real>(q_), view<const Real>(k_), view<const Real>(v_), view<const Real>(out_),
        posenc::LseView<const Real>(lse), view<const Real>(grad_),
        posenc::AttentionGradients<Real>{
            .q = view<Real>(grad_q_), .k = view<Real>(grad_k_), .v = view<Real>(grad_v_)},
        options);
  }

  /// Adds errors in units of the largest roundoff that the exact terms of a number may have.
  void add_errors(std::vector<Histogram>& all, std::uint64_t seed) const {
    const auto n = static_cast<double>(keys_);
    Matrix out(num_queries), grad_q(num_queries), grad_k(keys_), grad_v(keys_);
    Matrix p_all(num_queries * keys_ / dim + 1);
    std::vector<long double> score(keys_), p(keys_), dp(keys_);
    for (std::size_t i = 0; i < num_queries; ++i) {
      long double max = -1e30L, sum = 0, delta = 0;
      double largest_error = 0, size_of_delta = 0;
      for (std::size_t j = 0; j < keys_; ++j) {
        double size = 0, size_of_dp = 0;
        score[j] = dp[j] = 0;
        for (std::size_t d = 0; d < dim; ++d) {
          score[j] += exact(q_, i, d) * exact(k_, j, d);
          size += std::abs(static_cast<double>(exact(q_, i, d) * exact(k_, j, d)));
          dp[j] += exact(grad_, i, d) * exact(v_, j, d);
          size_of_dp += std::abs(static_cast<double>(exact(grad_, i, d) * exact(v_, j, d)));
        }
        score[j] *= static_cast<long double>(scale);
        max = std::max(max, score[j]);
        largest_error = std::max(largest_error, static_cast<double>(dim) * u * scale * size);
        size_of_delta = std::max(size_of_delta, size_of_dp);
      }
      for (std::size_t j = 0; j < keys_; ++j) sum += p[j] = std::exp(score[j] - max);
      const long double lse = max + std::log(sum);
      // Relative error of a probability: of its score, of the subtraction, of exp, of the sum.
      const double off = 2 * largest_error + (std::abs(static_cast<double>(max)) + 8 + n) * u +
                         std::abs(static_cast<double>(lse)) * u;
      for (std::size_t j = 0; j < keys_; ++j) {
        p[j] /= sum;
        delta += p[j] * dp[j];
        p_all.values[i * keys_ + j] = p[j];
        p_all.allowed[i * keys_ + j] = static_cast<double>(p[j]) * off;
      }
      const double off_dp = (static_cast<double>(dim) + n + 8) * u * size_of_delta;
      for (std::size_t j = 0; j < keys_; ++j) {
        const auto weight = static_cast<double>(p[j]);
        const long double ds = p[j] * (dp[j] - delta);
        const double off_ds =
            weight *
            (off * (std::abs(static_cast<double>(dp[j])) + 2 * size_of_delta) + 2 * off_dp);
        for (std::size_t d = 0; d < dim; ++d) {
          const auto add = [&](Matrix& sums, std::size_t row, long double factor, double factor_off,
                               long double by) {
            const auto size = static_cast<double>(std::abs(by));
            sums.values[row * dim + d] += factor * by;
            sums.allowed[row * dim + d] +=
                size * (factor_off + (n + 2) * u * std::abs(static_cast<double>(factor)));
          };
          const auto s = static_cast<long double>(scale);
          add(out, i, p[j], weight * off, exact(v_, j, d));
          add(grad_v, j, p[j], weight * off, exact(grad_, i, d));
          add(grad_q, i, ds * s, off_ds * scale, exact(k_, j, d));
          add(grad_k, j, ds * s, off_ds * scale, exact(q_, i, d));
        }
      }
    }
    const auto compare = [&](Histogram& errors, const std::vector<Real>& got, const Matrix& want) {
      long double largest = 0;
      for (std::size_t n_of = 0; n_of < got.size(); ++n_of)
        largest = std::max(largest, std::abs(want.values[n_of]));
      for (std::size_t at = 0; at < got.size(); ++at) {
        const auto error =
            static_cast<double>(std::abs(static_cast<long double>(got[at]) - want.values[at]));
        errors.add(error / ulp<Real>(static_cast<double>(largest)), error / want.allowed[at], [&] {
          return std::to_string(keys_) + " keys, seed " + std::to_string(seed) + ", element " +
                 std::to_string(at);
        });
      }
    };
    compare(all[0], probabilities_, p_all);
    compare(all[1], out_, out);
    compare(all[2], grad_q_, grad_q);
    compare(all[3], grad_k_, grad_k);
    compare(all[4], grad_v_, grad_v);
  }

 private:
  static constexpr double scale = 0.125;
  static constexpr double u = static_cast<double>(std::numeric_limits<Real>::epsilon()) / 2;

  template <class Element, class Values>
  static HeadsView<Element> view(Values& values) {
    return {.data = values.data(),
            .batch = 1,
            .seq = static_cast<Index>(values.size() / dim),
            .heads = 1,
            .dim = static_cast<Index>(dim)};
  }
  static long double exact(const std::vector<Real>& values, std::size_t row, std::size_t d) {
    return static_cast<long double>(values[row * dim + d]);
  }

  std::size_t keys_;
  std::vector<Real> q_, k_, v_, grad_, out_, grad_q_, grad_k_, grad_v_, lse_, probabilities_;
};

template <class Real>
void survey_type(const Extent& extent, const std::string& type, std::vector<Histogram>& all) {
  std::vector<Histogram> errors;
  for (const char* name :
       {"softmax, probabilities", "attention, outputs", "attention, gradient of q",
        "attention, gradient of k", "attention, gradient of v"}) {
    errors.emplace_back(std::string(name) + ", " + type, "ulp of the largest",
                        "roundings of the order of sums");
  }
  const long calls = (std::max)(extent.samples / 50, 4L);
  for (long n = 0; n < calls; ++n) {
    const auto seed = extent.seed + static_cast<std::uint64_t>(n);
    AttentionSample<Real>(static_cast<std::size_t>(n % 4 == 3 ? 700 : 5 + 70 * (n % 4)), seed)
        .add_errors(errors, seed);
  }
  all.insert(all.end(), errors.begin(), errors.end());
}

}  // namespace

std::vector<Histogram> survey_attention(const Extent& extent) {
  std::vector<Histogram> all;
  survey_type<float>(extent, "float", all);
  survey_type<double>(extent, "double", all);
  return all;
}

}  // namespace accuracy
