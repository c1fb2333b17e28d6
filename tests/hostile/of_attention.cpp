// SPDX-License-Identifier: MIT
// Attention, the cache and the module.
#include "hostile/calls.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/attention/merge.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/multi_head_attention.hpp>

#include <array>
#include <exception>
#include <vector>

namespace hostile {

namespace of_attention {

using posenc::AttentionOptions;
using posenc::Causal;
using posenc::KvCache;
using posenc::Positions;

constexpr Index batch = 2, queries = 3, keys = 5, heads = 4, kv_heads = 2, dim = 8, value_dim = 6;

constexpr Causal rules[] = {Causal::No, Causal::TopLeft, Causal::BottomRight, Causal::FromStart};

/// Arrays that the options of a call refer to.
struct Lists {
  explicit Lists(Draw& draw)
      : lengths{draw.number(4), draw.number(5)},
        starts{draw.number(1), draw.number(2)},
        packed_queries{draw.number(0), draw.number(1), draw.number(queries)},
        packed_keys{draw.number(0), draw.number(2), draw.number(keys)} {}

  std::array<Index, 2> lengths, starts;
  std::array<Index, 3> packed_queries, packed_keys;
};

/// Arguments of a call after its tensors.
struct Settings {
  AttentionOptions<float> options;
  posenc::AttentionMemory<float> memory = {};

