// SPDX-License-Identifier: MIT
// Tests invalid input of attention(): type and message of each error, and that nothing is written
// before it.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/merge.hpp>
#include <posenc/bias/alibi.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace attention_errors_test {

using attention_test::Case;
using attention_test::Lse;
using attention_test::Mask;
using posenc::AttentionMemory;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::ConfigError;
using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;
using posenc::ReturnedScores;
using posenc::ShapeError;
using posenc::SoftcapOrder;
using support::Heads;
using support::message_of;

namespace {

const std::string name = "posenc::attention: ";

/// Returns the error message for q [2, 3, 4, 8], k [2, 5, 2, 8], v [2, 5, 2, 6] and these options.
/// It reports if the output, the weights or the log-sum-exps were written.
template <class Error, class Bias = posenc::NoBias>
std::string error_of(const AttentionOptions<float>& options, const Bias& bias = {},
                     AttentionMemory<float> memory = {}) {
  Case<float> c({2, 4, 2, 3, 5, 8, 6}, 1);
  Mask<float> weights(2, 4, 3, 5, 7.0F);
  Lse<float> lse(2, 4, 3);
  if (memory.weights.data == nullptr) memory.weights = weights.view();
  if (memory.lse.data == nullptr) memory.lse = lse.view();
  const std::string message = message_of<Error>([&] { c.run(options, bias, memory); });
  bool written = false;
  for (Index n = 0; n < lse.values.size(); ++n) written |= !std::isnan(lse.values.data()[n]);
  c.out.for_each([&](float& value) { written |= !std::isnan(value); });
  for (Index n = 0; n < weights.values.size(); ++n) written |= weights.values.data()[n] != 7.0F;
  return written ? "something was written; " + message : message;
}

/// Like error_of(), for one batch row of 3 queries and 5 keys.
template <class Error>
std::string error_of_row(AttentionOptions<float> options) {
  Case<float> c({1, 4, 2, 3, 5, 8, 6}, 1);
  const std::string message = message_of<Error>([&] { c.run(options); });
  bool written = false;
  c.out.for_each([&](float& value) { written |= !std::isnan(value); });
  return written ? "something was written; " + message : message;
}

std::string shape_error(Heads<float> q, Heads<float> k, Heads<float> v, Heads<float> out) {
  return message_of<ShapeError>(
      [&] { posenc::attention(q.view(), k.view(), v.view(), out.view(), {.causal = Causal::No}); });
}

}  // namespace

TEST_CASE("attention: q, k, v and out must fit each other", "[attention][errors]") {
  const Heads<float> q(2, 3, 4, 8), k(2, 5, 2, 8), v(2, 5, 2, 6), out(2, 3, 4, 6);
  REQUIRE(shape_error(q, k, v, out) == "nothing was thrown");
  const std::string k_rule = " must have the batch and head_dim of q [2, 3, 4, 8]";
  CHECK(shape_error(q, {1, 5, 2, 8}, v, out) == name + "k [1, 5, 2, 8]" + k_rule);
  CHECK(shape_error(q, {2, 5, 2, 7}, v, out) == name + "k [2, 5, 2, 7]" + k_rule);
  CHECK(shape_error(q, {2, 5, 3, 8}, {2, 5, 3, 6}, out) ==
        name +
            "the 3 KV heads must divide the 4 query heads; q is [2, 3, 4, 8], k is [2, 5, 3, 8]");
  CHECK(shape_error(q, {2, 5, 8, 8}, {2, 5, 8, 6}, out) ==
        name +
            "the 8 KV heads must divide the 4 query heads; q is [2, 3, 4, 8], k is [2, 5, 8, 8]");
  CHECK(shape_error(q, {2, 5, 0, 8}, {2, 5, 0, 6}, out) ==
        name +
            "the 0 KV heads must divide the 4 query heads; q is [2, 3, 4, 8], k is [2, 5, 0, 8]");
  const std::string v_rule = " must have the batch, length and heads of k [2, 5, 2, 8]";
  CHECK(shape_error(q, k, {1, 5, 2, 6}, out) == name + "v [1, 5, 2, 6]" + v_rule);
  CHECK(shape_error(q, k, {2, 4, 2, 6}, out) == name + "v [2, 4, 2, 6]" + v_rule);
  CHECK(shape_error(q, k, {2, 5, 4, 6}, out) == name + "v [2, 5, 4, 6]" + v_rule);
  for (const Heads<float>& bad : {Heads<float>(1, 3, 4, 6), Heads<float>(2, 4, 4, 6),
                                  Heads<float>(2, 3, 2, 6), Heads<float>(2, 3, 4, 8)}) {
    const auto extents = Heads<float>(bad).view().extents();
    CHECK(shape_error(q, k, v, bad) ==
          name + "out " + posenc::detail::to_text(extents) + " must be [2, 3, 4, 6]");
  }
}

