// SPDX-License-Identifier: MIT
// Frequencies, rotary encodings and biases.
#include "hostile/calls.hpp"
#include <posenc/attention/cosine.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/log_cpb.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/window.hpp>
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/longrope.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/interop/diffusion_axes.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/frequency_gradient.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/permute.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotation_table.hpp>
#include <posenc/rotary/xpos.hpp>

#include <array>
#include <vector>

namespace hostile {

namespace on_heads {

using posenc::HalfRotate;
using posenc::Interleaved;
using posenc::Positions;

constexpr Index batch = 2, seq = 3, heads = 2, dim = 8;

const posenc::Unscaled plain{.rotary_dim = 4, .base = 10000};
const std::vector<double> queries{3, 4, 7}, keys{0, 1, 2, 3, 4};

constexpr std::array calls{
    Call{"rules",
         [](Draw& draw, Memory&) {
           const Index width = draw.number(dim), length = draw.number(4096);
           (void)frequencies(posenc::Unscaled{.rotary_dim = width, .base = 10000});
           (void)frequencies(posenc::Llama3Scaling{.rotary_dim = width,
                                                   .base = 10000,
                                                   .factor = 8,
                                                   .low_freq_factor = 1,
                                                   .high_freq_factor = 4,
                                                   .original_max_position = length});
           (void)frequencies(posenc::YarnScaling{
               .rotary_dim = width, .base = 10000, .factor = 8, .original_max_position = length});
           (void)frequencies(posenc::DynamicNtkScaling{.rotary_dim = width,
                                                       .base = 10000,
                                                       .factor = 2,
                                                       .original_max_position = length},
                             draw.number(5000));
           (void)frequencies(posenc::LongRopeScaling{.rotary_dim = width,
                                                     .base = 10000,
                                                     .short_factor = {1, 1, 1, 1},
                                                     .long_factor = {2, 2, 2, 2},
                                                     .original_max_position = length},
                             draw.number(5000));
         }},
    Call{"axes",
         [](Draw& draw, Memory&) {
           const std::array sections{draw.number(2), draw.number(1), draw.number(1)};
           (void)posenc::mrope_chunked(sections);
           (void)posenc::mrope_interleaved(sections, posenc::MropeTail::Time);
           (void)posenc::PairAxes::only(draw.number(0), draw.number(2), draw.number(4));
         }},
    Call{"vision",
         [](Draw& draw, Memory&) {
           (void)posenc::qwen2_vl_vision({.head_dim = draw.number(dim), .base = 10000});
           const std::array sections{draw.number(2), draw.number(2), draw.number(0), Index{0}};
           (void)posenc::ggml_vision({.head_dim = draw.number(dim), .base = 10000}, sections);
           (void)posenc::dinov3({.head_dim = draw.number(dim), .base = 100});
           (void)posenc::axial({draw.number(2), draw.number(4)}, 10000);
           (void)posenc::wan(draw.number(dim));
           (void)posenc::cosmos({.head_dim = draw.number(dim)});
         }},
    Call{"Rope",
         [](Draw& draw, Memory& memory) {
           const posenc::Rope<HalfRotate> rope(plain, draw.number(2));
           const auto x = memory.heads(batch, seq, heads, dim);
           rope.rotate(x, Positions::range(draw.number(0), draw.number(seq)));
           rope.rotate_into<float>(x, memory.heads(batch, seq, heads, dim),
                                   Positions::range(0, seq));
           rope.rotate_into(x, memory.narrow_heads(batch, seq, heads, dim),
                            Positions::view(memory.ids(batch, seq)));
           rope.rotate_all({x, memory.heads(batch, seq, 1, dim)}, Positions::range(0, seq));
           rope.adjoint(x, Positions::range(0, seq));
           rope.inverse(x, Positions::range(0, seq));
         }},
    Call{"AnyRope",
         [](Draw& draw, Memory& memory) {
           const posenc::AnyRope rope(posenc::PairingKind::Interleaved, frequencies(plain),
                                      draw.number(2));
           rope.rotate(memory.heads(batch, seq, heads, dim), Positions::range(0, seq));
         }},
    Call{"RotationTable",
         [](Draw& draw, Memory& memory) {
           const auto cos = memory.embeddings(1, seq, 2), sin = memory.embeddings(1, seq, 2);
           const auto table =
               posenc::RotationTable<Interleaved, float>::from_cos_sin(cos, sin, draw.number(2));
           table.rotate(memory.heads(batch, seq, heads, dim));
           table.rotate_into<float>(memory.heads(batch, seq, heads, dim),
                                    memory.heads(batch, seq, heads, dim));
           table.rotate_into(memory.narrow_heads(batch, seq, heads, dim),
                             memory.heads(batch, seq, heads, dim));
           const auto cos_cache = memory.matrix(9, 2), sin_cache = memory.matrix(9, 2);
           (void)posenc::RotationTable<Interleaved, float>::from_cache(
               cos_cache, sin_cache, Positions::range(draw.number(1), draw.number(3)),
               draw.number(2));
           (void)posenc::Rope<Interleaved>(plain).table<float>(
               Positions::range(0, draw.number(seq)));
         }},
    Call{"XPos",
         [](Draw& draw, Memory& memory) {
           const posenc::XPos<HalfRotate> xpos(plain, {.scale_base = 512}, draw.number(1));
           xpos.rotate_queries(memory.heads(batch, seq, heads, dim), Positions::range(0, seq));
         }},
    Call{"ChatGlmRope",
         [](Draw& draw, Memory& memory) {
           const posenc::ChatGlmRope rope(draw.number(dim), 10000);
           const Positions ids = Positions::range(0, seq);
           rope.rotate(memory.heads(batch, seq, heads, dim), Positions::axes(std::array{ids, ids}));
         }},
    Call{"MixedRope",
         [](Draw& draw, Memory& memory) {
           const std::vector<double> inv_freq(8, 0.5);
           const posenc::MixedRope<Interleaved> rope(inv_freq, {.axes = draw.number(2),
                                                                .heads = draw.number(heads),
                                                                .rotary_dim = draw.number(4),
                                                                .rotary_offset = draw.number(1)});
           rope.rotate(memory.heads(batch, 6, heads, dim), Positions::grid(2, 3));
           std::vector<double> gradient(8);
           posenc::accumulate_frequency_gradient(rope, memory.heads(batch, 6, heads, dim),
                                                 memory.heads(batch, 6, heads, dim),
                                                 Positions::grid(2, 3), gradient);
         }},
    Call{"rope_vit_mixed_inv_freq",
         [](Draw& draw, Memory&) {
           (void)posenc::rope_vit_mixed_inv_freq(draw.number(dim), 10, std::array{0.5});
         }},
    Call{"accumulate_frequency_gradient",
         [](Draw& draw, Memory& memory) {
           const posenc::Rope<HalfRotate> rope(plain, draw.number(2));
           std::vector<double> gradient(2);
           posenc::accumulate_frequency_gradient(rope, memory.heads(batch, seq, heads, dim),
                                                 memory.heads(batch, seq, heads, dim),
                                                 Positions::range(0, seq), gradient);
         }},
    Call{"shift_keys",
         [](Draw& draw, Memory& memory) {
           const posenc::Rope<HalfRotate> rope(plain, draw.number(2));
           posenc::shift_keys(memory.heads(batch, seq, heads, dim), rope, {draw.number(-3)});
           posenc::rerotate(memory.heads(batch, seq, heads, dim), rope,
                            Positions::range(draw.number(1), seq), rope, Positions::range(0, seq));
         }},
    Call{"permute_pairs",
         [](Draw& draw, Memory& memory) {
           const posenc::HeadLayout rows{.head_dim = draw.number(4),
                                         .rotary_dim = draw.number(2),
                                         .rotary_offset = draw.number(1)};
           posenc::permute_pairs<Interleaved, HalfRotate>(memory.matrix(8, 3), rows);
           posenc::permute_pairs<Interleaved, HalfRotate, float>(memory.matrix(8, 3),
                                                                 memory.matrix(8, 3), rows);
         }},
    Call{"Alibi",
         [](Draw& draw, Memory& memory) {
           const posenc::Alibi alibi(
               {.heads = draw.number(heads), .form = posenc::AlibiForm::Symmetric});
           alibi.add(draw.number(1), queries, keys, memory.matrix(3, 5));
           auto gradient = alibi.zero_gradient();
           alibi.add_gradient<float>(draw.number(0), queries, keys, memory.matrix(3, 5), gradient);
         }},
    Call{"T5Bias",
         [](Draw& draw, Memory& memory) {
           const posenc::T5Bias<float> t5(memory.matrix(8, heads),
                                          {.buckets = draw.number(8),
                                           .max_distance = draw.number(20),
                                           .direction = posenc::T5Direction::Causal});
           t5.add(draw.number(1), queries, keys, memory.matrix(3, 5));
           t5.add_gradient<float>(draw.number(0), queries, keys, memory.matrix(3, 5),
                                  memory.matrix(8, heads));
           posenc::TableGradient gradient(draw.number(8), draw.number(heads));
           t5.add_gradient<float>(draw.number(0), queries, keys, memory.matrix(3, 5), gradient);
         }},
    Call{"WindowBias",
         [](Draw& draw, Memory& memory) {
           const posenc::WindowBias<float> bias(
               memory.matrix(18, heads),
               {.rows = draw.number(2), .cols = draw.number(3), .class_token = true});
           bias.add(draw.number(1), queries, keys, memory.matrix(3, 5));
           bias.add_gradient<float>(draw.number(0), queries, keys, memory.matrix(3, 5),
                                    memory.matrix(18, heads));
         }},
    Call{"window_table_of_maxvit",
         [](Draw&, Memory& memory) {
           posenc::window_table_of_maxvit<float>(memory.matrix(heads, 15),
                                                 memory.matrix(15, heads));
         }},
    Call{"LogCpb",
         [](Draw& draw, Memory& memory) {
           const posenc::LogCpb network({.hidden_weight = {1, 2, 3, 4},
                                         .hidden_bias = {0, 1},
                                         .output_weight = {1, -1, 0.5, 2}},
                                        {.rows = draw.number(2), .cols = draw.number(3)});
           network.evaluate(memory.matrix(15, 2));
           auto gradient = network.zero_gradient();
           network.add_gradient<float>(memory.matrix(15, 2), gradient);
         }},
    Call{"cosine_queries",
         [](Draw&, Memory& memory) {
           const std::vector<double> logit_scale(static_cast<std::size_t>(heads), 1);
           posenc::cosine_queries(memory.heads(batch, seq, heads, dim), logit_scale);
           posenc::cosine_keys(memory.heads(batch, seq, heads, dim));
         }},
    Call{"Kerple",
         [](Draw& draw, Memory& memory) {
           const posenc::Kerple kerple(
               {.form = posenc::KerpleForm::Power, .r1 = {1, 2}, .r2 = {1, 0.5}});
           kerple.add(draw.number(1), queries, keys, memory.matrix(3, 5));
           auto gradient = kerple.zero_gradient();
           kerple.add_gradient<float>(draw.number(1), queries, keys, memory.matrix(3, 5), gradient);
         }},
    Call{"Fire",
         [](Draw& draw, Memory& memory) {
           const posenc::Fire fire({.c = 1,
                                    .threshold = 3,
                                    .hidden_weight = {1, -1},
                                    .hidden_bias = {0, 0.5},
                                    .output_weight = {1, 2},
                                    .output_bias = {0}});
           fire.add(draw.number(0), queries, keys, memory.matrix(3, 5));
           auto gradient = fire.zero_gradient();
           fire.add_gradient<float>(draw.number(0), queries, keys, memory.matrix(3, 5), gradient);
         }},
};

}  // namespace on_heads

std::span<const Call> calls_on_heads() { return on_heads::calls; }

}  // namespace hostile
