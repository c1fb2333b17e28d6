// SPDX-License-Identifier: MIT
// Attention over a cache is bit-identical to attention over tensors on every tier. Linear, the
// other user of the kernels, keeps its bound on every tier.
#include "attention/attention_case.hpp"
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include <posenc/attention/detail/attend.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/linear.hpp>

#include <Eigen/Core>

#include <cmath>
#include <limits>
#include <vector>

namespace cache_tiers_test {

using attention_test::Case;
using posenc::Causal;
using posenc::Index;
using posenc::detail::CallingThread;

namespace {

using OnTiers = tiers::Joined<tiers::AllWith<float>, tiers::AllWith<double>,
                              tiers::AllWith<Eigen::half>, tiers::AllWith<Eigen::bfloat16>>;
using ComputeOnTiers = tiers::Joined<tiers::AllWith<float>, tiers::AllWith<double>>;

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention over KvCache: bit-identical to tensors on every tier",
                        "[attention][cache][tiers]", OnTiers) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  for (const Index keys : {1, 33, 130, 300}) {
    const Index queries = keys < 7 ? keys : 7;
    Case<T> c({1, 6, 2, queries, keys, 19, 21}, static_cast<std::uint64_t>(keys));
    const posenc::AttentionOptions<T> options{.causal = Causal::BottomRight};
    posenc::detail::attend_to_tensors<Tier, T, T>(
        posenc::detail::ErasedDevice(CallingThread()), c.q.view(), c.k.view(), c.v.view(),
        c.out.view(), options, posenc::detail::bias_for_tensors<Tier, T>(posenc::NoBias()), {}, {});
    posenc::KvCache<T> cache({.kv_heads = 2, .head_dim = 19, .value_dim = 21, .capacity = keys});
    cache.append(0, c.k.view(), c.v.view());
    support::Heads<T> out(1, queries, 6, 21);
    const std::vector<Index> sequences{0};
    posenc::detail::attend_to_cache<Tier, CallingThread, T, T>(
        {}, c.q.view(), cache, sequences, out.view(), options, posenc::NoBias(), {});
    INFO(Tier::name << ", " << keys << " keys");
    CHECK(support::same_bits(out.view(), c.out.view()));
  }
}

TEMPLATE_LIST_TEST_CASE(
    "attention over KvCache: few cached keys of many heads are bit-identical to tensors on every "
    "tier",
    "[attention][cache][tiers]", OnTiers) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  struct Heads {
    Index all, kv;
  };
  for (const Heads heads : {Heads{13, 13}, {14, 7}, {28, 7}, {9, 3}, {12, 2}}) {
    for (const Index keys : {1, 2, 9, 16, 17}) {
      const Index queries = keys == 9 ? 2 : 1;
      Case<T> c({2, heads.all, heads.kv, queries, keys, 19, 21}, static_cast<std::uint64_t>(keys));
      support::Random random(static_cast<std::uint64_t>(heads.all));
      for (auto* x : {&c.q, &c.k}) {
        x->for_each([&](T& value) { value = static_cast<T>(random.normal()); });
      }
      // Batch row 0 sees all keys. In row 1 the last key, which is NaN, is masked, and some heads
      // see no key.
      Eigen::Tensor<bool, 4, Eigen::RowMajor> keep(2, heads.all, queries, keys);
      for (Index h = 0; h < heads.all; ++h) {
        for (Index i = 0; i < queries; ++i) {
          for (Index j = 0; j < keys; ++j) {
            keep(0, h, i, j) = true;
            keep(1, h, i, j) = j != keys - 1 && h % 5 != 1;
          }
        }
      }
      for (Index h = 0; h < heads.kv; ++h) {
        for (auto x : {c.k.view(), c.v.view()}) {
          *x.row(1, keys - 1, h) = std::numeric_limits<T>::quiet_NaN();
        }
      }
      posenc::AttentionOptions<T> options{.causal = Causal::BottomRight};
      options.keep = posenc::bhqk(keep);
      posenc::detail::attend_to_tensors<Tier, T, T>(
          posenc::detail::ErasedDevice(CallingThread()), c.q.view(), c.k.view(), c.v.view(),
          c.out.view(), options, posenc::detail::bias_for_tensors<Tier, T>(posenc::NoBias()), {},
          {});
      posenc::KvCache<T> cache({.sequences = 2,
                                .kv_heads = heads.kv,
                                .head_dim = 19,
                                .value_dim = 21,
                                .capacity = keys});
      const std::vector<Index> sequences{1, 0};
      cache.append(sequences, c.k.view(), c.v.view());
      support::Heads<T> out(2, queries, heads.all, 21);
      posenc::detail::attend_to_cache<Tier, CallingThread, T, T>(
          {}, c.q.view(), cache, sequences, out.view(), options, posenc::NoBias(), {});
      INFO(Tier::name << ", " << keys << " keys, " << heads.all << " heads over " << heads.kv);
      CHECK(support::same_bits(out.view(), c.out.view()));
      bool finite = true;
      out.for_each([&](T& value) { finite = finite && std::isfinite(support::to_double(value)); });
      CHECK(finite);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("Linear: keeps its bound on every tier in both orders",
                        "[attention][linear][tiers]", ComputeOnTiers) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  using posenc::SumOrder;
  for (const Index in : {1, 17, 64, 100}) {
    for (const Index out : {1, 31, 128, 200}) {
      posenc::Linear<T> linear(in, out, true);
      linear.randomize(7);
      support::Random random(static_cast<std::uint64_t>(in * out));
      for (const Index rows : {1, 2, 11, 25, 40}) {
        std::vector<T> x(static_cast<std::size_t>(rows * in)),
            y(static_cast<std::size_t>(rows * out));
        random.fill_normal(x);
        posenc::detail::ScratchArenas workspace;
        const posenc::EmbeddingsView<const T> x_view{x.data(), 1, rows, in};
        const posenc::EmbeddingsView<T> y_view{y.data(), 1, rows, out};
        bool within = true;
        const auto check = [&] {
          for (Index r = 0; r < rows; ++r) {
            for (Index o = 0; o < out; ++o) {
              long double sum = 0, size = 0;
              for (Index i = 0; i < in; ++i) {
                const long double product =
                    static_cast<long double>(x[static_cast<std::size_t>(r * in + i)]) *
                    static_cast<long double>(linear.weight(o, i));
                sum += product;
                size += std::abs(product);
              }
              const auto error = std::abs(
                  static_cast<long double>(y[static_cast<std::size_t>(r * out + o)]) - sum);
              within &= error <= static_cast<long double>(in + 2) *
                                     static_cast<long double>(std::numeric_limits<T>::epsilon()) *
                                     size;
            }
          }
        };
        posenc::detail::linear_forward<Tier, SumOrder::Fixed>(CallingThread(), workspace, linear,
                                                              x_view, y_view);
        check();
        posenc::detail::linear_forward<Tier, SumOrder::Any>(CallingThread(), workspace, linear,
                                                            x_view, y_view);
        check();
        INFO(Tier::name << ": " << rows << " rows, " << in << " to " << out);
        REQUIRE(within);
      }
    }
  }
}

}  // namespace cache_tiers_test
