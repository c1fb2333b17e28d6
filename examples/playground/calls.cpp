// SPDX-License-Identifier: MIT
// Numbers of the playground's figures. All of them are results of the library's public calls.
#include "calls.hpp"

#include "../posenc_inspect/describe.hpp"
#include <posenc/without_eigen.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

namespace playground {

namespace {

using posenc::HeadsView;
using posenc::Index;
using posenc::PairingKind;
using posenc::Positions;

/// Positions of an attention map, and the score of a token with itself before masks and biases.
constexpr Index map_tokens = 48;
constexpr double self_score = 8;
constexpr Index distances = 385;  ///< points of the curve of scores

/// Arguments of a call, read from first to last.
class Arguments {
 public:
  explicit Arguments(std::span<const double> values) : values_(values) {}

  double number() {
    if (values_.empty())
      posenc::detail::fail<posenc::ConfigError>("playground", "too few arguments");
    const double value = values_.front();
    values_ = values_.subspan(1);
    return value;
  }
  /// Returns an integer of magnitude 2^53 at most, to which NaN and larger numbers are cut.
  Index integer() { return static_cast<Index>(std::min(std::max(-0x1p53, number()), 0x1p53)); }
  bool flag() { return number() != 0; }

 private:
  std::span<const double> values_;
};

/// Settings of a rope that the reader of the page chooses.
struct Settings {
  explicit Settings(Arguments& from)
      : rule(from.integer()),
        base(from.number()),
        head_dim(from.integer()),
        factor(from.number()),
        trained_length(from.integer()),
        pairing(from.flag() ? PairingKind::HalfRotate : PairingKind::Interleaved) {}

  posenc::Frequencies frequencies(bool scaled = true) const {
    switch (scaled ? rule : 0) {
      case 0:
        return posenc::frequencies(posenc::Unscaled{.rotary_dim = head_dim, .base = base});
      case 1:
        return posenc::frequencies(
            posenc::LinearScaling{.rotary_dim = head_dim, .base = base, .factor = factor});
      case 2:
        return posenc::frequencies(
            posenc::NtkScaling{.rotary_dim = head_dim, .base = base, .factor = factor});
      case 3:
        return posenc::frequencies(posenc::YarnScaling{.rotary_dim = head_dim,
                                                       .base = base,
                                                       .factor = factor,
                                                       .original_max_position = trained_length});
      case 4:
        return posenc::frequencies(posenc::Llama3Scaling{.rotary_dim = head_dim,
                                                         .base = base,
                                                         .factor = factor,
                                                         .low_freq_factor = 1,
                                                         .high_freq_factor = 4,
                                                         .original_max_position = trained_length});
      default:
        posenc::detail::fail<posenc::ConfigError>("playground", "there is no rule ", rule);
    }
  }

  posenc::AnyRope rope(bool scaled = true,
                       posenc::AnglePolicy policy = posenc::AnglePolicy::Exact) const {
    return {pairing, frequencies(scaled), 0, {}, policy};
  }

