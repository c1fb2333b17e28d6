// SPDX-License-Identifier: MIT
// Rotary and additive encodings, biases and their gradients without memory.
#include "memory/without_memory.hpp"
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
#include <posenc/bias/log_cpb.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/window.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/frequency_gradient.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/permute.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotation_table.hpp>
#include <posenc/rotary/xpos.hpp>

#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace encodings_without_memory_test {

using memory_test::check_calls;
using memory_test::heads_view;
using memory_test::numbers;
using memory_test::tokens_view;
using posenc::HeadsView;
using posenc::Index;
using posenc::MatrixView;
using posenc::Positions;
using posenc::Unscaled;

namespace {

constexpr Index batch = 2, seq = 9, heads = 3, dim = 16;
constexpr Index count = batch * seq * heads * dim;

using Data = std::vector<float>;

HeadsView<float> all(Data& x) { return heads_view(x.data(), batch, seq, heads, dim); }
HeadsView<const float> all(const Data& x) { return heads_view(x.data(), batch, seq, heads, dim); }

/// Returns positions that are a table and own memory.
Positions table_of_positions() {
  std::vector<Index> ids(static_cast<std::size_t>(batch * seq));
  std::iota(ids.begin(), ids.end(), Index{3});
  return Positions::ids(batch, ids);
}

}  // namespace

TEST_CASE("rotate without memory: writes nothing", "[memory][rotary]") {
  const Unscaled rule{.rotary_dim = dim, .base = 10000};
  const posenc::Rope<posenc::HalfRotate> rope(rule);
  const posenc::Rope<posenc::HalfRotate> other(Unscaled{.rotary_dim = dim, .base = 20000});
  const posenc::XPos<posenc::HalfRotate> xpos(rule, {.scale_base = 512});
  const posenc::ChatGlmRope chatglm(dim, 10000);
  const posenc::AnyRope any(rope);
  const auto weights = numbers(2 * heads * dim / 2, 7);
  const std::vector<double> mixed_inv_freq(weights.begin(), weights.end());
  const posenc::MixedRope<posenc::Interleaved> mixed(
      mixed_inv_freq, {.axes = 2, .heads = heads, .rotary_dim = dim});
  const auto x = numbers(count, 1), y = numbers(count, 2);
  const auto at = table_of_positions();
  const auto on_two = Positions::axes(std::vector<Positions>{at, at});

  const auto in_place = [&](const std::string& name, const auto& call) {
    CHECK(check_calls(name, x, [&](Data& data) { call(all(data)); }) >= 0);
  };
  in_place("rotate", [&](auto v) { rope.rotate(v, at); });
  in_place("adjoint", [&](auto v) { rope.adjoint(v, at); });
  in_place("inverse", [&](auto v) { rope.inverse(v, at); });
  in_place("rotate_into", [&](auto v) { rope.rotate_into(all(y), v, at); });
  const std::vector<posenc::Bfloat16> narrow(y.begin(), y.end());
  in_place("rotate_into from bfloat16", [&](auto v) {
    const posenc::HeadsView<const posenc::Bfloat16> in{narrow.data(), v.batch, v.seq, v.heads,
                                                       v.dim};
    rope.rotate_into(in, v, at);
  });
  in_place("rotate_into itself", [&](auto v) { rope.rotate_into(v, v, at); });
  in_place("rotate_all", [&](auto v) {
    rope.rotate_all({posenc::slice_heads(v, 0, 1), posenc::slice_heads(v, 1, 2)}, at);
  });
  in_place("table", [&](auto v) {
    const auto table = rope.table<float>(at);
    table.rotate(v);
  });
  in_place("table, rotate_all", [&](auto v) {
    rope.table<float>(at).rotate_all({posenc::slice_heads(v, 0, 1), posenc::slice_heads(v, 1, 2)});
  });
  in_place("table, rotate_into", [&](auto v) { rope.table<float>(at).rotate_into(all(y), v); });
  in_place("table, adjoint", [&](auto v) { rope.table<float>(at).adjoint(v); });
  in_place("table, inverse", [&](auto v) { rope.table<float>(at).inverse(v); });
  in_place("xPos, queries", [&](auto v) { xpos.rotate_queries(v, at); });
  in_place("xPos, keys", [&](auto v) { xpos.rotate_keys_into(all(y), v, at); });
  in_place("xPos, adjoint", [&](auto v) { xpos.adjoint_keys(v, at); });
  in_place("ChatGLM", [&](auto v) { chatglm.rotate(v, on_two); });
  in_place("ChatGLM, into", [&](auto v) { chatglm.rotate_into(all(y), v, on_two); });
  in_place("ChatGLM, inverse", [&](auto v) { chatglm.inverse(v, on_two); });
  in_place("any rope", [&](auto v) { any.rotate(v, at); });
  in_place("any rope, into", [&](auto v) { any.rotate_into(all(y), v, at); });
  in_place("mixed rope", [&](auto v) { mixed.rotate(v, on_two); });
  in_place("mixed rope, into", [&](auto v) { mixed.rotate_into(all(y), v, on_two); });
  in_place("mixed rope, adjoint", [&](auto v) { mixed.adjoint(v, on_two); });
  in_place("shift_keys", [&](auto v) { posenc::shift_keys(v, rope, at); });
  in_place("shift_keys by one", [&](auto v) { posenc::shift_keys(v, rope, {-5}); });
  in_place("shift_keys, any", [&](auto v) { posenc::shift_keys(v, any, at); });
  in_place("rerotate", [&](auto v) { posenc::rerotate(v, rope, at, other, at); });
  in_place("rerotate, any",
           [&](auto v) { posenc::rerotate(v, any, at, posenc::AnyRope(other), at); });

  const auto gradient_of = [&](const std::string& name, std::size_t size, const auto& accumulate) {
    CHECK(check_calls(name, std::vector<double>(size, 1.5), accumulate,
                      [](const std::vector<double>& g) {
                        return std::vector<float>(g.begin(), g.end());
                      }) >= 0);
  };
  gradient_of("frequency gradient", dim / 2, [&](std::vector<double>& g) {
    posenc::accumulate_frequency_gradient(rope, all(x), all(y), at, g);
  });
  gradient_of("mixed frequency gradient", mixed_inv_freq.size(), [&](std::vector<double>& g) {
    posenc::accumulate_frequency_gradient(mixed, all(x), all(y), on_two, g);
  });
}

