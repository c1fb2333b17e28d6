// SPDX-License-Identifier: MIT
// Rows of projections rearranged from one pairing to the other.
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/permute.hpp>
#include <posenc/rotary/rope.hpp>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace permute_test {

using posenc::ConfigError;
using posenc::HalfRotate;
using posenc::HeadLayout;
using posenc::Index;
using posenc::Interleaved;
using posenc::MatrixView;
using posenc::Positions;
using posenc::ShapeError;
using support::Heads;
using support::message_of;

namespace {

struct Shape {
  Index heads;
  HeadLayout rows;
};

const Shape shapes[] = {
    {1, {.head_dim = 2, .rotary_dim = 2}},
    {3, {.head_dim = 8, .rotary_dim = 8}},
    {2, {.head_dim = 128, .rotary_dim = 128}},
    {4, {.head_dim = 20, .rotary_dim = 12}},                       // partial
    {2, {.head_dim = 24, .rotary_dim = 10, .rotary_offset = 14}},  // DeepSeek: last channels
    {2, {.head_dim = 9, .rotary_dim = 6, .rotary_offset = 1}},
};

/// Returns rows 0, 1, 2, ... whose elements are all equal to the row's number.
std::vector<int> numbered(Index rows, Index cols, Index stride) {
  std::vector<int> numbers(static_cast<std::size_t>(rows * stride), -1);
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < cols; ++c) {
      numbers[static_cast<std::size_t>(r * stride + c)] = static_cast<int>(r);
    }
  }
  return numbers;
}

/// Returns the product of w [rows, in] and x.
template <class T>
std::vector<double> project(const std::vector<T>& w, const std::vector<double>& x) {
  std::vector<double> y;
  for (std::size_t r = 0; r < w.size() / x.size(); ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < x.size(); ++c) {
      sum += static_cast<double>(w[r * x.size() + c]) * x[c];
    }
    y.push_back(sum);
  }
  return y;
}

}  // namespace

TEST_CASE("permute_pairs: rows go where the views of the converters send them", "[permute]") {
  // [2, r/2, in] <-> [r/2, 2, in]: half[j] = interleaved[2j], half[j + r/2] = interleaved[2j + 1].
  std::vector<int> rows(8);
  std::iota(rows.begin(), rows.end(), 0);
  posenc::permute_pairs<Interleaved, HalfRotate>(std::span(rows), {.head_dim = 8, .rotary_dim = 8});
  CHECK(rows == std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7});
  std::iota(rows.begin(), rows.end(), 0);
  posenc::permute_pairs<HalfRotate, Interleaved>(std::span(rows), {.head_dim = 8, .rotary_dim = 8});
  CHECK(rows == std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7});
  // The two orders differ, which a head of four channels would not show.
}

TEST_CASE("permute_pairs: every row of every head goes to its place, and no other moves",
          "[permute]") {
  for (const Shape& shape : shapes) {
    constexpr Index cols = 3, stride = 5;
    const auto [dim, r, offset] = shape.rows;
    const Index rows = shape.heads * dim;
    const auto before = numbered(rows, cols, stride);
    auto in_place = before;
    std::vector<int> out(before.size(), -7);
    const MatrixView<int> view{in_place.data(), rows, cols, stride};
    const MatrixView<int> into{out.data(), rows, cols, stride};
    posenc::permute_pairs<Interleaved, HalfRotate>(
        MatrixView<const int>{before.data(), rows, cols, stride}, into, shape.rows);
    posenc::permute_pairs<Interleaved, HalfRotate>(view, shape.rows);
    for (Index h = 0; h < shape.heads; ++h) {
      for (Index j = 0; j < dim; ++j) {
        Index source = j;
        if (j >= offset && j < offset + r / 2) source = offset + 2 * (j - offset);
        if (j >= offset + r / 2 && j < offset + r) source = offset + 2 * (j - offset - r / 2) + 1;
        for (Index c = 0; c < cols; ++c) {
          CHECK(view.row(h * dim + j)[c] == h * dim + source);
          CHECK(into.row(h * dim + j)[c] == h * dim + source);
        }
        CHECK(view.row(h * dim + j)[cols] == -1);
        if (h * dim + j + 1 < rows) CHECK(into.row(h * dim + j)[cols] == -7);
      }
    }
    posenc::permute_pairs<HalfRotate, Interleaved>(view, shape.rows);
    CHECK(in_place == before);
    // In place, through the overload with an output.
    posenc::permute_pairs<Interleaved, HalfRotate>(MatrixView<const int>(view), view, shape.rows);
    posenc::permute_pairs<HalfRotate, Interleaved>(MatrixView<const int>(view), view, shape.rows);
    CHECK(in_place == before);
    posenc::permute_pairs<HalfRotate, HalfRotate>(view, shape.rows);
    CHECK(in_place == before);
  }
}

