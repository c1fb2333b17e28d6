// SPDX-License-Identifier: MIT
// Ids of 32 and 64 bits that Positions reads where they are.
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/additive/learned.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>
#include <posenc/tensor/positions.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace positions_view_test {

using posenc::Index;
using posenc::MatrixView;
using posenc::PositionError;
using posenc::Positions;
using posenc::ShapeError;
using support::Heads;
using support::message_of;
using Row = std::vector<double>;
using Short = std::int32_t;

namespace {

Row row(const Positions& positions, Index b = 0) {
  Row values;
  for (Index s = 0; s < positions.count(); ++s) values.push_back(positions.at(b, s));
  return values;
}

}  // namespace

TEST_CASE("Positions: ids of a view are read where they are", "[positions]") {
  std::vector<Short> ids{3, -7, 2147483647, -2147483647 - 1};
  const Positions p = Positions::view(ids), copy = p, own = p.owned();
  CHECK(p.is_view());
  CHECK(p.batch() == 1);
  CHECK(p.count() == 4);
  CHECK(p.axis_count() == 1);
  CHECK(p.integral());
  CHECK(p.kind() == posenc::PositionKind::Tokens);
  CHECK(p.max_magnitude() == 2147483648.0);
  CHECK(p.explicit_values(0).empty());
  CHECK(row(p, 41) == Row{3, -7, 2147483647, -2147483648.0});
  CHECK_FALSE(own.is_view());
  CHECK(own.max_magnitude() == p.max_magnitude());
  CHECK(own.explicit_values(0).size() == 4);
  CHECK_FALSE(Positions::ids(ids).is_view());
  ids[1] = 5;
  CHECK(row(p) == Row{3, 5, 2147483647, -2147483648.0});
  CHECK(row(copy) == row(p));
  CHECK(row(own) == Row{3, -7, 2147483647, -2147483648.0});
}

TEST_CASE("Positions: vectors, arrays and spans of either width are viewed", "[positions]") {
  const std::vector<Index> wide{1, Index{1} << 53};
  const std::array<Short, 3> array{4, 5, 6};
  std::array<Index, 2> mutable_array{7, 8};
  const Short plain[] = {1, 9};
  CHECK(row(Positions::view(wide)) == Row{1, 0x1p53});
  CHECK(row(Positions::view(array)) == Row{4, 5, 6});
  CHECK(row(Positions::view(mutable_array)) == Row{7, 8});
  CHECK(row(Positions::view(plain)) == Row{1, 9});
  CHECK(row(Positions::view(std::span<const Short>(array).subspan(1))) == Row{5, 6});
  CHECK(Positions::view(std::span<const Short>()).count() == 0);
}

TEST_CASE("Positions: rows of ids may have any stride", "[positions]") {
  std::vector<Short> ids{0, 1, 2, 99, 7, 8, 9, 99};
  const Positions p = Positions::view(MatrixView<Short>{ids.data(), 2, 3, 4});
  CHECK(p.batch() == 2);
  CHECK(row(p, 0) == Row{0, 1, 2});
  CHECK(row(p, 1) == Row{7, 8, 9});
  CHECK(p.max_magnitude() == 9);
  // A copy has the rows that own holds, and not those that lie behind them in memory.
  const Positions own = p.owned(), copy = own;
  CHECK(row(copy, 0) == Row{0, 1, 2});
  CHECK(row(copy, 1) == Row{7, 8, 9});
  const Positions back =
      Positions::view({.data = ids.data() + 4, .rows = 2, .cols = 3, .row_stride = -4});
  CHECK(row(back, 1) == Row{0, 1, 2});
  const MatrixView<const Short> shared{ids.data(), Index{1} << 40, 3, 0};
  CHECK(Positions::view(shared).batch() == 1);
  CHECK(row(Positions::view(shared), Index{1} << 39) == Row{0, 1, 2});
  Row copied(2);
  p.copy(1, 1, 2, copied.data());
  CHECK(copied == Row{8, 9});
  Positions::range(5, 9).copy(3, 2, 2, copied.data());
  CHECK(copied == Row{7, 8});
  CHECK(Positions::view(MatrixView<const Short>{nullptr, 3, 0, 0}).batch() == 3);
}

TEST_CASE("Positions: views of impossible ids are rejected", "[positions][errors]") {
  constexpr Index limit = Index{1} << 53;
  const std::vector<Index> far{0, limit + 1};
  CHECK(message_of<PositionError>([&] { Positions::view(far); }) ==
        "posenc::Positions::view: integer positions must lie within 2^53 but one is "
        "9007199254740993");
  const std::vector<Index> lowest{std::numeric_limits<Index>::min()};
  CHECK_THROWS_AS(Positions::view(lowest), PositionError);
  const Short id = 0;
  CHECK_THROWS_AS(Positions::view(MatrixView<const Short>{nullptr, 1, 2, 2}), ShapeError);
  CHECK_THROWS_AS(Positions::view(MatrixView<const Short>{&id, -1, 2, 2}), ShapeError);
  CHECK_THROWS_AS(Positions::view(MatrixView<const Short>{&id, 2, 1, limit * 8}), ShapeError);
  CHECK_THROWS_AS(Positions::view(MatrixView<const Short>{&id, limit, 1024, 1024}), ShapeError);
}