TEST_CASE("Rope without memory: an assigned one is unchanged", "[memory][rotary]") {
  const Unscaled rule{.rotary_dim = dim, .base = 10000};
  using Rope = posenc::Rope<posenc::HalfRotate>;
  const Rope other(Unscaled{.rotary_dim = dim, .base = 20000});
  const auto x = numbers(count, 1);
  CHECK(check_calls(
            "made and assigned", Rope(rule),
            [](Rope& rope) { rope = Rope(Unscaled{.rotary_dim = dim, .base = 20000}); },
            [&](const Rope& rope) {
              Data y = x;
              rope.rotate(all(y), table_of_positions());
              return y;
            }) > 0);
}

TEST_CASE("permute_pairs without memory: permutes completely or not at all",
          "[memory][rotary][permute]") {
  constexpr Index rows = 4 * dim, cols = 5;
  const auto x = numbers(rows * cols, 1), y = numbers(rows * cols, 2);
  const posenc::HeadLayout of_head{.head_dim = dim, .rotary_dim = dim - 4, .rotary_offset = 2};
  const auto matrix = [](auto* data) {
    return MatrixView<std::remove_pointer_t<decltype(data)>>{data, rows, cols, cols};
  };
  CHECK(check_calls("in place", x, [&](Data& data) {
          posenc::permute_pairs<posenc::Interleaved, posenc::HalfRotate>(matrix(data.data()),
                                                                         of_head);
        }) > 0);
  CHECK(check_calls("into another", x, [&](Data& data) {
          posenc::permute_pairs<posenc::HalfRotate, posenc::Interleaved, float>(
              matrix(y.data()), matrix(data.data()), of_head);
        }) > 0);
  CHECK(check_calls("into itself", x, [&](Data& data) {
          posenc::permute_pairs<posenc::HalfRotate, posenc::Interleaved, float>(
              matrix(data.data()), matrix(data.data()), of_head);
        }) > 0);
  CHECK(check_calls("a bias", numbers(rows, 3), [&](Data& data) {
          posenc::permute_pairs<posenc::HalfRotate, posenc::Interleaved>(std::span<float>(data),
                                                                         of_head);
        }) > 0);
}

