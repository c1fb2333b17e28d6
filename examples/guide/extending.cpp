// SPDX-License-Identifier: MIT
// The lines of extending.md: biases with gradients, a frequency rule, a rotary encoding and a cache
// format of one's own, with checks of what posenc requires of them.
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

using posenc::Index;

namespace mine {

/// Bias exp(log_weight[head] - |query - key| / reach): it raises the scores of near keys.
class NearBias {
 public:
  NearBias(std::vector<double> log_weights, double reach)
      : log_weights_(std::move(log_weights)), reach_(reach) {}

  Index heads() const { return static_cast<Index>(log_weights_.size()); }

  template <std::floating_point Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        const double distance = at(query_positions, i) - at(key_positions, j);
        tile.row(i)[j] += static_cast<Real>(value(head, distance));
      }
    }
  }

  /// Optional: makes this a DistanceBias, which attention() evaluates once per distance.
  using DistanceBiasSelf = NearBias;
  template <std::floating_point Real>
  void write_values(Index head, double farthest, std::span<Real> values) const {
    for (Real& x : values) x = static_cast<Real>(value(head, farthest--));
  }

  /// Optional: the gradient of log_weights.
  std::vector<double> zero_gradient() const { return std::vector<double>(log_weights_.size()); }

  template <std::floating_point Real>
  void add_gradient(Index head, std::span<const double> query_positions,
                    std::span<const double> key_positions, posenc::MatrixView<const Real> grad,
                    std::vector<double>& gradient) const {
    double sum = 0;
    for (Index i = 0; i < grad.rows; ++i) {
      for (Index j = 0; j < grad.cols; ++j) {
        const double distance = at(query_positions, i) - at(key_positions, j);
        sum += static_cast<double>(grad.row(i)[j]) * value(head, distance);
      }
    }
    gradient[static_cast<std::size_t>(head)] += sum;
  }

 private:
  static double at(std::span<const double> positions, Index n) {
    return positions[static_cast<std::size_t>(n)];
  }
  double value(Index head, double distance) const {
    return std::exp(log_weights_[static_cast<std::size_t>(head)] - std::abs(distance) / reach_);
  }

  std::vector<double> log_weights_;
  double reach_;
};

static_assert(posenc::ScoreBias<NearBias, float>);
static_assert(posenc::DistanceBias<NearBias, float>);
static_assert(posenc::LearnedScoreBias<NearBias, float, std::vector<double>>);

/// Bias -exp(weights[head] . query) |query - key|: each query selects how far it attends.
class SlopeOfQuery {
 public:
  using Tile = posenc::QueryBiasTile<double>;

  SlopeOfQuery(std::vector<double> weights, Index heads)
      : weights_(std::move(weights)), heads_(heads) {}

  Index heads() const { return heads_; }
  void check(const char* function, const posenc::HeadsView<const double>& q) const {
    if (q.dim * heads_ == static_cast<Index>(weights_.size())) return;
    throw posenc::ShapeError(std::string(function) + ": SlopeOfQuery has other channels than q");
  }

  void add(const Tile& tile, posenc::MatrixView<double> scores) const {
    for (Index i = 0; i < scores.rows; ++i) {
      const double slope = this->slope(tile, i);
      for (Index j = 0; j < scores.cols; ++j) scores.row(i)[j] -= slope * distance(tile, i, j);
    }
  }

  std::vector<double> zero_gradient() const { return std::vector<double>(weights_.size()); }
  void add_gradient(const Tile& tile, posenc::MatrixView<const double> grad,
                    const posenc::QueryBiasGradients<double>& to,
                    std::vector<double>& gradient) const {
    const Index dim = tile.block.q.dim, first = tile.tokens.head * dim;
    for (Index i = 0; i < grad.rows; ++i) {
      double of_exponent = 0;
      for (Index j = 0; j < grad.cols; ++j) of_exponent -= grad.row(i)[j] * distance(tile, i, j);
      of_exponent *= slope(tile, i);
      for (Index d = 0; d < dim; ++d) {
        const auto n = static_cast<std::size_t>(first + d);
        gradient[n] += of_exponent * tile.query(i)[d];
        to.queries.row(i)[d] += of_exponent * weights_[n];
      }
    }
  }