  Index rule;
  double base;
  Index head_dim;
  double factor;
  Index trained_length;
  PairingKind pairing;
};

std::size_t size(Index count) { return static_cast<std::size_t>(count); }

/// Returns a view of one head with a vector per token.
template <class T>
HeadsView<T> heads(std::vector<T>& x, Index dim) {
  const Index tokens = static_cast<Index>(x.size()) / dim;
  return {.data = x.data(), .batch = 1, .seq = tokens, .heads = 1, .dim = dim};
}

/// Returns a query (0) or key (1) of length 1. Their channels differ, but have a part in common.
template <class T = double>
std::vector<T> content(Index dim, int role) {
  std::vector<double> x(size(dim));
  for (Index c = 0; c < dim; ++c) {
    x[size(c)] = 1 + 0.6 * std::sin((role == 0 ? 2.1 : 5.3) * static_cast<double>(c) + role);
  }
  const double length = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
  std::vector<T> unit;
  for (const double channel : x) unit.push_back(static_cast<T>(channel / length));
  return unit;
}

template <class T>
std::vector<T> repeated(const std::vector<T>& x, Index times) {
  std::vector<T> rows;
  for (Index n = 0; n < times; ++n) rows.insert(rows.end(), x.begin(), x.end());
  return rows;
}

template <class T>
double dot(const T* a, const T* b, Index dim) {
  double sum = 0;
  for (Index c = 0; c < dim; ++c) sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
  return sum;
}

/// Returns the score of the query at one position and the key at another.
template <class T>
double score_at(const posenc::AnyRope& rope, double query, double key) {
  const Index dim = rope.rotary_dim();
  auto q = content<T>(dim, 0), k = content<T>(dim, 1);
  rope.rotate(heads(q, dim), Positions::real(std::vector<double>{query}));
  rope.rotate(heads(k, dim), Positions::real(std::vector<double>{key}));
  return dot(q.data(), k.data(), dim);
}

/// settings -> wavelength of each pair, then those without scaling, then the attention factor
std::vector<double> wavelengths(const Settings& settings, Arguments&) {
  auto all = inspect::wavelengths(settings.frequencies());
  const auto unscaled = inspect::wavelengths(settings.frequencies(false));
  all.insert(all.end(), unscaled.begin(), unscaled.end());
  all.push_back(settings.frequencies().attention_factor());
  return all;
}

/// settings, position -> x of each pair's hand, then y of each: (1, 0) after rotation
std::vector<double> hands(const Settings& settings, Arguments& from) {
  const std::vector<double> position{from.number()};
  const auto table = posenc::Rope<posenc::HalfRotate>(settings.frequencies())
                         .table<double>(Positions::real(position));
  const double* const cos = table.cos().row(0, 0);
  const double* const sin = table.sin().row(0, 0);
  const Index pairs = settings.head_dim / 2;
  std::vector<double> all(cos, cos + pairs);
  all.insert(all.end(), sin, sin + pairs);
  return all;
}

/// settings -> for each channel, the other channel of its pair, found by rotating unit vectors
std::vector<double> partners(const Settings& settings, Arguments&) {
  const Index dim = settings.head_dim;
  std::vector<double> x(size(dim * dim)), found;
  for (Index c = 0; c < dim; ++c) x[size(c * dim + c)] = 1;
  settings.rope(false).rotate(heads(x, dim), Positions::ids(std::vector<Index>(size(dim), 1)));
  for (Index c = 0; c < dim; ++c) {
    Index other = 0;
    while (other < dim && (other == c || x[size(c * dim + other)] == 0)) ++other;
    found.push_back(static_cast<double>(other));
  }
  return found;
}

/// settings, position of the query, of the key -> their score in double, in float, and with the
/// float32 angles of other libraries
std::vector<double> score(const Settings& settings, Arguments& from) {
  const double query = from.number(), key = from.number();
  const auto exact = settings.rope(), rounded = settings.rope(true, posenc::AnglePolicy::HfFloat32);
  return {score_at<double>(exact, query, key), score_at<float>(exact, query, key),
          score_at<float>(rounded, query, key)};
}

/// settings, pair, position of the query, of the key -> x and y of this pair of the rotated query, of
/// the rotated key, and what the pair adds to the score
std::vector<double> pair(const Settings& settings, Arguments& from) {
  const Index dim = settings.head_dim, chosen = from.integer();
  const double query = from.number(), key = from.number();
  if (chosen < 0 || chosen >= dim / 2)
    posenc::detail::fail<posenc::ConfigError>("playground", "there is no pair ", chosen);
  const posenc::AnyRope rope = settings.rope();
  auto q = content(dim, 0), k = content(dim, 1);
  rope.rotate(heads(q, dim), Positions::real(std::vector<double>{query}));
  rope.rotate(heads(k, dim), Positions::real(std::vector<double>{key}));
  const bool is_half = settings.pairing == PairingKind::HalfRotate;
  const auto x = size(is_half ? chosen : 2 * chosen),
             y = size(is_half ? chosen + dim / 2 : 2 * chosen + 1);
  return {q[x], q[y], k[x], k[y], q[x] * k[x] + q[y] * k[y]};
}

/// settings, longest distance -> distances, the score at each, the score at each without scaling
std::vector<double> curve(const Settings& settings, Arguments& from) {
  const double longest = from.number();
  const Index dim = settings.head_dim;
  std::vector<double> all, at;
  for (Index n = 0; n < distances; ++n) {
    at.push_back(longest * static_cast<double>(n) / static_cast<double>(distances - 1));
  }
  all = at;
  const auto key = content(dim, 1);
  for (const bool scaled : {true, false}) {
    const auto rope = settings.rope(scaled);
    auto rows = repeated(content(dim, 0), distances), k = key;
    rope.rotate(heads(rows, dim), Positions::real(at));
    rope.rotate(heads(k, dim), Positions::real(std::vector<double>{0}));
    for (Index n = 0; n < distances; ++n) {
      all.push_back(dot(rows.data() + n * dim, k.data(), dim));
    }
  }
  return all;
}

/// settings, position -> error of each pair's cos and sin (the larger) in float, then with float32
/// angles; both compared with double
std::vector<double> errors(const Settings& settings, Arguments& from) {
  const auto at = Positions::real(std::vector<double>{from.number()});
  const posenc::Rope<posenc::HalfRotate> rope(settings.frequencies());
  const posenc::Rope<posenc::HalfRotate> rounded(settings.frequencies(), 0, {},
                                                 posenc::AnglePolicy::HfFloat32);
  const auto exact = rope.table<double>(at);
  std::vector<double> all;
  for (const auto& table : {rope.table<float>(at), rounded.table<float>(at)}) {
    for (Index i = 0; i < rope.rotary_dim() / 2; ++i) {
      const auto off = [i](const auto& a, const auto& b) {
        return std::abs(static_cast<double>(a.row(0, 0)[i]) - b.row(0, 0)[i]);
      };
      all.push_back(std::max(off(table.cos(), exact.cos()), off(table.sin(), exact.sin())));
    }
  }
  return all;
}

/// Returns the attention weights [tokens, tokens] of these queries, which are their own keys.
template <class Bias = posenc::NoBias>
std::vector<double> weights(std::vector<float> x, Index dim, bool causal, const Bias& bias = {}) {
  std::vector<float> identity(size(map_tokens * map_tokens)), out = identity;
  for (Index t = 0; t < map_tokens; ++t) identity[size(t * map_tokens + t)] = 1;
  const double squared = dot(x.data(), x.data(), dim);
  posenc::attention(heads(x, dim), heads(x, dim), heads(identity, map_tokens),
                    heads(out, map_tokens),
                    {.scale = self_score / squared,
                     .causal = causal ? posenc::Causal::TopLeft : posenc::Causal::No},
                    bias);
  return {out.begin(), out.end()};
}

/// settings, encoding, causal -> attention weights of equal words, whose positions alone differ.
/// Values are the rows of an identity matrix, so that the output is the weights.
std::vector<double> map(const Settings& settings, Arguments& from) {
  const Index encoding = from.integer(), dim = settings.head_dim;
  const bool causal = from.flag();
  std::vector<float> ones(size(map_tokens * dim), 1.0F);
  switch (encoding) {
    case 0: {  // sinusoidal: the codes are added to a word of half their length
      const posenc::Sinusoidal sinusoidal({.model_dim = dim,
                                           .layout = posenc::SinusoidalLayout::Interleaved,
                                           .base = settings.base});
      std::vector<float> words;
      for (const double channel : content(dim, 0)) {
        words.push_back(static_cast<float>(channel * std::sqrt(static_cast<double>(dim) / 8)));
      }
      words = repeated(words, map_tokens);
      sinusoidal.add_to(
          posenc::EmbeddingsView<float>{
              .data = words.data(), .batch = 1, .seq = map_tokens, .dim = dim},
          Positions::range(0, map_tokens));
      return weights(words, dim, causal);
    }
    case 1:
      settings.rope().rotate(heads(ones, dim), Positions::range(0, map_tokens));
      return weights(ones, dim, causal);
    case 2:
      return weights(ones, dim, causal, posenc::Alibi({0.25}, posenc::AlibiForm::Symmetric));
    case 3: {  // T5's trained tables differ; this one falls by 1/4 per bucket
      const posenc::T5BiasConfig config{.direction = posenc::T5Direction::Bidirectional};
      std::vector<float> table;
      for (Index b = 0; b < config.buckets; ++b) {
        table.push_back(-0.25F * static_cast<float>(b % (config.buckets / 2)));
      }
      const posenc::T5Bias<float> bias({.data = table.data(), .rows = config.buckets, .cols = 1},
                                       config);
      return weights(ones, dim, causal, bias);
    }
    default:
      posenc::detail::fail<posenc::ConfigError>("playground", "there is no encoding ", encoding);
  }
}

}  // namespace

std::vector<double> call(std::string_view name, std::span<const double> arguments) {
  constexpr std::pair<std::string_view, std::vector<double> (*)(const Settings&, Arguments&)>
      calls[] = {{"wavelengths", &wavelengths},
                 {"hands", &hands},
                 {"partners", &partners},
                 {"pair", &pair},
                 {"score", &score},
                 {"curve", &curve},
                 {"errors", &errors},
                 {"map", &map}};
  for (const auto& [known, function] : calls) {
    if (known != name) continue;
    Arguments from(arguments);
    const Settings settings(from);
    return function(settings, from);
  }
  posenc::detail::fail<posenc::ConfigError>("playground", "there is no call ", name);
}

}  // namespace playground