TEST_CASE("attention: scale, dropout and soft cap must be valid", "[attention][errors]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(error_of<ConfigError>({.scale = nan, .causal = Causal::No}) ==
        name + "scale must be finite but is nan");
  CHECK(error_of<ConfigError>({.scale = attention_test::infinity, .causal = Causal::No}) ==
        name + "scale must be finite but is inf");
  const std::string dropout_rule = name + "the dropout probability must lie in [0, 1) but is ";
  CHECK(error_of<ConfigError>({.causal = Causal::No, .dropout = {1}}) == dropout_rule + "1");
  CHECK(error_of<ConfigError>({.causal = Causal::No, .dropout = {-0.5}}) == dropout_rule + "-0.5");
  CHECK(error_of<ConfigError>({.causal = Causal::No, .dropout = {nan}}) == dropout_rule + "nan");
  const std::string cap_rule = name + "softcap must be positive, or 0 for none, but is ";
  CHECK(error_of<ConfigError>(
            {.causal = Causal::No, .softcap = -2, .softcap_order = SoftcapOrder::BeforeBias}) ==
        cap_rule + "-2");
  CHECK(error_of<ConfigError>(
            {.causal = Causal::No, .softcap = nan, .softcap_order = SoftcapOrder::BeforeBias}) ==
        cap_rule + "nan");
  CHECK(error_of<ConfigError>({.causal = Causal::No, .softcap = 2}) ==
        name + "softcap (2) and softcap_order must be set together");
  CHECK(error_of<ConfigError>({.causal = Causal::No, .softcap_order = SoftcapOrder::AfterBias}) ==
        name + "softcap (0) and softcap_order must be set together");
  CHECK(error_of<ConfigError>(
            {.causal = Causal::No, .softcap = 2, .softcap_order = SoftcapOrder::AfterBias}, {},
            {.returned = ReturnedScores::Capped}) ==
        name + "ReturnedScores::Capped needs the soft cap before the bias");
}

TEST_CASE("attention: weights have the full shape, masks broadcast to it", "[attention][errors]") {
  Mask<float> weights(2, 4, 3, 1);
  CHECK(error_of<ShapeError>({.causal = Causal::No}, {}, {.weights = weights.view()}) ==
        name + "weights [2, 4, 3, 1] must be [2, 4, 3, 5]");
  Mask<float> additive(1, 1, 2, 5);
  CHECK(error_of<ShapeError>({.causal = Causal::No, .additive = additive.view()}) ==
        name + "additive [1, 1, 2, 5] must broadcast to [2, 4, 3, 5]");
  Mask<bool> mask(2, 2, 3, 5);
  auto negative = mask.view();
  negative.keys = -5;
  CHECK(error_of<ShapeError>({.causal = Causal::No, .keep = negative}) ==
        name + "keep [2, 2, 3, -5] must not have a negative extent");
  CHECK(error_of<ShapeError>({.causal = Causal::No, .keep = mask.view()}) ==
        name + "keep [2, 2, 3, 5] must broadcast to [2, 4, 3, 5]");
  CHECK(error_of<ShapeError>({.causal = Causal::No, .masked = mask.view()}) ==
        name + "masked [2, 2, 3, 5] must broadcast to [2, 4, 3, 5]");
  Eigen::Tensor<bool, 2, Eigen::RowMajor> padding(3, 5), keys(2, 4);
  CHECK(error_of<ShapeError>({.causal = Causal::No, .keep = posenc::bk(padding)}) ==
        name + "keep [3, 1, 1, 5] must broadcast to [2, 4, 3, 5]");
  CHECK(error_of<ShapeError>({.causal = Causal::No, .keep = posenc::bk(keys)}) ==
        name + "keep [2, 1, 1, 4] must broadcast to [2, 4, 3, 5]");
}

