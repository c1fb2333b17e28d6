// SPDX-License-Identifier: MIT
// Attention whose bias depends on the query, or on gates of tokens. vs_plain_attention is the ratio
// to the time per useful operation of causal attention alone. The products that compute the bias
// count as useful.
#include "cases.hpp"
#include <posenc/attention/relative_bias.hpp>
#include <posenc/bias/forgetting.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using bench::AttentionModel, bench::Index, bench::Tensor4, bench::Tokens, bench::Work;
using posenc::BeyondTable;
using posenc::RelativeBias;
using posenc::RelativeOrder;
using posenc::RelativeScale;

constexpr Index tokens = 1024, extent = 512;
constexpr AttentionModel transformer_xl{"transformer_xl", 16, 16, 64};
constexpr AttentionModel deberta{"deberta_v3_base", 12, 12, 64};

/// Returns the work of causal attention, and of a product of `width` channels for each distance up
/// to `reach`.
Work relative_work(const AttentionModel& model, Index reach, Index width) {
  Work work = bench::causal_work(tokens, tokens);
  for (Index i = 0; i < tokens; ++i) {
    work.pairs += static_cast<double>(std::min(i + 1, reach) * width) /
                  static_cast<double>(2 * model.head_dim);
  }
  return work;
}

void add_table(const std::string& name, const AttentionModel& model, bool per_head,
               BeyondTable beyond) {
  bench::add("attention/" + std::string(model.name) + "/relative_1024/" + name,
             [=](benchmark::State& state) {
               Tokens setup(model, tokens, tokens);
               const Tensor4 table =
                   bench::random_tensor(extent, per_head ? model.heads : 1, model.head_dim);
               RelativeBias<float> bias;
               bias.table = posenc::bshd(table);
               bias.index = {.order = RelativeOrder::QueryMinusKey, .first = 0, .beyond = beyond};
               bias.scale = RelativeScale::Scaled;
               bench::variant_case(state, setup, relative_work(model, extent, model.head_dim),
                                   setup.causal(), bias);
             });
}

void add_inkling(const AttentionModel& model) {
  bench::add(
      "attention/" + std::string(model.name) + "/relative_1024/inkling",
      [=](benchmark::State& state) {
        Tokens setup(model, tokens, tokens);
        const Tensor4 table = bench::random_tensor(1024, 1, 16),
                      queries = bench::random_tensor(tokens, model.heads, 16);
        RelativeBias<float> bias;
        bias.table = posenc::bshd(table);
        bias.queries = posenc::bshd(queries);
        bias.index = {
            .order = RelativeOrder::QueryMinusKey, .first = 0, .beyond = BeyondTable::Nothing};
        bias.scale = RelativeScale::Unscaled;
        bench::variant_case(state, setup, bench::causal_work(tokens, tokens), setup.causal(), bias);
      });
}

/// Adds DeBERTa: every key is visible, and each table's products are computed once per query or key
/// and distance.
void add_deberta() {
  bench::add("attention/" + std::string(deberta.name) + "/relative_1024/both_tables",
             [](benchmark::State& state) {
               Tokens setup(deberta, tokens, tokens);
               const std::vector<Index> rows = posenc::deberta_rows(256, 512);
               const Tensor4 of_queries = bench::random_tensor(512, deberta.heads, 64),
                             of_keys = bench::random_tensor(512, deberta.heads, 64);
               RelativeBias<float> bias;
               bias.table = posenc::bshd(of_queries);
               bias.key_table = posenc::bshd(of_keys);
               bias.index = posenc::deberta_index(rows);
               bias.scale = RelativeScale::Scaled;
               constexpr double all = static_cast<double>(tokens) * tokens;
               const Work work{all + 2 * tokens * 512 / 2.0, tokens};
               bench::Options options = setup.causal();
               options.causal = posenc::Causal::No;
               bench::variant_case(state, setup, work, options, bias);
             });
}

void add_forgetting(const AttentionModel& model) {
  bench::add(
      "attention/" + std::string(model.name) + "/prefill_1024/forgetting",
      [=](benchmark::State& state) {
        Tokens setup(model, tokens, tokens);
        posenc::ForgetGates gates(1, model.heads);
        const Tensor4 logits = bench::random_tensor(tokens, 1, model.heads);
        gates.append(0, posenc::EmbeddingsView<const float>{logits.data(), 1, tokens, model.heads});
        const std::vector<Index> sequences{0};
        const posenc::ForgettingBias bias(gates, sequences);
        bench::variant_case(state, setup, bench::causal_work(tokens, tokens), setup.causal(), bias);
      });
}

const bool added = [] {
  add_table("shaw", bench::llama3_8b, false, BeyondTable::Nearest);
  add_table("shaw", transformer_xl, false, BeyondTable::Nearest);
  add_table("per_head", transformer_xl, true, BeyondTable::Nothing);
  add_inkling(bench::llama3_8b);
  add_deberta();
  add_forgetting(bench::llama3_8b);
  return true;
}();

}  // namespace
