// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/dropout.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

// Checks of attention() before anything is written. AttentionGeometry and Masks check the rest.
POSENC_BEGIN
namespace detail {

template <Scalar T>
POSENC_COLD void check_out(const char* function, const HeadsView<const T>& q,
                           const HeadsView<T>& out, Index value_dim) {
  check_extents(function, "out", out);
  if (out.batch != q.batch || out.seq != q.seq || out.heads != q.heads || out.dim != value_dim) {
    fail<ShapeError>(function, "out ", out.extents(), " must be [", q.batch, ", ", q.seq, ", ",
                     q.heads, ", ", value_dim, "]");
  }
  check_output(function, "out", out);
}

/// Throws ShapeError unless q, k and v fit each other.
template <Scalar T, Scalar S = T>
POSENC_COLD void check_tensors(const char* function, const HeadsView<const T>& q,
                               const HeadsView<const S>& k, const HeadsView<const S>& v) {
  check_extents(function, "q", q);
  check_extents(function, "k", k);
  check_extents(function, "v", v);
  if (k.batch != q.batch || k.dim != q.dim) {
    fail<ShapeError>(function, "k ", k.extents(), " must have the batch and head_dim of q ",
                     q.extents());
  }
  if (k.heads <= 0 ? q.heads != 0 : q.heads % k.heads != 0) {
    fail<ShapeError>(function, "the ", k.heads, " KV heads must divide the ", q.heads,
                     " query heads; q is ", q.extents(), ", k is ", k.extents());
  }
  if (v.batch != k.batch || v.seq != k.seq || v.heads != k.heads) {
    fail<ShapeError>(function, "v ", v.extents(), " must have the batch, length and heads of k ",
                     k.extents());
  }
}

POSENC_COLD inline void check_causal(const char* function, Causal causal) {
  switch (causal) {
    case Causal::No:
    case Causal::TopLeft:
    case Causal::BottomRight:
    case Causal::FromStart:
    case Causal::ByPosition:
      return;
    case Causal::Unspecified:
      break;
  }
  fail<ConfigError>(function,
                    "causal must be set to Causal::No (every key), TopLeft, BottomRight (for "
                    "decoding), FromStart or ByPosition");
}

/// Returns the multiplier of the scale. It belongs to the rotary encoding of queries and keys.
/// Options may repeat that of the caller's encoding, `of_encoding`, and it applies once.
inline double softmax_scale_multiplier(const char* function, double in_options,
                                       double of_encoding) {
  if (in_options == 1 || in_options == of_encoding) return of_encoding;
  if (of_encoding == 1) return in_options;
  fail<ConfigError>(function, "softmax_scale_multiplier must be 1, or ", of_encoding,
                    " as that of the rotary encoding, but is ", in_options);
}

/// Returns the checked factor of q k in double. `of_encoding` is the multiplier of the caller's
/// rotary encoding.
template <Scalar T>
POSENC_COLD double checked_scale(const char* function, const AttentionOptions<T>& options,
                                 double of_encoding, Index head_dim) {
  constexpr auto largest = static_cast<double>((std::numeric_limits<Compute<T>>::max)());
  const double multiplier =
      softmax_scale_multiplier(function, options.softmax_scale_multiplier, of_encoding);
  if (!(multiplier > 0 && multiplier <= (std::numeric_limits<double>::max)())) {
    fail<ConfigError>(function, "softmax_scale_multiplier must be positive and finite but is ",
                      multiplier);
  }
  const double scale =
      options.scale.value_or(1 / std::sqrt(static_cast<double>((std::max)(head_dim, Index{1}))));
  if (!(std::abs(scale) <= largest)) {
    fail<ConfigError>(function, "scale must be finite but is ", scale);
  }
  if (!(std::abs(scale * multiplier) <= largest)) {
    fail<ConfigError>(function, "scale times softmax_scale_multiplier must be finite but is ",
                      scale, " times ", multiplier);
  }
  return scale * multiplier;
}

/// Checks all options except geometry and masks.
template <Scalar T>
POSENC_COLD void check_options(const char* function, const AttentionOptions<T>& options,
                               const AttentionShape& shape) {
  check_causal(function, options.causal);
  check_dropout(function, options.dropout);
  using Real = Compute<T>;
  const auto softcap = static_cast<Real>(options.softcap);
  if (options.softcap != 0 &&
      !(softcap >= (std::numeric_limits<Real>::min)() && std::isfinite(softcap))) {
    fail<ConfigError>(function, "softcap must be positive, or 0 for none, but is ",
                      options.softcap);
  }
  if ((options.softcap != 0) != (options.softcap_order != SoftcapOrder::Unspecified)) {
    fail<ConfigError>(function, "softcap (", options.softcap,
                      ") and softcap_order must be set together");
  }
  const bool is_of_capped = options.temperature_of == TemperatureOf::CappedScores;
  if ((options.temperature != nullptr) != (options.temperature_of != TemperatureOf::Unspecified)) {
    fail<ConfigError>(function, "temperature and temperature_of must be set together");
  }
  if (is_of_capped && options.softcap == 0) {
    fail<ConfigError>(function, "TemperatureOf::CappedScores needs a softcap");
  }
  if (!options.sinks.empty() && static_cast<Index>(options.sinks.size()) != shape.heads) {
    fail<ShapeError>(function, "sinks must have one entry for each of the ", shape.heads,
                     " heads but has ", options.sinks.size());
  }
  for (const Real sink : options.sinks) {
    if (!(sink < std::numeric_limits<Real>::infinity())) {
      fail<ConfigError>(function, "sinks must be finite or -inf but one is ", sink);
    }
  }
  // The number of rows must be representable even if rows are empty.
  if (!checked_mul({shape.batch, shape.heads, shape.queries})) {
    fail<ShapeError>(function, shape.batch, " times ", shape.heads, " heads times ", shape.queries,
                     " queries exceed 2^63 - 1");
  }
}

inline void check_probabilities(const char* function, Probabilities probabilities,
                                bool has_bfloat16_values) {
  if (probabilities == Probabilities::RoundedToBfloat16 && !has_bfloat16_values) {
    fail<ConfigError>(function, "Probabilities::RoundedToBfloat16 needs values of bfloat16");
  }
}

/// Checks the log-sum-exps that attention() writes and its backward reads.
template <class Real>
POSENC_COLD void check_lse(const char* function, const LseView<Real>& lse,
                           const std::array<Index, 3>& extents) {
  check_optional_extents(function, "lse", lse);
  if (lse.data != nullptr && lse.extents() != extents) {
    fail<ShapeError>(function, "lse ", lse.extents(), " must be ", extents);
  }
}

/// Checks the views that receive log-sum-exps and scores.
template <Scalar T>
POSENC_COLD void check_memory(const char* function, const AttentionOptions<T>& options,
                              const AttentionMemory<T>& memory, const AttentionShape& shape) {
  const auto& lse = memory.lse;
  check_lse(function, lse, {shape.batch, shape.heads, shape.queries});
  if (lse.data != nullptr) check_output(function, "lse", lse);
  const auto& weights = memory.weights;
  if (weights.data != nullptr && memory.returned == ReturnedScores::Capped &&
      options.softcap_order == SoftcapOrder::AfterBias) {
    fail<ConfigError>(function, "ReturnedScores::Capped needs the soft cap before the bias");
  }
  check_optional_extents(function, "weights", weights);
  if (weights.data == nullptr) return;
  const std::array<Index, 4> extents{shape.batch, shape.heads, shape.queries, shape.keys};
  if (weights.extents() != extents) {
    fail<ShapeError>(function, "weights ", weights.extents(), " must be ", extents);
  }
  check_output(function, "weights", weights);
}

}  // namespace detail
POSENC_END
