// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/rotation.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace conformance {
namespace {

/// Returns rows first .. first + count - 1 of a weight (or all of them), or of a bias.
template <class T, class Parameter>
void load(const Array<T>& from, Index first, Parameter& into) {
  const Index columns = from.rank() == 2 ? from.extent(1) : 1;
  const Index width = from.rank() == 2 ? into.cols() : 1;
  if (width != columns || first * columns + into.size() > from.size()) {
    throw Malformed("a weight does not have the shape that the parameters imply");
  }
  std::copy_n(from.data.data() + first * columns, into.size(), into.data());
}

/// Loads the parameters of one projection: from "<name>_weight" and "<name>_bias", or from the rows
/// of torch's "in_proj_weight" and "in_proj_bias" that start at `first`.
template <class T>
void load_projection(Case& c, const std::string& name, Index first, posenc::Linear<T>& into) {
  const auto parameter = [&](const std::string& kind, auto& target) {
    if (target.size() == 0) return;
    if (c.has(name + kind)) {
      load(c.read<T>(name + kind), 0, target);
    } else {
      load(c.read<T>("in_proj" + kind), first, target);
    }
  };
  parameter("_weight", into.weight);
  parameter("_bias", into.bias);
}

template <class T, class Rotary>
auto multi_head(Case& c, posenc::MultiHeadAttentionConfig config, const Rotary& rotary) {
  posenc::MultiHeadAttention<T, Rotary> module(config, rotary);
  const Index width = module.query_projection.out_dim();
  load_projection(c, "q_proj", 0, module.query_projection);
  load_projection(c, "k_proj", width, module.key_projection);
  load_projection(c, "v_proj", 2 * width, module.value_projection);
  load_projection(c, "out_proj", 0, module.output_projection);
  return module;
}

/// Sets torch's masks: true = may not attend; a float mask is added.
template <class T>
struct TorchMasks {
  Array<bool> masked, keep;
  Array<T> additive;

  explicit TorchMasks(Case& c) {
    if (c.has("attn_mask") && c.dtype("attn_mask") == "bool") {
      masked = c.read<bool>("attn_mask");
    } else if (c.has("attn_mask")) {
      additive = c.read<T>("attn_mask");
    }
    if (c.has("key_padding_mask")) {
      // [B, K]; the options take one mask of each polarity, so this one is inverted.
      keep = c.read<bool>("key_padding_mask");
      keep.data = !keep.data;
      keep.shape = {keep.extent(0), 1, 1, keep.extent(1)};
    }
  }

