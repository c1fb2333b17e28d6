// SPDX-License-Identifier: MIT
// Tests several sequences in one batch row: each has the result of a separate call.
#include "attend.hpp"
#include "attention_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace attention_packed_test {

using attention_test::AnyBias;
using attention_test::attend;
using attention_test::Case;
using attention_test::infinity;
using attention_test::Lse;
using attention_test::Mask;
using attention_test::same_bits;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::Index;
using posenc::Positions;
using posenc::slice_seq;

namespace {

// Lengths above and below a tile, and 0; no sequence starts at the edge of a tile.
const std::vector<Index> cu_q{0, 5, 5, 140, 141, 150, 153}, cu_k{0, 7, 10, 290, 291, 300, 300};
constexpr Index queries = 153, keys = 300, heads = 4;

/// Sequence n of a row.
struct Sequence {
  Index first_query, queries, first_key, keys;
};

std::vector<Sequence> sequences() {
  std::vector<Sequence> all;
  for (std::size_t n = 0; n + 1 < cu_q.size(); ++n) {
    all.push_back({cu_q[n], cu_q[n + 1] - cu_q[n], cu_k[n], cu_k[n + 1] - cu_k[n]});
  }
  return all;
}

template <class T>
struct Row {
  using Real = posenc::Compute<T>;
  Case<T> c{{1, heads, 2, queries, keys, 10, 20}, 1};
  Lse<Real> lse{1, heads, queries};
  Mask<bool> keep{1, heads, queries, keys};
  Mask<Real> additive{1, 1, queries, keys};
  std::vector<Real> sinks = std::vector<Real>(heads);
  std::vector<Index> starts;
  AnyBias alibi{posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Symmetric})};

  Row() {
    support::Random random(2);
    keep.fill([&] { return random.integer(0, 3) != 0; });
    additive.fill(
        [&] { return static_cast<Real>(random.integer(0, 5) == 0 ? -infinity : random.normal()); });
    random.fill_normal(sinks);
    for (const Sequence& s : sequences()) starts.push_back(random.integer(0, s.keys));
  }

  /// Returns options for the packed row and for each sequence; masks are those of the complete row.
  std::vector<AttentionOptions<T>> ways() {
    return {
        {.causal = Causal::No},
        {.causal = Causal::TopLeft},
        {.causal = Causal::BottomRight},
        {.causal = Causal::FromStart, .query_starts = starts},
        {.causal = Causal::BottomRight, .window = {.left = 60, .right = 0}, .sinks = sinks},
        {.causal = Causal::TopLeft, .window = {.left = 3, .right = -1}},
        {.causal = Causal::No, .window = {.left = 10, .right = 20}, .query_starts = starts},
        {.causal = Causal::BottomRight, .keep = keep.view(), .additive = additive.view()},
        {.causal = Causal::No,
         .keep = keep.view(),
         .softcap = 2,
         .softcap_order = posenc::SoftcapOrder::BeforeBias,
         .dropout = {.probability = 0.3, .seed = 3}},
    };
  }
};

