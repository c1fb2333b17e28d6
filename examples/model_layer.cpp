// SPDX-License-Identifier: MIT
// From a model's file to its attention: reads a config.json and builds the first layers with the
// file's settings, random weights and a narrow stream of tokens. Then decodes: a prompt in one
// call, one token per call afterwards, bit-identical to one pass over all tokens.
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/posenc.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using posenc::Index;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace {

constexpr Index prompt = 24, total = 40, width = 64, most_layers = 6;
constexpr std::array<Index, 1> sequence{0};

Index told(const std::optional<Index>& value, const char* what) {
  if (!value) throw std::runtime_error(std::string("the file does not state the ") + what);
  return *value;
}

class Layer {
 public:
  Layer(const posenc::ModelSettings& model, Index number)
      : model_(model),
        number_(number),
        heads_(told(shape().heads, "heads")),
        kv_heads_(told(shape().kv_heads, "kv_heads")),
        head_dim_(told(shape().head_dim, "head_dim")),
        value_dim_(told(shape().value_dim, "value_dim")),
        cache_({.kv_heads = kv_heads_,
                .head_dim = head_dim_,
                .value_dim = value_dim_,
                .capacity = total}) {
    if (const auto* rotary = rotary_of_layer(model, number)) rope_ = posenc::rope(*rotary, total);
    if (shape().sinks.value_or(false)) sinks_.assign(static_cast<std::size_t>(heads_), 0.5F);
    const auto weights = [](Index in, Index out) -> Matrix {
      return Matrix::Random(in, out) / std::sqrt(static_cast<float>(in));
    };
    queries_ = weights(width, heads_ * head_dim_);
    keys_ = weights(width, kv_heads_ * head_dim_);
    values_ = weights(width, kv_heads_ * value_dim_);
    output_ = weights(heads_ * value_dim_, width);
  }

  /// Adds to each token of the stream the attention over earlier tokens, in the cache and in the
  /// stream.
  void step(Matrix& stream) {
    Matrix q = project(stream.rowwise().normalized() * std::sqrt(1.0F * width), queries_);
    Matrix k = project(stream.rowwise().normalized() * std::sqrt(1.0F * width), keys_);
    Matrix v = project(stream, values_);
    if (rope_) {
      const auto positions = posenc::Positions::range(cache_.length(0), stream.rows());
      rope_->rotate_all({view(q, heads_), view(k, kv_heads_)}, positions);
    }
    cache_.append(0, view(k, kv_heads_), view(v, kv_heads_));
    auto options = posenc::attention_options<float>(model_, number_, sinks_);
    options.causal = posenc::Causal::BottomRight;  // files do not state it
    Matrix seen(stream.rows(), heads_ * value_dim_);
    posenc::attention(view(q, heads_), cache_, sequence, view(seen, heads_), options);
    stream += project(seen, output_);
  }

 private:
  const posenc::LayerAttention& shape() const { return attention_of_layer(model_, number_); }

  /// Projects token by token, so that the bits of a token do not depend on the number of tokens per
  /// call.
  static Matrix project(const Matrix& x, const Matrix& weights) {
    Matrix product(x.rows(), weights.cols());
    for (Index token = 0; token < x.rows(); ++token) product.row(token) = x.row(token) * weights;
    return product;
  }

  static posenc::HeadsView<float> view(Matrix& x, Index heads) {
    using Heads = Eigen::TensorMap<Eigen::Tensor<float, 4, Eigen::RowMajor>>;
    return posenc::bshd(Heads(x.data(), 1, x.rows(), heads, x.cols() / heads));
  }

  const posenc::ModelSettings& model_;
  Index number_, heads_, kv_heads_, head_dim_, value_dim_;
  posenc::KvCache<float> cache_;
  std::optional<posenc::AnyRope> rope_;
  std::vector<float> sinks_;
  Matrix queries_, keys_, values_, output_;
};

/// Returns the tokens after all layers: the first `first` tokens of the prompt in one call, the
/// others one per call.
Matrix decode(const posenc::ModelSettings& model, const Matrix& tokens, Index first) {
  std::srand(1);  // same weights each time
  std::vector<Layer> layers;
  const bool counted = model.layer_count != 0;  // else layers are alike, or asking for one throws
  const Index count = counted ? (std::min)(model.layer_count, most_layers) : most_layers;
  for (Index number = 0; number < count; ++number) layers.emplace_back(model, number);
  Matrix out(tokens.rows(), width);
  for (Index at = 0, step = first; at < tokens.rows(); at += step, step = 1) {
    Matrix stream = tokens.middleRows(at, step);
    for (Layer& layer : layers) layer.step(stream);
    out.middleRows(at, step) = stream;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  std::clog << posenc::build_info() << '\n';
  if (argc != 2) {
    std::cerr << "model_layer FILE: FILE is the config.json of a model\n";
    return 2;
  }
  std::ifstream file(argv[1]);
  if (!file) throw std::runtime_error(std::string(argv[1]) + ": cannot open this file");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto model = posenc::read_hf_config(text);
  const Matrix tokens = Matrix::Random(total, width);
  const Matrix whole = decode(model, tokens, total), pieces = decode(model, tokens, prompt);
  const bool same = whole == pieces && whole.allFinite();
  std::cout << model.model_type << ": " << prompt << " tokens in one call, then " << total - prompt
            << " one at a time, " << (same ? "the same bits as" : "different from")
            << " one pass over all " << total << '\n';
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::cerr << "model_layer: " << error.what() << '\n';
  return EXIT_FAILURE;
}
