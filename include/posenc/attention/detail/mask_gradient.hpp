// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

POSENC_BEGIN
namespace detail {

/// Gradient of the additive mask, summed over broadcast axes.
template <Scalar T>
class MaskGradient {
 public:
  using Real = Compute<T>;

  ///   Throws: ShapeError
  MaskGradient(const char* function, const ScoresView<Real>& grad,
               const ScoresView<const Real>& mask, Index sequences, Index kv_heads)
      : grad_(grad) {
    check_optional_extents(function, "gradients.additive", grad);
    if (grad.data == nullptr) return;
    if (mask.data == nullptr) {
      fail<ShapeError>(function, "gradients.additive ", grad.extents(),
                       " needs options.additive, which has no data");
    }
    if (grad.extents() != mask.extents()) {
      fail<ShapeError>(function, "gradients.additive ", grad.extents(),
                       " must have the shape of options.additive ", mask.extents());
    }
    check_output(function, "gradients.additive", grad);
    shared_ = (grad.batch == 1 && sequences > 1) || (grad.heads == 1 && kv_heads > 1);
    is_broadcast_over_keys_ = grad.keys == 1;
    if (grad.batch == 1) grad_.batch_stride = 0;
    if (grad.heads == 1) grad_.head_stride = 0;
    if (grad.queries == 1) grad_.query_stride = 0;
  }

  bool is_present() const noexcept { return grad_.data != nullptr; }
  /// True if blocks of different KV heads, or sequences, add to the same entries.
  bool is_shared_by_heads() const noexcept { return shared_; }

  /// Adds the score gradients of a block's rows, [rows, tile_keys], for a tile. If the mask is
  /// broadcast over keys, adds them to `sums` of the rows instead.
  template <class Block>
  void add(const Block& block, const TileVisibility& seen, const Real* grad,
           Real* sums) const noexcept {
    const AttentionSequence& s = block.sequence();
    for (Index r = 0; r < block.rows(); ++r) {
      const Real* const row = grad + r * tile_keys - seen.first_key();
      for (Index j = seen.keys.begin; j < seen.keys.end; ++j) {
        if (is_broadcast_over_keys_) {
          sums[r] += row[j];
        } else {
          grad_(s.batch, block.head(r), s.first_query + block.query(r), s.first_key + j) += row[j];
        }
      }
    }
  }

  /// Adds the rows' sums of a mask that is broadcast over keys. Call it after the block's last
  /// tile.
  template <class Block>
  void add_sums(const Block& block, const Real* sums) const noexcept {
    if (!is_present() || !is_broadcast_over_keys_) return;
    const AttentionSequence& s = block.sequence();
    for (Index r = 0; r < block.rows(); ++r) {
      grad_(s.batch, block.head(r), s.first_query + block.query(r), 0) += sums[r];
    }
  }

 private:
  ScoresView<Real> grad_;
  bool shared_ = false, is_broadcast_over_keys_ = false;
};

}  // namespace detail
POSENC_END
