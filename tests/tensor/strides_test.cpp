// SPDX-License-Identifier: MIT
// Omitted strides mean dense, and no two elements of an output may share memory.
#include "support/catch.hpp"
#include <posenc/additive/binary.hpp>
#include <posenc/additive/grid_resize.hpp>
#include <posenc/additive/integer.hpp>
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/additive/sinusoidal_2d.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/permute.hpp>
#include <posenc/rotary/xpos.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace strides_test {

using posenc::EmbeddingsView;
using posenc::HeadsView;
using posenc::Index;
using posenc::LseView;
using posenc::MatrixView;
using posenc::Positions;
using posenc::ScoresView;
using posenc::ShapeError;

namespace {

constexpr Index max_index = std::numeric_limits<Index>::max();

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

/// Calls write(), which must reject the view named `name` for its stride and leave memory
/// unchanged.
template <class Write>
void check_rejected(const std::vector<float>& memory, const std::string& name,
                    const std::string& stride, const Write& write) {
  const std::vector<float> before = memory;
  INFO(name << ", " << stride);
  try {
    write();
    FAIL("nothing was thrown");
  } catch (const ShapeError& error) {
    const std::string message = error.what();
    INFO(message);
    CHECK(message.find(name + " is an output") != std::string::npos);
    CHECK(message.find("its " + stride + " is") != std::string::npos);
    CHECK(message.find(name + " is [") != std::string::npos);
  }
  CHECK(memory == before);
}

}  // namespace

TEST_CASE("strides: omitted ones are those of a dense tensor", "[strides]") {
  auto memory = counted(120);
  const HeadsView<float> heads{.data = memory.data(), .batch = 2, .seq = 3, .heads = 4, .dim = 5};
  CHECK(*heads.row(1, 2, 3) == 60 + 40 + 15);
  const HeadsView<const float> by_place{memory.data(), 2, 3, 4, 5};
  CHECK(*by_place.row(1, 2, 3) == 115);
  const EmbeddingsView<float> tokens{.data = memory.data(), .batch = 4, .seq = 5, .dim = 6};
  CHECK(*tokens.row(3, 4) == 90 + 24);
  const MatrixView<float> table{.data = memory.data(), .rows = 12, .cols = 10};
  CHECK(*table.row(11) == 110);
  const ScoresView<float> scores{
      .data = memory.data(), .batch = 2, .heads = 3, .queries = 4, .keys = 5};
  CHECK(scores(1, 2, 3, 4) == 119);
  const LseView<float> lse{.data = memory.data(), .batch = 2, .heads = 3, .queries = 4};
  CHECK(lse(1, 2, 3) == 23);
  CHECK(posenc::split_heads(tokens, 2).row(3, 4, 1) == tokens.row(3, 4) + 3);
}

TEST_CASE("strides: given ones are kept, and the others stay dense", "[strides]") {
  const HeadsView<float> x{
      .batch = 2, .seq = 3, .heads = 4, .dim = 5, .batch_stride = 1000, .head_stride = 8};
  CHECK(x.batch_stride == 1000);
  CHECK(x.seq_stride == 20);
  CHECK(x.head_stride == 8);
  const HeadsView<float> by_place{nullptr, 2, 3, 4, 5, 77};
  CHECK(by_place.batch_stride == 77);
  CHECK(by_place.seq_stride == 20);
  CHECK(by_place.head_stride == 5);
  const ScoresView<float> mask{.batch = 2, .heads = 1, .queries = 1, .keys = 7};
  CHECK(mask.batch_stride == 7);
  constexpr EmbeddingsView<float> constant{.batch = 2, .seq = 3, .dim = 4};
  STATIC_REQUIRE(constant.batch_stride == 12);
}

TEST_CASE("strides: no extents are too large for strides to be omitted", "[strides]") {
  for (const Index extent : {max_index, Index{1} << 40, Index{-1}, -max_index}) {
    const HeadsView<float> heads{.batch = 2, .seq = extent, .heads = extent, .dim = extent};
    CHECK(heads.batch_stride == max_index);
    CHECK(heads.head_stride == extent);
    const ScoresView<float> scores{.queries = extent, .keys = extent};
    CHECK(scores.query_stride == extent);
  }
}

TEST_CASE("strides: a dense view rotates all that it names", "[strides]") {
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000});
  std::vector<float> memory(64, 1.0F), expected(64, 1.0F);
  rope.rotate(HeadsView<float>{.data = memory.data(), .batch = 1, .seq = 4, .heads = 2, .dim = 8},
              Positions::range(1, 4));
  rope.rotate(HeadsView<float>{expected.data(), 1, 4, 2, 8, 64, 16, 8}, Positions::range(1, 4));
  CHECK(memory == expected);
  for (const float value : memory) CHECK(value != 1.0F);
}

