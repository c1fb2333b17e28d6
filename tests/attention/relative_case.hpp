// SPDX-License-Identifier: MIT
#pragma once

#include "attention_case.hpp"
#include "random_call.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/relative_bias.hpp>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace attention_test {

/// Properties of a relative table.
struct RelativeShape {
  Index rows = 7;
  Index first = -3;
  bool per_head = false, of_query = true, of_key = false;
  Index own_queries = 0;  ///< width of RelativeBias::queries, 0: attention's q
  bool mapped = false;
  posenc::RelativeOrder order = posenc::RelativeOrder::KeyMinusQuery;
  posenc::BeyondTable beyond = posenc::BeyondTable::Nearest;
  posenc::RelativeScale scale = posenc::RelativeScale::Scaled;
};

/// Relative bias with random tables in multiples of 1/8, so that products are exact, and its values
/// by definition.
template <class T>
class RelativeCase {
 public:
  RelativeCase(RandomCall<T>& call, const RelativeShape& shape)
      : call_(call),
        shape_(shape),
        table_(1, shape.rows, shape.per_head ? call.c.shape.heads : 1,
               shape.own_queries > 0 ? shape.own_queries : call.c.shape.dim),
        key_table_(1, shape.rows, shape.per_head ? call.c.shape.heads : 1, call.c.shape.dim),
        queries_(call.c.shape.batch, call.c.shape.queries, call.c.shape.heads, shape.own_queries) {
    support::Random random(7);
    for (auto* x : {&table_, &key_table_, &queries_}) {
      x->for_each([&](T& value) {
        value = static_cast<T>(0.125 * static_cast<double>(random.integer(-8, 8)));
      });
    }
    if (shape.mapped) {
      for (Index n = 0; n < 2 * shape.rows + 1; ++n) rows_.push_back(n * 5 % shape.rows);
    }
  }

  posenc::RelativeBias<T> bias() {
    posenc::RelativeBias<T> b;
    b.index = {
        .order = shape_.order, .first = shape_.first, .beyond = shape_.beyond, .rows = rows_};
    b.scale = shape_.scale;
    if (shape_.of_query) b.table = table_.view();
    if (shape_.of_key) b.key_table = key_table_.view();
    if (shape_.own_queries > 0) b.queries = queries_.view();
    return b;
  }

  double added(Index b, Index h, Index i, Index j) {
    const double between = std::trunc(call_.key_at(b, j) - call_.query_at(b, i));
    const auto distance = static_cast<Index>(
        shape_.order == posenc::RelativeOrder::KeyMinusQuery ? between : -between);
    const Index entries = rows_.empty() ? shape_.rows : static_cast<Index>(rows_.size());
    Index entry = distance - shape_.first;
    if (entry < 0 || entry >= entries) {
      if (shape_.beyond != posenc::BeyondTable::Nearest) return 0;
      entry = entry < 0 ? 0 : entries - 1;
    }
    const Index row = rows_.empty() ? entry : rows_[static_cast<std::size_t>(entry)];
    const Index of = shape_.per_head ? h : 0;
    const Index kv = h / (call_.c.shape.heads / call_.c.shape.kv_heads);
    double sum = 0;
    if (shape_.of_query) {
      sum +=
          dot(shape_.own_queries > 0 ? queries_.view().row(b, i, h) : call_.c.q.view().row(b, i, h),
              table_.view().row(0, row, of), table_.view().dim);
    }
    if (shape_.of_key) {
      sum +=
          dot(call_.c.k.view().row(b, j, kv), key_table_.view().row(0, row, of), call_.c.shape.dim);
    }
    return shape_.scale == posenc::RelativeScale::Scaled ? *call_.options.scale * sum : sum;
  }

  RuleOf rules() {
    return [this](Index b, Index h) {
      auto rule = call_.rule(b, h);
      rule.bias = [this, b, h](Index i, Index j) { return added(b, h, i, j); };
      return rule;
    };
  }

 private:
  static double dot(const T* x, const T* y, Index dim) {
    double sum = 0;
    for (Index d = 0; d < dim; ++d) sum += support::to_double(x[d]) * support::to_double(y[d]);
    return sum;
  }

  RandomCall<T>& call_;
  RelativeShape shape_;
  support::Heads<T> table_, key_table_, queries_;
  std::vector<Index> rows_;
};

inline RelativeShape random_table(support::Random& random, Index keys) {
  const auto one_in = [&](Index n) { return random.integer(1, n) == 1; };
  RelativeShape s;
  s.rows = random.integer(1, one_in(2) ? 9 : 2 * keys + 40);
  s.order = one_in(2) ? posenc::RelativeOrder::KeyMinusQuery : posenc::RelativeOrder::QueryMinusKey;
  s.first = random.integer(-s.rows - 3, 3);
  s.per_head = one_in(2);
  s.of_key = one_in(3);
  s.of_query = !s.of_key || one_in(2);
  s.own_queries = one_in(3) ? random.integer(1, 20) : 0;
  s.mapped = one_in(4);
  s.beyond = one_in(2) ? posenc::BeyondTable::Nearest : posenc::BeyondTable::Nothing;
  s.scale = one_in(2) ? posenc::RelativeScale::Scaled : posenc::RelativeScale::Unscaled;
  return s;
}

inline std::string words_of(const Shape& shape, const RelativeShape& table) {
  std::ostringstream text;
  text << shape.heads << " heads over " << shape.kv_heads << ", " << shape.queries << " queries, "
       << shape.keys << " keys, dims " << shape.dim << " and " << shape.value_dim << "; a table of "
       << table.rows << " rows from " << table.first << (table.per_head ? " per head" : "")
       << (table.of_query ? " of queries" : "") << (table.of_key ? " of keys" : "")
       << (table.mapped ? ", mapped" : "")
       << (table.beyond == posenc::BeyondTable::Nearest ? ", nearest" : "");
  return text.str();
}

/// Adds the roundings of a relative bias: each part of it is scaled, rounded and added.
inline Roundings roundings_with_bias(Roundings roundings) {
  roundings.bias = true;
  roundings.dot = 3;
  return roundings;
}

}  // namespace attention_test
