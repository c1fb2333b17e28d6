// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/backward_rows.hpp>
#include <posenc/kernels/convert_row.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kernels/transposed_sum_kernel.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

POSENC_BEGIN
namespace detail {

/// Gradients of the keys and values of one head. Blocks add to them.
template <class Tier, Scalar T>
class KvGradients {
 public:
  using Real = Compute<T>;
  using PanelRowRanges = std::array<PanelRowRange, static_cast<std::size_t>(tile_panels)>;

  /// Allocates memory for `keys` keys. The dimensions are those of the tensors, or 0 if a gradient
  /// is not requested.
  KvGradients(Index keys, Index key_dim, Index value_dim, ArenaAllocator& allocator) noexcept
      : key_dim_(padded_value_dim(key_dim)),
        value_dim_(padded_value_dim(value_dim)),
        keys_(allocator.allocate<Real>(keys * key_dim_)),
        values_(allocator.allocate<Real>(keys * value_dim_)) {}

  void clear(Index keys) const noexcept {
    std::fill_n(keys_, keys * key_dim_, Real{0});
    std::fill_n(values_, keys * value_dim_, Real{0});
  }

  /// Adds a block's contribution to keys [seen.begin, seen.end) of a tile, from weights and score
  /// gradients, both [rows, tile_keys].
  template <class S>
  void add(Index first_key, const KeyRange& seen, const PanelRowRanges& panels,
           const BackwardRows<Tier, T, S>& rows, const Real* weights,
           const Real* grad) const noexcept {
    const auto add_to = [&](Real* sums, const Real* row_weights, const Real* x, Index dim) {
      if (dim == 0) return;
      add_transposed_sums<Tier>(rows.finite(), seen.begin - first_key, seen.end - seen.begin,
                                row_weights, x, dim, panels.data(), sums + seen.begin * dim);
    };
    add_to(values_, weights, rows.grad_out(), value_dim_);
    add_to(keys_, grad, rows.queries(), key_dim_);
  }

  bool has_keys() const noexcept { return key_dim_ > 0; }
  /// Returns the gradient of a key, [padded head_dim].
  Real* key_gradient(Index key) const noexcept { return keys_ + key * key_dim_; }

  /// Writes the gradients. Views without data are skipped.
  void write(const AttentionSequence& s, Index head, const HeadsView<T>& grad_k,
             const HeadsView<T>& grad_v) const noexcept {
    const auto write_to = [&](const HeadsView<T>& grad, const Real* sums, Index dim) {
      if (grad.data == nullptr) return;
      for (Index j = 0; j < s.stored; ++j) {
        convert_row<Tier>(sums + j * dim, grad.dim, grad.row(s.batch, s.first_key + j, head));
      }
    };
    write_to(grad_k, keys_, key_dim_);
    write_to(grad_v, values_, value_dim_);
  }

 private:
  Index key_dim_, value_dim_;  ///< padded
  Real* keys_;
  Real* values_;
};

}  // namespace detail
POSENC_END
