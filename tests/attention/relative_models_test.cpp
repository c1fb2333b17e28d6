// SPDX-License-Identifier: MIT
// Tests published relative attention as a RelativeBias: worked examples, and random comparisons
// with the references.
#include "attention_case.hpp"
#include "reference/relative.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace relative_models_test {

using attention_test::matrix_of;
using posenc::BeyondTable;
using posenc::Causal;
using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;
using posenc::RelativeBias;
using posenc::RelativeOrder;
using posenc::RelativeScale;
using posenc::SinusoidalLayout;
using reference::Matrix;

namespace {

using Numbers = std::vector<double>;
using Heads = support::Heads<double>;

/// Returns a tensor [1, rows, heads, dim] of numbers in this order.
HeadsView<const double> tensor(const Numbers& numbers, Index rows, Index dim, Index heads = 1) {
  return {.data = numbers.data(), .batch = 1, .seq = rows, .heads = heads, .dim = dim};
}

/// Returns all masked scores of a call, in the order [H, Sq, Sk].
Numbers scores_of(HeadsView<const double> q, HeadsView<const double> k,
                  const posenc::AttentionOptions<double>& options,
                  const RelativeBias<double>& bias) {
  Numbers scores(static_cast<std::size_t>(q.heads * q.seq * k.seq));
  Numbers out(static_cast<std::size_t>(q.seq * q.heads * k.dim));
  posenc::attention(
      q, k, k,
      HeadsView<double>{
          .data = out.data(), .batch = 1, .seq = q.seq, .heads = q.heads, .dim = k.dim},
      options, bias,
      {.weights =
           {.data = scores.data(), .batch = 1, .heads = q.heads, .queries = q.seq, .keys = k.seq},
       .returned = posenc::ReturnedScores::Masked});
  return scores;
}

double worst_difference(const Numbers& a, const Numbers& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    if (a[n] != b[n]) worst = std::max(worst, std::abs(a[n] - b[n]));
  }
  return worst;
}

/// Returns the reference's scores of each head: (q k^T scale + part * factor), -inf where `hidden`.
template <class Part>
Numbers expected(Heads& q, Heads& k, double scale, double factor, bool causal, const Part& part) {
  Numbers all;
  const Index heads = q.view().heads, group = heads / k.view().heads;
  for (Index h = 0; h < heads; ++h) {
    const Matrix of_q = matrix_of(q.view(), 0, h), of_k = matrix_of(k.view(), 0, h / group);
    const Matrix added = part(h, of_q, of_k), products = reference::products(of_q, of_k);
    const Index before = of_k.rows - of_q.rows;
    for (Index i = 0; i < of_q.rows; ++i) {
      for (Index j = 0; j < of_k.rows; ++j) {
        const bool hidden = causal && j > before + i;
        all.push_back(hidden ? -attention_test::infinity
                             : products(i, j) * scale + added(i, j) * factor);
      }
    }
  }
  return all;
}

constexpr double tolerance = 1e-13;

const Numbers example_q{1, 0, 0, 1, 1, 1}, example_k{1, 2, 0, 1, -1, 1};

}  // namespace

TEST_CASE("RelativeBias: Shaw's and Transformer-XL's scores of three tokens",
          "[attention][relative]") {
  const Numbers a{1, 0, 0, 0, 0, -1};
  const Numbers of_shaw =
      scores_of(tensor(example_q, 3, 2), tensor(example_k, 3, 2), {.causal = Causal::No},
                {.table = tensor(a, 3, 2),
                 .index = {.order = RelativeOrder::KeyMinusQuery,
                           .first = -1,
                           .beyond = BeyondTable::Nearest},
                 .scale = RelativeScale::Scaled});
  CHECK(worst_difference(of_shaw, {.7071067812, 0, -.7071067812, 1.414213562, .7071067812, 0,
                                   2.828427125, 1.414213562, 0}) < 1e-9);

  const Numbers u{.1, .2}, v{-.1, .3};
  Numbers with_u(6), with_v(6), r;
  posenc::add_to_heads(
      tensor(example_q, 3, 2), tensor(u, 1, 2),
      HeadsView<double>{.data = with_u.data(), .batch = 1, .seq = 3, .heads = 1, .dim = 2});
  posenc::add_to_heads(
      tensor(example_q, 3, 2), tensor(v, 1, 2),
      HeadsView<double>{.data = with_v.data(), .batch = 1, .seq = 3, .heads = 1, .dim = 2});
  for (const double distance : {-2.0, -1.0, 0.0, 1.0, 2.0}) {
    r.insert(r.end(), {std::sin(distance), std::cos(distance)});
  }
  const Numbers of_xl =
      scores_of(tensor(with_u, 3, 2), tensor(example_k, 3, 2), {.causal = Causal::No},
                {.table = tensor(r, 5, 2),
                 .index = {.order = RelativeOrder::QueryMinusKey,
                           .first = -2,
                           .beyond = BeyondTable::Refused},
                 .scale = RelativeScale::Scaled,
                 .queries = tensor(with_v, 3, 2)});
  CHECK(worst_difference(of_xl, {1.272792206, -.279472072, -1.303347517, 2.204932821, 1.767766953,
                                 1.333985295, 2.671008748, 1.880703845, .9899494937}) < 1e-9);
}

