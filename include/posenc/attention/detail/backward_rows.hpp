// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/query_block.hpp>
#include <posenc/kernels/convert_row.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <limits>

POSENC_BEGIN
namespace detail {

/// Backward data of a block's rows: gradient of the outputs, log-sum-exps, and the gradient of the
/// queries, to which tiles add.
template <class Tier, Scalar T, class S>
class BackwardRows {
 public:
  using Real = Compute<T>;
  using Block = QueryBlock<Tier, T, S>;

  /// Data that all blocks of a call share.
  struct CallContext {
    HeadsView<const T> q, out, grad_out;
    LseView<const Real> lse;
    Real scale;
  };

  BackwardRows(const CallContext& context, Index rows, ArenaAllocator& allocator) noexcept
      : context_(context),
        packed_(allocator.allocate<typename Block::Row>(rows * row_size())),
        queries_(allocator.allocate<Real>(rows * query_dim())),
        grad_out_(allocator.allocate<Real>(rows * value_dim())),
        grad_q_(allocator.allocate<Real>(rows * query_dim())),
        lse_(allocator.allocate<Real>(rows)),
        delta_(allocator.allocate<Real>(rows)) {}

  /// Loads the rows of a block.
  void load_rows(const Block& block) noexcept {
    finite_ = true;
    const AttentionSequence& s = block.sequence();
    for (Index r = 0; r < block.rows(); ++r) {
      const Index b = s.batch, i = s.first_query + block.query(r), h = block.head(r);
      finite_ &= pack_values<Tier>(context_.q.row(b, i, h), 0, 1, context_.q.dim,
                                   queries_ + r * query_dim(), query_dim());
      scale(queries_ + r * query_dim());
      const T* grad_row = context_.grad_out.row(b, i, h);
      finite_ &= pack_values<Tier>(grad_row, 0, 1, context_.out.dim, grad_out_ + r * value_dim(),
                                   value_dim());
      pack_row<Tier>(grad_row, context_.out.dim, packed_ + r * row_size(), row_size());
      lse_[r] = context_.lse(b, h, i);
      finite_ &= lse_[r] < std::numeric_limits<Real>::infinity();
      delta_[r] = dot(grad_out_ + r * value_dim(), context_.out.row(b, i, h));
    }
    std::fill_n(grad_q_, block.rows() * query_dim(), Real{0});
  }

  /// Returns padded dimensions.
  Index query_dim() const noexcept { return padded_value_dim(context_.q.dim); }
  Index value_dim() const noexcept { return padded_value_dim(context_.out.dim); }

  /// True if queries, output gradients and log-sum-exps are finite. A log-sum-exp of -inf, of a row
  /// without visible keys, counts as finite.
  bool finite() const noexcept { return finite_; }
  const typename Block::Row* packed_grad_out(Index r) const noexcept {
    return packed_ + r * row_size();
  }
  /// Returns the queries times the scale, [rows, query_dim].
  const Real* queries() const noexcept { return queries_; }
  /// Returns the output gradients, [rows, value_dim].
  const Real* grad_out() const noexcept { return grad_out_; }
  Real* grad_q(Index r) const noexcept { return grad_q_ + r * query_dim(); }
  Real lse(Index r) const noexcept { return lse_[r]; }
  /// Returns out . grad_out of row r, which softmax subtracts from the gradient of each
  /// probability.
  Real delta(Index r) const noexcept { return delta_[r]; }

  /// Writes grad_q: the scale times the accumulated sums, plus the rows of `addends`, head by head,
  /// unless these are null.
  void write(const Block& block, const HeadsView<T>& grad_q, const Real* addends) const noexcept {
    using P = Pack<Real, Tier>;
    const AttentionSequence& s = block.sequence();
    for (Index r = 0; r < block.rows(); ++r) {
      Real* const sums = grad_q_ + r * query_dim();
      scale(sums);
      if (addends != nullptr) {
        const Index group = block.plan().group;
        const Real* const addend =
            addends + (r % group * (block.rows() / group) + r / group) * query_dim();
        for (Index d = 0; d < query_dim(); d += P::width) {
          (P::load(sums + d) + P::load(addend + d)).store(sums + d);
        }
      }
      convert_row<Tier>(sums, grad_q.dim,
                        grad_q.row(s.batch, s.first_query + block.query(r), block.head(r)));
    }
  }

 private:
  Index row_size() const noexcept { return packed_dim<S>(context_.out.dim); }

  void scale(Real* row) const noexcept {
    using P = Pack<Real, Tier>;
    const P factor = P::broadcast(context_.scale);
    for (Index d = 0; d < query_dim(); d += P::width) (P::load(row + d) * factor).store(row + d);
  }

  Real dot(const Real* padded, const T* out) const noexcept {
    using P = Pack<Real, Tier>;
    P total = P::zero();
    const Index dim = context_.out.dim;
    Index d = 0;
    for (; d + P::width <= dim; d += P::width) {
      total = mul_add(P::load(padded + d), load_as<P>(out + d), total);
    }
    if (d < dim) {
      total = mul_add(P::load(padded + d), load_partial_as<P>(out + d, dim - d), total);
    }
    return sum(total);
  }

  const CallContext& context_;
  typename Block::Row* packed_;
  Real* queries_;
  Real* grad_out_;
  Real* grad_q_;
  Real* lse_;
  Real* delta_;
  bool finite_ = true;
};

}  // namespace detail
POSENC_END
