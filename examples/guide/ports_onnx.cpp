// SPDX-License-Identifier: MIT
// Attention and rotation of ONNX beside calls of posenc. Each result is compared with the recorded output of ONNX
// Runtime 1.32.0 on a processor.
#include <posenc/attention/attention.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <vector>

using posenc::Causal;
using posenc::Index;
using Numbers = std::vector<float>;

namespace {

constexpr Index queries = 2, keys = 4, dim = 4;  // of Attention, with 2 heads and 1 KV head

/// The recorded inputs: sin(n * n % 997 + 31 * seed), in float32.
Numbers numbers(Index count, int seed) {
  Numbers x;
  for (Index n = 0; n < count; ++n) {
    x.push_back(std::sin(static_cast<float>(n * n % 997 + 31 * seed)));
  }
  return x;
}

/// Views dense memory in the order [B, H, S, D] of ONNX's inputs of rank 4.
posenc::HeadsView<float> view_bhsd(Numbers& x, Index h, Index s, Index d) {
  return {.data = x.data(),
          .batch = 1,
          .seq = s,
          .heads = h,
          .dim = d,
          .batch_stride = h * s * d,
          .seq_stride = d,
          .head_stride = s * d};
}

// Outputs of ai.onnx.Attention
const Numbers causal_alone{-0.948282F,  -0.245252F, 0.379608F,   0.994827F,  0.487199F, -0.844405F,
                           -0.0864749F, -0.292308F, -0.948282F,  -0.245252F, 0.379608F, 0.994827F,
                           0.207327F,   -0.727589F, 0.00439612F, -0.0413582F};
const Numbers after_two_keys{
    -0.363613F, -0.597237F, -0.163701F, 0.518978F, -0.0326587F, -0.893174F, -0.276675F, -0.233854F,
    -0.029324F, -0.820402F, -0.546099F, 0.256733F, -0.516798F,  -0.876835F, -0.107595F, -0.355507F};
const Numbers two_then_three_keys{
    -0.502584F, -0.431281F, 0.234895F,  0.595188F, 0.309125F, -0.87333F,  -0.36674F,  -0.0863444F,
    0.0409011F, -0.658125F, 0.0584325F, 0.107869F, 0.141166F, -0.775761F, -0.222274F, 0.0519426F};
const Numbers capped{-0.412377F, -0.865722F, -0.448416F,  0.0272338F, -0.473581F, -0.709324F,
                     -0.212567F, 0.242433F,  -0.272752F,  -0.898295F, -0.537762F, 0.0226144F,
                     -0.60791F,  -0.645132F, -0.0439939F, 0.257872F};
const Numbers first_row_masked{0, 0, 0, 0, -0.0326587F, -0.893174F, -0.276675F, -0.233854F,
                               0, 0, 0, 0, -0.516798F,  -0.876835F, -0.107595F, -0.355507F};
const Numbers own_key_alone{-0.948282F, -0.245252F, 0.379608F,  0.994827F,  0.816743F, -0.981952F,
                            -0.193473F, -0.587795F, -0.948282F, -0.245252F, 0.379608F, 0.994827F,
                            0.816743F,  -0.981952F, -0.193473F, -0.587795F};
// Output of com.microsoft.GroupQueryAttention
const Numbers decoded{0.142082F,  -0.190258F, 0.134261F,  -0.546614F,  0.0198256F,  0.103538F,
                      0.64394F,   0.384166F,  -0.33399F,  0.25539F,    0.275336F,   -0.363492F,
                      0.392917F,  0.642286F,  -0.606474F, 0.676171F,   -0.0702519F, -0.0505286F,
                      -0.214122F, -0.669354F, -0.119722F, -0.0333928F, 0.531343F,   -0.0728358F,
                      0.0712206F, 0.32566F,   0.276254F,  -0.247019F,  0.0428791F,  0.807189F,
                      -0.731629F, 0.443567F};

}  // namespace

