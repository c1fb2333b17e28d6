// SPDX-License-Identifier: MIT
// Tests attention over parts of the keys, and the merged parts.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/merge.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace merge_test {

using attention_test::Case;
using attention_test::infinity;
using attention_test::Lse;
using attention_test::Mask;
using attention_test::RuleOf;
using attention_test::same_bits;
using posenc::AttentionOptions;
using posenc::Index;
using support::Heads;

namespace {

constexpr Index batch = 2, heads = 4, queries = 3, value_dim = 20;

/// Output and log-sum-exp of a part of the keys.
template <class T>
struct Piece {
  using Real = posenc::Compute<T>;
  Heads<T> out{batch, queries, heads, value_dim};
  Lse<Real> lse{batch, heads, queries};

  Piece(Case<T>& c, Index first, Index count,
        AttentionOptions<T> options = {.causal = posenc::Causal::No}) {
    const auto cut = [&](auto& mask) {
      if (mask.data == nullptr) return;
      mask.data += first * mask.key_stride;
      mask.keys = count;
    };
    cut(options.keep);
    attention_test::attend(c.q.view(), posenc::slice_seq(c.k.view(), first, count),
                           posenc::slice_seq(c.v.view(), first, count), out.view(), options,
                           nullptr, {.lse = lse.view()});
  }

  void add(Piece& other) {
    posenc::merge(out.view(), lse.view(), other.out.view(), other.lse.view());
  }
};

template <class T>
Case<T> make_case(Index keys) {
  return Case<T>({batch, heads, 2, queries, keys, 8, value_dim}, 1);
}

/// Returns the largest errors of a merged part, as multiples of the allowed ones: those of
/// attention, and for each merge the error of a log-sum-exp (in the exponent, for both weights) and
/// the rounding to T.
template <class T>
double worst_merged(Case<T>& c, const RuleOf& rule_of, Piece<T>& merged, Index merges) {
  using Real = posenc::Compute<T>;
  double worst = 0;
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      const auto rule = rule_of(b, h);
      const auto want = answer(c, rule_of, b, h);
      const double largest = largest_score(c, rule, b, h);
      const Index keys = c.shape.keys;
      const double of_lse =
          static_cast<double>(merges + 1) * (attention_test::lse_error<T>(largest, 2, keys) +
                                             support::rounding<Real>(4 * (largest + 8)));
      const double most = support::max_abs(
          attention_test::matrix_of(c.v.view(), b, h / (heads / c.shape.kv_heads)).values);
      const double of_out =
          attention_test::output_error<T>(
              most, attention_test::probability_error<T>(largest, 2, keys), keys) +
          static_cast<double>(merges) * (support::rounding<T>(1.01 * most) + most * 3 * of_lse);
      for (Index i = 0; i < queries; ++i) {
        const double lse = want.log_sum_exp[static_cast<std::size_t>(i)];
        worst = support::worse(
            worst, attention_test::share(support::abs_difference(
                                             static_cast<double>(merged.lse.values(b, h, i)), lse),
                                         of_lse));
        for (Index d = 0; d < value_dim; ++d) {
          const double got = support::to_double(merged.out.view().row(b, i, h)[d]);
          worst = support::worse(
              worst,
              attention_test::share(support::abs_difference(got, want.output(i, d)), of_out));
        }
      }
    }
  }
  return worst;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("merge: merged pieces equal the whole", "[attention][merge]",
                        attention_test::Scalars) {
  using T = TestType;
  for (const std::vector<Index>& cuts : {std::vector<Index>{0, 5, 12},
                                         {0, 1, 2, 3},
                                         {0, 128, 300},
                                         {0, 100, 100, 130, 260, 300},
                                         {0, 0, 40},
                                         {0, 40, 40}}) {
    INFO("pieces up to " << Catch::Detail::stringify(cuts));
    auto c = make_case<T>(cuts.back());
    Piece<T> all(c, 0, cuts[1]);
    for (std::size_t n = 1; n + 1 < cuts.size(); ++n) {
      Piece<T> next(c, cuts[n], cuts[n + 1] - cuts[n]);
      all.add(next);
    }
    CHECK(worst_merged(c, plain_rule(c), all, static_cast<Index>(cuts.size()) - 2) <= 1);
  }
}

