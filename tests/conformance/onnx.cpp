// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/onnx_attention.hpp"

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace conformance {
namespace {

/// Returns a view of a 4-D input (batch, heads, seq, dim), or of a 3-D one (batch, seq, heads *
/// dim).
template <class A>
posenc::HeadsView<ElementOf<A>> operator_heads(A& x, Index heads) {
  return x.rank() == 3 ? posenc::split_heads(embeddings_of(x), heads) : heads_of(x);
}

template <class T, class Pairing>
void check_rotary_embedding(Case& c) {
  using Real = posenc::Compute<T>;
  using Table = posenc::RotationTable<Pairing, Real>;
  const auto x = c.read<T>("input_X");
  const auto cos = c.read<Real>("input_cos_cache"), sin = c.read<Real>("input_sin_cache");
  const auto heads = operator_heads(x, c.parameter<Index>("num_heads", 0));
  const Index rotary_dim = c.parameter<Index>("rotary_embedding_dim", 0);
  const Index pairs = (rotary_dim > 0 ? rotary_dim : Index{heads.dim}) / 2;
  if (cos.extent(-1) < pairs || sin.extent(-1) < pairs)
    throw Malformed("the caches are too narrow");

  const auto table = [&] {
    if (!c.has("input_position_ids")) {
      return Table::from_cos_sin(posenc::slice_features(embeddings_of(cos), 0, pairs),
                                 posenc::slice_features(embeddings_of(sin), 0, pairs));
    }
    const auto ids = c.read<Index>("input_position_ids");
    auto cos_cache = matrix_of(cos), sin_cache = matrix_of(sin);
    cos_cache.cols = sin_cache.cols = pairs;
    return Table::from_cache(
        cos_cache, sin_cache,
        posenc::Positions::ids(ids.extent(0),
                               {ids.data.data(), static_cast<std::size_t>(ids.size())}));
  }();
  Array<T> y(x.shape);
  table.rotate_into(heads, operator_heads(y, heads.heads));
  c.check("output_Y", y, Kind::Encoding);
}

onnx::AttentionAttributes attributes_of(const Case& c) {
  return {.is_causal = c.parameter<int>("is_causal", 0) != 0,
          .scale = c.parameter<double>("scale"),
          .softcap = c.parameter<double>("softcap", 0),
          .left_window_size = c.parameter<Index>("left_window_size", -1),
          .right_window_size = c.parameter<Index>("right_window_size", -1),
          .qk_matmul_output_mode = c.parameter<Index>("qk_matmul_output_mode", 0)};
}

template <class T>
void check_attention(Case& c) {
  using Real = posenc::Compute<T>;
  const auto q = c.read<T>("input_Q"), k = c.read<T>("input_K"), v = c.read<T>("input_V");
  const Index kv_heads = c.parameter<Index>("kv_num_heads", 0);
  const auto attributes = attributes_of(c);
  onnx::AttentionInputs<T> inputs;
  inputs.q = operator_heads(q, c.parameter<Index>("q_num_heads", 0));

  Array<T> past_key({0, 0, 0, 0}), past_value = past_key;
  if (c.has("input_past_key")) {
    past_key = c.read<T>("input_past_key");
    past_value = c.read<T>("input_past_value");
  }
  inputs.past = past_key.extent(2);
  const onnx::Tensor4<T> present_key =
      onnx::concatenate<T>(heads_of(std::as_const(past_key)), operator_heads(k, kv_heads));
  const onnx::Tensor4<T> present_value =
      onnx::concatenate<T>(heads_of(std::as_const(past_value)), operator_heads(v, kv_heads));
  inputs.k = posenc::bhsd(present_key);
  inputs.v = posenc::bhsd(present_value);

  onnx::Tensor4<bool> keep;
  onnx::Tensor4<Real> additive;
  if (c.has("input_attn_mask") && c.dtype("input_attn_mask") == "bool") {
    const auto mask = c.read<bool>("input_attn_mask");
    keep = onnx::pad_mask(scores_of(mask), inputs.k.seq, false);
    inputs.keep = posenc::bhqk(keep);
  } else if (c.has("input_attn_mask")) {
    const auto mask = c.read<Real>("input_attn_mask");
    additive =
        onnx::pad_mask(scores_of(mask), inputs.k.seq, -std::numeric_limits<Real>::infinity());
    inputs.additive = posenc::bhqk(additive);
  }
  Array<Index> lengths;
  if (c.has("input_nonpad_kv_seqlen")) {
    lengths = c.read<Index>("input_nonpad_kv_seqlen");
    inputs.nonpad_kv_seqlen = {lengths.data.data(), static_cast<std::size_t>(lengths.size())};
  }

  const auto head_count = inputs.q.heads;
  Array<T> y(q.rank() == 3
                 ? std::vector<Index>{inputs.q.batch, inputs.q.seq, head_count * inputs.v.dim}
                 : std::vector<Index>{inputs.q.batch, head_count, inputs.q.seq, inputs.v.dim});
  Array<Real> scores({inputs.q.batch, head_count, inputs.q.seq, inputs.k.seq});
  onnx::attention(attributes, inputs, operator_heads(y, head_count), scores_of(scores));
  c.check("output_Y", y);
  c.check("output_qk_matmul_output", scores);
  const auto check_present = [&c](const std::string& name, const onnx::Tensor4<T>& present) {
    Array<T> values(
        {present.dimension(0), present.dimension(1), present.dimension(2), present.dimension(3)});
    std::copy_n(present.data(), present.size(), values.data.data());
    c.check(name, values);
  };
  check_present("output_present_key", present_key);
  check_present("output_present_value", present_value);
}

/// Calls f for the type of the given tensor, and for double if the data have it too.
template <class F>
void in_given_types(const Case& c, const std::string& input, const F& f) {
  const std::string& type = c.dtype(input);
  if (type == "float16") {
    f.template operator()<Eigen::half>();
  } else if (type == "float32") {
    f.template operator()<float>();
  } else if (type != "float64") {
    throw NotSupported("inputs of type " + type);
  }
  if (c.expects_in_double()) f.template operator()<double>();
}

}  // namespace

void run_onnx(Case& c) {
  if (c.feature() == "Attention") {
    c.knows_feature({"is_causal", "scale", "softcap", "q_num_heads", "kv_num_heads",
                     "left_window_size", "right_window_size", "qk_matmul_output_mode",
                     "softmax_precision"});
    in_given_types(c, "input_Q", [&c]<class T>() { check_attention<T>(c); });
  } else if (c.feature() == "RotaryEmbedding") {
    c.knows_feature({"interleaved", "num_heads", "rotary_embedding_dim"});
    in_given_types(c, "input_X", [&c]<class T>() {
      if (c.parameter<int>("interleaved", 0) != 0) {
        check_rotary_embedding<T, posenc::Interleaved>(c);
      } else {
        check_rotary_embedding<T, posenc::HalfRotate>(c);
      }
    });
  } else {
    throw NotSupported("the operator '" + c.feature() + "'");
  }
}

}  // namespace conformance