 private:
  double slope(const Tile& tile, Index i) const {
    const Index dim = tile.block.q.dim;
    const double* const weights = weights_.data() + tile.tokens.head * dim;
    return std::exp(std::inner_product(weights, weights + dim, tile.query(i), 0.0));
  }
  static double distance(const Tile& tile, Index i, Index j) {
    return std::abs(tile.tokens.query_positions[static_cast<std::size_t>(i)] -
                    tile.tokens.key_positions[static_cast<std::size_t>(j)]);
  }

  std::vector<double> weights_;  ///< [heads, channels of q]
  Index heads_;
};

static_assert(posenc::DifferentiableQueryBias<SlopeOfQuery, double, std::vector<double>>);

/// Frequency rule: wavelengths from `shortest` to `longest` tokens in a geometric sequence.
struct Wavelengths {
  Index rotary_dim = 0;
  double shortest = 0, longest = 0;
};

posenc::Frequencies frequencies(const Wavelengths& rule) {
  const Index pairs = rule.rotary_dim / 2;
  std::vector<double> inv_freq;  // radians per token
  for (Index i = 0; i < pairs; ++i) {
    const double step = static_cast<double>(i) / static_cast<double>(pairs - 1);
    const double wavelength = rule.shortest * std::pow(rule.longest / rule.shortest, step);
    inv_freq.push_back(2 * 3.141592653589793 / wavelength);
  }
  return posenc::Frequencies::from_inv_freq(inv_freq);
}

/// Rotary encoding with frequencies of its own for each KV head. The query heads that share a KV
/// head rotate as it does.
class RopePerHead {
 public:
  explicit RopePerHead(std::vector<posenc::Rope<posenc::HalfRotate>> ropes)
      : ropes_(std::move(ropes)) {}

  template <class T>
  void rotate_queries(posenc::HeadsView<T> q, const posenc::Positions& positions) const {
    for_each_head(q, [&](const auto& rope, auto head) { rope.rotate(head, positions); });
  }
  template <class T>
  void rotate_keys(posenc::HeadsView<T> k, const posenc::Positions& positions) const {
    rotate_queries(k, positions);
  }

  /// Optional: makes this a DifferentiableRotary, which training needs.
  template <class T>
  void adjoint_queries(posenc::HeadsView<T> grad_q, const posenc::Positions& positions) const {
    for_each_head(grad_q, [&](const auto& rope, auto head) { rope.adjoint(head, positions); });
  }
  template <class T>
  void adjoint_keys(posenc::HeadsView<T> grad_k, const posenc::Positions& positions) const {
    adjoint_queries(grad_k, positions);
  }

  double softmax_scale_multiplier() const { return 1; }

 private:
  template <class T, class Use>
  void for_each_head(posenc::HeadsView<T> x, const Use& use) const {
    for (Index h = 0; h < x.heads; ++h) {
      const Index kv_head = h * static_cast<Index>(ropes_.size()) / x.heads;
      use(ropes_[static_cast<std::size_t>(kv_head)], posenc::slice_heads(x, h, 1));
    }
  }

  std::vector<posenc::Rope<posenc::HalfRotate>> ropes_;
};

static_assert(posenc::DifferentiableRotary<RopePerHead, float>);

/// KvRowFormat MXINT8 of the OCP microscaling formats: 8 bits per number, and a power of two as
/// scale for every 32 numbers.
struct MxInt8 {
  static Index row_bytes(Index channels) { return channels + (channels + 31) / 32; }

  static void encode(std::span<const float> row, std::span<std::byte> stored) {
    for_blocks(row, stored, [](auto numbers, std::byte& scale, auto integers) {
      float largest = 0;
      bool finite = true;
      for (const float x : numbers) {
        largest = std::max(largest, std::abs(x));
        finite = finite && std::isfinite(x);
      }
      const int exponent = finite ? std::clamp(std::ilogb(largest), -127, 127) : 128;
      scale = static_cast<std::byte>(exponent + 127);  // 255: not finite
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const float x = finite ? std::nearbyint(std::ldexp(numbers[i], 6 - exponent)) : 0;
        integers[i] = static_cast<std::byte>(static_cast<int>(std::clamp(x, -127.0F, 127.0F)));
      }
    });
  }

  static void decode(std::span<const std::byte> stored, std::span<float> row) {
    for_blocks(row, stored, [](auto numbers, std::byte scale, auto integers) {
      const int exponent = std::to_integer<int>(scale) - 127;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto x = static_cast<float>(static_cast<std::int8_t>(integers[i]));
        numbers[i] =
            exponent == 128 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(x, exponent - 6);
      }
    });
  }

 private:
  /// Calls work(numbers, scale, integers) for each 32 numbers of a row. Scales precede integers.
  template <class Row, class Stored, class Work>
  static void for_blocks(Row row, Stored stored, const Work& work) {
    constexpr std::size_t block = 32;
    const auto scales = (row.size() + block - 1) / block;
    for (std::size_t n = 0; n < scales; ++n) {
      const std::size_t first = n * block, count = std::min(block, row.size() - first);
      work(row.subspan(first, count), stored[n], stored.subspan(scales + first, count));
    }
  }
};

}  // namespace mine