TEMPLATE_LIST_TEST_CASE(
    "merge: pieces that some rows do not see at all leave those rows as they are",
    "[attention][merge]", attention_test::Scalars) {
  using T = TestType;
  constexpr Index keys = 10;
  auto c = make_case<T>(keys);
  // Row 0 sees only the first part, row 1 only the second, row 2 neither.
  Mask<bool> keep(1, 1, queries, keys);
  for (Index j = 0; j < keys; ++j) {
    keep.values(0, 0, 0, j) = j < 4;
    keep.values(0, 0, 1, j) = j >= 4;
    keep.values(0, 0, 2, j) = false;
  }
  const AttentionOptions<T> options{.causal = posenc::Causal::No, .keep = keep.view()};
  Piece<T> first(c, 0, 4, options), second(c, 4, keys - 4, options);
  Piece<T> merged = first, swapped = second;
  merged.add(second);
  swapped.add(first);
  for (Piece<T>* piece : {&merged, &swapped}) {
    for (Index b = 0; b < batch; ++b) {
      for (Index h = 0; h < heads; ++h) {
        CHECK(support::same_bits(piece->out.view().row(b, 0, h), first.out.view().row(b, 0, h),
                                 value_dim));
        CHECK(support::same_bits(piece->out.view().row(b, 1, h), second.out.view().row(b, 1, h),
                                 value_dim));
        CHECK(piece->lse.values(b, h, 0) == first.lse.values(b, h, 0));
        CHECK(piece->lse.values(b, h, 1) == second.lse.values(b, h, 1));
        CHECK(static_cast<double>(piece->lse.values(b, h, 2)) == -infinity);
        for (const double x : support::row_of(piece->out.view(), b, 2, h)) CHECK(x == 0);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("merge: sinks join one of the pieces", "[attention][merge]",
                        attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  auto c = make_case<T>(20);
  std::vector<Real> sinks;
  for (const double sink : {0.5, -1.0, 2.0, 0.0}) sinks.push_back(static_cast<Real>(sink));
  Piece<T> first(c, 0, 7, {.causal = posenc::Causal::No, .sinks = sinks}), second(c, 7, 13);
  first.add(second);
  const RuleOf rule_of = [&](Index b, Index h) {
    auto rule = plain_rule(c)(b, h);
    rule.sink = static_cast<double>(sinks[static_cast<std::size_t>(h)]);
    return rule;
  };
  CHECK(worst_merged(c, rule_of, first, 1) <= 1);
}

TEMPLATE_LIST_TEST_CASE("merge: a piece with far greater scores replaces the other",
                        "[attention][merge]", attention_test::Scalars) {
  using T = TestType;
  auto c = make_case<T>(6);
  Piece<T> small(c, 0, 3), large(c, 3, 3);
  for (Index n = 0; n < large.lse.values.size(); ++n) large.lse.values.data()[n] += 10000;
  Piece<T> merged = small, swapped = large;
  merged.add(large);
  swapped.add(small);
  for (Piece<T>* piece : {&merged, &swapped}) {
    CHECK(support::same_bits(piece->out.view(), large.out.view()));
    CHECK(same_bits(piece->lse.view(), large.lse.view()));
  }
}

TEMPLATE_LIST_TEST_CASE("merge: NaN stays in its row", "[attention][merge]",
                        attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  auto c = make_case<T>(6);
  Piece<T> first(c, 0, 3), second(c, 3, 3);
  Piece<T> clean = first;
  clean.add(second);
  second.lse.values(1, 2, 1) = std::numeric_limits<Real>::quiet_NaN();
  first.add(second);
  CHECK(std::isnan(first.lse.values(1, 2, 1)));
  for (const double x : support::row_of(first.out.view(), 1, 1, 2)) CHECK(std::isnan(x));
  std::copy_n(clean.out.view().row(1, 1, 2), value_dim, first.out.view().row(1, 1, 2));
  first.lse.values(1, 2, 1) = clean.lse.values(1, 2, 1);
  CHECK(support::same_bits(first.out.view(), clean.out.view()));
  CHECK(same_bits(first.lse.view(), clean.lse.view()));
}

}  // namespace merge_test