TEST_CASE("RelativeBias: Inkling's and DeBERTa's scores of a few tokens", "[attention][relative]") {
  // The bank [2, 3] is passed as columns.
  const Numbers bank{1, .5, 2, 0, 3, -1}, r{.5, -1, 2, 1, 0, 1}, zeros(6);
  const Numbers of_inkling = scores_of(
      tensor(zeros, 3, 2), tensor(zeros, 3, 2), {.causal = Causal::No},
      {.table = tensor(bank, 3, 2),
       .index = {.order = RelativeOrder::QueryMinusKey, .first = 0, .beyond = BeyondTable::Nothing},
       .scale = RelativeScale::Unscaled,
       .queries = tensor(r, 3, 2)});
  CHECK(worst_difference(of_inkling, {0, 0, 0, 4, 2.5, 0, -1, 0, .5}) < 1e-12);

  const Numbers table{.1, 0, .2, .1, .3, .2, .4, -.3, .5, .3, -.2, .2, .1, .1, 0, .4};
  const Numbers q{1, 0, 0, 1}, k{1, 2, 0, 1};
  const std::vector<Index> rows = posenc::deberta_rows(0, 4);
  const Numbers of_deberta =
      scores_of(tensor(q, 2, 2), tensor(k, 2, 2),
                {.softmax_scale_multiplier = 1 / std::sqrt(3.0), .causal = Causal::No},
                {.table = tensor(table, 8, 2),
                 .index = posenc::deberta_index(rows),
                 .scale = RelativeScale::Scaled,
                 .key_table = tensor(table, 8, 2)});
  CHECK(worst_difference(of_deberta, {1.061445555, .04082482905, .9797958971, .6531972647}) < 1e-9);
}

TEST_CASE("RelativeBias: Shaw, Music Transformer and Inkling at random", "[attention][relative]") {
  constexpr Index queries = 70, keys = 200, heads = 4, dim = 12;
  support::Random random(1);
  Heads q = Heads::random(random, 1, queries, heads, dim),
        k = Heads::random(random, 1, keys, 2, dim);
  const auto of_queries = reference::positions_from(keys - queries, queries),
             of_keys = reference::positions_from(0, keys);
  const double scale = 1 / std::sqrt(static_cast<double>(dim));

  Heads shared = Heads::random(random, 1, 33, 1, dim);
  const auto shaw = [&](Index, const Matrix& of_q, const Matrix&) {
    return reference::shaw_part(of_q, matrix_of(shared.view(), 0, 0), of_queries, of_keys);
  };
  CHECK(worst_difference(scores_of(q.view(), k.view(), {.causal = Causal::BottomRight},
                                   {.table = shared.view(),
                                    .index = {.order = RelativeOrder::KeyMinusQuery,
                                              .first = -16,
                                              .beyond = BeyondTable::Nearest},
                                    .scale = RelativeScale::Scaled}),
                         expected(q, k, scale, scale, true, shaw)) < tolerance);

  Heads per_head = Heads::random(random, 1, 140, heads, dim);
  const auto music = [&](Index h, const Matrix& of_q, const Matrix&) {
    return reference::music_transformer_part(of_q, matrix_of(per_head.view(), 0, h), of_queries,
                                             of_keys);
  };
  CHECK(worst_difference(scores_of(q.view(), k.view(), {.causal = Causal::BottomRight},
                                   {.table = per_head.view(),
                                    .index = {.order = RelativeOrder::KeyMinusQuery,
                                              .first = -139,
                                              .beyond = BeyondTable::Nothing},
                                    .scale = RelativeScale::Scaled}),
                         expected(q, k, scale, scale, true, music)) < tolerance);

  Heads bank = Heads::random(random, 1, 50, 1, 16),
        r = Heads::random(random, 1, queries, heads, 16);
  const auto inkling = [&](Index h, const Matrix&, const Matrix&) {
    return reference::inkling_part(matrix_of(r.view(), 0, h),
                                   reference::transposed(matrix_of(bank.view(), 0, 0)), of_queries,
                                   of_keys);
  };
  CHECK(worst_difference(
            scores_of(q.view(), k.view(), {.scale = 1.0 / dim, .causal = Causal::BottomRight},
                      {.table = bank.view(),
                       .index = {.order = RelativeOrder::QueryMinusKey,
                                 .first = 0,
                                 .beyond = BeyondTable::Nothing},
                       .scale = RelativeScale::Unscaled,
                       .queries = r.view()}),
            expected(q, k, 1.0 / dim, 1, true, inkling)) < tolerance);
}

