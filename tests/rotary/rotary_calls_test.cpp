// SPDX-License-Identifier: MIT
// Bad input of every public entry point of rotary/: type, message, and nothing written.
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotation_table.hpp>

#include <array>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace rotary_calls_test {

using posenc::ConfigError;
using posenc::Index;
using posenc::PositionError;
using posenc::Positions;
using posenc::ShapeError;
using support::Heads;
using support::message_of;
using Rope = posenc::Rope<posenc::HalfRotate>;
using Table = posenc::RotationTable<posenc::HalfRotate, float>;
using View = posenc::HeadsView<float>;

namespace {

Rope make_rope(Index pairs = 2, Index offset = 0) {
  return Rope(
      posenc::Frequencies::from_inv_freq(std::vector<double>(static_cast<std::size_t>(pairs), 1.0)),
      offset);
}

struct Call {
  std::string name;
  std::function<void(const Rope&, View, const Positions&)> run;
};

const std::vector<Call>& rope_calls() {
  static const std::vector<Call> calls{
      {"Rope::rotate", [](const Rope& r, View x, const Positions& p) { r.rotate(x, p); }},
      {"Rope::rotate", [](const Rope& r, View x, const Positions& p) { r.rotate_queries(x, p); }},
      {"Rope::rotate", [](const Rope& r, View x, const Positions& p) { r.rotate_keys(x, p); }},
      {"Rope::rotate_into",
       [](const Rope& r, View x, const Positions& p) { r.rotate_into(x, x, p); }},
      {"Rope::adjoint", [](const Rope& r, View x, const Positions& p) { r.adjoint(x, p); }},
      {"Rope::adjoint", [](const Rope& r, View x, const Positions& p) { r.adjoint_queries(x, p); }},
      {"Rope::adjoint", [](const Rope& r, View x, const Positions& p) { r.adjoint_keys(x, p); }},
      {"Rope::inverse", [](const Rope& r, View x, const Positions& p) { r.inverse(x, p); }},
  };
  return calls;
}

struct TableCall {
  std::string name;
  std::function<void(const Table&, View)> run;
};

const std::vector<TableCall>& table_calls() {
  static const std::vector<TableCall> calls{
      {"RotationTable::rotate", [](const Table& t, View x) { t.rotate(x); }},
      {"RotationTable::rotate_into", [](const Table& t, View x) { t.rotate_into(x, x); }},
      {"RotationTable::adjoint", [](const Table& t, View x) { t.adjoint(x); }},
      {"RotationTable::inverse", [](const Table& t, View x) { t.inverse(x); }},
  };
  return calls;
}

const std::string reach_rule =
    ": angles must not exceed 2^50 radians, but a position has magnitude 2251799813685248 and the "
    "fastest inv_freq is 1";

}  // namespace

TEST_CASE("Rope: every call checks its tensor and positions first", "[rope][errors]") {
  support::Random random(1);
  auto x = Heads<float>::random(random, 2, 3, 2, 8);
  auto before = x;
  const std::vector<Positions> axes{Positions::range(0, 3), Positions::range(0, 3)};
  for (const Call& call : rope_calls()) {
    const auto shape_error = [&](const Rope& rope, const Positions& positions) {
      return message_of<ShapeError>([&] { call.run(rope, x.view(), positions); });
    };
    const std::string name = "posenc::" + call.name;
    CHECK(shape_error(make_rope(5), Positions::range(0, 3)) ==
          name + ": head_dim (8) must include the rotary channels [0, 10); x is [2, 3, 2, 8]");
    CHECK(shape_error(make_rope(2, 5), Positions::range(0, 3)) ==
          name + ": head_dim (8) must include the rotary channels [5, 9); x is [2, 3, 2, 8]");
    CHECK(shape_error(make_rope(), Positions::range(0, 4)) ==
          name + ": positions [1, 4] must match batch and sequence of x, which is [2, 3, 2, 8]");
    CHECK(shape_error(make_rope(), Positions::starts({0, 0, 0}, 3)) ==
          name + ": positions [3, 3] must match batch and sequence of x, which is [2, 3, 2, 8]");
    CHECK(shape_error(make_rope(), Positions::axes(axes)) ==
          name + ": positions must have 1 axis but have 2");
    CHECK(message_of<PositionError>([&] {
            call.run(make_rope(), x.view(), Positions::ids({0, -(Index{1} << 51), 1}));
          }) == name + reach_rule);
    CHECK(support::same_bits(x.view(), before.view()));
  }
}