TEST_CASE("strides: of extents that were assigned later are rejected by name", "[strides]") {
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000});
  auto memory = counted(64);
  HeadsView<float> x;
  x.data = memory.data();
  x.batch = 1;
  x.seq = 4;
  x.heads = 2;
  x.dim = 8;
  CHECK_THROWS_MATCHES(
      rope.rotate(x, Positions::range(0, 4)), ShapeError,
      Catch::Matchers::Message("posenc::Rope::rotate: x.seq_stride must be set, because extents "
                               "were assigned after initialisation"));
  CHECK(memory == counted(64));
}

TEST_CASE("strides: rotary encodings reject rows that share memory", "[strides]") {
  auto memory = counted(64);
  const posenc::Unscaled rule{.rotary_dim = 8, .base = 10000};
  const posenc::Rope<posenc::HalfRotate> rope(rule);
  const posenc::AnyRope any(rope);
  const posenc::XPos<posenc::HalfRotate> xpos(rule, {.scale_base = 512});
  const std::vector<double> w(8, 0.5);
  const posenc::MixedRope<posenc::HalfRotate> mixed(w, {.axes = 1, .heads = 2, .rotary_dim = 8});
  const auto positions = Positions::range(0, 4);
  const auto table = rope.table<float>(positions);
  const HeadsView<float> good{.data = memory.data(), .batch = 1, .seq = 4, .heads = 2, .dim = 8};

  HeadsView<float> no_seq = good, no_heads = good, short_heads = good;
  no_seq.seq_stride = 0;
  no_heads.head_stride = 0;
  short_heads.head_stride = 7;
  for (const auto& [x, stride] :
       {std::pair{no_seq, "seq_stride"}, std::pair{no_heads, "head_stride"},
        std::pair{short_heads, "head_stride"}}) {
    const HeadsView<float> out = x;
    const std::string named = stride;
    const auto check_x_rejected = [&](const auto& write) {
      check_rejected(memory, "x", named, write);
    };
    check_x_rejected([&] { rope.rotate(out, positions); });
    check_x_rejected([&] { rope.rotate_all({good, out}, positions); });
    const auto check_out_rejected = [&](const auto& write) {
      check_rejected(memory, "out", named, write);
    };
    check_out_rejected([&] { rope.rotate_into(good, out, positions); });
    check_x_rejected([&] { rope.adjoint(out, positions); });
    check_x_rejected([&] { rope.inverse(out, positions); });
    check_x_rejected([&] { any.rotate(out, positions); });
    check_x_rejected([&] { xpos.rotate_queries(out, positions); });
    check_out_rejected([&] { xpos.rotate_keys_into(good, out, positions); });
    check_x_rejected([&] { mixed.rotate(out, positions); });
    check_x_rejected([&] { table.rotate(out); });
    check_x_rejected([&] { table.rotate_all({good, out}); });
    check_x_rejected([&] { shift_keys(out, rope, {-1}); });
    check_x_rejected([&] { rerotate(out, rope, positions, rope, positions); });
  }
}

TEST_CASE("strides: additive encodings reject tokens that share memory", "[strides]") {
  auto memory = counted(64);
  const auto positions = Positions::range(0, 4);
  const EmbeddingsView<float> x{
      .data = memory.data(), .batch = 2, .seq = 4, .dim = 8, .batch_stride = 32, .seq_stride = 0};
  EmbeddingsView<float> y = x;
  y.seq_stride = 8;
  y.batch_stride = 31;
  const MatrixView<float> table{.data = memory.data(), .rows = 4, .cols = 8};
  const MatrixView<float> flat{.data = memory.data(), .rows = 4, .cols = 8, .row_stride = 0};
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = 8, .layout = posenc::SinusoidalLayout::Interleaved});
  const posenc::Sinusoidal2d grid({.model_dim = 8,
                                   .axis_order = posenc::GridAxisOrder::RowFirst,
                                   .layout = posenc::SinusoidalLayout::Interleaved});
  const posenc::BinaryEncoding binary({.model_dim = 8});
  const posenc::IntegerEncoding integer;
  const posenc::Learned learned(table);
  for (const auto& [out, stride] : {std::pair{x, "seq_stride"}, std::pair{y, "batch_stride"}}) {
    const EmbeddingsView<float> to = out;
    const std::string named = stride;
    const auto check_x_rejected = [&](const auto& write) {
      check_rejected(memory, "x", named, write);
    };
    check_x_rejected([&] { sinusoidal.add_to(to, positions); });
    check_x_rejected([&] { sinusoidal.write_to(to, positions); });
    check_x_rejected([&] { grid.add_to(to, Positions::grid(2, 2)); });
    check_x_rejected([&] { grid.write_to(to, Positions::grid(2, 2)); });
    check_x_rejected([&] { binary.add_to(to, positions); });
    check_x_rejected([&] { integer.add_to(to, positions); });
    check_x_rejected([&] { learned.add_to(to, positions); });
  }
  check_rejected(memory, "grad_table", "row_stride",
                 [&] { learned.add_gradient(x, positions, flat); });
  // Inputs may repeat elements.
  CHECK(sinusoidal.scale_gradient(x, positions) != 0);

  const posenc::GridResizeConfig config{
      .source = {2, 2}, .target = {2, 2}, .filter = posenc::ResizeFilter::Bilinear};
  auto source = counted(32);
  const MatrixView<float> from{.data = source.data(), .rows = 4, .cols = 8};
  check_rejected(memory, "the table that is written", "row_stride",
                 [&] { posenc::resize_grid(from, flat, config); });
  check_rejected(memory, "the table that is written", "row_stride",
                 [&] { posenc::resize_grid_adjoint(from, flat, config); });
  using posenc::HalfRotate;
  using posenc::Interleaved;
  check_rejected(memory, "weights", "row_stride", [&] {
    posenc::permute_pairs<Interleaved, HalfRotate>(flat, {.head_dim = 4, .rotary_dim = 4});
  });
  check_rejected(memory, "out", "row_stride", [&] {
    posenc::permute_pairs<Interleaved, HalfRotate>(from, flat, {.head_dim = 4, .rotary_dim = 4});
  });
}

