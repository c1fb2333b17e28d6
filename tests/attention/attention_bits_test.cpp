// SPDX-License-Identifier: MIT
// Tests that a query's bits do not depend on the division of queries, keys and batch rows:
// decoding, chunked prefill and prefill agree, with every kind of positions.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/concepts.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <string>
#include <vector>

namespace attention_bits_test {

using attention_test::Case;
using attention_test::Mask;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::Index;
using posenc::Positions;
using posenc::slice_seq;
using support::Heads;

namespace {

constexpr Index batch = 2, heads = 4, kv_heads = 2, length = 11, dim = 16;

/// Computes self attention over `length` tokens, `chunk` at a time, with a cache of earlier tokens.
template <class T, class Rotary, class Bias>
Heads<T> in_chunks(Case<T> c, Index chunk, bool by_position, const Rotary& rotary, const Bias& bias,
                   const posenc::Dropout& dropout) {
  for (Index done = 0; done < length; done += chunk) {
    const Index count = std::min(chunk, length - done), seen = done + count;
    const auto now = Positions::range(done, count);
    const auto q = slice_seq(c.q.view(), done, count);
    rotary.rotate_queries(q, now);
    rotary.rotate_keys(slice_seq(c.k.view(), done, count), now);
    AttentionOptions<T> options{.causal = Causal::BottomRight, .dropout = dropout};
    // With Causal::ByPosition, positions cover the complete cache, unfilled keys included.
    const Index keys = by_position ? length : seen;
    if (by_position) {
      options.causal = Causal::ByPosition;
      options.query_positions = now;
      options.key_positions = Positions::range(0, length);
    }
    posenc::attention(q, slice_seq(c.k.view(), 0, keys), slice_seq(c.v.view(), 0, keys),
                      slice_seq(c.out.view(), done, count), options, bias);
  }
  return c.out;
}

template <class T, class Rotary, class Bias>
void check_all_cuts(const std::string& name, const Rotary& rotary, const Bias& bias) {
  const Case<T> c({batch, heads, kv_heads, length, length, dim, dim}, 1);
  for (const double probability : {0.0, 0.4}) {
    const posenc::Dropout dropout{probability, 7};
    auto full = in_chunks(c, length, false, rotary, bias, dropout);
    for (const Index chunk : {1, 2, 5, 8}) {
      for (const bool by_position : {false, true}) {
        INFO(name << ", chunks of " << chunk << (by_position ? ", by position" : "") << ", dropout "
                  << probability);
        auto cut = in_chunks(c, chunk, by_position, rotary, bias, dropout);
        CHECK(support::same_bits(cut.view(), full.view()));
      }
    }
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention: decoding, chunked prefill and prefill give the same bits",
                        "[attention][bits]", attention_test::Scalars) {
  using T = TestType;
  const posenc::Rope<posenc::HalfRotate> half(posenc::Unscaled{.rotary_dim = dim, .base = 1e4});
  const posenc::Rope<posenc::Interleaved> interleaved(
      posenc::Unscaled{.rotary_dim = dim / 2, .base = 1e4});
  const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Causal});
  check_all_cuts<T>("no positions", posenc::NoRotation{}, posenc::NoBias{});
  check_all_cuts<T>("rope, half", half, posenc::NoBias{});
  check_all_cuts<T>("rope, interleaved", interleaved, posenc::NoBias{});
  check_all_cuts<T>("alibi", posenc::NoRotation{}, alibi);
  check_all_cuts<T>("rope and alibi", half, alibi);
}

TEMPLATE_LIST_TEST_CASE(
    "attention: decoding with rope and ALiBi has the same bits at any distance from 0",
    "[attention][bits]", attention_test::Scalars) {
  using T = TestType;
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 1e4});
  const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Causal});
  Case<T> c({batch, heads, kv_heads, length, length, dim, dim}, 2);
  const auto starts = [](Index from, Index count) {
    return Positions::starts({1'000'000 + from, from - 300}, count);
  };
  rope.rotate(c.q.view(), starts(0, length));
  rope.rotate(c.k.view(), starts(0, length));
  c.run({.causal = Causal::BottomRight,
         .query_positions = starts(0, length),
         .key_positions = starts(0, length)},
        alibi);
  Heads<T> decoded(batch, length, heads, dim);
  for (Index s = 0; s < length; ++s) {
    posenc::attention(slice_seq(c.q.view(), s, 1), c.k.view(), c.v.view(),
                      slice_seq(decoded.view(), s, 1),
                      {.causal = Causal::ByPosition,
                       .query_positions = starts(s, 1),
                       .key_positions = starts(0, length)},
                      alibi);
  }
  CHECK(support::same_bits(decoded.view(), c.out.view()));
}

TEMPLATE_LIST_TEST_CASE("attention: a batch row's bits do not depend on its neighbours",
                        "[attention][bits]", attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  Case<T> c({3, 4, 2, 5, 7}, 3);
  Mask<bool> keep(3, 4, 5, 7);
  Mask<Real> additive(3, 1, 1, 7);
  support::Random random(4);
  keep.fill([&] { return random.integer(0, 3) != 0; });
  additive.fill([&] { return static_cast<Real>(random.normal()); });
  const std::vector<Index> lengths{7, 4, 6};
  c.run({.causal = Causal::BottomRight,
         .keep = keep.view(),
         .additive = additive.view(),
         .key_lengths = lengths});
  for (Index b = 0; b < 3; ++b) {
    auto one_keep = keep.view();
    one_keep.data += b * one_keep.batch_stride;
    one_keep.batch = 1;
    auto one_additive = additive.view();
    one_additive.data += b * one_additive.batch_stride;
    one_additive.batch = 1;
    Heads<T> alone(1, 5, 4, 8);
    const auto row = [b](Heads<T>& x) { return support::batch_row(x.view(), b); };
    posenc::attention(row(c.q), row(c.k), row(c.v), alone.view(),
                      {.causal = Causal::BottomRight,
                       .keep = one_keep,
                       .additive = one_additive,
                       .key_lengths = std::span(lengths).subspan(static_cast<std::size_t>(b), 1)});
    CHECK(support::same_bits(alone.view(), row(c.out)));
  }
}

TEMPLATE_LIST_TEST_CASE("attention: a head's bits do not depend on the other heads",
                        "[attention][bits]", attention_test::Scalars) {
  using T = TestType;
  Case<T> c({2, 6, 3, 4, 5}, 5);
  c.run();
  for (Index h = 0; h < 6; ++h) {
    Heads<T> alone(2, 4, 1, 8);
    posenc::attention(
        posenc::slice_heads(c.q.view(), h, 1), posenc::slice_heads(c.k.view(), h / 2, 1),
        posenc::slice_heads(c.v.view(), h / 2, 1), alone.view(), {.causal = Causal::No});
    CHECK(support::same_bits(alone.view(), posenc::slice_heads(c.out.view(), h, 1)));
  }
}

TEMPLATE_LIST_TEST_CASE("attention: keys that no query sees change no bit", "[attention][bits]",
                        attention_test::Scalars) {
  using T = TestType;
  Case<T> c({2, 2, 1, 3, 9}, 6);
  const std::vector<Index> lengths{4, 4};
  c.run({.causal = Causal::No, .key_lengths = lengths});
  Heads<T> fewer(2, 3, 2, 8);
  posenc::attention(c.q.view(), slice_seq(c.k.view(), 0, 4), slice_seq(c.v.view(), 0, 4),
                    fewer.view(), {.causal = Causal::No});
  CHECK(support::same_bits(fewer.view(), c.out.view()));
}

}  // namespace attention_bits_test
