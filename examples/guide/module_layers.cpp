// SPDX-License-Identifier: MIT
// The lines of model_files.md on modules: layers of Qwen3, Gemma 3, gpt-oss and DeepSeek-V3 as
// modules, from config.json. Each is compared with plain loops that take nothing from posenc but
// the module's weights.
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/module_settings.hpp>
#include <posenc/posenc.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <limits>
#include <numbers>
#include <span>
#include <string>
#include <vector>

using posenc::Index;
using Row = std::vector<double>;
using Rows = std::vector<Row>;

namespace {

constexpr Index length = 9, past = 5000;

/// Attention of a layer as its paper and class define it.
struct Plain {
  Index heads, kv_heads, head_dim, value_dim;
  double scale;
  Row inv_freq;                        // of the rotated pairs
  double magnitude = 1;                // of cos and sin
  Index first = 0;                     // first rotated channel
  bool neighbours = false;             // pairs are neighbouring channels, otherwise the two halves
  Index window = length;               // keys that a query sees, its own included
  double epsilon = 0;                  // of the norm of queries and keys; 0: no norm
  double added_to_weight = 0;          // 1 if the file stores the factors minus 1
  std::span<const double> sinks = {};  // a score for each head that has no value
};

double& at(Row& row, Index i) { return row[static_cast<std::size_t>(i)]; }

Row powers(double base, Index rotary_dim) {
  Row inv_freq;
  for (Index i = 0; i < rotary_dim; i += 2) {
    inv_freq.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(rotary_dim)));
  }
  return inv_freq;
}

/// YaRN with beta_fast 32 and beta_slow 1: fast pairs keep their frequency, slow ones are divided.
Row yarn(double base, Index rotary_dim, double factor, double trained, bool rounds_ends) {
  const auto pair_of = [&](double turns) {
    return static_cast<double>(rotary_dim) * std::log(trained / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  double low = pair_of(32), high = pair_of(1);
  if (rounds_ends) low = std::floor(low), high = std::ceil(high);
  Row inv_freq = powers(base, rotary_dim);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const double slow = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inv_freq[i] *= 1 - slow + slow / factor;
  }
  return inv_freq;
}

Row projected(const posenc::Linear<double>& layer, const Row& x) {
  Row y;
  for (Index out = 0; out < layer.out_dim(); ++out) {
    double sum = layer.bias(out);
    for (Index in = 0; in < layer.in_dim(); ++in) {
      sum += layer.weight(out, in) * x[static_cast<std::size_t>(in)];
    }
    y.push_back(sum);
  }
  return y;
}

/// Normalises and rotates the heads of a token.
void prepare(const Plain& plain, const posenc::ParameterMatrix<double>& weight, Index heads,
             double position, Row& x) {
  for (Index h = 0; h < heads; ++h) {
    const Index start = h * plain.head_dim;
    if (plain.epsilon > 0) {
      double squares = 0;
      for (Index d = 0; d < plain.head_dim; ++d) squares += std::pow(at(x, start + d), 2);
      const double root = std::sqrt(squares / static_cast<double>(plain.head_dim) + plain.epsilon);
      for (Index d = 0; d < plain.head_dim; ++d) {
        at(x, start + d) *= (weight(d) + plain.added_to_weight) / root;
      }
    }
    const auto pairs = static_cast<Index>(plain.inv_freq.size());
    for (Index i = 0; i < pairs; ++i) {
      const Index a = start + plain.first + (plain.neighbours ? 2 * i : i);
      const Index b = plain.neighbours ? a + 1 : a + pairs;
      const double angle = position * plain.inv_freq[static_cast<std::size_t>(i)];
      const double c = plain.magnitude * std::cos(angle), s = plain.magnitude * std::sin(angle);
      const double first = at(x, a), second = at(x, b);
      at(x, a) = c * first - s * second;
      at(x, b) = s * first + c * second;
    }
  }
}

/// Returns the layer's output for a sequence whose first token is at position `past`.
template <class Module>
Rows loops(const Plain& plain, const Module& module, const Rows& tokens) {
  Rows q, k, v, out;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    q.push_back(projected(module.query_projection, tokens[t]));
    k.push_back(projected(module.key_projection, tokens[t]));
    v.push_back(projected(module.value_projection, tokens[t]));
    const double position = static_cast<double>(past) + static_cast<double>(t);
    prepare(plain, module.query_norm, plain.heads, position, q.back());
    prepare(plain, module.key_norm, plain.kv_heads, position, k.back());
  }
  for (Index t = 0; t < length; ++t) {
    Row mixed;
    for (Index h = 0; h < plain.heads; ++h) {
      const Index group = h * plain.kv_heads / plain.heads;
      const Index first = std::max(Index{0}, t - plain.window + 1);
      Row scores;
      for (Index j = first; j <= t; ++j) {
        double score = 0;
        for (Index d = 0; d < plain.head_dim; ++d) {
          score += at(q[static_cast<std::size_t>(t)], h * plain.head_dim + d) *
                   at(k[static_cast<std::size_t>(j)], group * plain.head_dim + d);
        }
        scores.push_back(plain.scale * score);
      }
      const double sink = plain.sinks.empty() ? -std::numeric_limits<double>::infinity()
                                              : plain.sinks[static_cast<std::size_t>(h)];
      const double top = std::max(sink, *std::max_element(scores.begin(), scores.end()));
      double sum = std::exp(sink - top);
      for (double& score : scores) sum += score = std::exp(score - top);
      for (Index d = 0; d < plain.value_dim; ++d) {
        double value = 0;
        for (Index j = first; j <= t; ++j) {
          value += at(scores, j - first) / sum *
                   at(v[static_cast<std::size_t>(j)], group * plain.value_dim + d);
        }
        mixed.push_back(value);
      }
    }
    out.push_back(projected(module.output_projection, mixed));
  }
  return out;
}