TEST_CASE("Positions: every reader takes views of ids", "[positions]") {
  constexpr Index batch = 2, seq = 7, heads = 2, dim = 8;
  const std::vector<Short> ids{4, 0, 1, 1, 9, 3, 2, 30, 31, 32, 33, 34, 35, 36};
  const Positions listed = Positions::ids(batch, ids);
  const Positions viewed = Positions::view(MatrixView<const Short>{ids.data(), batch, seq, seq});
  support::Random random(1);
  const auto x = Heads<float>::random(random, batch, seq, heads, dim);
  const auto same = [&](const auto& call) {
    auto a = x, b = x;
    call(a.view(), listed);
    call(b.view(), viewed);
    return support::same_bits(a.view(), b.view()) &&
           !support::same_bits(a.view(), Heads<float>(x).view());
  };
  const posenc::Unscaled rule{.rotary_dim = dim, .base = 10000};
  const posenc::Rope<posenc::HalfRotate> rope(rule);
  const posenc::XPos<posenc::Interleaved> xpos(rule, {.scale_base = 512});
  using View = posenc::HeadsView<float>;
  CHECK(same([&](View v, const Positions& p) { rope.rotate(v, p); }));
  CHECK(same([&](View v, const Positions& p) { rope.table<float>(p).rotate(v); }));
  CHECK(same([&](View v, const Positions& p) { xpos.rotate_keys(v, p); }));
  CHECK(same([&](View v, const Positions& p) {
    rope.rotate(v, Positions::axes({p}).with_kind(posenc::PositionKind::Tokens));
  }));
  const std::vector<Short> beyond{0, 1, 2, 3, 4, 5, 100000000};
  CHECK_THROWS_AS(xpos.rotate_keys(Heads<float>(x).view(), Positions::view(beyond)), PositionError);

  // The last key is the first that a query of position 36 does not see in the causal rule.
  for (const bool sorted : {false, true}) {
    std::vector<Short> places = ids;
    if (sorted) places = {0, 0, 1, 2, 5, 6, 9, 3, 4, 5, 6, 7, 8, 36};
    const Positions at = Positions::ids(batch, places);
    const Positions seen = Positions::view(MatrixView<const Short>{places.data(), batch, seq, seq});
    const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Symmetric});
    const auto run = [&](const Positions& p, posenc::Causal causal) {
      Heads<float> out(batch, seq, heads, dim);
      auto q = x;
      posenc::attention(q.view(), q.view(), q.view(), out.view(),
                        {.causal = causal,
                         .dropout = {.probability = 0.25, .seed = 5},
                         .query_positions = p,
                         .key_positions = p},
                        alibi);
      return out;
    };
    for (const auto causal : {posenc::Causal::ByPosition, posenc::Causal::TopLeft}) {
      CHECK(support::same_bits(run(at, causal).view(), run(seen, causal).view()));
    }
  }

  std::vector<float> table(40 * dim, 0.5F), embeddings(batch * seq * dim, 1.0F);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  const posenc::Learned learned(MatrixView<const float>{table.data(), 37, dim});
  const auto add = [&](const Positions& p) {
    std::vector<float> sum = embeddings;
    learned.add_to(posenc::EmbeddingsView<float>{sum.data(), batch, seq, dim}, p);
    return sum;
  };
  CHECK(add(viewed) == add(listed));
  const posenc::Learned narrow(MatrixView<const float>{table.data(), 36, dim});
  CHECK_THROWS_AS(
      narrow.add_to(posenc::EmbeddingsView<float>{embeddings.data(), batch, seq, dim}, viewed),
      PositionError);
}

TEST_CASE("MultiHeadTape: keeps the ids of a view", "[positions][module]") {
  constexpr Index seq = 5, model_dim = 8;
  using Module = posenc::MultiHeadAttention<float, posenc::Rope<posenc::HalfRotate>>;
  Module module({.model_dim = model_dim, .heads = 2},
                posenc::Rope<posenc::HalfRotate>(posenc::Unscaled{.rotary_dim = 4, .base = 100}));
  module.randomize(3);
  std::vector<float> x(seq * model_dim), y(x.size());
  support::Random random(2);
  for (float& value : x) value = static_cast<float>(random.normal());
  const posenc::EmbeddingsView<float> in{x.data(), 1, seq, model_dim},
      out{y.data(), 1, seq, model_dim};
  const auto gradient_of_input = [&](bool changes) {
    std::vector<Short> ids{3, 1, 4, 1, 5};
    posenc::MultiHeadTape<float> tape;
    module.forward(in, Positions::view(ids), out, tape, {.causal = posenc::Causal::TopLeft});
    if (changes) ids.assign(5, 1000);
    auto gradients = module.zero_gradients();
    std::vector<float> grad(x.size());
    module.backward(tape, in, posenc::EmbeddingsView<float>{grad.data(), 1, seq, model_dim},
                    gradients);
    return grad;
  };
  CHECK(gradient_of_input(true) == gradient_of_input(false));
}

}  // namespace positions_view_test
