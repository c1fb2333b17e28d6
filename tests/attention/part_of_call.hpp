// SPDX-License-Identifier: MIT
#pragma once

#include "random_call.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace attention_test {

/// Range of an axis.
struct Some {
  Index first = 0, count = 0;
};

/// Some batch rows, heads and queries of a call without packing, as a separate call. query_starts
/// gives the alignment, and positions are explicit, whatever the original call has. Heads are one,
/// or all.
template <class T>
class PartOfCall {
 public:
  using Real = posenc::Compute<T>;

  posenc::HeadsView<const T> q, k, v;
  posenc::AttentionOptions<T> options;
  support::Heads<T> out;
  Lse<Real> lse;

  PartOfCall(RandomCall<T>& whole, Some rows, Some heads, Some queries)
      : options(whole.options),
        out(rows.count, queries.count, heads.count, whole.c.shape.value_dim),
        lse(rows.count, heads.count, queries.count),
        bias_(whole.bias_pointer()) {
    const Shape& shape = whole.c.shape;
    const Index group = std::max(shape.heads, Index{1}) / std::max(shape.kv_heads, Index{1});
    const Some kv = heads.count == shape.heads ? Some{0, shape.kv_heads}
                                               : Some{heads.first / group, heads.count};
    q = slice(whole.c.q.view(), rows, heads, queries);
    k = slice(whole.c.k.view(), rows, kv, {0, shape.keys});
    v = slice(whole.c.v.view(), rows, kv, {0, shape.keys});

    options.keep = slice(options.keep, rows, heads, queries);
    options.masked = slice(options.masked, rows, heads, queries);
    options.additive = slice(options.additive, rows, heads, queries);
    const auto part = [](auto all, Some some) {
      return all.empty() ? all
                         : all.subspan(static_cast<std::size_t>(some.first),
                                       static_cast<std::size_t>(some.count));
    };
    options.key_lengths = part(options.key_lengths, rows);
    options.sinks = part(options.sinks, heads);

    std::vector<double> query_positions, key_positions;
    for (Index b = rows.first; b < rows.first + rows.count; ++b) {
      starts_.push_back(static_cast<Index>(whole.place(b, queries.first)));
      for (Index i = 0; i < queries.count; ++i) {
        query_positions.push_back(whole.query_at(b, queries.first + i));
      }
      for (Index j = 0; j < shape.keys; ++j) key_positions.push_back(whole.key_at(b, j));
    }
    options.query_positions = posenc::Positions::real(rows.count, query_positions);
    options.key_positions = posenc::Positions::real(rows.count, key_positions);
    options.query_starts = {};
    if (options.causal != posenc::Causal::ByPosition) {
      if (options.causal != posenc::Causal::No) options.causal = posenc::Causal::FromStart;
      options.query_starts = starts_;
    }
  }
  PartOfCall(const PartOfCall&) = delete;
  PartOfCall& operator=(const PartOfCall&) = delete;

  void run() { attend(q, k, v, out.view(), options, bias_, {.lse = lse.view()}); }

  /// True if outputs and log-sum-exps have the bits that they have in the complete call.
  bool agrees_with(RandomCall<T>& whole, Some rows, Some heads, Some queries) {
    auto whole_lse = whole.lse.view();
    whole_lse.data += rows.first * whole_lse.batch_stride + heads.first * whole_lse.head_stride;
    whole_lse.batch = rows.count;
    whole_lse.heads = heads.count;
    return support::same_bits(out.view(), slice(whole.c.out.view(), rows, heads, queries)) &&
           same_bits(lse.view(), slice_queries(whole_lse, queries.first, queries.count));
  }

 private:
  template <class E>
  static posenc::HeadsView<E> slice(posenc::HeadsView<E> x, Some rows, Some heads, Some seq) {
    x.data += rows.first * x.batch_stride;
    x.batch = rows.count;
    return posenc::slice_seq(posenc::slice_heads(x, heads.first, heads.count), seq.first,
                             seq.count);
  }

  /// Returns a part of a mask; axes of extent 1 are kept.
  template <class E>
  static posenc::ScoresView<E> slice(posenc::ScoresView<E> mask, Some rows, Some heads,
                                     Some queries) {
    const auto cut = [&mask](posenc::Extent& extent, Index stride, Some some) {
      if (extent == 1) return;
      mask.data += some.first * stride;
      extent = some.count;
    };
    if (mask.data == nullptr) return mask;
    cut(mask.batch, mask.batch_stride, rows);
    cut(mask.heads, mask.head_stride, heads);
    cut(mask.queries, mask.query_stride, queries);
    return mask;
  }

  const AnyBias* bias_;
  std::vector<Index> starts_;
};

}  // namespace attention_test