TEST_CASE("key_lengths: at most the keys of each batch row", "[attention][errors]") {
  const std::vector<Index> one{5}, long_one{5, 6}, negative{-1, 5};
  CHECK(error_of<ShapeError>({.causal = Causal::No, .key_lengths = one}) ==
        name + "key_lengths must have one entry for each of the 2 batch rows but has 1");
  const std::string range = name + "key_lengths must lie between 0 and the 5 keys but one is ";
  CHECK(error_of<ShapeError>({.causal = Causal::No, .key_lengths = long_one}) == range + "6");
  CHECK(error_of<ShapeError>({.causal = Causal::No, .key_lengths = negative}) == range + "-1");
}

TEST_CASE("query_positions and key_positions: have the extents of queries and keys",
          "[attention][errors]") {
  CHECK(error_of<ShapeError>({.causal = Causal::No, .query_positions = Positions::range(0, 5)}) ==
        name + "query_positions [1, 5] must be [1 or 2, 3]");
  CHECK(error_of<ShapeError>({.causal = Causal::No, .key_positions = Positions::range(0, 3)}) ==
        name + "key_positions [1, 3] must be [1 or 2, 5]");
  CHECK(error_of<ShapeError>(
            {.causal = Causal::No, .query_positions = Positions::starts({0, 0, 0}, 3)}) ==
        name + "query_positions [3, 3] must be [1 or 2, 3]");
  CHECK(error_of<ShapeError>({.causal = Causal::No, .key_positions = Positions::grid(1, 5)}) ==
        name + "positions must have 1 axis but have 2");
  const std::string by_position =
      name + "Causal::ByPosition needs query_positions and key_positions";
  CHECK(error_of<ConfigError>({.causal = Causal::ByPosition}) == by_position);
  CHECK(error_of<ConfigError>({.causal = Causal::ByPosition,
                               .query_positions = Positions::range(0, 3)}) == by_position);
  CHECK(error_of<ConfigError>({.causal = Causal::ByPosition,
                               .key_positions = Positions::range(0, 5)}) == by_position);
}

TEST_CASE("attention: rejects a bias of another number of heads", "[attention][errors]") {
  const auto error = [](Index heads) {
    return error_of<ShapeError>({.causal = Causal::BottomRight},
                                posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));
  };
  CHECK(error(3) == name + "the bias is for 3 heads but q has 4");
  CHECK(error(8) == name + "the bias is for 8 heads but q has 4");
}

TEST_CASE("sinks and lse: one sink per head, one log-sum-exp per query and head",
          "[attention][errors]") {
  const std::vector<float> sinks{1, 2};
  CHECK(error_of<ShapeError>({.causal = Causal::No, .sinks = sinks}) ==
        name + "sinks must have one entry for each of the 4 heads but has 2");
  Lse<float> lse(2, 3, 4);
  CHECK(error_of<ShapeError>({.causal = Causal::No}, {}, {.lse = lse.view()}) ==
        name + "lse [2, 3, 4] must be [2, 4, 3]");
  CHECK(std::isnan(lse.values(0, 0, 0)));
}