TEST_CASE("add_to without memory: additive encodings", "[memory][additive]") {
  constexpr Index width = 12, tokens = batch * seq;
  const auto x = numbers(tokens * width, 1), rows = numbers(64 * width, 2);
  const auto at = table_of_positions();
  const auto grid = Positions::grid(3, 3);
  const MatrixView<const float> table{rows.data(), 64, width, width};
  const posenc::Learned<float> learned(table);
  const auto check = [&](const std::string& name, const auto& call) {
    CHECK(check_calls(name, x,
                      [&](Data& data) { call(tokens_view(data.data(), batch, seq, width)); }) >= 0);
  };
  const posenc::SinusoidalConfig flat{.model_dim = width,
                                      .layout = posenc::SinusoidalLayout::Interleaved};
  check("sinusoidal", [&](auto v) { posenc::Sinusoidal(flat).add_to(v, at); });
  check("sinusoidal, written", [&](auto v) { posenc::Sinusoidal(flat).write_to(v, at); });
  const posenc::Sinusoidal2dConfig of_grid{.model_dim = width,
                                           .axis_order = posenc::GridAxisOrder::ColumnFirst,
                                           .layout = posenc::SinusoidalLayout::Concatenated};
  check("sinusoidal of a grid", [&](auto v) { posenc::Sinusoidal2d(of_grid).add_to(v, grid); });
  check("sinusoidal of a grid, written",
        [&](auto v) { posenc::Sinusoidal2d(of_grid).write_to(v, grid); });
  check("binary", [&](auto v) { posenc::BinaryEncoding({.model_dim = width}).add_to(v, at); });
  check("integer", [&](auto v) { posenc::IntegerEncoding().add_to(v, at); });
  check("learned", [&](auto v) { learned.add_to(v, at); });
  CHECK(check_calls("learned, gradient", numbers(64 * width, 5), [&](Data& g) {
          learned.add_gradient(tokens_view(x.data(), batch, seq, width), at,
                               MatrixView<float>{g.data(), 64, width, width});
        }) >= 0);

  constexpr Index source = 3 * 4 + 1, target = 5 * 6 + 1;
  const posenc::GridResizeConfig resize{.source = {3, 4},
                                        .target = {5, 6},
                                        .filter = posenc::ResizeFilter::Bicubic,
                                        .prefix_tokens = 1};
  CHECK(check_calls("resize_grid", numbers(target * width, 6), [&](Data& out) {
          posenc::resize_grid<float>(MatrixView<const float>{rows.data(), source, width, width},
                                     MatrixView<float>{out.data(), target, width, width}, resize);
        }) > 0);
  CHECK(check_calls("resize_grid_adjoint", numbers(source * width, 6), [&](Data& out) {
          posenc::resize_grid_adjoint<float>(
              MatrixView<const float>{rows.data(), target, width, width},
              MatrixView<float>{out.data(), source, width, width}, resize);
        }) > 0);
}

