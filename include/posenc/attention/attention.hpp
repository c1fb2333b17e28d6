// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/dropout.hpp>
#include <posenc/attention/mask.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/softmax.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

POSENC_BEGIN
namespace detail {

template <Scalar T>
AttentionShape check_attention(const char* function, const HeadsView<const T>& q,
                               const HeadsView<const T>& k, const HeadsView<const T>& v,
                               const HeadsView<T>& out) {
  if (k.batch != q.batch || k.dim != q.dim) {
    fail<ShapeError>(function, "k ", k.extents(), " must have the batch and head_dim of q ",
                     q.extents());
  }
  if (k.heads <= 0 ? q.heads != 0 : q.heads % k.heads != 0) {
    fail<ShapeError>(function, "the ", k.heads, " key heads must divide the ", q.heads,
                     " query heads; q is ", q.extents(), ", k is ", k.extents());
  }
  if (v.batch != k.batch || v.seq != k.seq || v.heads != k.heads) {
    fail<ShapeError>(function, "v ", v.extents(), " must have the batch, length and heads of k ",
                     k.extents());
  }
  if (out.batch != q.batch || out.seq != q.seq || out.heads != q.heads || out.dim != v.dim) {
    fail<ShapeError>(function, "out ", out.extents(), " must be [", q.batch, ", ", q.seq, ", ",
                     q.heads, ", ", v.dim, "]");
  }
  return {q.batch, q.heads, q.seq, k.seq};
}

template <Scalar T>
void check_options(const char* function, const AttentionOptions<T>& options,
                   const AttentionShape& shape) {
  check_dropout(function, options.dropout);
  if (options.scale && !std::isfinite(*options.scale)) {
    fail<ConfigError>(function, "scale must be finite but is ", *options.scale);
  }
  if (!std::isfinite(options.softcap) || options.softcap < 0) {
    fail<ConfigError>(function, "softcap must be positive, or 0 for none, but is ",
                      options.softcap);
  }
  if ((options.softcap != 0) != (options.softcap_order != SoftcapOrder::Unspecified)) {
    fail<ConfigError>(function, "softcap (", options.softcap,
                      ") and softcap_order must be given together");
  }
  if (options.returned == ReturnedScores::Capped &&
      options.softcap_order == SoftcapOrder::AfterBias) {
    fail<ConfigError>(function, "ReturnedScores::Capped needs the soft cap before the bias");
  }
  const auto& w = options.weights;
  if (w.data != nullptr &&
      w.extents() != std::array<Index, 4>{shape.batch, shape.heads, shape.queries, shape.keys}) {
    fail<ShapeError>(function, "weights ", w.extents(), " must be [", shape.batch, ", ",
                     shape.heads, ", ", shape.queries, ", ", shape.keys, "]");
  }
}

/// A bias needs to know where queries and keys stand, and, where it says for how many heads it was
/// made, those heads.
template <class Bias, Scalar T>
void check_bias(const char* function, [[maybe_unused]] const Bias& bias,
                const Visibility<T>& visible, const AttentionShape& shape) {
  if constexpr (requires { bias.heads(); }) {
    if (bias.heads() != shape.heads) {
      fail<ShapeError>(function, "the bias is made for ", bias.heads(), " heads but q has ",
                       shape.heads);
    }
  }
  if (!std::is_same_v<Bias, NoBias>) visible.require_query_positions(function);
}

/// One query's way through attention: scores, softmax, weighted sum of values. Its arithmetic
/// depends on nothing but the query and the keys it sees, so that decoding gives the bits of
/// prefill.
template <Scalar T, class Bias>
class AttentionRow {
 public:
  using Real = Compute<T>;

  AttentionRow(const Visibility<T>& visible, const AttentionOptions<T>& options, const Bias& bias,
               HeadsView<const T> k, HeadsView<const T> v, double scale)
      : visible_(visible),
        options_(options),
        bias_(bias),
        k_(k),
        v_(v),
        scale_(static_cast<Real>(scale)),
        scores_(static_cast<std::size_t>(k.seq)),
        seen_(static_cast<std::size_t>(k.seq)),
        key_positions_(static_cast<std::size_t>(k.seq)),
        sum_(static_cast<std::size_t>(v.dim)) {}

  /// Keys of another batch row.
  void begin_batch_row(Index b) {
    for (Index j = 0; j < k_.seq; ++j) key_positions_[at(j)] = visible_.key_position(b, j);
  }

  /// out <- attention of query q, which is row i of head h; kv is the head of k and v that it
  /// shares.
  void run(Index b, Index h, Index kv, Index i, const T* q, T* out) {
    for (Index j = 0; j < k_.seq; ++j) {
      seen_[at(j)] = visible_(b, h, i, j);
      // A hidden key is not read, so that its NaN or inf has no way out.
      scores_[at(j)] =
          seen_[at(j)] || wants(ReturnedScores::Scaled) || wants(ReturnedScores::Capped)
              ? scale_ * dot(q, k_.row(b, j, kv))
              : Real{0};
    }
    give(ReturnedScores::Scaled, b, h, i);
    if (options_.softcap_order == SoftcapOrder::BeforeBias) cap();
    give(ReturnedScores::Capped, b, h, i);
    const double query_position = visible_.query_position(b, i);
    bias_.add(h, std::span<const double>(&query_position, 1),
              std::span<const double>(key_positions_),
              MatrixView<Real>{scores_.data(), 1, k_.seq, k_.seq});
    if (options_.softcap_order == SoftcapOrder::AfterBias) cap();
    mask(b, h, i);
    give(ReturnedScores::Masked, b, h, i);
    softmax();
    if (options_.dropout.probability > 0) drop(b, h, query_position);
    give(ReturnedScores::Probabilities, b, h, i);
    sum_values(b, kv, out);
  }