namespace {

int failures = 0;

void expect(bool holds, const char* claim) {
  if (holds) return;
  std::cout << "wrong: " << claim << '\n';
  ++failures;
}

constexpr Index seq = 9, heads = 2, dim = 16;

/// Tensor x(s, h, d) of one sequence, in double.
class Heads {
 public:
  explicit Heads(std::uint32_t state = 0) : numbers_(static_cast<std::size_t>(seq * heads * dim)) {
    for (double& x : numbers_) {
      if (state == 0) break;
      state = state * 1664525 + 1013904223;
      x = static_cast<double>(state) / 2147483648.0 - 1;
    }
  }
  posenc::HeadsView<double> view() {
    return {.data = numbers_.data(), .batch = 1, .seq = seq, .heads = heads, .dim = dim};
  }
  double dot(const Heads& other) const {
    double sum = 0;
    for (std::size_t i = 0; i < numbers_.size(); ++i) sum += numbers_[i] * other.numbers_[i];
    return sum;
  }
  bool operator==(const Heads& other) const { return numbers_ == other.numbers_; }

 private:
  std::vector<double> numbers_;
};

const posenc::AttentionOptions<double> causal{.causal = posenc::Causal::TopLeft};

template <class Bias>
double loss(const Bias& bias, Heads weight, std::vector<double>* gradient = nullptr,
            Heads q = Heads(1), Heads* grad_q = nullptr) {
  Heads k(2), v(3), out;
  std::vector<double> lse_memory(static_cast<std::size_t>(heads * seq));
  const posenc::LseView<double> lse{
      .data = lse_memory.data(), .batch = 1, .heads = heads, .queries = seq};
  posenc::attention(q.view(), k.view(), v.view(), out.view(), causal, bias, {.lse = lse});
  if (gradient != nullptr) {
    posenc::AttentionGradients<double> gradients;
    if (grad_q != nullptr) gradients.q = grad_q->view();
    posenc::attention_backward(q.view(), k.view(), v.view(), out.view(), lse, weight.view(),
                               gradients, causal, bias, *gradient);
  }
  return out.dot(weight);
}

/// NearBias by add() alone, as an independent path through attention().
struct AddOnly {
  mine::NearBias bias;
  template <std::floating_point Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
    bias.add(head, query_positions, key_positions, tile);
  }
};

void bias() {
  const mine::NearBias near_keys({0.5, -1}, 4);
  Heads q(1), k(2), v(3), by_distance, by_add;
  posenc::attention(q.view(), k.view(), v.view(), by_distance.view(), causal, near_keys);
  posenc::attention(q.view(), k.view(), v.view(), by_add.view(), causal, AddOnly{near_keys});
  expect(by_distance == by_add, "add() and write_values() agree in every bit");

  const Heads weight(4);
  auto gradient = near_keys.zero_gradient();
  loss(near_keys, weight, &gradient);
  const double difference = (loss(mine::NearBias({0.5, -1 + 1e-5}, 4), weight) -
                             loss(mine::NearBias({0.5, -1 - 1e-5}, 4), weight)) /
                            2e-5;
  expect(std::abs(gradient[1] - difference) < 1e-8, "the gradient is the derivative");
}

