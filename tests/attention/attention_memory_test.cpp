// SPDX-License-Identifier: MIT
// Tests that no memory outside of the tensors is accessed, and that masked tiles are not computed.
#include "attend.hpp"
#include "attention_case.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"
#include <posenc/attention/attention.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace attention_memory_test {

using attention_test::Case;
using attention_test::Mask;
using attention_test::Shape;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::Index;
using support::Guarded;

namespace {

/// Dense tensor [1, S, H, D], directly behind the front guard page, or directly before the rear
/// one.
template <class T>
struct GuardedHeads {
  Guarded<T> memory;
  posenc::HeadsView<T> view;

  GuardedHeads(bool front, Index seq, Index heads, Index dim)
      : memory(seq * heads * dim), view{memory.at(front, seq * heads * dim),
                                        1,
                                        seq,
                                        heads,
                                        dim,
                                        seq * heads * dim,
                                        heads * dim,
                                        dim} {}
};

/// Mask or weights [1, H, Sq, Sk], next to a guard page in the same way.
template <class E>
struct GuardedScores {
  Guarded<E> memory;
  posenc::ScoresView<E> view;

  GuardedScores(bool front, const Shape& s)
      : memory(s.heads * s.queries * s.keys),
        view{memory.at(front, s.heads * s.queries * s.keys),
             1,
             s.heads,
             s.queries,
             s.keys,
             0,
             s.queries * s.keys,
             s.keys} {}
};

/// Bias that counts the scores of its calls.
struct CountingBias {
  Index* count;

  template <class Real>
  void add(Index, std::span<const double>, std::span<const double>,
           posenc::MatrixView<Real> tile) const {
    *count += tile.rows * tile.cols;
  }
};

/// Returns the number of scores that are computed for n queries of one head over n keys.
Index computed(Index n, const AttentionOptions<float>& options) {
  Case<float> c({1, 1, 1, n, n, 1, 1}, 1);
  Index count = 0;
  c.run(options, CountingBias{&count});
  return count;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention_memory: attention stays within the memory that it is given",
                        "[attention][memory]", attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  for (const Shape& s :
       {Shape{1, 2, 1, 3, 1, 1, 1}, Shape{1, 2, 2, 5, 31, 7, 3}, Shape{1, 6, 2, 13, 33, 16, 17},
        Shape{1, 4, 1, 1, 129, 33, 31}, Shape{1, 2, 1, 40, 260, 9, 70}}) {
    for (const bool front : {true, false}) {
      INFO(s.queries << " queries, " << s.keys << " keys, dims " << s.dim << " and " << s.value_dim
                     << (front ? ", from a page's start" : ", up to a page's end"));
      Case<T> c(s, 1);
      GuardedHeads<T> q(front, s.queries, s.heads, s.dim), k(front, s.keys, s.kv_heads, s.dim),
          v(front, s.keys, s.kv_heads, s.value_dim), out(front, s.queries, s.heads, s.value_dim);
      support::copy(c.q.view(), q.view);
      support::copy(c.k.view(), k.view);
      support::copy(c.v.view(), v.view);
      GuardedScores<bool> keep(front, s);
      GuardedScores<Real> additive(front, s), weights(front, s);
      const Index cells = s.heads * s.queries * s.keys;
      for (Index n = 0; n < cells; ++n) {
        keep.view.data[n] = n % 5 != 0;
        additive.view.data[n] = static_cast<Real>(n % 3);
      }
      Guarded<Real> lse(s.heads * s.queries), sinks(s.heads);
      Real* const sink = sinks.at(front, s.heads);
      std::fill_n(sink, s.heads, Real{1});
      const AttentionOptions<T> options{.causal = Causal::BottomRight,
                                        .keep = keep.view,
                                        .additive = additive.view,
                                        .sinks = {sink, static_cast<std::size_t>(s.heads)}};
      c.run(options);
      Real* const rows = lse.at(front, s.heads * s.queries);
      attention_test::attend(
          q.view, k.view, v.view, out.view, options, nullptr,
          {.lse = {rows, 1, s.heads, s.queries, 0, s.queries}, .weights = weights.view});
      CHECK(support::same_bits(out.view, c.out.view()));
      CHECK(out.memory.kept_around(out.view.data, s.queries * s.heads * s.value_dim));
      CHECK(weights.memory.kept_around(weights.view.data, cells));
      CHECK(lse.kept_around(rows, s.heads * s.queries));
    }
  }
}

TEST_CASE("attention: computes nothing that rules and masks hide", "[attention][memory]") {
  constexpr Index n = 1024, all = n * n;
  CHECK(computed(n, {.causal = Causal::No}) == all);
  CHECK(computed(n, {.causal = Causal::TopLeft}) <= all / 2 + all / 16);
  // 64 keys per query; blocks of a dozen queries and panels of 32 keys compute up to three times as
  // many.
  CHECK(computed(n, {.causal = Causal::TopLeft, .window = posenc::sliding_window(64)}) <=
        n * 3 * 64);
  const std::vector<Index> length{200}, boundaries{0, 256, 512, 768, n};
  CHECK(computed(n, {.causal = Causal::TopLeft, .key_lengths = length}) <= n * 224);
  CHECK(
      computed(n, {.causal = Causal::No, .cu_seqlens_q = boundaries, .cu_seqlens_k = boundaries}) <=
      all / 4);
  Mask<bool> keep(1, 1, n, n);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) keep.values(0, 0, i, j) = i / 256 == j / 256;
  }
  CHECK(computed(n, {.causal = Causal::No, .keep = keep.view()}) <= all / 4 + all / 16);
  Mask<bool> none(1, 1, 1, 1, false);
  CHECK(computed(n, {.causal = Causal::No, .keep = none.view()}) == 0);
}

}  // namespace attention_memory_test