TEST_CASE("rotate_into: needs tensors of one shape", "[rope][errors]") {
  support::Random random(2);
  auto x = Heads<float>::random(random, 1, 3, 2, 4);
  Heads<float> out(1, 3, 1, 4);
  CHECK(message_of<ShapeError>(
            [&] { make_rope().rotate_into(x.view(), out.view(), Positions::range(0, 3)); }) ==
        "posenc::Rope::rotate_into: input [1, 3, 2, 4] and output [1, 3, 1, 4] must have the "
        "same shape");
  auto none = x.view();
  none.batch = 0;
  CHECK(message_of<ShapeError>([&] {
          make_rope().rotate_all({x.view(), none}, Positions::range(0, 3));
        }) ==
        "posenc::Rope::rotate_all: all tensors must have the same batch and sequence, but "
        "one is [1, 3, 2, 4] and another [0, 3, 2, 4]");
  const auto table = make_rope().table<float>(Positions::range(0, 3));
  CHECK(message_of<ShapeError>([&] { table.rotate_into(x.view(), out.view()); }) ==
        "posenc::RotationTable::rotate_into: input [1, 3, 2, 4] and output [1, 3, 1, 4] must have "
        "the same shape");
  Heads<float> untouched(1, 3, 1, 4);
  CHECK(support::same_bits(out.view(), untouched.view()));
}

TEST_CASE("Rope: the constructor checks its settings", "[rope][errors]") {
  CHECK(message_of<ConfigError>([] { make_rope(2, -1); }) ==
        "posenc::Rope: rotary_offset must not be negative but is -1");
  CHECK(message_of<ConfigError>([] { make_rope(2, std::numeric_limits<Index>::max()); }) ==
        "posenc::Rope: rotary_offset (9223372036854775807) and the channels of 2 rotary pairs "
        "exceed 2^63 - 1 together");
  CHECK(message_of<ConfigError>([] { Rope(posenc::Unscaled{.rotary_dim = 7, .base = 10000}); }) ==
        "posenc::Unscaled: rotary_dim must be even and at least 2 but is 7");
  CHECK(message_of<ConfigError>([] { Rope(posenc::Frequencies::from_inv_freq({1.0}, -1)); }) ==
        "posenc::Frequencies: attention_factor must be positive and finite but is -1");
}

TEST_CASE("RotationTable: every call checks its tensor first", "[rotation_table][errors]") {
  support::Random random(3);
  auto x = Heads<float>::random(random, 2, 3, 2, 8);
  auto before = x;
  for (const TableCall& call : table_calls()) {
    const auto error = [&](const Rope& rope, const Positions& positions) {
      const auto table = rope.table<float>(positions);
      return message_of<ShapeError>([&] { call.run(table, x.view()); });
    };
    const std::string name = "posenc::" + call.name;
    CHECK(error(make_rope(5), Positions::range(0, 3)) ==
          name + ": head_dim (8) must include the rotary channels [0, 10); x is [2, 3, 2, 8]");
    CHECK(error(make_rope(), Positions::range(0, 4)) ==
          name + ": the table's [1, 4] must match batch and sequence of x, which is [2, 3, 2, 8]");
    CHECK(error(make_rope(), Positions::starts({0, 0, 0}, 3)) ==
          name + ": the table's [3, 3] must match batch and sequence of x, which is [2, 3, 2, 8]");
    CHECK(support::same_bits(x.view(), before.view()));
  }
}