TEMPLATE_LIST_TEST_CASE("permute_pairs: permuted heads rotate to permuted heads, bit for bit",
                        "[permute]", rotation::Scalars) {
  using T = TestType;
  support::Random random(1);
  for (const Shape& shape : shapes) {
    const auto frequencies = posenc::Frequencies::from_inv_freq(
        rotation::plain_frequencies(shape.rows.rotary_dim), 1.25);
    const posenc::Rope<Interleaved> interleaved(frequencies, shape.rows.rotary_offset);
    const posenc::Rope<HalfRotate> half(frequencies, shape.rows.rotary_offset);
    auto x = Heads<T>::random(random, 2, 3, shape.heads, shape.rows.head_dim);
    auto y = x;
    const auto permute = [&](Heads<T>& heads) {
      for (Index b = 0; b < 2; ++b) {
        for (Index s = 0; s < 3; ++s) {
          // The heads of a token are consecutive: [heads * head_dim, 1].
          const auto size = static_cast<std::size_t>(shape.heads * shape.rows.head_dim);
          posenc::permute_pairs<Interleaved, HalfRotate>(std::span(heads.view().row(b, s, 0), size),
                                                         shape.rows);
        }
      }
    };
    interleaved.rotate(x.view(), Positions::range(900, 3));
    permute(x);
    permute(y);
    half.rotate(y.view(), Positions::range(900, 3));
    CHECK(support::same_bits(x.view(), y.view()));
  }
}

TEST_CASE(
    "permute_pairs: scores do not change with the pairing, with biases, gains and grouped heads",
    "[permute]") {
  constexpr Index dim = 16, query_heads = 4, key_heads = 2, in = 6;
  const HeadLayout rows{.head_dim = dim, .rotary_dim = 12, .rotary_offset = 2};
  const posenc::YarnScaling rule{
      .rotary_dim = 12, .base = 10000, .factor = 4, .original_max_position = 4096};
  support::Random random(2);
  const auto numbers = [&random](Index count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    random.fill_normal(values);
    return values;
  };
  auto wq = numbers(query_heads * dim * in), wk = numbers(key_heads * dim * in);
  auto bq = numbers(query_heads * dim), bk = numbers(key_heads * dim);
  auto gains = numbers(dim);
  const auto x = numbers(in), y = numbers(in);

  // Scores of q and k of one token each: projection, bias, gain (of a norm whose division is
  // done), rope.
  const auto scores = [&](const auto& rope) {
    const auto head_vectors = [&](const std::vector<double>& w, const std::vector<double>& bias,
                                  const std::vector<double>& token, Index heads, Index position) {
      auto q = project(w, token);
      for (std::size_t i = 0; i < q.size(); ++i) q[i] = (q[i] + bias[i]) * gains[i % dim];
      const posenc::HeadsView<double> view{q.data(), 1, 1, heads, dim, 0, 0, dim};
      rope.rotate(view, Positions::range(position, 1));
      return q;
    };
    const auto q = head_vectors(wq, bq, x, query_heads, 1234);
    const auto k = head_vectors(wk, bk, y, key_heads, 1000);
    std::vector<double> result;
    for (Index h = 0; h < query_heads; ++h) {
      double sum = 0;
      for (Index d = 0; d < dim; ++d) {
        sum += q[static_cast<std::size_t>(h * dim + d)] *
               k[static_cast<std::size_t>(h / (query_heads / key_heads) * dim + d)];
      }
      result.push_back(sum);
    }
    return result;
  };
  const auto before = scores(posenc::Rope<Interleaved>(rule, 2));
  posenc::permute_pairs<Interleaved, HalfRotate>(
      MatrixView<double>{wq.data(), query_heads * dim, in, in}, rows);
  posenc::permute_pairs<Interleaved, HalfRotate>(
      MatrixView<double>{wk.data(), key_heads * dim, in, in}, rows);
  posenc::permute_pairs<Interleaved, HalfRotate>(std::span(bq), rows);
  posenc::permute_pairs<Interleaved, HalfRotate>(std::span(bk), rows);
  posenc::permute_pairs<Interleaved, HalfRotate>(std::span(gains), rows);
  const auto after = scores(posenc::Rope<HalfRotate>(rule, 2));
  for (std::size_t h = 0; h < before.size(); ++h)
    CHECK(after[h] == Approx(before[h]).epsilon(1e-12));
  // Without the permutation the scores differ.
  const auto wrong = scores(posenc::Rope<Interleaved>(rule, 2));
  CHECK(std::abs(wrong[0] - before[0]) > 1e-3);
}