int main() {
  bool ok = true;
  const auto check = [&ok](const char* what, const Numbers& out, const Numbers& recorded) {
    const bool same = std::equal(out.begin(), out.end(), recorded.begin(), recorded.end(),
                                 [](float a, float b) { return std::abs(a - b) < 1e-5F; });
    std::cout << (same ? "agrees: " : "WRONG:  ") << what << '\n';
    ok = ok && same;
  };

  Numbers q_data = numbers(2 * queries * dim, 1), k_data = numbers(keys * dim, 2),
          v_data = numbers(keys * dim, 3), out_data(q_data.size());
  const Numbers mask_data = numbers(queries * keys, 4);
  const auto q = view_bhsd(q_data, 2, queries, dim), out = view_bhsd(out_data, 2, queries, dim);
  const auto k = view_bhsd(k_data, 1, keys, dim), v = view_bhsd(v_data, 1, keys, dim);

  // [attention]
  // Attention(q, k, v), is_causal = 1: neither past_key nor nonpad_kv_seqlen
  posenc::attention(q, k, v, out, {.causal = Causal::TopLeft});
  // [/attention]
  check("is_causal", out_data, causal_alone);

  // [past]
  // Attention(q, k_new, v_new, past_key, past_value), is_causal = 1; k and v are present_key and
  // present_value, of one past key and three new ones
  const std::int64_t past[] = {1};
  posenc::attention(q, k, v, out, {.causal = Causal::FromStart, .query_starts = past});
  // [/past]
  check("is_causal with past_key, more new keys than queries", out_data, two_then_three_keys);
  posenc::attention(q, k, v, out, {.causal = Causal::BottomRight});
  check("is_causal with past_key, as many new keys as queries", out_data, after_two_keys);

  // [nonpad]
  // Attention(q, k, v, nonpad_kv_seqlen), is_causal = 1
  const std::int64_t nonpad_kv_seqlen[] = {3};
  posenc::attention(q, k, v, out, {.causal = Causal::BottomRight, .key_lengths = nonpad_kv_seqlen});
  // [/nonpad]
  check("is_causal with nonpad_kv_seqlen", out_data, two_then_three_keys);

  posenc::attention(
      q, k, v, out,
      {.causal = Causal::No,
       .additive =
           {.data = mask_data.data(), .batch = 1, .heads = 1, .queries = queries, .keys = keys},
       .softcap = 0.5,
       .softcap_order = posenc::SoftcapOrder::BeforeBias});
  check("softcap with a float mask", out_data, capped);

  const bool keep[] = {false, false, false, false, true, true, true, true};
  posenc::attention(
      q, k, v, out,
      {.causal = Causal::No,
       .keep = {.data = keep, .batch = 1, .heads = 1, .queries = queries, .keys = keys}});
  check("a row without keys", out_data, first_row_masked);

  posenc::attention(q, k, v, out, {.causal = Causal::TopLeft, .window = {.left = 0}});
  check("left_window_size 0, opset 25", out_data, own_key_alone);

  // One token after three, 2 heads of 16 channels over 1 KV head, in a cache of 8 keys.
  constexpr Index width = 16, capacity = 8;
  Numbers query_data = numbers(2 * width, 6), key_data = numbers(width, 7),
          value = numbers(width, 8);
  Numbers past_key = numbers(capacity * width, 9), past_value = numbers(capacity * width, 10);
  Numbers output(query_data.size());
  const auto query = view_bhsd(query_data, 2, 1, width), key = view_bhsd(key_data, 1, 1, width);
  // [gqa]
  // GroupQueryAttention(...), do_rotary = 1, local_window_size = 3, softcap = 2, head_sink
  const std::int64_t lengths[] = {3 + 1};  // seqlens_k + 1
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = width, .base = 10000});
  rope.rotate_all({query, key}, posenc::Positions::range(lengths[0] - 1, 1));  // seqlens_k + 1 - Sq
  std::copy_n(key_data.data(), width, past_key.data() + (lengths[0] - 1) * width);
  std::copy_n(value.data(), width, past_value.data() + (lengths[0] - 1) * width);
  const float head_sink[] = {0.5F, -1};
  posenc::attention(query, view_bhsd(past_key, 1, capacity, width),
                    view_bhsd(past_value, 1, capacity, width), view_bhsd(output, 2, 1, width),
                    {.causal = Causal::BottomRight,
                     .window = posenc::sliding_window(3),
                     .key_lengths = lengths,
                     .softcap = 2,
                     .softcap_order = posenc::SoftcapOrder::BeforeBias,
                     .sinks = head_sink});
  // [/gqa]
  check("GroupQueryAttention", output, decoded);
  return ok ? 0 : 1;
}