/// Returns the greatest difference of a layer's module from plain loops. The model is narrow: the
/// file's widths of a token and numbers of heads are replaced.
double difference(const std::string& text, Index number, const Plain& plain) {
  posenc::ModelSettings model = posenc::read_hf_config(text);
  const std::vector<double> sinks(plain.sinks.begin(), plain.sinks.end());
  const auto layer = posenc::module_settings<double>(model, number, past + length, sinks);
  posenc::MultiHeadAttention<double, posenc::AnyRope> module(layer.config, layer.rope);
  auto options = layer.options;
  options.causal = posenc::Causal::BottomRight;  // files do not state it
  module.randomize(7);
  for (auto* weight : {&module.query_norm, &module.key_norm}) {
    for (Index n = 0; n < weight->size(); ++n) (*weight)(n) += 0.25 * std::sin(3.0 * double(n));
  }
  const Index width = layer.config.model_dim;
  Rows tokens(static_cast<std::size_t>(length), Row(static_cast<std::size_t>(width)));
  Eigen::Tensor<double, 3, Eigen::RowMajor> x(1, length, width), out(1, length, width);
  for (Index t = 0; t < length; ++t) {
    for (Index i = 0; i < width; ++i) {
      x(0, t, i) = 3 * std::sin(1.7 * double(t * width + i));
      at(tokens[static_cast<std::size_t>(t)], i) = x(0, t, i);
    }
  }
  const auto positions = posenc::Positions::range(past, length);
  module.forward(posenc::bsd(x), positions, posenc::bsd(out), options);
  const Rows want = loops(plain, module, tokens);
  double worst = 0;
  for (Index t = 0; t < length; ++t) {
    for (Index i = 0; i < width; ++i) {
      const double wanted = want[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)];
      worst = std::max(worst, std::abs(out(0, t, i) - wanted));
    }
  }
  return worst;
}

// Published files but for the numbers of heads, the widths of a token and of a window.

