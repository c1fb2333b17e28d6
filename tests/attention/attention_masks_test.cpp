// SPDX-License-Identifier: MIT
// Tests all ways to mask keys: which keys are visible, the result of a row without visible keys,
// and that masked keys do not affect outputs.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/tensor/positions.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace attention_masks_test {

using attention_test::Case;
using attention_test::infinity;
using attention_test::Mask;
using attention_test::plain_rule;
using attention_test::seeing;
using attention_test::Sees;
using attention_test::Shape;
using attention_test::worst_error;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::Index;
using posenc::Positions;

namespace {

/// Bias that masks the keys at odd positions.
struct HideOdd {
  template <class Real>
  void add(Index, std::span<const double>, std::span<const double> keys,
           posenc::MatrixView<Real> tile) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        const bool odd = std::fmod(keys[static_cast<std::size_t>(j)], 2) != 0;
        tile.row(i)[j] += odd ? -std::numeric_limits<Real>::infinity() : Real{0};
      }
    }
  }
};

/// Returns a mask with the axes of `subset` (bits for b, h, i, j) in full, and others broadcast.
template <class Element>
Mask<Element> subset_mask(const Shape& s, int subset) {
  const auto extent = [subset](int bit, Index full) { return (subset & bit) != 0 ? full : 1; };
  return {extent(1, s.batch), extent(2, s.heads), extent(4, s.queries), extent(8, s.keys)};
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("Causal: masks are aligned as named", "[attention][mask]",
                        attention_test::Scalars) {
  for (const Shape& shape : {Shape{2, 2, 1, 5, 5}, Shape{2, 2, 2, 3, 8}, Shape{1, 2, 2, 8, 3},
                             Shape{1, 1, 1, 1, 6}, Shape{1, 1, 1, 6, 1}}) {
    INFO(shape.queries << " queries, " << shape.keys << " keys");
    Case<TestType> c(shape, 1);
    c.run({.causal = Causal::TopLeft});
    CHECK(worst_error(c, seeing(c, [](Index, Index, Index i, Index j) { return j <= i; })) <= 1);
    c.run({.causal = Causal::BottomRight});
    const Index ahead = shape.keys - shape.queries;
    CHECK(worst_error(
              c, seeing(c, [=](Index, Index, Index i, Index j) { return j <= i + ahead; })) <= 1);
  }
}

TEMPLATE_LIST_TEST_CASE("Causal::ByPosition: shows keys that are not after the query",
                        "[attention][mask]", attention_test::Scalars) {
  Case<TestType> c({2, 2, 2, 3, 5}, 2);
  const std::vector<Index> query_ids{4, 0, 7, 100, 101, 102},
      key_ids{3, 4, 5, 0, -1, 100, 101, 102, 103, 101};
  c.run({.causal = Causal::ByPosition,
         .query_positions = Positions::ids(2, query_ids),
         .key_positions = Positions::ids(2, key_ids)});
  CHECK(worst_error(c, seeing(c, [&](Index b, Index, Index i, Index j) {
                      return key_ids[static_cast<std::size_t>(5 * b + j)] <=
                             query_ids[static_cast<std::size_t>(3 * b + i)];
                    })) <= 1);
  c.run({.causal = Causal::ByPosition,
         .query_positions = Positions::real({0.5, 2, 1e9}),
         .key_positions = Positions::range(0, 5)});
  const std::array<double, 3> at{0.5, 2, 1e9};
  CHECK(worst_error(c, seeing(c, [&](Index, Index, Index i, Index j) {
                      return static_cast<double>(j) <= at[static_cast<std::size_t>(i)];
                    })) <= 1);
}

TEMPLATE_LIST_TEST_CASE("masks: broadcast over any of their axes", "[attention][mask]",
                        attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  const Shape shape{2, 4, 2, 3, 5};
  support::Random random(3);
  for (int subset = 0; subset < 16; ++subset) {
    INFO("subset " << subset);
    Case<T> c(shape, 4);
    auto flags = subset_mask<bool>(shape, subset);
    flags.fill([&] { return random.integer(0, 2) != 0; });
    c.run({.causal = Causal::No, .keep = flags.view()});
    const auto flag = [&](Index b, Index h, Index i, Index j) { return flags.at(b, h, i, j); };
    CHECK(worst_error(c, seeing(c, flag)) <= 1);
    c.run({.causal = Causal::No, .masked = flags.view()});
    CHECK(worst_error(c, seeing(c, std::not_fn(flag))) <= 1);

    auto bias = subset_mask<Real>(shape, subset);
    bias.fill([&] {
      return random.integer(0, 3) == 0 ? static_cast<Real>(-infinity)
                                       : static_cast<Real>(random.normal());
    });
    c.run({.causal = Causal::No, .additive = bias.view()});
    CHECK(worst_error(c,
                      [&](Index b, Index h) {
                        auto rule = plain_rule(c)(b, h);
                        rule.bias = [&bias, b, h](Index i, Index j) {
                          return static_cast<double>(bias.at(b, h, i, j));
                        };
                        return rule;
                      },
                      {.additive = true}) <= 1);
  }
}

TEMPLATE_LIST_TEST_CASE("key_lengths and padding masks: hide keys of a batch row",
                        "[attention][mask]", attention_test::Scalars) {
  Case<TestType> c({3, 2, 1, 4, 6}, 5);
  const std::vector<Index> lengths{6, 0, 3};
  const auto sees = [&](Index b, Index, Index, Index j) {
    return j < lengths[static_cast<std::size_t>(b)];
  };
  c.run({.causal = Causal::No, .key_lengths = lengths});
  CHECK(worst_error(c, seeing(c, sees)) <= 1);

  const auto by_lengths = c.out;
  const std::vector<std::int32_t> short_lengths(lengths.begin(), lengths.end());
  c.run({.causal = Causal::No, .key_lengths = short_lengths});
  CHECK(support::same_bits(c.out.view(), support::Heads<TestType>(by_lengths).view()));
  Eigen::Tensor<bool, 2, Eigen::RowMajor> keep(3, 6), masked(3, 6);
  for (Index b = 0; b < 3; ++b) {
    for (Index j = 0; j < 6; ++j) {
      keep(b, j) = sees(b, 0, 0, j);
      masked(b, j) = !keep(b, j);
    }
  }
  c.run({.causal = Causal::No, .keep = posenc::bk(keep)});
  CHECK(support::same_bits(c.out.view(), support::Heads<TestType>(by_lengths).view()));
  c.run({.causal = Causal::No, .masked = posenc::bk(masked)});
  CHECK(support::same_bits(c.out.view(), support::Heads<TestType>(by_lengths).view()));

  // BottomRight aligns the last query with the last valid key of each batch row.
  c.run({.causal = Causal::BottomRight, .key_lengths = lengths});
  CHECK(worst_error(c, seeing(c, [&](Index b, Index, Index i, Index j) {
                      const Index length = lengths[static_cast<std::size_t>(b)];
                      return j < length && j <= i + length - 4;
                    })) <= 1);
}

TEMPLATE_LIST_TEST_CASE("masks: a key is visible where every mask shows it", "[attention][mask]",
                        attention_test::Scalars) {
  using Real = posenc::Compute<TestType>;
  const Shape shape{2, 2, 2, 6, 6};
  Case<TestType> c(shape, 6);
  Mask<bool> keep(1, 1, 6, 6, true), masked(2, 1, 1, 6, false);
  Mask<Real> additive(1, 2, 1, 6, Real{0});
  keep.values(0, 0, 5, 0) = false;
  masked.values(1, 0, 0, 1) = true;
  additive.values(0, 1, 0, 2) = static_cast<Real>(-infinity);
  const std::vector<Index> lengths{6, 5};
  c.run({.causal = Causal::TopLeft,
         .keep = keep.view(),
         .masked = masked.view(),
         .additive = additive.view(),
         .key_lengths = lengths});
  CHECK(worst_error(c,
                    seeing(c,
                           [&](Index b, Index h, Index i, Index j) {
                             return j <= i && !(i == 5 && j == 0) && !(b == 1 && j == 1) &&
                                    !(h == 1 && j == 2) && !(b == 1 && j == 5);
                           }),
                    {.additive = true}) <= 1);
}

TEMPLATE_LIST_TEST_CASE("masks: a query that sees no key gives zeros", "[attention][mask]",
                        attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  Case<T> c({2, 2, 2, 4, 3}, 7);
  c.v.for_each([](T& value) { value = static_cast<T>(std::numeric_limits<float>::quiet_NaN()); });
  Mask<bool> none(1, 1, 1, 1, false), all(1, 1, 1, 1, true);
  Mask<Real> hidden(1, 1, 1, 1, static_cast<Real>(-infinity)), weights(2, 2, 4, 3);
  const std::vector<Index> lengths{0, 0};
  for (const AttentionOptions<T>& options :
       {AttentionOptions<T>{.causal = Causal::No, .keep = none.view()},
        AttentionOptions<T>{.causal = Causal::No, .masked = all.view()},
        AttentionOptions<T>{.causal = Causal::No, .additive = hidden.view()},
        AttentionOptions<T>{.causal = Causal::No, .key_lengths = lengths}}) {
    weights.values.setConstant(Real{7});
    c.run(options, {}, {.weights = weights.view()});
    double largest = 0;
    c.out.for_each(
        [&](T& value) { largest = std::fmax(largest, std::abs(support::to_double(value))); });
    CHECK(largest == 0);
    for (Index n = 0; n < weights.values.size(); ++n) CHECK(weights.values.data()[n] == 0);
  }
}

TEMPLATE_LIST_TEST_CASE("masks: NaN and inf of a hidden key never reach the output",
                        "[attention][mask]", attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  const Shape shape{2, 2, 1, 4, 5};
  Mask<bool> keep(2, 2, 4, 5, true), masked(2, 2, 4, 5);
  Mask<Real> additive(2, 2, 4, 5);
  support::Random random(8);
  keep.fill([&] { return random.integer(0, 1) != 0; });
  for (Index n = 0; n < keep.values.size(); ++n) {
    masked.values.data()[n] = !keep.values.data()[n];
    additive.values.data()[n] = keep.values.data()[n] ? Real{0} : static_cast<Real>(-infinity);
  }
  const auto kept = [&](Index b, Index h, Index i, Index j) { return keep.at(b, h, i, j); };
  const std::vector<Index> lengths{2, 4};
  Mask<Real> weights(2, 2, 4, 5);

  struct Way {
    std::string name;
    AttentionOptions<T> options;
    Sees sees;
  };
  const std::vector<Way> ways{
      {"keep", {.causal = Causal::No, .keep = keep.view()}, kept},
      {"masked", {.causal = Causal::No, .masked = masked.view()}, kept},
      {"additive", {.causal = Causal::No, .additive = additive.view()}, kept},
      {"key_lengths",
       {.causal = Causal::No, .key_lengths = lengths},
       [&](Index b, Index, Index, Index j) { return j < lengths[static_cast<std::size_t>(b)]; }},
      {"TopLeft",
       {.causal = Causal::TopLeft},
       [](Index, Index, Index i, Index j) { return j <= i; }},
      {"BottomRight",
       {.causal = Causal::BottomRight},
       [](Index, Index, Index i, Index j) { return j <= i + 1; }},
      {"ByPosition",
       {.causal = Causal::ByPosition,
        .query_positions = Positions::ids({3, 2, 1, 0}),
        .key_positions = Positions::range(0, 5)},
       [](Index, Index, Index i, Index j) { return j <= 3 - i; }},
  };
  for (const Way& way : ways) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
      for (Index poisoned = 0; poisoned < shape.keys; ++poisoned) {
        Case<T> clean(shape, 9), c(shape, 9);
        clean.run(way.options);
        for (Index b = 0; b < 2; ++b) {
          for (Index d = 0; d < 8; ++d) {
            c.k.view().row(b, poisoned, 0)[d] = static_cast<T>(bad);
            c.v.view().row(b, poisoned, 0)[d] = static_cast<T>(bad);
          }
        }
        c.run(way.options, {}, {.weights = weights.view()});
        bool unchanged = true, clean_weights = true, flows_through = true;
        for (Index b = 0; b < 2; ++b) {
          for (Index h = 0; h < 2; ++h) {
            for (Index i = 0; i < 4; ++i) {
              const T* got = c.out.view().row(b, i, h);
              if (way.sees(b, h, i, poisoned)) {
                if (std::isnan(bad)) flows_through &= std::isnan(support::to_double(got[0]));
              } else {
                unchanged &= support::same_bits(got, clean.out.view().row(b, i, h), 8);
                clean_weights &= weights.at(b, h, i, poisoned) == Real{0};
              }
            }
          }
        }
        INFO(way.name << ", key " << poisoned << " holds " << bad);
        CHECK(unchanged);
        CHECK(clean_weights);
        CHECK(flows_through);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("bias: -inf hides a key", "[attention][mask]", attention_test::Scalars) {
  using T = TestType;
  const Index keys = GENERATE(4, 300);
  Case<T> c({1, 2, 2, 4, keys}, 10);
  for (Index j = 1; j < keys; j += 2) {
    for (Index h : {0, 1}) {
      c.v.view().row(0, j, h)[0] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    }
  }
  c.run({.causal = Causal::BottomRight}, HideOdd{});
  CHECK(worst_error(c, seeing(c, [keys](Index, Index, Index i, Index j) {
                      return j <= i + keys - 4 && j % 2 == 0;
                    })) <= 1);
}

}  // namespace attention_masks_test