  posenc::MultiHeadMemory<float> of_module() const {
    return {.lse = memory.lse, .weights = memory.weights};
  }
};

Settings settings(Draw& draw, Memory& memory, const Lists& lists, Index key_count) {
  Settings all{.options = {.causal = rules[draw.below(4)]}};
  AttentionOptions<float>& options = all.options;
  switch (draw.below(10)) {
    case 1:
      options.keep = memory.mask(1, 1, queries, key_count);
      break;
    case 2:
      options.masked = memory.mask(batch, heads, queries, key_count);
      break;
    case 3:
      options.additive = memory.scores(batch, 1, 1, key_count);
      break;
    case 4:
      all.memory.lse = memory.lse(batch, heads, queries);
      break;
    case 5:
      all.memory.weights = memory.scores(batch, heads, queries, key_count);
      break;
    case 6:
      options.key_lengths = lists.lengths;
      break;
    case 7:
      options.query_starts = lists.starts;
      break;
    case 8:
      options.window = {draw.number(2), draw.number(1)};
      break;
    case 9:
      options.query_positions = Positions::range(draw.number(0), queries);
      options.key_positions = draw.below(2) == 0 ? Positions::range(0, key_count)
                                                 : Positions::view(memory.ids(1, key_count));
      break;
    default:
      break;
  }
  return all;
}

KvCache<float> filled_cache(Draw& draw, bool ring) {
  const posenc::KvCacheConfig config{.sequences = draw.number(batch),
                                     .kv_heads = draw.number(kv_heads),
                                     .head_dim = draw.number(dim),
                                     .value_dim = draw.number(value_dim),
                                     .capacity = ring ? 0 : draw.number(300),
                                     .window = ring ? draw.number(40) : 0,
                                     .max_append = draw.number(7)};
  const auto limit = static_cast<std::size_t>(draw.number(100000));
  KvCache<float> cache = draw.below(2) == 0 ? KvCache<float>(config)
                                            : KvCache<float>(config, posenc::KvBlockPool({limit}));
  const std::vector<float> numbers(static_cast<std::size_t>(keys * kv_heads * dim), 0.5F);
  const posenc::HeadsView<const float> k{
      numbers.data(), 1, keys, kv_heads, dim, keys * kv_heads * dim, kv_heads * dim, dim};
  for (Index sequence = 0; sequence < cache.sequences(); ++sequence) {
    cache.append(sequence, k, posenc::slice_features(k, 0, value_dim));
  }
  return cache;
}

/// Calls attention_backward() with the options, a bias and its gradient.
template <class Bias, class BiasGradient>
void go_back(Draw& draw, Memory& memory, Settings all, const Bias& bias, BiasGradient& of_bias) {
  AttentionOptions<float>& options = all.options;
  // The backward pass has no weights; the mask has their shape.
  if (all.memory.weights.data != nullptr) options.additive = all.memory.weights;
  if (all.memory.lse.data == nullptr && draw.below(4) != 1) {
    all.memory.lse = memory.lse(batch, heads, queries);
  }
  posenc::AttentionGradients<float> gradients{.k = memory.heads(batch, keys, kv_heads, dim),
                                              .v = memory.heads(batch, keys, kv_heads, value_dim)};
  if (draw.below(3) != 1) gradients.q = memory.heads(batch, queries, heads, dim);
  if (draw.below(3) == 1) gradients.additive = memory.scores(batch, 1, 1, keys);
  const std::vector<float> sinks(static_cast<std::size_t>(heads), 0.5F);
  std::vector<float> of_sinks(sinks.size() + (draw.below(4) == 1 ? 1 : 0));
  if (draw.below(3) == 1) {
    options.sinks = sinks;
    gradients.sinks = of_sinks;
  }
  posenc::attention_backward<float>(
      memory.heads(batch, queries, heads, dim), memory.heads(batch, keys, kv_heads, dim),
      memory.heads(batch, keys, kv_heads, value_dim),
      memory.heads(batch, queries, heads, value_dim), all.memory.lse,
      memory.heads(batch, queries, heads, value_dim), gradients, options, bias, of_bias);
}

using Module = posenc::MultiHeadAttention<float>;

/// Returns a norm, which may be invalid, or none.
posenc::QkNorm draw_norm(Draw& draw) {
  constexpr posenc::QkNorm norms[] = {
      {},
      {},
      {posenc::QkNormOver::Head, posenc::QkNormWeight::Factor, 1e-6},
      {posenc::QkNormOver::AllHeads, posenc::QkNormWeight::FactorMinusOne, 1e-6},
      {posenc::QkNormOver::Head, posenc::QkNormWeight::Factor, -1}};
  return norms[draw.below(5)];
}

constexpr std::array calls{
    Call{"attention",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           const Settings all = settings(draw, memory, lists, keys);
           posenc::attention<float>(
               memory.heads(batch, queries, heads, dim), memory.heads(batch, keys, kv_heads, dim),
               memory.heads(batch, keys, kv_heads, value_dim),
               memory.heads(batch, queries, heads, value_dim), all.options, {}, all.memory);
         }},
    Call{"attention over keys of another type",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           const Settings all = settings(draw, memory, lists, keys);
           posenc::attention<float>(
               memory.heads(batch, queries, heads, dim),
               memory.narrow_heads(batch, keys, kv_heads, dim),
               memory.narrow_heads(batch, keys, kv_heads, value_dim),
               memory.heads(batch, queries, heads, value_dim), all.options,
               posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Symmetric}), all.memory);
         }},
    Call{"attention with a bias",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           const Settings all = settings(draw, memory, lists, keys);
           posenc::attention<float>(
               memory.heads(batch, queries, heads, dim), memory.heads(batch, keys, kv_heads, dim),
               memory.heads(batch, keys, kv_heads, value_dim),
               memory.heads(batch, queries, heads, value_dim), all.options,
               posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Symmetric}), all.memory);
         }},
    Call{"attention with a relative bias",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           const std::array rows{draw.number(0), draw.number(4), draw.number(2)};
           posenc::RelativeBias<float> bias;
           bias.index = {.order = posenc::RelativeOrder::QueryMinusKey,
                         .first = draw.number(-2),
                         .beyond = draw.below(2) == 0 ? posenc::BeyondTable::Nearest
                                                      : posenc::BeyondTable::Refused};
           if (draw.below(3) == 0) bias.index.rows = rows;
           bias.scale = posenc::RelativeScale::Scaled;
           bias.table = memory.heads(1, keys, heads, dim);
           if (draw.below(2) == 0) bias.queries = memory.heads(batch, queries, heads, dim);
           if (draw.below(2) == 0) bias.key_table = memory.heads(1, keys, 1, dim);
           const Settings all = settings(draw, memory, lists, keys);
           posenc::attention<float>(
               memory.heads(batch, queries, heads, dim), memory.heads(batch, keys, kv_heads, dim),
               memory.heads(batch, keys, kv_heads, value_dim),
               memory.heads(batch, queries, heads, value_dim), all.options, bias, all.memory);
         }},
    Call{"add_to_heads",
         [](Draw&, Memory& memory) {
           posenc::add_to_heads<float>(memory.heads(batch, queries, heads, dim),
                                       memory.heads(1, 1, heads, dim),
                                       memory.heads(batch, queries, heads, dim));
         }},
    Call{"deberta_rows",
         [](Draw& draw, Memory&) { (void)posenc::deberta_rows(draw.number(8), draw.number(16)); }},
    Call{"forgetting attention",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           posenc::ForgetGates gates(draw.number(batch), draw.number(heads));
           const std::array sequences{draw.number(0), draw.number(1)};
           gates.append(sequences, memory.embeddings(batch, keys, heads));
           switch (draw.below(8)) {
             case 0:
               gates.truncate(draw.number(0), draw.number(4));
               break;
             case 1:
               gates.evict_before(draw.number(0), draw.number(1));
               break;
             case 2:
               gates.copy(draw.number(0), draw.number(1));
               break;
             case 3:
               gates.erase(draw.number(0), draw.number(1), draw.number(2));
               break;
             case 4:
               gates.copy_sums(draw.number(0), draw.number(1), memory.doubles(1, 2, heads));
               break;
             case 5:
               gates.restore(draw.number(0), draw.number(1), memory.doubles(1, keys, heads));
               break;
             case 6: {
               const std::array offsets{draw.number(0), draw.number(1), draw.number(keys)};
               gates.append(sequences, offsets, memory.embeddings(1, keys, heads));
               break;
             }
             default:
               break;
           }
           const Settings all = settings(draw, memory, lists, keys);
           posenc::attention<float>(memory.heads(batch, queries, heads, dim),
                                    memory.heads(batch, keys, kv_heads, dim),
                                    memory.heads(batch, keys, kv_heads, value_dim),
                                    memory.heads(batch, queries, heads, value_dim), all.options,
                                    posenc::ForgettingBias(gates, sequences), all.memory);
         }},
    Call{"attention_backward",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           posenc::NoGradient none;
           go_back(draw, memory, settings(draw, memory, lists, keys), posenc::NoBias{}, none);
         }},
    Call{"attention_backward of ALiBi",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           const posenc::Alibi alibi(
               {.heads = draw.number(heads), .form = posenc::AlibiForm::Causal});
           auto of_slopes = alibi.zero_gradient();
           if (draw.below(4) == 1) of_slopes.pop_back();
           go_back(draw, memory, settings(draw, memory, lists, keys), alibi, of_slopes);
         }},
    Call{"attention_backward of gates",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           posenc::ForgetGates gates(batch, draw.number(heads));
           gates.append({0, 1}, memory.embeddings(batch, keys, heads));
           const std::array sequences{draw.number(0), draw.number(1)};
           const posenc::ForgettingBias bias(gates, sequences);
           auto of_gates = bias.zero_gradient();
           if (draw.below(4) == 1) gates.truncate(0, 2);
           go_back(draw, memory, settings(draw, memory, lists, keys), bias, of_gates);
         }},
    Call{"ForgetGradient",
         [](Draw& draw, Memory& memory) {
           posenc::ForgetGradient gradient(draw.number(heads), {draw.number(keys), draw.number(2)});
           gradient.add<float>(draw.number(0), draw.number(1), draw.number(0), draw.number(1),
                               memory.matrix(2, 2));
           gradient.log_gates(draw.number(1), memory.embeddings(1, 2, heads));
           gradient.logits<float>(draw.number(0), memory.embeddings(2, 2, heads),
                                  memory.embeddings(2, 2, heads));
         }},
    Call{"attention over packed sequences",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           Settings all = settings(draw, memory, lists, keys);
           all.options.cu_seqlens_q = lists.packed_queries;
           all.options.cu_seqlens_k = lists.packed_keys;
           posenc::attention<float>(
               memory.heads(1, queries, heads, dim), memory.heads(1, keys, kv_heads, dim),
               memory.heads(1, keys, kv_heads, value_dim),
               memory.heads(1, queries, heads, value_dim), all.options, {}, all.memory);
         }},
    Call{"attention over a cache",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           const KvCache<float> cache = filled_cache(draw, draw.below(2) == 1);
           const std::array sequences{draw.number(0), draw.number(1)};
           const Settings all = settings(draw, memory, lists, keys);
           posenc::attention<float>(memory.heads(batch, queries, heads, dim), cache, sequences,
                                    memory.heads(batch, queries, heads, value_dim), all.options, {},
                                    all.memory);
         }},
    Call{"attention of packed queries over a cache",
         [](Draw& draw, Memory& memory) {
           const Lists lists(draw);
           const KvCache<float> cache = filled_cache(draw, draw.below(2) == 1);
           const std::array sequences{draw.number(0), draw.number(1)};
           Settings all = settings(draw, memory, lists, keys);
           all.options.cu_seqlens_q = lists.packed_queries;
           posenc::attention<float>(memory.heads(1, queries, heads, dim), cache, sequences,
                                    memory.heads(1, queries, heads, value_dim), all.options, {},
                                    all.memory);
         }},
    Call{"KvCache",
         [](Draw& draw, Memory& memory) {
           KvCache<float> cache = filled_cache(draw, draw.below(2) == 1);
           const auto k = [&] { return memory.heads(1, 2, kv_heads, dim); };
           const auto v = [&] { return memory.heads(1, 2, kv_heads, value_dim); };
           switch (draw.below(8)) {
             case 0:
               cache.append(draw.number(0), k(), v());
               break;
             case 6: {
               const std::array sequences{draw.number(0), draw.number(1)};
               const std::array offsets{draw.number(0), draw.number(1), draw.number(2)};
               cache.append(sequences, offsets, k(), v());
               break;
             }
             case 7:
               cache.restore(draw.number(0), draw.number(0), k(), v());
               break;
             case 1:
               cache.copy_keys(draw.number(0), draw.number(3), k(), v());
               break;
             case 2:
               cache.truncate(draw.number(0), draw.number(2));
               break;
             case 3:
               cache.erase(draw.number(0), draw.number(1), draw.number(2), [](auto) {});
               break;
             case 4:
               cache.copy(draw.number(0), draw.number(1));
               break;
             default:
               cache.update_keys(draw.number(1), [](auto, Index) {});
               (void)cache.length(draw.number(1));
               (void)cache.first(draw.number(1));
               cache.clear(draw.number(0));
           }
           // The cache must work after every rejected call.
           for (Index sequence = 0; sequence < cache.sequences(); ++sequence) {
             if (cache.length(sequence) < cache.first(sequence)) throw std::exception();
           }
         }},
    Call{"merge",
         [](Draw&, Memory& memory) {
           posenc::merge<float>(
               memory.heads(batch, queries, heads, dim), memory.lse(batch, heads, queries),
               memory.heads(batch, queries, heads, dim), memory.lse(batch, heads, queries));
         }},
    Call{"linear layers",
         [](Draw& draw, Memory& memory) {
           const posenc::Linear<float> linear(draw.number(dim), draw.number(6), true);
           linear.apply(memory.embeddings(batch, queries, dim),
                        memory.embeddings(batch, queries, 6));
           const posenc::FixedOrderLinear<float> fixed(draw.number(dim), draw.number(6), true);
           fixed.apply(memory.embeddings(batch, queries, dim),
                       memory.embeddings(batch, queries, 6));
           posenc::LinearParameters<float> gradient(draw.number(dim), draw.number(6), true);
           linear.backward(memory.embeddings(batch, queries, dim),
                           memory.embeddings(batch, queries, 6),
                           memory.embeddings(batch, queries, dim), gradient);
         }},
    Call{"training of MultiHeadAttention",
         [](Draw& draw, Memory& memory) {
           const Module module({.model_dim = draw.number(dim),
                                .heads = draw.number(heads),
                                .kv_heads = draw.number(kv_heads),
                                .head_dim = draw.number(2),
                                .qk_norm = draw_norm(draw)});
           const Lists lists(draw);
           posenc::MultiHeadTape<float> tape;
           auto gradients = module.zero_gradients();
           const Settings all = settings(draw, memory, lists, queries);
           if (draw.below(2) == 0) {
             module.forward(
                 memory.embeddings(batch, queries, dim), Positions::range(draw.number(0), queries),
                 memory.embeddings(batch, queries, dim), tape, all.options, all.of_module());
             module.backward(tape, memory.embeddings(batch, queries, dim),
                             memory.embeddings(batch, queries, dim), gradients);
             return;
           }
           const auto positions = Positions::range(0, draw.number(queries));
           module.forward(memory.embeddings(batch, queries, dim), positions,
                          memory.embeddings(batch, queries, dim),
                          memory.embeddings(batch, queries, dim), positions,
                          memory.embeddings(batch, queries, dim), tape, all.options,
                          all.of_module());
           module.backward(tape, memory.embeddings(batch, queries, dim),
                           memory.embeddings(batch, queries, dim),
                           memory.embeddings(batch, queries, dim),
                           memory.embeddings(batch, queries, dim), gradients);
         }},
    Call{"MultiHeadAttention",
         [](Draw& draw, Memory& memory) {
           const Module module({.model_dim = draw.number(dim),
                                .heads = draw.number(heads),
                                .kv_heads = draw.number(kv_heads),
                                .head_dim = draw.number(2),
                                .qk_norm = draw_norm(draw)});
           const Lists lists(draw);
           const Settings all = settings(draw, memory, lists, queries);
           module.forward(memory.embeddings(batch, queries, dim),
                          Positions::range(draw.number(0), queries),
                          memory.embeddings(batch, queries, dim), all.options, all.of_module());
           KvCache<float> cache(
               {.sequences = batch, .kv_heads = kv_heads, .head_dim = 2, .capacity = 32});
           const std::array sequences{draw.number(0), draw.number(1)};
           Settings decoding = settings(draw, memory, lists, queries);
           const Index rows = draw.below(2) == 0 ? batch : 1;
           if (rows == 1) decoding.options.cu_seqlens_q = lists.packed_queries;
           module.forward(memory.embeddings(rows, queries, dim), Positions::range(0, queries),
                          cache, sequences, memory.embeddings(rows, queries, dim), decoding.options,
                          decoding.of_module());
         }},
};

}  // namespace of_attention

std::span<const Call> calls_of_attention() { return of_attention::calls; }

}  // namespace hostile