TEST_CASE("window: needs sides and an alignment", "[attention][errors]") {
  const std::string sides = name + "window.left and window.right must be at least -1 but are ";
  CHECK(error_of<ConfigError>({.causal = Causal::TopLeft, .window = {.left = -2}}) ==
        sides + "-2 and -1");
  CHECK(error_of<ConfigError>({.causal = Causal::TopLeft, .window = {.left = 0, .right = -7}}) ==
        sides + "0 and -7");
  const std::string place =
      name + "a window without a causal mask requires query_starts for 3 queries and 5 keys";
  for (const Index reach : {0, 1}) {
    CHECK(error_of<ConfigError>({.causal = Causal::No, .window = {.left = reach}}) == place);
    CHECK(error_of<ConfigError>({.causal = Causal::No, .window = {.right = reach}}) == place);
  }
  const std::vector<Index> cu_q{0, 1, 3}, cu_k{0, 2, 5};
  CHECK(error_of_row<ConfigError>({.causal = Causal::No,
                                   .window = {.left = 1},
                                   .cu_seqlens_q = cu_q,
                                   .cu_seqlens_k = cu_k}) == place);
}

TEST_CASE("query_starts: rejected without the alignment that reads them", "[attention][errors]") {
  const std::vector<Index> one{1}, three{1, 2, 3}, far{(Index{1} << 53) + 1}, low{-far[0]};
  CHECK(error_of<ConfigError>({.causal = Causal::FromStart}) ==
        name + "Causal::FromStart needs query_starts");
  const std::string others = name + "query_starts require Causal::FromStart or Causal::No";
  for (const Causal causal : {Causal::TopLeft, Causal::BottomRight, Causal::ByPosition}) {
    CHECK(error_of<ConfigError>({.causal = causal,
                                 .query_starts = one,
                                 .query_positions = Positions::range(0, 3),
                                 .key_positions = Positions::range(0, 5)}) == others);
  }
  CHECK(error_of<ShapeError>({.causal = Causal::FromStart, .query_starts = three}) ==
        name + "query_starts must have 1 entry or one for each of the 2 sequences but has 3");
  const std::string range = name + "query_starts must lie within +-2^53 but one is ";
  CHECK(error_of<posenc::PositionError>({.causal = Causal::FromStart, .query_starts = far}) ==
        range + "9007199254740993");
  CHECK(error_of<posenc::PositionError>({.causal = Causal::No, .query_starts = low}) ==
        range + "-9007199254740993");
  const std::vector<Index> cu_q{0, 1, 3}, cu_k{0, 2, 5};
  CHECK(error_of_row<ShapeError>({.causal = Causal::FromStart,
                                  .query_starts = three,
                                  .cu_seqlens_q = cu_q,
                                  .cu_seqlens_k = cu_k}) ==
        name + "query_starts must have 1 entry or one for each of the 2 sequences but has 3");
}

