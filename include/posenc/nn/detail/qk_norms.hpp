// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/nn/detail/rms_norm.hpp>
#include <posenc/nn/multi_head_config.hpp>
#include <posenc/nn/parameter_matrix.hpp>
#include <posenc/nn/qk_norm.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

// Norms of MultiHeadAttention's queries and keys.
POSENC_BEGIN
namespace detail {

/// Returns the count of numbers that one norm of `heads` heads covers; 0 without a norm.
inline Index qk_norm_size(const MultiHeadAttentionConfig& config, Index heads) noexcept {
  switch (config.qk_norm.over) {
    case QkNormOver::Head:
      return config.head_dim;
    case QkNormOver::AllHeads:
      return heads * config.head_dim;
    default:
      return 0;
  }
}

inline bool has_qk_norm(const MultiHeadAttentionConfig& config) noexcept {
  return config.qk_norm.over != QkNormOver::None;
}

/// Returns the stored weight of a norm whose factors are 1.
template <class T>
T identity_weight(const QkNorm& norm) noexcept {
  return norm.weight == QkNormWeight::FactorMinusOne ? T{0} : T{1};
}

/// Returns weights of a norm that only normalises.
template <class T>
ParameterMatrix<T> identity_norm(const MultiHeadAttentionConfig& config, Index heads) {
  const Index size = qk_norm_size(config, heads);
  ParameterMatrix<T> weight(size == 0 ? 0 : 1, size);
  weight.fill(identity_weight<T>(config.qk_norm));
  return weight;
}

/// Throws ShapeError unless the weights, or their gradients, have one number per factor.
/// `may_be_empty` is for gradients that are not computed.
template <class T>
void check_qk_norm(const char* function, const char* name, const MultiHeadAttentionConfig& config,
                   Index heads, const ParameterMatrix<T>& weight, bool may_be_empty) {
  const Index size = qk_norm_size(config, heads);
  if (weight.size() == size || (may_be_empty && weight.size() == 0)) return;
  if (size == 0) {
    fail<ShapeError>(function, name, " must be empty without a qk_norm but has ", weight.size(),
                     " values");
  }
  fail<ShapeError>(function, name, " must have ", size, " values but has ", weight.size());
}

/// Overload for the weights of a module.
template <class Module>
void check_qk_norms(const char* function, const Module& module) {
  const auto& config = module.config();
  check_qk_norm(function, "query_norm", config, config.heads, module.query_norm, false);
  check_qk_norm(function, "key_norm", config, config.kv_heads, module.key_norm, false);
}

/// Norm of queries or keys, for heads [B, S, heads, head_dim].
template <class T>
class HeadsNorm {
 public:
  HeadsNorm(const MultiHeadAttentionConfig& config, const ParameterMatrix<T>& weight,
            const HeadsView<T>& heads) noexcept
      : norm_(weight.data(), qk_norm_size(config, heads.heads),
              static_cast<double>(T{1} - identity_weight<T>(config.qk_norm)),
              config.qk_norm.epsilon),
        rows_(heads.batch * heads.seq *
              (config.qk_norm.over == QkNormOver::Head ? Index{heads.heads} : 1)) {}

  template <Device D>
  void apply(const D& device, const HeadsView<T>& x, const HeadsView<T>& y) const {
    norm_.apply(device, rows_, x.data, y.data);
  }

  /// Like RmsNorm::backward(). A gradient without numbers is not computed.
  template <Device D>
  void backward(const D& device, const HeadsView<T>& x, const HeadsView<T>& grad,
                ParameterMatrix<T>& weight_gradient, double* scales) const {
    T* const sums = weight_gradient.size() == 0 ? nullptr : weight_gradient.data();
    norm_.backward(device, rows_, x.data, grad.data, sums, scales);
  }

  /// Returns the count of norms, which is that of the numbers in `scales`.
  Index rows() const noexcept { return rows_; }

 private:
  RmsNorm<T> norm_;
  Index rows_;
};

}  // namespace detail
POSENC_END