 private:
  static std::size_t at(Index j) noexcept { return static_cast<std::size_t>(j); }

  Real dot(const T* q, const T* k) const noexcept {
    Real sum = 0;
    for (Index d = 0; d < k_.dim; ++d)
      sum = mul_add(static_cast<Real>(q[d]), static_cast<Real>(k[d]), sum);
    return sum;
  }

  void cap() noexcept {
    const auto limit = static_cast<Real>(options_.softcap);
    for (Real& score : scores_) score = limit * std::tanh(score / limit);
  }

  void mask(Index b, Index h, Index i) noexcept {
    for (Index j = 0; j < k_.seq; ++j) {
      Real& score = scores_[at(j)];
      if (seen_[at(j)]) score += visible_.additive(b, h, i, j);
      // A bias may hide a key as well.
      if (!seen_[at(j)] || score == lowest) {
        seen_[at(j)] = false;
        score = lowest;
      }
    }
  }

  /// Probabilities; all zero where no key is seen.
  void softmax() noexcept {
    softmax_row(scores_.data(), static_cast<Index>(scores_.size()));
    // A NaN anywhere makes the sum NaN; hidden keys stay out of it.
    for (std::size_t j = 0; j < scores_.size(); ++j) {
      if (!seen_[j]) scores_[j] = 0;
    }
  }

  void drop(Index b, Index h, double query_position) noexcept {
    for (Index j = 0; j < k_.seq; ++j) {
      scores_[at(j)] *= static_cast<Real>(
          dropout_factor(options_.dropout, b, h, query_position, key_positions_[at(j)]));
    }
  }

  void sum_values(Index b, Index kv, T* out) noexcept {
    std::fill(sum_.begin(), sum_.end(), Real{0});
    for (Index j = 0; j < k_.seq; ++j) {
      if (!seen_[at(j)]) continue;
      const T* value = v_.row(b, j, kv);
      for (Index d = 0; d < v_.dim; ++d) {
        sum_[at(d)] = mul_add(scores_[at(j)], static_cast<Real>(value[d]), sum_[at(d)]);
      }
    }
    for (Index d = 0; d < v_.dim; ++d) out[d] = static_cast<T>(sum_[at(d)]);
  }

  bool wants(ReturnedScores stage) const noexcept {
    return options_.weights.data != nullptr && options_.returned == stage;
  }

  void give(ReturnedScores stage, Index b, Index h, Index i) const noexcept {
    if (!wants(stage)) return;
    for (Index j = 0; j < k_.seq; ++j) options_.weights(b, h, i, j) = scores_[at(j)];
  }

  static constexpr Real lowest = -std::numeric_limits<Real>::infinity();

  const Visibility<T>& visible_;
  const AttentionOptions<T>& options_;
  const Bias& bias_;
  HeadsView<const T> k_, v_;
  Real scale_;
  std::vector<Real> scores_;
  std::vector<char> seen_;
  std::vector<double> key_positions_;
  std::vector<Real> sum_;
};

}  // namespace detail

/// Scaled dot-product attention: out = softmax(scale * q k^T + bias + masks) v.
///   Shapes:   q [B, Sq, H, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv], out [B, Sq, H, Dv]; Hkv
///             divides H, and query head h uses key head h / (H / Hkv). Any of them may be empty.
///   Aliasing: out shares no memory with k, v and the masks; it may be q
///   Throws:   ShapeError, ConfigError, before anything is written
///   Masks:    a query that sees no key gives zeros; what a hidden key holds, NaN included, never
///             reaches the output
///   Order:    scale -> softcap -> bias (or bias -> softcap) -> masks -> softmax -> dropout
///   Bits:     a query's result does not depend on the other queries, nor on keys that it does not see
///   Accuracy: arithmetic in Compute<T>, rounded once to T
///   Cost:     O(B H Sq Sk (D + Dv)); memory O(Sk + Dv), no Sq x Sk buffer unless options.weights is
///             given
///   Source:   arXiv 1706.03762, equation 1
template <Scalar T, class Bias = NoBias>
void attention(HeadsView<const std::type_identity_t<T>> q,
               HeadsView<const std::type_identity_t<T>> k,
               HeadsView<const std::type_identity_t<T>> v, HeadsView<T> out,
               const AttentionOptions<std::type_identity_t<T>>& options = {},
               const Bias& bias = {}) {
  static_assert(
      ScoreBias<Bias, T>,
      "posenc::attention: Bias must provide add(head, query_positions, key_positions, tile); see "
      "ScoreBias in posenc/concepts.hpp");
  constexpr auto function = "attention";
  const detail::AttentionShape shape = detail::check_attention<T>(function, q, k, v, out);
  detail::check_options<T>(function, options, shape);
  const detail::Visibility<T> visible(function, options, shape);
  detail::check_bias(function, bias, visible, shape);
  const double scale =
      options.scale.value_or(1 / std::sqrt(static_cast<double>((std::max)(q.dim, Index{1}))));
  detail::AttentionRow<T, Bias> row(visible, options, bias, k, v, scale);
  const Index group = k.heads == 0 ? 1 : q.heads / k.heads;
  for (Index b = 0; b < q.batch; ++b) {
    row.begin_batch_row(b);
    for (Index h = 0; h < q.heads; ++h) {
      for (Index i = 0; i < q.seq; ++i)
        row.run(b, h, h / group, i, q.row(b, i, h), out.row(b, i, h));
    }
  }
}

POSENC_END
