// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/rotation.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace conformance {
namespace {

/// Attention of one head without projections: queries and keys are the encoded x, values are x.
template <class T, class Encode>
void check_single_head(Case& c, const Encode& encode) {
  const auto x = c.read<T>("x");
  const auto& shape = x.shape;
  if (shape.size() != 3) throw Malformed("x must be [B, S, D]");
  Array<T> encoded = x, out(shape), weights({shape[0], 1, shape[1], shape[1]});
  encode(encoded);
  posenc::attention(heads_of(encoded), heads_of(encoded), heads_of(x), heads_of(out),
                    {.scale = c.parameter<double>("scale"), .causal = posenc::Causal::No}, {},
                    {.weights = scores_of(weights)});
  weights.shape = {shape[0], shape[1], shape[1]};
  c.check("out", out);
  c.check("attn", weights);
}

/// Checks the gradients of q, k, v and the slopes.
void check_gradients(Case& c, const posenc::Alibi& alibi, const Array<double>& q,
                     const Array<double>& k, const Array<double>& v, const Array<double>& out,
                     posenc::LseView<const double> lse,
                     const posenc::AttentionOptions<double>& options) {
  const auto cotangent = c.read<double>("cotangent");
  Array<double> grad_q(q.shape), grad_k(k.shape), grad_v(v.shape);
  auto of_slopes = alibi.zero_gradient();
  posenc::attention_backward<double>(
      heads_of(q), heads_of(k), heads_of(v), heads_of(out), lse, heads_of(cotangent),
      {heads_of(grad_q), heads_of(grad_k), heads_of(grad_v)}, options, alibi, of_slopes);
  Array<double> grad_slopes({alibi.heads()});
  std::copy(of_slopes.begin(), of_slopes.end(), grad_slopes.data.begin());
  c.check("grad_q", grad_q);
  c.check("grad_k", grad_k);
  c.check("grad_v", grad_v);
  c.check("grad_slopes", grad_slopes);
}

void check_alibi_gradients(Case& c) {
  const auto q = c.read<double>("q"), k = c.read<double>("k"), v = c.read<double>("v");
  const auto slopes = c.read<double>("slopes");
  const auto rule = c.parameter<std::string>("bias", "");
  const bool symmetric = rule == "-slope*|i-j|";
  if (!symmetric && rule != "-slope*(i-j)") throw NotSupported("bias: " + rule);
  const posenc::Alibi alibi(std::vector<double>(slopes.data.begin(), slopes.data.end()),
                            symmetric ? posenc::AlibiForm::Symmetric : posenc::AlibiForm::Causal);

  const auto queries = heads_of(q), keys = heads_of(k);
  const Index first_query = c.parameter<Index>("query_position_of_row_0", 0);
  posenc::AttentionOptions<double> options{.scale = c.parameter<double>("scale"),
                                           .causal = posenc::Causal::No};
  const std::vector<Index> starts{first_query};
  options.query_starts = starts;
  if (c.parameter<bool>("causal", false)) options.causal = posenc::Causal::FromStart;
  Array<double> out({queries.batch, queries.heads, queries.seq, v.extent(-1)});
  Array<double> weights({queries.batch, queries.heads, queries.seq, keys.seq});
  std::vector<double> lse(static_cast<std::size_t>(queries.batch * queries.heads * queries.seq));
  const posenc::LseView<double> lse_view{lse.data(), queries.batch, queries.heads, queries.seq};
  posenc::attention(queries, keys, heads_of(v), heads_of(out), options, alibi,
                    {.lse = lse_view, .weights = scores_of(weights)});
  c.check("out", out);
  c.check("attn_weights", weights);

  Array<double> bias({queries.heads, queries.seq, keys.seq});
  std::vector<double> key_positions;
  for (Index j = 0; j < keys.seq; ++j) key_positions.push_back(static_cast<double>(j));
  for (Index h = 0; h < queries.heads; ++h) {
    for (Index i = 0; i < queries.seq; ++i) {
      const double position = static_cast<double>(first_query + i);
      double* row = bias.data.data() + (h * queries.seq + i) * keys.seq;
      alibi.add(h, {&position, 1}, key_positions,
                posenc::MatrixView<double>{row, 1, keys.seq, keys.seq});
    }
  }
  c.check("bias", bias);
  check_gradients(c, alibi, q, k, v, out, lse_view, options);
}

}  // namespace

void run_torch_attention(Case& c) {
  if (c.is_about("alibi")) {
    c.knows(
        {"grad", "alibi", "decode", "gqa", "symmetric"},
        {"heads", "kv_heads", "head_dim", "scale", "causal", "query_position_of_row_0", "bias"});
    check_alibi_gradients(c);
    return;
  }
  c.knows({"attention", "absolute", "deviation", "rope", "no", "projection"},
          {"d_model", "scale", "theta", "base"});
  if (c.is_about("absolute")) {
    // The table is the reference's, which deviates from the paper. It is float, so only float is
    // compared.
    const auto table = c.read<float>("pe_as_written");
    check_single_head<float>(c, [&table](Array<float>& x) {
      const auto embeddings = embeddings_of(x);
      posenc::Learned<float>(matrix_of(table))
          .add_to(embeddings, posenc::Positions::range(0, embeddings.seq));
    });
    return;
  }
  const double base = c.parameter<double>("theta", c.parameter<double>("base", 10000));
  in_both_precisions([&]<class T>() {
    check_single_head<T>(c, [&](Array<T>& x) {
      // The reference is the complex form, which pairs interleaved channels.
      const posenc::Rope<posenc::Interleaved> rope(
          posenc::Unscaled{.rotary_dim = x.extent(-1), .base = base});
      rope.rotate(heads_of(x), posenc::Positions::range(0, x.extent(1)));
    });
  });
}

}  // namespace conformance
