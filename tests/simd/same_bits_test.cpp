// SPDX-License-Identifier: MIT
// Results are bit-identical for all slicings, layouts and numbers of threads.
#define EIGEN_USE_THREADS
#include "support/catch.hpp"
#include "support/cutter.hpp"
#include "support/heads.hpp"
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <algorithm>
#include <tuple>
#include <vector>

namespace same_bits_test {

using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;
using support::Heads;

namespace {

// An element type that packs load directly, and one that they convert.
using Scalars = std::tuple<float, Eigen::bfloat16>;

constexpr Index batch = 3, seq = 37, heads = 3, rotary_offset = 1;

/// Calls test(device) with one, two and three threads, and with devices that cut work into several
/// sizes.
template <class Test>
void for_each_device(const Test& test) {
  test(Eigen::DefaultDevice());
  for (const int threads : {1, 2, 3}) {
    Eigen::ThreadPool pool(threads);
    test(Eigen::ThreadPoolDevice(&pool, threads));
  }
  for (const Index part : {1, 5, 16, 1000}) test(support::Cutter{part});
}

template <class Pairing>
posenc::Rope<Pairing> make_rope(Index rotary_dim) {
  return posenc::Rope<Pairing>(posenc::Unscaled{.rotary_dim = rotary_dim, .base = 500000},
                               rotary_offset);
}

std::vector<Positions> positions() {
  std::vector<double> real;
  for (Index s = 0; s < seq; ++s) real.push_back(0.25 * static_cast<double>(s) - 3);
  return {Positions::range(1'000'000, seq), Positions::starts({7, -7, 131072}, seq),
          Positions::real(real)};
}

/// Returns the position of one token.
Positions one(const Positions& all, Index b, Index s) {
  return Positions::real({all.at(all.batch() == 1 ? 0 : b, s)});
}

template <class T>
HeadsView<T> token(HeadsView<T> x, Index b, Index s) {
  x.data = x.row(b, s, 0);
  x.batch = x.seq = 1;
  return x;
}

template <class T>
posenc::EmbeddingsView<T> as_embeddings(HeadsView<T> x) {
  return {x.data, x.batch, x.seq, x.dim, x.batch_stride, x.seq_stride};
}

/// Calls test(rope) for both pairings, for a width with a kernel of its own and one processed in
/// chunks.
template <class Test>
void for_each_rope(const Test& test) {
  for (const Index rotary_dim : {64, 300}) {
    test(make_rope<posenc::Interleaved>(rotary_dim));
    test(make_rope<posenc::HalfRotate>(rotary_dim));
  }
}

template <class T>
Heads<T> random_heads(Index dim, support::Layout layout = {}) {
  support::Random random(7);
  return Heads<T>::random(random, batch, seq, heads, dim, layout);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("rotate: bits depend on the token and its position alone",
                        "[simd][same_bits]", Scalars) {
  using T = TestType;
  for_each_rope([](const auto& rope) {
    const Index dim = rope.rotary_dim() + 3;
    for (const Positions& at : positions()) {
      const auto x = random_heads<T>(dim);
      auto together = x;
      rope.rotate(together.view(), at);

      auto alone = x;
      for (Index b = 0; b < batch; ++b) {
        for (Index s = 0; s < seq; ++s) rope.rotate(token(alone.view(), b, s), one(at, b, s));
      }
      CHECK(support::same_bits(alone.view(), together.view()));

      const auto table = rope.template table<posenc::Compute<T>>(at);
      for (const support::Layout& layout : support::layouts()) {
        INFO(layout.name);
        auto one_shot = random_heads<T>(dim, layout), by_table = one_shot;
        rope.rotate(one_shot.view(), at);
        table.rotate(by_table.view());
        CHECK(support::same_bits(one_shot.view(), together.view()));
        CHECK(support::same_bits(by_table.view(), together.view()));
      }
    }
  });
}

TEMPLATE_LIST_TEST_CASE("rotate: bits do not depend on threads", "[simd][same_bits]", Scalars) {
  using T = TestType;
  for_each_rope([](const auto& rope) {
    const Index dim = rope.rotary_dim() + 3;
    for (const Positions& at : positions()) {
      const auto x = random_heads<T>(dim);
      const auto table = rope.template table<posenc::Compute<T>>(at);
      auto forward = x, adjoint = x, inverse = x;
      rope.rotate(forward.view(), at);
      rope.adjoint(adjoint.view(), at);
      rope.inverse(inverse.view(), at);
      for_each_device([&](const auto& device) {
        const auto gives = [&](auto& expected, const auto& call) {
          auto y = x;
          call(y.view());
          return support::same_bits(y.view(), expected.view());
        };
        CHECK(gives(forward, [&](auto y) { rope.rotate(y, at, device); }));
        CHECK(gives(forward, [&](auto y) { table.rotate(y, device); }));
        CHECK(gives(forward, [&](auto y) { rope.rotate_into(y, y, at, device); }));
        CHECK(gives(adjoint, [&](auto y) { rope.adjoint(y, at, device); }));
        CHECK(gives(adjoint, [&](auto y) { table.adjoint(y, device); }));
        CHECK(gives(inverse, [&](auto y) { rope.inverse(y, at, device); }));
        CHECK(gives(inverse, [&](auto y) { table.inverse(y, device); }));
        auto from = x;
        Heads<T> into(batch, seq, heads, dim, support::layouts().back());
        rope.rotate_into(from.view(), into.view(), at, device);
        CHECK(support::same_bits(into.view(), forward.view()));
        CHECK(into.surroundings_kept());
      });
    }
  });
}

TEMPLATE_LIST_TEST_CASE("rotate_all: rotates each tensor as by itself", "[simd][same_bits]",
                        Scalars) {
  using T = TestType;
  for_each_rope([](const auto& rope) {
    const Index dim = rope.rotary_dim() + 3;
    support::Random random(8);
    for (const Positions& at : positions()) {
      const auto q = Heads<T>::random(random, batch, seq, 6, dim);
      const auto k = Heads<T>::random(random, batch, seq, 2, dim, support::layouts().back());
      auto q_alone = q, k_alone = k;
      rope.rotate(q_alone.view(), at);
      rope.rotate(k_alone.view(), at);
      const auto table = rope.template table<posenc::Compute<T>>(at);
      const auto check = [&](const auto& call) {
        auto q_both = q, k_both = k;
        call(q_both.view(), k_both.view());
        CHECK(support::same_bits(q_both.view(), q_alone.view()));
        CHECK(support::same_bits(k_both.view(), k_alone.view()));
        CHECK(k_both.surroundings_kept());
      };
      check([&](auto a, auto b) { rope.rotate_all({a, b}, at); });
      check([&](auto a, auto b) { table.rotate_all({a, b}); });
      for_each_device([&](const auto& device) {
        check([&](auto a, auto b) { rope.rotate_all({a, b}, at, device); });
        check([&](auto a, auto b) { table.rotate_all({a, b}, device); });
      });
    }
  });
}

TEMPLATE_LIST_TEST_CASE("rotate: large tensors are spread over threads without a trace",
                        "[simd][same_bits]", Scalars) {
  using T = TestType;
  support::Random random(9);
  const auto x = Heads<T>::random(random, 2, 200, 8, 128);
  const auto rope = make_rope<posenc::HalfRotate>(126);
  for (const Positions& at : {Positions::range(5, 200), Positions::starts({5, 900}, 200)}) {
    auto expected = x;
    rope.rotate(expected.view(), at);
    for_each_device([&](const auto& device) {
      auto y = x;
      rope.rotate(y.view(), at, device);
      CHECK(support::same_bits(y.view(), expected.view()));
    });
  }
}

TEMPLATE_LIST_TEST_CASE("add_to: bits depend on the token and its position alone",
                        "[simd][same_bits]", Scalars) {
  using T = TestType;
  constexpr Index dim = 83;
  support::Random random(10);
  const auto x = Heads<T>::random(random, batch, seq, 1, dim);
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = dim, .layout = posenc::SinusoidalLayout::Interleaved});
  auto weights = Heads<T>::random(random, 1, 64, 1, dim);
  const posenc::Learned<T> learned({weights.view().data, 64, dim, dim});
  const auto check = [&](const auto& encoding, const Positions& at) {
    auto together = x, alone = x;
    encoding.add_to(as_embeddings(together.view()), at);
    for (Index b = 0; b < batch; ++b) {
      for (Index s = 0; s < seq; ++s) {
        encoding.add_to(as_embeddings(token(alone.view(), b, s)), one(at, b, s));
      }
    }
    CHECK(support::same_bits(alone.view(), together.view()));
    for_each_device([&](const auto& device) {
      auto y = x;
      encoding.add_to(as_embeddings(y.view()), at, device);
      CHECK(support::same_bits(y.view(), together.view()));
    });
  };
  for (const Positions& at : positions()) check(sinusoidal, at);
  check(learned, Positions::range(20, seq));
  check(learned, Positions::starts({0, 5, 27}, seq));
}

}  // namespace same_bits_test
