// SPDX-License-Identifier: MIT
// Encodings and biases of empty tensors return at once, however long the other axes are. ctest's
// time limit checks this.
#include "hostile/empty_extents.hpp"
#include "support/catch.hpp"
#include <posenc/additive/binary.hpp>
#include <posenc/additive/grid_resize.hpp>
#include <posenc/additive/integer.hpp>
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/additive/sinusoidal_2d.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/permute.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotation_table.hpp>
#include <posenc/rotary/xpos.hpp>

#include <array>
#include <vector>

namespace empty_encodings_test {

using empty_extents::for_all_empty;
using empty_extents::for_empty;
using empty_extents::make;
using posenc::EmbeddingsView;
using posenc::HeadsView;
using posenc::Index;
using posenc::Interleaved;
using posenc::MatrixView;
using posenc::Positions;
using Table = posenc::RotationTable<Interleaved, float>;

namespace {

const posenc::Unscaled plain{.rotary_dim = 8, .base = 10000};

/// Calls visit() with positions [1, seq], and with positions [batch, seq] if those are empty.
template <class Visit>
void for_positions(Index batch, Index seq, const Visit& visit) {
  make([&] { visit(Positions::range(0, seq)); });
  if (batch == 0 || seq == 0) make([&] { visit(Positions::ids(batch, std::vector<Index>{})); });
}

/// Calls visit(x, positions) for tensors without elements.
template <class Visit>
void for_heads(const Visit& visit) {
  float number = 0;
  const auto visit_all = [&](const std::array<Index, 4>& n) {
    INFO(n[0] << ", " << n[1] << ", " << n[2] << ", " << n[3]);
    for (float* const data : {&number, static_cast<float*>(nullptr)}) {
      const HeadsView<float> x{
          .data = data, .batch = n[0], .seq = n[1], .heads = n[2], .dim = n[3]};
      for_positions(n[0], n[1], [&](const Positions& p) { visit(x, p); });
    }
  };
  for_all_empty<4>({1, 3, 2, 8}, visit_all);
  for_empty<4>({1, 1, 2, 8}, visit_all);  // one token
}
template <class Visit>
void for_embeddings(const Visit& visit) {
  float number = 0;
  for_all_empty<3>({1, 3, 8}, [&](const std::array<Index, 3>& n) {
    INFO(n[0] << ", " << n[1] << ", " << n[2]);
    const EmbeddingsView<float> x{&number, n[0], n[1], n[2]};
    for_positions(n[0], n[1], [&](const Positions& p) { visit(x, p); });
  });
}

/// Makes all calls of a rope.
template <class Rope>
void rotate(const Rope& rope, HeadsView<float> x, const Positions& p) {
  float other = 0;
  HeadsView<float> out = x;
  out.data = &other;
  make([&] { rope.rotate(x, p); });
  make([&] { rope.rotate_all({x, x}, p); });
  make([&] { rope.template rotate_into<float>(x, out, p); });
  make([&] { rope.adjoint(x, p); });
  make([&] { rope.inverse(x, p); });
}

}  // namespace

TEST_CASE("rotate of empty tensors: returns at once", "[hostile]") {
  const posenc::Rope<Interleaved> rope(plain);
  const posenc::Rope<Interleaved> last(posenc::Unscaled{.rotary_dim = 4, .base = 10000}, 4);
  const auto table = last.table<float>(Positions::range(0, 1));
  const posenc::Rope<Interleaved> nothing{posenc::Frequencies::from_inv_freq({})};
  const posenc::AnyRope any(posenc::PairingKind::HalfRotate, frequencies(plain));
  for_heads([&](const HeadsView<float>& x, const Positions& p) {
    rotate(rope, x, p);
    rotate(last, x, p);
    rotate(nothing, x, p);
    rotate(any, x, p);
    make([&] { table.rotate(x); });
  });
}

TEST_CASE("MixedRope of empty tensors: returns at once", "[hostile]") {
  const posenc::MixedRope<Interleaved> rope(std::vector<double>(8, 1.0),
                                            {.axes = 1, .heads = 2, .rotary_dim = 8});
  for_heads([&](const HeadsView<float>& x, const Positions& p) { rotate(rope, x, p); });
}

TEST_CASE("XPos of empty tensors: returns at once", "[hostile]") {
  const posenc::XPos<Interleaved> rope(plain, {.scale_base = 1e20});
  for_heads([&](const HeadsView<float>& x, const Positions& p) {
    make([&] { rope.rotate_queries(x, p); });
    make([&] { rope.rotate_keys(x, p); });
    make([&] { rope.adjoint_keys(x, p); });
    make([&] { rope.rotate(x, p); });
  });
}

TEST_CASE("shift_keys of empty tensors: returns at once", "[hostile]") {
  const posenc::Rope<Interleaved> rope(plain);
  for_heads([&](const HeadsView<float>& x, const Positions& p) {
    make([&] { posenc::shift_keys(x, rope, p); });
    make([&] { posenc::shift_keys(x, rope, {Index{-1}}); });
    make([&] { posenc::rerotate(x, rope, p, rope, p); });
  });
}

TEST_CASE("frequency_gradient of empty tensors: nothing is added, at once", "[hostile]") {
  const posenc::Rope<Interleaved> rope(plain);
  const posenc::ChatGlmRope glm(8, 10000);
  const posenc::MixedRope<Interleaved> mixed(std::vector<double>(8, 1.0),
                                             {.axes = 1, .heads = 2, .rotary_dim = 8});
  for_heads([&](const HeadsView<float>& x, const Positions& p) {
    const auto check = [&](const auto& of) {
      std::vector<double> gradient = of.zero_frequency_gradient();
      make([&] { posenc::accumulate_frequency_gradient(of, x, x, p, gradient); });
      CHECK(gradient == of.zero_frequency_gradient());
    };
    check(rope);
    check(mixed);
    if (p.count() > 64) return;  // positions that must be stored
    make([&] {
      std::vector<double> gradient = glm.zero_frequency_gradient();
      posenc::accumulate_frequency_gradient(glm, x, x, Positions::axes({p, p}), gradient);
    });
  });
  // Without pairs there is nothing to compute for tensors that repeat one row.
  const posenc::Rope<Interleaved> nothing{posenc::Frequencies::from_inv_freq({})};
  const std::array<float, 2> numbers{};
  const HeadsView<const float> row{numbers.data(), 1, Index{1} << 50, 1, 1, 0, 0, 0};
  std::vector<double> none;
  posenc::accumulate_frequency_gradient(nothing, row, row, Positions::range(0, Index{1} << 50),
                                        none);
}

TEST_CASE("RotationTable of no positions: made at once", "[hostile]") {
  const posenc::Rope<Interleaved> rope(plain);
  const posenc::Rope<Interleaved> nothing{posenc::Frequencies::from_inv_freq({})};
  float number = 0;
  for_all_empty<3>({1, 3, 4}, [&](const std::array<Index, 3>& n) {
    INFO(n[0] << ", " << n[1] << ", " << n[2]);
    const EmbeddingsView<const float> angles{&number, n[0], n[1], n[2]};
    make([&] {
      const Table table = Table::from_cos_sin(angles, angles);
      CHECK(table.cos().empty());
      table.rotate(HeadsView<float>{&number, n[0], n[1], 0, 8});
    });
    const MatrixView<const float> cache{&number, n[1], n[2]};
    for_positions(n[0], n[1], [&](const Positions& p) {
      make([&] { (void)nothing.table<float>(p); });
      make([&] {
        const EmbeddingsView<float> out{&number, p.batch(), p.count(), 0};
        nothing.table_into(p, out, out);
      });
      if (n[0] == 0 || n[1] == 0) {
        // A table with a row per batch row has as many rows as there are positions.
        if (p.count() <= 64 || p.batch() != 1) make([&] { (void)rope.table<float>(p); });
      }
      if (cache.empty()) make([&] { (void)Table::from_cache(cache, cache, p); });
    });
  });
}

TEST_CASE("table_into of no pairs: written at once at any number of positions", "[hostile]") {
  const posenc::Rope<Interleaved> nothing{posenc::Frequencies::from_inv_freq({})};
  constexpr Index most = Index{1} << 53;
  const EmbeddingsView<float> one{.batch = 1, .seq = most, .dim = 0};
  nothing.table_into<float>(Positions::range(0, most), one, one);
  const EmbeddingsView<float> many{.batch = 4096, .seq = most, .dim = 0};
  nothing.table_into<float>(Positions::starts(std::vector<Index>(4096, -most), most), many, many);
}

TEST_CASE("permute_pairs of empty weights: returns at once", "[hostile]") {
  float number = 0, other = 0;
  for_all_empty<2>({8, 8}, [&](const std::array<Index, 2>& n) {
    for (const Index dim : {Index{0}, Index{8}, Index{1} << 40, Index{1} << 62}) {
      const posenc::HeadLayout heads{.head_dim = dim, .rotary_dim = dim};
      const MatrixView<float> x{&number, n[0], n[1]}, out{&other, n[0], n[1]};
      make([&] { posenc::permute_pairs<Interleaved, posenc::HalfRotate>(x, heads); });
      make([&] { posenc::permute_pairs<Interleaved, posenc::HalfRotate>(x, out, heads); });
    }
  });
}

TEST_CASE("Sinusoidal of empty tensors: added at once", "[hostile]") {
  const posenc::Sinusoidal halves(
      {.model_dim = 8, .layout = posenc::SinusoidalLayout::Concatenated});
  const posenc::Sinusoidal pairs({.model_dim = 8, .layout = posenc::SinusoidalLayout::Interleaved});
  const posenc::Sinusoidal2d grid({.model_dim = 8,
                                   .axis_order = posenc::GridAxisOrder::RowFirst,
                                   .layout = posenc::SinusoidalLayout::Concatenated});
  const posenc::IntegerEncoding integer;
  for_embeddings([&](const EmbeddingsView<float>& x, const Positions& p) {
    make([&] { halves.add_to(x, p); });
    make([&] { pairs.write_to(x, p); });
    make([&] {
      const double gradient = halves.scale_gradient(x, p);
      CHECK(gradient == 0);
    });
    make([&] { integer.add_to(x, p); });
    if (p.count() == 0) make([&] { grid.add_to(x, Positions::axes({p, p})); });
  });
}

TEST_CASE("BinaryEncoding of empty tensors: added at once", "[hostile]") {
  const posenc::BinaryEncoding reject({.model_dim = 8});
  const posenc::BinaryEncoding wrap({.model_dim = 8, .overflow = posenc::BinaryOverflow::Wrap});
  for_embeddings([&](const EmbeddingsView<float>& x, const Positions& p) {
    make([&] { reject.add_to(x, p); });
    make([&] { wrap.add_to(x, p); });
  });
}

TEST_CASE("Learned of empty tensors: added at once", "[hostile]") {
  float number = 0;
  std::vector<float> rows(80);
  const MatrixView<float> table{rows.data(), 10, 8};
  const posenc::Learned<float> learned(table);
  for_embeddings([&](const EmbeddingsView<float>& x, const Positions& p) {
    make([&] { learned.add_to(x, p); });
    make([&] { learned.add_gradient<float>(x, p, table); });
    for (const Index count : {Index{0}, Index{10}, Index{1} << 62}) {
      const MatrixView<float> narrow{&number, count, 0};
      const posenc::Learned<float> nothing(narrow);
      make([&] { nothing.add_to(x, p); });
      make([&] { nothing.add_gradient<float>(x, p, narrow); });
    }
  });
  CHECK(rows == std::vector<float>(80));
}

TEST_CASE("resize_grid of empty tables: returns at once", "[hostile]") {
  float number = 0, other = 0;
  for (const Index side : {Index{0}, Index{1}, Index{3}, Index{1} << 31, Index{1} << 40}) {
    for (const Index others : {Index{0}, Index{2}, Index{1} << 40, Index{1} << 62}) {
      for (const Index width : {Index{0}, Index{1} << 31, Index{1} << 62}) {
        posenc::GridResizeConfig config{.source = {1, side},
                                        .target = {side, 1},
                                        .filter = posenc::ResizeFilter::Bilinear,
                                        .prefix_tokens = others};
        for (const bool antialias : {false, true}) {
          config.antialias = antialias;
          const Index count = side + others;
          const MatrixView<float> in{&number, count, width}, out{&other, count, width};
          make([&] { posenc::resize_grid<float>(in, out, config); });
          make([&] { posenc::resize_grid_adjoint<float>(out, in, config); });
        }
      }
    }
  }
}

}  // namespace empty_encodings_test