TEST_CASE("strides: biases reject tiles and tables whose rows share memory", "[strides]") {
  auto memory = counted(64);
  const std::vector<double> q{0, 1, 2}, k{0, 1, 2, 3};
  const MatrixView<float> tile{.data = memory.data(), .rows = 3, .cols = 4, .row_stride = 0};
  const MatrixView<float> table{.data = memory.data(), .rows = 4, .cols = 2};
  const MatrixView<float> flat{.data = memory.data(), .rows = 4, .cols = 2, .row_stride = 1};
  const posenc::T5Bias t5(
      table, {.buckets = 4, .max_distance = 8, .direction = posenc::T5Direction::Bidirectional});
  const auto check_tile_rejected = [&](const auto& bias) {
    check_rejected(memory, "tile", "row_stride", [&] { bias.add(0, q, k, tile); });
  };
  check_tile_rejected(posenc::Alibi({.heads = 2, .form = posenc::AlibiForm::Causal}));
  check_tile_rejected(
      posenc::Kerple({.form = posenc::KerpleForm::Power, .r1 = {1.0}, .r2 = {1.0}}));
  check_tile_rejected(posenc::Fire(posenc::FireParameters{.c = 1,
                                                          .threshold = 1,
                                                          .hidden_weight = {1.0},
                                                          .hidden_bias = {0.0},
                                                          .output_weight = {1.0},
                                                          .output_bias = {0.0}}));
  check_tile_rejected(t5);
  check_rejected(memory, "grad_table", "row_stride",
                 [&] { t5.add_gradient(0, q, k, MatrixView<const float>(tile), flat); });
}

TEST_CASE("strides: may go backwards, and axes in any order", "[strides]") {
  const auto check = [](const auto& x) { posenc::detail::check_output("f", "x", x); };
  auto memory = counted(120);
  CHECK_NOTHROW(check(HeadsView<float>{memory.data() + 60, 2, 3, 4, 5, -60, 5, 15}));
  CHECK_NOTHROW(check(HeadsView<float>{memory.data(), 2, 3, 4, 5, 5, 10, 30}));
  CHECK_NOTHROW(check(ScoresView<float>{memory.data(), 1, 1, 3, 4, 0, 0, 1, 3}));
  CHECK_NOTHROW(check(LseView<float>{memory.data(), 2, 3, 4, 1, 2, 6}));
  CHECK_NOTHROW(check(MatrixView<float>{memory.data(), 1, 9, 0}));
  // The stride of an axis without elements, or with one, is ignored.
  CHECK_NOTHROW(check(HeadsView<float>{memory.data(), 0, 3, 4, 5, 0, 0, 0}));
  CHECK_THROWS_WITH(check(LseView<float>{memory.data(), 2, 3, 4, 12, 4, 0}),
                    "posenc::f: x is an output, so its elements must not share memory, but its "
                    "query_stride is 0 where at least 1 is needed; x is [2, 3, 4]");
  CHECK_THROWS_AS(check(ScoresView<float>{memory.data(), 1, 1, 3, 4, 0, 0, 4, 0}), ShapeError);
  CHECK_THROWS_AS(check(HeadsView<float>{memory.data(), 2, 3, 4, 5, 60, -19, 5}), ShapeError);
  CHECK_THROWS_WITH(check(HeadsView<float>{memory.data(), 2, 3, 4, 5, max_index, 20, 5}),
                    "posenc::f: x must fit into memory, but its batch_stride is "
                    "9223372036854775807; x is [2, 3, 4, 5]");
  CHECK_THROWS_AS(check(HeadsView<float>{memory.data(), 3, 3, 4, 5, -max_index - 1, 20, 5}),
                  ShapeError);
}

}  // namespace strides_test