TEST_CASE("RotationTable: made from positions on one axis, within reach",
          "[rotation_table][errors]") {
  const auto rope = make_rope();
  CHECK(message_of<ShapeError>([&] { rope.table<float>(Positions::grid(2, 2)); }) ==
        "posenc::Rope::table: positions must have 1 axis but have 2");
  CHECK(message_of<ShapeError>(
            [] { make_rope(8192).table<float>(Positions::range(0, Index{1} << 50)); }) ==
        "posenc::Rope::table: a table of [1, 1125899906842624, 8192] values must fit into memory");
  CHECK(message_of<PositionError>([&] {
          rope.table<float>(Positions::range(Index{1} << 51, 1));
        }) == "posenc::Rope::table" + reach_rule);
}

TEST_CASE("from_cos_sin: checks its settings", "[rotation_table][errors]") {
  const std::array<float, 12> numbers{};
  const posenc::EmbeddingsView<const float> cos{numbers.data(), 1, 3, 4, 12, 4};
  auto sin = cos;
  sin.seq = 2;
  const std::string name = "posenc::RotationTable::from_cos_sin: ";
  CHECK(message_of<ShapeError>([&] { Table::from_cos_sin(cos, sin); }) ==
        name + "cos [1, 3, 4] and sin [1, 2, 4] must have the same shape");
  CHECK(message_of<ConfigError>([&] { Table::from_cos_sin(cos, cos, -2); }) ==
        name + "rotary_offset must not be negative but is -2");
  CHECK(message_of<ConfigError>([&] { Table::from_cos_sin(cos, cos, 0, 0); }) ==
        name + "attention_factor must be positive and finite but is 0");
  CHECK(message_of<ConfigError>([&] {
          Table::from_cos_sin(cos, cos, 0, std::numeric_limits<double>::quiet_NaN());
        }) == name + "attention_factor must be positive and finite but is nan");
  CHECK(message_of<ConfigError>([&] { Table::from_cos_sin(cos, cos, 0, 1e-26); }) ==
        name + "attention_factor must lie within 1e-25 and 1e25 but is 1e-26");
}

TEST_CASE("from_cache: checks its settings and positions", "[rotation_table][errors]") {
  const std::array<float, 12> numbers{};
  const posenc::MatrixView<const float> cos{numbers.data(), 3, 4, 4};
  auto sin = cos;
  sin.cols = 3;
  const auto positions = Positions::range(0, 3);
  const std::string name = "posenc::RotationTable::from_cache: ";
  CHECK(message_of<ShapeError>([&] { Table::from_cache(cos, sin, positions); }) ==
        name + "cos [3, 4] and sin [3, 3] must have the same shape");
  CHECK(message_of<ShapeError>([&] { Table::from_cache(cos, cos, Positions::grid(1, 2)); }) ==
        name + "positions must have 1 axis but have 2");
  CHECK(message_of<PositionError>([&] { Table::from_cache(cos, cos, Positions::range(1, 3)); }) ==
        name + "positions must lie within the 3 rows of the cache but one is 3");
  CHECK(message_of<PositionError>([&] {
          Table::from_cache(cos, cos, Positions::ids({0, -1}));
        }) == name + "positions must lie within the 3 rows of the cache but one is -1");
  CHECK(message_of<PositionError>([&] { Table::from_cache(cos, cos, Positions::real({0.5})); }) ==
        name + "positions must be integers, but some have a fraction");
  CHECK(message_of<ConfigError>([&] { Table::from_cache(cos, cos, positions, -1); }) ==
        name + "rotary_offset must not be negative but is -1");
  CHECK(message_of<ConfigError>([&] { Table::from_cache(cos, cos, positions, 0, -1); }) ==
        name + "attention_factor must be positive and finite but is -1");
}

}  // namespace rotary_calls_test