void query_bias() {
  std::vector<double> weights(static_cast<std::size_t>(heads * dim), 0.125);
  const Heads weight(4);
  Heads q(1), grad_q;
  const mine::SlopeOfQuery bias(weights, heads);
  auto gradient = bias.zero_gradient();
  loss(bias, weight, &gradient, q, &grad_q);
  const auto difference = [&](double& number) {
    const double before = number;
    const auto loss_at = [&](double x) {
      number = x;
      return loss(mine::SlopeOfQuery(weights, heads), weight, nullptr, q);
    };
    const double above = loss_at(before + 1e-5), below = loss_at(before - 1e-5);
    number = before;
    return (above - below) / 2e-5;
  };
  expect(std::abs(gradient[20] - difference(weights[20])) < 1e-7,
         "the gradient of the weights is the derivative");
  expect(std::abs(grad_q.view().row(0, 5, 1)[3] - difference(q.view().row(0, 5, 1)[3])) < 1e-7,
         "the gradient of the queries includes the bias");
}

/// Returns the scores of the first query, at position `first`, with keys from `first` on.
template <class Rotary>
std::vector<double> scores(const Rotary& rotary, Index first, Index head = 0) {
  Heads q(1), k(2);
  rotary.rotate_queries(q.view(), posenc::Positions::range(first, seq));
  rotary.rotate_keys(k.view(), posenc::Positions::range(first, seq));
  std::vector<double> found;
  for (Index s = 0; s < seq; ++s) {
    double sum = 0;
    for (Index d = 0; d < dim; ++d) {
      sum += q.view().row(0, 0, head)[d] * k.view().row(0, s, head)[d];
    }
    found.push_back(sum);
  }
  return found;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

void rule() {
  const posenc::Rope<posenc::HalfRotate> rope(
      mine::Wavelengths{.rotary_dim = 16, .shortest = 6, .longest = 8192});
  expect(rope.frequencies().pairs() == 8, "eight pairs");
  expect(largest_difference(scores(rope, 0), scores(rope, 5000)) < 1e-12,
         "scores depend on distances alone");
}

void rotary() {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  const mine::RopePerHead rotary({Rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000}),
                                  Rope(posenc::Unscaled{.rotary_dim = dim, .base = 500000})});
  for (const Index head : {0, 1}) {
    expect(largest_difference(scores(rotary, 0, head), scores(rotary, 5000, head)) < 1e-12,
           "scores depend on distances alone");
  }

  const auto positions = posenc::Positions::range(95, seq);
  Heads x(1), y(2), rotated = x, back = y;
  rotary.rotate_queries(rotated.view(), positions);
  rotary.adjoint_queries(back.view(), positions);
  expect(std::abs(rotated.dot(y) - x.dot(back)) < 1e-12, "the adjoint is the transpose");
}

void cache_format() {
  static_assert(posenc::KvRowFormat<mine::MxInt8>);
  const auto floats = [](std::uint32_t state) {
    Heads x(state);
    const double* const numbers = x.view().data;
    return std::vector<float>(numbers, numbers + seq * heads * dim);
  };
  auto q = floats(1), k = floats(2), v = floats(3);
  const auto attend = [&](auto cache) {
    const auto view = [](auto& x) {
      return posenc::HeadsView<float>{x.data(), 1, seq, heads, dim};
    };
    std::vector<float> out(q.size());
    cache.append(0, view(k), view(v));
    posenc::attention(view(q), cache, {0}, view(out), {.causal = posenc::Causal::BottomRight});
    return std::vector<double>(out.begin(), out.end());
  };
  const posenc::KvCacheConfig config{.kv_heads = heads, .head_dim = dim, .capacity = seq};
  const double error = largest_difference(attend(posenc::KvCache<mine::MxInt8>(config)),
                                          attend(posenc::KvCache<float>(config)));
  expect(error > 0 && error < 0.05, "8 bits change little");

  std::vector<float> row{0.3F, -5, 1e-3F, 4.99F}, decoded(4);
  std::vector<std::byte> stored(static_cast<std::size_t>(mine::MxInt8::row_bytes(4))),
      again = stored;
  mine::MxInt8::encode(row, stored);
  mine::MxInt8::decode(stored, decoded);
  mine::MxInt8::encode(decoded, again);
  expect(stored == again, "a decoded row is encoded to the same bytes");
}

}  // namespace

int main() {
  bias();
  query_bias();
  rule();
  rotary();
  cache_format();
  if (failures == 0) std::cout << "all claims of extending.md hold\n";
  return failures;
}