/// Returns the part of the row's options that applies to sequence n.
template <class T>
AttentionOptions<T> alone(AttentionOptions<T> options, const Sequence& s, std::size_t n) {
  const auto cut = [&s](auto& mask) {
    if (mask.data == nullptr) return;
    mask.data += s.first_query * mask.query_stride + s.first_key * mask.key_stride;
    mask.queries = s.queries;
    mask.keys = s.keys;
  };
  cut(options.keep);
  cut(options.additive);
  options.cu_seqlens_q = options.cu_seqlens_k = {};
  if (!options.query_starts.empty()) options.query_starts = options.query_starts.subspan(n, 1);
  const auto part = [](const Positions& all, Index first, Index count) {
    std::vector<double> values;
    for (Index t = first; t < first + count; ++t) values.push_back(all.at(0, t));
    return Positions::real(values);
  };
  options.query_positions = part(*options.query_positions, s.first_query, s.queries);
  options.key_positions = part(*options.key_positions, s.first_key, s.keys);
  return options;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("cu_seqlens: packed sequences have the bits of separate calls",
                        "[attention][packed]", attention_test::Scalars) {
  using T = TestType;
  Row<T> row;
  int way = 0;
  for (AttentionOptions<T> options : row.ways()) {
    for (const AnyBias* bias : {static_cast<const AnyBias*>(nullptr), &std::as_const(row.alibi)}) {
      options.cu_seqlens_q = cu_q;
      options.cu_seqlens_k = cu_k;
      options.query_positions = Positions::packed(cu_q);
      options.key_positions = Positions::packed(cu_k);
      attend(row.c.q.view(), row.c.k.view(), row.c.v.view(), row.c.out.view(), options, bias,
             {.lse = row.lse.view()});
      std::size_t n = 0;
      for (const Sequence& s : sequences()) {
        support::Heads<T> out(1, s.queries, heads, row.c.shape.value_dim);
        Lse<posenc::Compute<T>> lse(1, heads, s.queries);
        const auto own = alone(options, s, n++);
        attend(slice_seq(row.c.q.view(), s.first_query, s.queries),
               slice_seq(row.c.k.view(), s.first_key, s.keys),
               slice_seq(row.c.v.view(), s.first_key, s.keys), out.view(), own, bias,
               {.lse = lse.view()});
        INFO("way " << way << ", sequence " << n << (bias == nullptr ? "" : ", alibi"));
        CHECK(
            support::same_bits(out.view(), slice_seq(row.c.out.view(), s.first_query, s.queries)));
        CHECK(same_bits(lse.view(),
                        attention_test::slice_queries(row.lse.view(), s.first_query, s.queries)));
      }
    }
    ++way;
  }
}

TEMPLATE_LIST_TEST_CASE("cu_seqlens: lists of 32-bit integers give the bits of lists of 64 bits",
                        "[attention][packed]", attention_test::Scalars) {
  using T = TestType;
  Row<T> row;
  const auto narrow = [](const std::vector<Index>& list) {
    return std::vector<std::int32_t>(list.begin(), list.end());
  };
  const auto short_q = narrow(cu_q), short_k = narrow(cu_k), short_starts = narrow(row.starts);
  AttentionOptions<T> options{.causal = Causal::FromStart,
                              .query_starts = row.starts,
                              .cu_seqlens_q = cu_q,
                              .cu_seqlens_k = cu_k};
  row.c.run(options);
  auto expected = row.c.out;
  options.query_starts = short_starts;
  options.cu_seqlens_q = short_q;
  options.cu_seqlens_k = short_k;
  row.c.run(options);
  CHECK(support::same_bits(row.c.out.view(), expected.view()));

  // Causal::ByPosition reads the bounds of the keys where positions restart.
  options = {.causal = Causal::ByPosition, .cu_seqlens_q = cu_q, .cu_seqlens_k = cu_k};
  options.query_positions = Positions::packed(cu_q);
  options.key_positions = Positions::packed(cu_k);
  row.c.run(options);
  expected = row.c.out;
  options.cu_seqlens_q = short_q;
  options.cu_seqlens_k = short_k;
  row.c.run(options);
  CHECK(support::same_bits(row.c.out.view(), expected.view()));
}

TEMPLATE_LIST_TEST_CASE("cu_seqlens: positions are those of the whole row", "[attention][packed]",
                        attention_test::Scalars) {
  using T = TestType;
  Row<T> row;
  for (const Causal causal : {Causal::TopLeft, Causal::BottomRight, Causal::FromStart}) {
    AttentionOptions<T> options{.causal = causal, .cu_seqlens_q = cu_q, .cu_seqlens_k = cu_k};
    if (causal == Causal::FromStart) options.query_starts = row.starts;
    attend(row.c.q.view(), row.c.k.view(), row.c.v.view(), row.c.out.view(), options, &row.alibi);
    auto implied = row.c.out;

    std::vector<double> places(queries);
    std::size_t n = 0;
    for (const Sequence& s : sequences()) {
      const Index first = causal == Causal::TopLeft       ? 0
                          : causal == Causal::BottomRight ? s.keys - s.queries
                                                          : row.starts[n];
      for (Index i = 0; i < s.queries; ++i) {
        places[static_cast<std::size_t>(s.first_query + i)] =
            static_cast<double>(s.first_key + first + i);
      }
      ++n;
    }
    options.query_positions = Positions::real(places);
    options.key_positions = Positions::range(0, keys);
    attend(row.c.q.view(), row.c.k.view(), row.c.v.view(), row.c.out.view(), options, &row.alibi);
    CHECK(support::same_bits(row.c.out.view(), implied.view()));
  }
}

TEMPLATE_LIST_TEST_CASE("cu_seqlens: a sequence keeps its bits beside one of NaN",
                        "[attention][packed]", attention_test::Scalars) {
  using T = TestType;
  const auto nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  Row<T> row;
  const AttentionOptions<T> options{
      .causal = Causal::BottomRight, .cu_seqlens_q = cu_q, .cu_seqlens_k = cu_k};
  row.c.run(options);
  auto clean = row.c.out;
  const Sequence bad = sequences()[2];
  for (Index j = bad.first_key; j < bad.first_key + bad.keys; ++j) {
    for (Index kv = 0; kv < 2; ++kv) {
      std::fill_n(row.c.k.view().row(0, j, kv), row.c.shape.dim, nan);
      std::fill_n(row.c.v.view().row(0, j, kv), row.c.shape.value_dim, nan);
    }
  }
  row.c.run(options);
  for (const Sequence& s : sequences()) {
    if (s.first_query == bad.first_query) continue;
    CHECK(support::same_bits(slice_seq(row.c.out.view(), s.first_query, s.queries),
                             slice_seq(clean.view(), s.first_query, s.queries)));
  }
}

TEMPLATE_LIST_TEST_CASE("cu_seqlens: weights are zero between sequences", "[attention][packed]",
                        attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  Row<T> row;
  Mask<Real> weights(1, heads, queries, keys, Real{7});
  row.c.run({.causal = Causal::No, .cu_seqlens_q = cu_q, .cu_seqlens_k = cu_k}, {},
            {.weights = weights.view()});
  bool zero_outside = true, positive_inside = true;
  for (Index i = 0; i < queries; ++i) {
    const auto n = reference::sequence_of(cu_q, i);
    for (Index j = 0; j < keys; ++j) {
      const bool inside = j >= cu_k[n] && j < cu_k[n + 1];
      const Real weight = weights.at(0, 1, i, j);
      (inside ? positive_inside : zero_outside) &= inside ? weight > 0 : weight == 0;
    }
  }
  CHECK(zero_outside);
  CHECK(positive_inside);
}

}  // namespace attention_packed_test