TEST_CASE("permute_pairs: checks its shapes first", "[permute][errors]") {
  std::vector<float> w(24, 1.0F), out(24, 2.0F);
  const MatrixView<float> view{w.data(), 12, 2, 2};
  const auto config = [&](const HeadLayout& rows) {
    return message_of<ConfigError>(
        [&] { posenc::permute_pairs<Interleaved, HalfRotate>(view, rows); });
  };
  const std::string name = "posenc::permute_pairs: ";
  CHECK(config({.rotary_dim = 4}) == name + "head_dim must be set and positive but is 0");
  CHECK(config({.head_dim = 4}) == name + "rotary_dim must be even and at least 2 but is 0");
  CHECK(config({.head_dim = 4, .rotary_dim = 3}) ==
        name + "rotary_dim must be even and at least 2 but is 3");
  CHECK(config({.head_dim = 4, .rotary_dim = 6}) ==
        name + "head_dim (4) must include the rotary channels [0, 6)");
  CHECK(config({.head_dim = 4, .rotary_dim = 4, .rotary_offset = 1}) ==
        name + "head_dim (4) must include the rotary channels [1, 5)");
  CHECK(config({.head_dim = 4, .rotary_dim = 2, .rotary_offset = -1}) ==
        name + "head_dim (4) must include the rotary channels [-1, 1)");
  const auto shape = [](const auto& call) { return message_of<ShapeError>(call); };
  CHECK(shape([&] {
          posenc::permute_pairs<Interleaved, HalfRotate>(view, {.head_dim = 8, .rotary_dim = 8});
        }) == name + "the number of rows (12) must be a multiple of head_dim (8)");
  const HeadLayout rows{.head_dim = 4, .rotary_dim = 4};
  const MatrixView<float> fewer{out.data(), 8, 2, 2};
  CHECK(shape([&] { posenc::permute_pairs<Interleaved, HalfRotate>(view, fewer, rows); }) ==
        name + "input [12, 2] and output [8, 2] must have the same shape");
#if POSENC_CHECKED
  const MatrixView<float> head{w.data(), 4, 2, 2}, later{w.data() + 2, 4, 2, 2};
  CHECK(shape([&] {
          posenc::permute_pairs<Interleaved, HalfRotate>(head, later, rows);
        }).find(name + "input and output overlap in part") == 0);
#endif
  CHECK(w == std::vector<float>(24, 1.0F));
  CHECK(out == std::vector<float>(24, 2.0F));
}

}  // namespace permute_test