  void put_into(posenc::AttentionOptions<T>& options) const {
    if (masked.size() > 0) options.masked = scores_of(masked);
    if (keep.size() > 0) options.keep = scores_of(keep);
    if (additive.size() > 0) options.additive = scores_of(additive);
  }
};

/// True if equal within 4 ulp of the largest value, because sums over few tokens have another order
/// than sums over many.
template <class T>
bool nearly_equal(const T* a, const T* b, Index count) {
  using Row = Eigen::Map<const Eigen::Array<T, 1, Eigen::Dynamic>>;
  const Row x(a, count), y(b, count);
  const T largest = count == 0 ? T{0} : x.abs().maxCoeff();
  return count == 0 || (x - y).abs().maxCoeff() <= 4 * std::numeric_limits<T>::epsilon() * largest;
}

template <class T, class Module>
void check_forward(Case& c, const Module& module, const Array<T>& query, const Array<T>& key,
                   const Array<T>& value, const posenc::AttentionOptions<T>& options,
                   const std::string& output = "out") {
  const auto q = embeddings_of(query), k = embeddings_of(key);
  Array<T> out(query.shape), weights({q.batch, module.config().heads, q.seq, k.seq});
  module.forward(q, posenc::Positions::range(0, q.seq), k, embeddings_of(value),
                 posenc::Positions::range(0, k.seq), embeddings_of(out), options,
                 {.weights = scores_of(weights)});
  c.check(output, out);
  if (output == "out") c.check("attn_weights", weights);
  for (const Json& pair : c.description().value("equal_rows", Json::array())) {
    const Index a = pair.at(0).get<Index>(), b = pair.at(1).get<Index>(), dim = query.extent(-1);
    if (output != "out") continue;
    if (std::min(a, b) < 0 || std::max(a, b) >= q.seq || q.batch == 0)
      throw Malformed("equal_rows");
    c.holds("rows " + pair.dump() + " are equal",
            nearly_equal(out.data.data() + a * dim, out.data.data() + b * dim, dim));
  }
}

/// Checks the gradients of x and of the four projections, if the case has them.
template <class T, class Module>
void check_backward(Case& c, const Module& module, const Array<T>& x,
                    const posenc::AttentionOptions<T>& options) {
  if (!c.expects("grad_x")) return;
  const auto cotangent = c.read<T>("cotangent");
  const auto tokens = embeddings_of(x);
  Array<T> out(x.shape), grad_x(x.shape);
  posenc::MultiHeadTape<T> tape;
  module.forward(tokens, posenc::Positions::range(0, tokens.seq), embeddings_of(out), tape,
                 options);
  c.check("out", out);
  auto gradients = module.zero_gradients();
  module.backward(tape, embeddings_of(cotangent), embeddings_of(grad_x), gradients);
  c.check("grad_x", grad_x);
  const auto check = [&](const std::string& name,
                         std::vector<const posenc::LinearParameters<T>*> layers) {
    const auto check_stacked = [&](const std::string& kind, auto member) {
      std::vector<T> numbers;
      for (const auto* layer : layers) {
        const auto& parameter = layer->*member;
        numbers.insert(numbers.end(), parameter.data(), parameter.data() + parameter.size());
      }
      if (numbers.empty()) return;
      Array<T> gradient(c.expected_shape("grad_" + name + kind));
      if (gradient.size() != static_cast<Index>(numbers.size())) throw Malformed("grad_" + name);
      std::copy(numbers.begin(), numbers.end(), gradient.data.begin());
      c.check("grad_" + name + kind, gradient);
    };
    check_stacked("_weight", &posenc::LinearParameters<T>::weight);
    check_stacked("_bias", &posenc::LinearParameters<T>::bias);
  };
  const auto &q = gradients.query_projection, &k = gradients.key_projection,
             &v = gradients.value_projection;
  if (c.expects("grad_in_proj_weight")) {
    check("in_proj", {&q, &k, &v});
  } else {
    check("q_proj", {&q});
    check("k_proj", {&k});
    check("v_proj", {&v});
  }
  check("out_proj", {&gradients.output_projection});
}

/// Checks self attention of tokens, with q, k and v from one matrix, then of the same tokens in
/// another order.
template <class T, class Module>
void check_equivariance(Case& c, const Module& module) {
  const auto embedding = c.read<T>("emb");
  const auto weight = c.read<T>("qkv_weight");
  const Index batch = embedding.extent(0), seq = embedding.extent(1), dim = embedding.extent(-1);
  c.skip("tokens");
  const auto run = [&](const Array<T>& x, const std::string& output) {
    std::vector<Array<T>> qkv;
    for (Index part = 0; part < 3; ++part) {
      posenc::Linear<T> linear(dim, dim, false);
      load(weight, part * dim, linear.weight);
      qkv.emplace_back(x.shape);
      linear.apply(embeddings_of(x), embeddings_of(qkv.back()));
    }
    check_forward<T>(c, module, qkv[0], qkv[1], qkv[2], {.causal = posenc::Causal::No}, output);
  };
  run(embedding, "out");
  if (!c.expects("out_permuted")) return;
  const auto order = c.read<Index>("permutation");
  Array<T> permuted(embedding.shape);
  for (Index b = 0; b < batch; ++b) {
    for (Index s = 0; s < seq; ++s) {
      const Index from = order.data[s];
      if (order.size() != seq || from < 0 || from >= seq) throw Malformed("permutation");
      std::copy_n(embeddings_of(embedding).row(b, from), dim, embeddings_of(permuted).row(b, s));
    }
  }
  run(permuted, "out_permuted");
}

template <class T>
void check_torch_module(Case& c) {
  const auto module = multi_head<T>(c,
                                    {.model_dim = c.required<Index>("embed_dim"),
                                     .heads = c.required<Index>("num_heads"),
                                     .key_input_dim = c.parameter<Index>("kdim", 0),
                                     .value_input_dim = c.parameter<Index>("vdim", 0),
                                     .projection_bias = c.parameter<bool>("bias", true)},
                                    posenc::NoRotation{});
  if (c.has("qkv_weight")) {
    check_equivariance<T>(c, module);
    return;
  }
  const TorchMasks<T> masks(c);
  posenc::AttentionOptions<T> options{.causal = posenc::Causal::No};
  masks.put_into(options);
  const auto query = c.read<T>(c.has("x") ? "x" : "query");
  const auto key = c.has("key") ? c.read<T>("key") : query;
  const auto value = c.has("value") ? c.read<T>("value") : key;
  check_forward<T>(c, module, query, key, value, options);
  check_backward<T>(c, module, query, options);
}

template <class T, class Pairing>
void check_rope_attention(Case& c) {
  const Index heads = c.required<Index>("num_heads");
  const Index dim = c.required<Index>("d_model");
  if (heads <= 0) throw Malformed("num_heads must be positive");
  const posenc::Rope<Pairing> rope(
      posenc::Unscaled{.rotary_dim = c.parameter<Index>("head_dim", dim / heads),
                       .base = c.parameter<double>("rope_base", 10000)});
  const auto module = multi_head<T>(c,
                                    {.model_dim = dim,
                                     .heads = heads,
                                     .head_dim = c.parameter<Index>("head_dim", 0),
                                     .projection_bias = c.has("q_proj_bias")},
                                    rope);
  posenc::AttentionOptions<T> options{.scale = c.parameter<double>("scale"),
                                      .causal = posenc::Causal::No};
  Array<bool> keep;
  if (c.has("mask")) {
    keep = c.read<bool>("mask");
    options.keep = scores_of(keep);
  }
  const auto x = c.read<T>("x");
  check_forward<T>(c, module, x, x, x, options);
  check_backward<T>(c, module, x, options);
}

/// Checks a query without visible keys: the reference gives NaN, posenc zeros.
void check_fully_masked(Case& c) {
  const auto& observed = c.description().at("observed");
  const Index batch = observed.at("batch").get<Index>(), row = observed.at("row").get<Index>();
  if (batch < 0 || row < 0) throw Malformed("the row observed");
  const Index heads = 4, seq = row + 2, dim = 16;
  Array<float> x({batch + 1, heads, seq, dim}), out = x, weights({batch + 1, heads, seq, seq});
  for (Index i = 0; i < x.size(); ++i) x.data[i] = static_cast<float>(i % 7) - 3;
  Array<bool> keep({batch + 1, 1, seq, seq});
  keep.data.setConstant(true);
  for (Index j = 0; j < seq; ++j) keep.data[(batch * seq + row) * seq + j] = false;
  const posenc::Rope<posenc::Interleaved> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  rope.rotate(heads_of(x), posenc::Positions::range(0, seq));
  posenc::AttentionOptions<float> options{.causal = posenc::Causal::No};
  options.keep = scores_of(keep);
  posenc::attention(heads_of(x), heads_of(x), heads_of(x), heads_of(out), options, {},
                    {.weights = scores_of(weights)});
  bool zero = out.data.allFinite() && weights.data.allFinite();
  for (Index h = 0; h < heads; ++h) {
    const float* result = heads_of(out).row(batch, row, h);
    zero = zero && std::all_of(result, result + dim, [](float value) { return value == 0; });
  }
  c.holds("a query that sees no key gives zeros, and nothing is NaN", zero);
}

}  // namespace

void run_torch_multi_head(Case& c) {
  c.knows(
      {"mha", "cross", "causal", "float", "bool", "mask", "padding", "key", "no", "bias", "self",
       "equivariance", "rope", "attention", "grad", "none", "window", "fully", "masked"},
      {"embed_dim", "num_heads", "kdim", "vdim", "bias", "d_model", "head_dim", "seq", "batch",
       "dropout", "scale", "rope_base", "rope_pairs"});
  if (c.parameter<double>("dropout", 0) != 0) throw NotSupported("dropout of the reference's own");
  const auto in_given_precisions = [&c](const auto& f) {
    if (c.expects_in_float()) f.template operator()<float>();
    if (c.expects_in_double()) f.template operator()<double>();
  };
  if (c.is_about("fully") && c.description().contains("observed")) {
    check_fully_masked(c);
  } else if (c.is_about("rope")) {
    with_pairing(c, [&]<class Pairing>(Pairing) {
      in_given_precisions([&c]<class T>() { check_rope_attention<T, Pairing>(c); });
    });
  } else {
    in_given_precisions([&c]<class T>() { check_torch_module<T>(c); });
  }
}

}  // namespace conformance
