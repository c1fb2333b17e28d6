// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace conformance {
namespace {

using posenc::Alibi;
using posenc::AlibiForm;

/// Checks the slopes for each number of heads in the case.
void check_slopes(Case& c) {
  const auto slopes = posenc::alibi_slopes(c.expected_extent("slopes", 0));
  Array<double> values({static_cast<Index>(slopes.size())});
  std::copy(slopes.begin(), slopes.end(), values.data.begin());
  // The reference computes powers of its ratio by multiplication, so the last of many slopes are
  // inexact.
  c.check("slopes", values, Allowed(Tolerance{.relative = 1e-13}));
}

/// Returns the bias on scores of zero, [H, Q, K], with queries at first_query, first_query + step,
/// ... and keys at 0, 1, ...
template <class T>
Array<T> bias_of(const Alibi& alibi, Index queries, Index keys, Index first_query, Index step = 1) {
  Array<T> bias({alibi.heads(), queries, keys});
  std::vector<double> query_positions, key_positions;
  for (Index i = 0; i < queries; ++i) {
    query_positions.push_back(static_cast<double>(first_query + i * step));
  }
  for (Index j = 0; j < keys; ++j) key_positions.push_back(static_cast<double>(j));
  for (Index h = 0; h < alibi.heads(); ++h) {
    alibi.add(h, query_positions, key_positions,
              posenc::MatrixView<T>{bias.data.data() + h * queries * keys, queries, keys, keys});
  }
  return bias;
}

/// Masks the keys after each query.
template <class T>
Array<T> causal(Array<T> bias, Index first_query) {
  const auto scores = scores_of(bias);
  for (Index h = 0; h < scores.heads; ++h) {
    for (Index i = 0; i < scores.queries; ++i) {
      for (Index j = first_query + i + 1; j < scores.keys; ++j) {
        scores(0, h, i, j) = -std::numeric_limits<T>::infinity();
      }
    }
  }
  return bias;
}

/// Returns attention's probabilities for given scores: queries are their rows, keys the unit
/// vectors.
template <class T>
void check_softmax(Case& c, const Alibi& alibi, Index first_query) {
  const auto scores = c.read<T>("scores");
  const Index heads = scores.extent(0), queries = scores.extent(1), keys = scores.extent(2);
  Array<T> unit({keys, keys}), weights(scores.shape), out({1, heads, queries, keys});
  for (Index j = 0; j < keys; ++j) unit.data[j * keys + j] = 1;
  const posenc::HeadsView<const T> q{scores.data.data(), 1, queries, heads, keys, 0, keys,
                                     queries * keys};
  posenc::AttentionOptions<T> options{.scale = 1.0, .causal = posenc::Causal::ByPosition};
  options.query_positions = posenc::Positions::range(first_query, queries);
  options.key_positions = posenc::Positions::range(0, keys);
  posenc::attention(q, heads_of(unit), heads_of(unit), heads_of(out), options, alibi,
                    {.weights = scores_of(weights)});
  c.check("softmax", weights, Kind::Encoding);
}

}  // namespace

void run_alibi(Case& c) {
  c.knows({"alibi", "slopes", "bias", "decode", "non", "power", "of"},
          {"heads", "seq", "query_len", "key_len", "query_position_of_row_0"});
  check_slopes(c);
  const auto heads = c.parameter<Index>("heads");
  if (!heads) return;
  const auto seq = c.parameter<Index>("seq");
  const Index queries = seq ? *seq : c.required<Index>("query_len");
  const Index keys = seq ? *seq : c.required<Index>("key_len");
  const Index first_query = c.parameter<Index>("query_position_of_row_0", 0);
  const Alibi relative({.heads = *heads, .form = AlibiForm::Causal});
  const Alibi symmetric({.heads = *heads, .form = AlibiForm::Symmetric});
  in_both_precisions([&]<class T>() {
    const auto bias = bias_of<T>(relative, queries, keys, first_query);
    c.check("bias_relative", bias, Kind::Encoding);
    c.check("bias_relative_causal", causal(bias, first_query), Kind::Encoding);
    c.check("bias_symmetric", bias_of<T>(symmetric, queries, keys, first_query), Kind::Encoding);
    // slope * key index is the bias for a query at position 0.
    c.check("bias_repo_causal", causal(bias_of<T>(relative, queries, keys, 0, 0), first_query),
            Kind::Encoding);
    if (c.has("scores")) check_softmax<T>(c, relative, first_query);
  });
}

}  // namespace conformance