TEST_CASE("bias without memory: biases and their gradients", "[memory][bias]") {
  constexpr Index queries = 5, keys = 200, bias_heads = 2;
  std::vector<double> q(queries), k(keys);
  std::iota(q.begin(), q.end(), keys - queries);
  std::iota(k.begin(), k.end(), 0.0);
  const auto x = numbers(queries * keys, 1), table = numbers(32 * bias_heads, 2);
  const posenc::Alibi alibi({.heads = bias_heads, .form = posenc::AlibiForm::Causal});
  const posenc::T5Bias<float> t5(MatrixView<const float>{table.data(), 32, bias_heads, bias_heads},
                                 {.direction = posenc::T5Direction::Causal});
  const posenc::WindowConfig of_window{.rows = 20, .cols = 10};
  const auto window_table = numbers(39 * 19 * bias_heads, 3);
  const posenc::WindowBias<float> window(
      MatrixView<const float>{window_table.data(), 39 * 19, bias_heads}, of_window);
  const posenc::LogCpb network(
      {.hidden_weight = {1, 2}, .hidden_bias = {0.5}, .output_weight = {1, -1}},
      {.rows = 20, .cols = 10});
  const posenc::Kerple kerple(
      {.form = posenc::KerpleForm::Logarithmic, .r1 = {1, 0.5}, .r2 = {0.5, 2}});
  const posenc::Fire fire({.c = 0.1,
                           .threshold = 64,
                           .hidden_weight = {1, -2, 0.5},
                           .hidden_bias = {-0.25, 1, 0},
                           .output_weight = {1, 2, 3, -1, -2, -3},
                           .output_bias = {0.5, -0.5}});
  const auto tile = [](auto* data) {
    return MatrixView<std::remove_pointer_t<decltype(data)>>{data, queries, keys, keys};
  };
  const auto add = [&](const std::string& name, const auto& bias) {
    CHECK(check_calls(name, x, [&](Data& data) { bias.add(1, q, k, tile(data.data())); }) >= 0);
  };
  add("ALiBi", alibi);
  add("T5", t5);
  add("window", window);
  add("KERPLE", kerple);
  add("FIRE", fire);
  CHECK(check_calls("T5, gradient", table, [&](Data& g) {
          t5.add_gradient(1, q, k, tile(x.data()),
                          MatrixView<float>{g.data(), 32, bias_heads, bias_heads});
        }) >= 0);
  const auto of_window_table = [&](auto& data) {
    return MatrixView<float>{data.data(), 39 * 19, bias_heads};
  };
  CHECK(check_calls("window, gradient", window_table, [&](Data& g) {
          window.add_gradient(1, q, k, tile(x.data()), of_window_table(g));
        }) == 0);
  CHECK(check_calls("Log-CPB", window_table,
                    [&](Data& out) { network.evaluate(of_window_table(out)); }) > 0);
  CHECK(check_calls(
            "Log-CPB, gradient", network.zero_gradient(),
            [&](posenc::LogCpbParameters& g) {
              network.add_gradient<float>(
                  MatrixView<const float>{window_table.data(), 39 * 19, bias_heads}, g);
            },
            [](const posenc::LogCpbParameters& g) {
              Data flat;
              for (const auto* part : {&g.hidden_weight, &g.hidden_bias, &g.output_weight}) {
                for (const double value : *part) flat.push_back(static_cast<float>(value));
              }
              return flat;
            }) > 0);
  CHECK(
      check_calls(
          "FIRE, gradient", fire.zero_gradient(),
          [&](posenc::FireParameters& g) { fire.add_gradient<float>(1, q, k, tile(x.data()), g); },
          [](const posenc::FireParameters& g) {
            Data flat{static_cast<float>(g.c), static_cast<float>(g.threshold)};
            for (const auto* part :
                 {&g.hidden_weight, &g.hidden_bias, &g.output_weight, &g.output_bias}) {
              for (const double value : *part) flat.push_back(static_cast<float>(value));
            }
            return flat;
          }) >= 0);
}

}  // namespace encodings_without_memory_test