TEST_CASE("RelativeBias: DeBERTa at random", "[attention][relative]") {
  constexpr Index tokens = 180, heads = 2, dim = 12;
  support::Random random(2);
  Heads q = Heads::random(random, 1, tokens, heads, dim),
        k = Heads::random(random, 1, tokens, heads, dim);
  for (const auto& [buckets, most] : {std::pair<Index, Index>{32, 128}, {0, 20}}) {
    const Index span = buckets > 0 ? buckets : most;
    Heads of_keys = Heads::random(random, 1, 2 * span, heads, dim),
          of_queries = Heads::random(random, 1, 2 * span, heads, dim);
    const std::vector<Index> rows = posenc::deberta_rows(buckets, most);
    const double scale = 1 / std::sqrt(3.0 * dim);
    const auto places = reference::positions_from(0, tokens);
    const auto part = [&, b = buckets, m = most](Index h, const Matrix& x, const Matrix& y) {
      return reference::deberta_part(
          {b, m, matrix_of(of_keys.view(), 0, h), matrix_of(of_queries.view(), 0, h)}, x, y, places,
          places);
    };
    CHECK(worst_difference(
              scores_of(q.view(), k.view(),
                        {.softmax_scale_multiplier = 1 / std::sqrt(3.0), .causal = Causal::No},
                        {.table = of_keys.view(),
                         .index = posenc::deberta_index(rows),
                         .scale = RelativeScale::Scaled,
                         .key_table = of_queries.view()}),
              expected(q, k, scale, scale, false, part)) < tolerance);
  }
}

// Complete example: the table is the projection of sinusoids of the distances.
TEST_CASE("RelativeBias: Transformer-XL and Conformer from sinusoids", "[attention][relative]") {
  constexpr Index heads = 2, dim = 6, width = 16, tokens = 60, memory = 90;
  support::Random random(3);
  for (const bool conformer : {false, true}) {
    CAPTURE(conformer);
    const Index keys = conformer ? tokens : memory + tokens;
    const Index first = conformer ? 1 - tokens : 0, count = keys - first;
    Heads q = Heads::random(random, 1, tokens, heads, dim),
          k = Heads::random(random, 1, keys, heads, dim);
    Heads u = Heads::random(random, 1, 1, heads, dim), v = Heads::random(random, 1, 1, heads, dim);

    Numbers sinusoids(static_cast<std::size_t>(count * width)),
        table(static_cast<std::size_t>(count * heads * dim));
    const auto layout = conformer ? SinusoidalLayout::Interleaved : SinusoidalLayout::Concatenated;
    const posenc::Sinusoidal sinusoidal({.model_dim = width, .layout = layout});
    sinusoidal.add_to(posenc::EmbeddingsView<double>{sinusoids.data(), 1, count, width},
                      Positions::range(first, count));
    posenc::Linear<double> project(width, heads * dim, false);
    project.randomize(4);
    project.apply(posenc::EmbeddingsView<const double>{sinusoids.data(), 1, count, width},
                  posenc::EmbeddingsView<double>{table.data(), 1, count, heads * dim});

    Heads with_u(1, tokens, heads, dim), with_v(1, tokens, heads, dim);
    posenc::add_to_heads(q.view(), u.view(), with_u.view());
    posenc::add_to_heads(q.view(), v.view(), with_v.view());
    const Numbers got =
        scores_of(with_u.view(), k.view(), {.causal = conformer ? Causal::No : Causal::BottomRight},
                  {.table = tensor(table, count, dim, heads),
                   .index = {.order = RelativeOrder::QueryMinusKey,
                             .first = first,
                             .beyond = BeyondTable::Refused},
                   .scale = RelativeScale::Scaled,
                   .queries = with_v.view()});

    Numbers want;
    for (Index h = 0; h < heads; ++h) {
      reference::TransformerXlHead head;
      head.layout = conformer ? reference::SinusoidalLayout::Interleaved
                              : reference::SinusoidalLayout::Concatenated;
      head.project.weight = Matrix(dim, width);
      for (Index o = 0; o < dim; ++o) {
        for (Index c = 0; c < width; ++c)
          head.project.weight(o, c) = project.weight(h * dim + o, c);
      }
      head.u = support::row_of(u.view(), 0, 0, h);
      head.v = support::row_of(v.view(), 0, 0, h);
      const Matrix of_q = matrix_of(q.view(), 0, h), of_k = matrix_of(k.view(), 0, h);
      const double scale = 1 / std::sqrt(static_cast<double>(dim));
      const Matrix scores = conformer ? reference::conformer_scores(head, of_q, of_k, scale)
                                      : reference::transformer_xl_scores(head, of_q, of_k, scale);
      for (Index i = 0; i < tokens; ++i) {
        for (Index j = 0; j < keys; ++j) {
          want.push_back(!conformer && j > memory + i ? -attention_test::infinity : scores(i, j));
        }
      }
    }
    CHECK(worst_difference(got, want) < 1e-12);
  }
}

}  // namespace relative_models_test