constexpr auto qwen3 = R"({"model_type": "qwen3", "hidden_size": 40, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 128, "num_hidden_layers": 28,
  "max_position_embeddings": 40960, "rope_theta": 1000000, "rms_norm_eps": 1e-06,
  "rope_scaling": null, "sliding_window": null, "use_sliding_window": false,
  "max_window_layers": 28})";

constexpr auto gemma3 = R"({"model_type": "gemma3_text", "hidden_size": 40,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 256, "num_hidden_layers": 34,
  "max_position_embeddings": 131072, "query_pre_attn_scalar": 256, "rope_theta": 1000000.0,
  "rope_local_base_freq": 10000.0, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
  "sliding_window": 4, "sliding_window_pattern": 6})";

constexpr auto gpt_oss = R"({"model_type": "gpt_oss", "hidden_size": 40,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "num_hidden_layers": 24,
  "initial_context_length": 4096, "max_position_embeddings": 131072, "rope_theta": 150000,
  "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "rope_type": "yarn",
  "original_max_position_embeddings": 4096, "truncate": false}, "sliding_window": 5})";

constexpr auto deepseek_v3 = R"({"model_type": "deepseek_v3", "hidden_size": 40,
  "num_attention_heads": 4, "num_hidden_layers": 61, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "v_head_dim": 128, "max_position_embeddings": 163840,
  "rope_theta": 10000, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40,
  "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096,
  "type": "yarn"}})";

constexpr double sinks[] = {0.5, -1, 2, 0};

Row divided(Row inv_freq, double factor) {
  for (double& w : inv_freq) w /= factor;
  return inv_freq;
}

}  // namespace

int main() {
  const double mscale = 0.1 * std::log(40.0) + 1;
  const Plain of_qwen3{.heads = 4,
                       .kv_heads = 2,
                       .head_dim = 128,
                       .value_dim = 128,
                       .scale = 1 / std::sqrt(128.0),
                       .inv_freq = powers(1e6, 128),
                       .epsilon = 1e-6};
  Plain of_gemma3{.heads = 4,
                  .kv_heads = 2,
                  .head_dim = 256,
                  .value_dim = 256,
                  .scale = 1.0 / 16,
                  .inv_freq = powers(1e4, 256),
                  .window = 4,
                  .epsilon = 1e-6,  // the file lacks it, so it is that of the class
                  .added_to_weight = 1};
  Plain of_gpt_oss{.heads = 4,
                   .kv_heads = 2,
                   .head_dim = 64,
                   .value_dim = 64,
                   .scale = 1.0 / 8,
                   .inv_freq = yarn(150000, 64, 32, 4096, false),
                   .magnitude = 0.1 * std::log(32.0) + 1,
                   .window = 5,
                   .sinks = sinks};
  const Plain of_deepseek{.heads = 4,
                          .kv_heads = 4,
                          .head_dim = 192,
                          .value_dim = 128,
                          .scale = mscale * mscale / std::sqrt(192.0),
                          .inv_freq = yarn(10000, 64, 40, 4096, true),
                          .first = 128,
                          .neighbours = true};
  int failures = 0;
  const auto compare = [&](const char* name, const char* text, Index layer, const Plain& plain) {
    const double found = difference(text, layer, plain);
    std::cout << name << ", layer " << layer << ": differs by " << found << '\n';
    if (!(found < 1e-10)) ++failures;
  };
  compare("Qwen3", qwen3, 0, of_qwen3);
  compare("Gemma 3", gemma3, 0, of_gemma3);
  of_gemma3.window = length;
  of_gemma3.inv_freq = divided(powers(1e6, 256), 8);
  compare("Gemma 3", gemma3, 5, of_gemma3);
  compare("gpt-oss", gpt_oss, 0, of_gpt_oss);
  of_gpt_oss.window = length;
  compare("gpt-oss", gpt_oss, 1, of_gpt_oss);
  compare("DeepSeek-V3", deepseek_v3, 0, of_deepseek);
  return failures;
}