TEST_CASE("cu_seqlens: boundaries of a single batch row", "[attention][errors]") {
  const std::vector<Index> cu_q{0, 1, 3}, cu_k{0, 2, 5}, longer{0, 1, 2, 3}, one{0};
  const auto error = [](const std::vector<Index>& of_q, const std::vector<Index>& of_k) {
    return error_of_row<ShapeError>(
        {.causal = Causal::No, .cu_seqlens_q = of_q, .cu_seqlens_k = of_k});
  };
  REQUIRE(error(cu_q, cu_k) == "something was written; nothing was thrown");
  const std::string counts =
      name + "cu_seqlens_q and cu_seqlens_k must have as many entries as each other but have ";
  CHECK(error(cu_q, {}) == counts + "3 and 0");
  CHECK(error({}, cu_k) == counts + "0 and 3");
  CHECK(error(longer, cu_k) == counts + "4 and 3");
  const std::string ends = " must begin with 0 and end with ";
  CHECK(error({0, 1, 2}, cu_k) == name + "cu_seqlens_q" + ends + "3 but goes from 0 to 2");
  CHECK(error({1, 1, 3}, cu_k) == name + "cu_seqlens_q" + ends + "3 but goes from 1 to 3");
  CHECK(error(cu_q, {0, 2, 6}) == name + "cu_seqlens_k" + ends + "5 but goes from 0 to 6");
  CHECK(error(one, one) == name + "cu_seqlens_q" + ends + "3 but goes from 0 to 0");
  CHECK(error({0, 2, 1, 3}, {0, 1, 2, 5}) ==
        name + "cu_seqlens_q must not descend but has 1 after 2");
  CHECK(error({0, 1, 2, 3}, {0, 7, 2, 5}) ==
        name + "cu_seqlens_k must not descend but has 2 after 7");
  const std::string alone =
      name + "cu_seqlens_q requires one batch row and no key_lengths but there are ";
  CHECK(error_of<ConfigError>({.causal = Causal::No, .cu_seqlens_q = cu_q, .cu_seqlens_k = cu_k}) ==
        alone + "2 rows and 0 key_lengths");
  const std::vector<Index> length{5};
  CHECK(error_of_row<ConfigError>({.causal = Causal::No,
                                   .key_lengths = length,
                                   .cu_seqlens_q = cu_q,
                                   .cu_seqlens_k = cu_k}) == alone + "1 rows and 1 key_lengths");
}

TEST_CASE("AttentionOptions: settings that float cannot hold are rejected", "[attention][errors]") {
  using Limits = std::numeric_limits<float>;
  for (const double softcap : {1e39, 1e-39, 1e-50}) {
    INFO(softcap);
    CHECK(error_of<ConfigError>({.causal = Causal::No,
                                 .softcap = softcap,
                                 .softcap_order = posenc::SoftcapOrder::BeforeBias})
              .starts_with("posenc::attention: softcap must be positive"));
  }
  CHECK(error_of<ConfigError>({.scale = 1e39, .causal = Causal::No})
            .starts_with("posenc::attention: scale must be finite"));
  for (const float sink : {Limits::infinity(), Limits::quiet_NaN()}) {
    const std::vector<float> sinks{0, 1, sink, 2};
    CHECK(error_of<ConfigError>({.causal = Causal::No, .sinks = sinks})
              .starts_with("posenc::attention: sinks must be finite or -inf but one is "));
  }
}

TEST_CASE("attention: the number of rows must be countable", "[attention][errors]") {
  constexpr Index many = Index{1} << 31;
  const posenc::HeadsView<float> q{nullptr, many, many, 4, 0}, k{nullptr, many, 1, 1, 0};
  CHECK(message_of<ShapeError>([&] { posenc::attention(q, k, k, q, {.causal = Causal::No}); }) ==
        "posenc::attention: 2147483648 times 4 heads times 2147483648 queries exceed 2^63 - 1");
}

TEST_CASE("merge: pieces have the same shape", "[attention][merge][errors]") {
  Heads<float> a(2, 3, 4, 8), b(2, 3, 4, 7), fits(2, 3, 4, 8);
  Lse<float> right(2, 4, 3), wrong(2, 3, 4);
  CHECK(message_of<ShapeError>([&] {
          posenc::merge(a.view(), right.view(), b.view(), right.view());
        }) == "posenc::merge: out_b [2, 3, 4, 7] must have the shape of out_a [2, 3, 4, 8]");
  CHECK(message_of<ShapeError>([&] {
          posenc::merge(a.view(), wrong.view(), fits.view(), right.view());
        }) == "posenc::merge: lse_a [2, 3, 4] and lse_b [2, 4, 3] must be [2, 4, 3]");
  CHECK(message_of<ShapeError>([&] {
          posenc::merge(a.view(), right.view(), fits.view(), wrong.view());
        }) == "posenc::merge: lse_a [2, 4, 3] and lse_b [2, 3, 4] must be [2, 4, 3]");
  bool written = false;
  a.for_each([&](float& value) { written |= !std::isnan(value); });
  CHECK(!written);
}

}  // namespace attention_errors_test
