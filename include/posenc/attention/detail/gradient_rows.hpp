// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/row_block.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <limits>

POSENC_BEGIN
namespace detail {

/// What backward knows of the rows of a block besides their queries: the gradient of their outputs, their
/// log-sum-exps, and the gradient of the queries, which grows tile by tile.
template <class Tier, Scalar T, class S>
class GradientRows {
 public:
  using Real = Compute<T>;
  using Block = RowBlock<Tier, T, S>;

  /// What the blocks of a call have in common.
  struct Setting {
    HeadsView<const T> q, out, grad_out;
    LseView<const Real> lse;
    Real scale;
  };

  GradientRows(const Setting& setting, Index rows, Carver& carver) noexcept
      : setting_(setting),
        packed_(carver.take<typename Block::Row>(rows * row_size())),
        queries_(carver.take<Real>(rows * query_dim())),
        grad_out_(carver.take<Real>(rows * value_dim())),
        grad_q_(carver.take<Real>(rows * query_dim())),
        lse_(carver.take<Real>(rows)),
        delta_(carver.take<Real>(rows)) {}

  /// Takes the rows of a block.
  void take(const Block& block) noexcept {
    finite_ = true;
    const AttentionSequence& s = block.sequence();
    for (Index r = 0; r < block.rows(); ++r) {
      const Index b = s.batch, i = s.first_query + block.query(r), h = block.head(r);
      finite_ &= pack_values<Tier>(setting_.q.row(b, i, h), 0, 1, setting_.q.dim,
                                   queries_ + r * query_dim(), query_dim());
      scale(queries_ + r * query_dim());
      const T* of_out = setting_.grad_out.row(b, i, h);
      finite_ &= pack_values<Tier>(of_out, 0, 1, setting_.out.dim, grad_out_ + r * value_dim(),
                                   value_dim());
      pack_row<Tier>(of_out, setting_.out.dim, packed_ + r * row_size(), row_size());
      lse_[r] = setting_.lse(b, h, i);
      finite_ &= lse_[r] < std::numeric_limits<Real>::infinity();
      delta_[r] = dot(grad_out_ + r * value_dim(), setting_.out.row(b, i, h));
    }
    std::fill_n(grad_q_, block.rows() * query_dim(), Real{0});
  }

  /// Padded.
  Index query_dim() const noexcept { return padded_value_dim(setting_.q.dim); }
  Index value_dim() const noexcept { return padded_value_dim(setting_.out.dim); }

  /// Whether queries, gradients and log-sum-exps are (or -inf, of rows that see nothing).
  bool finite() const noexcept { return finite_; }
  const typename Block::Row* packed_grad_out(Index r) const noexcept {
    return packed_ + r * row_size();
  }
  const Real* queries() const noexcept { return queries_; }  ///< times the scale: [rows, query_dim]
  const Real* grad_out() const noexcept { return grad_out_; }  ///< [rows, value_dim]
  Real* grad_q(Index r) const noexcept { return grad_q_ + r * query_dim(); }
  Real lse(Index r) const noexcept { return lse_[r]; }
  /// Of out and its gradient: what softmax takes from the gradient of each probability.
  Real delta(Index r) const noexcept { return delta_[r]; }

  /// grad_q <- the scale times what has been added up, and what `more_of(r)`, if anything, gives a row.
  template <class More>
  void write(const Block& block, const HeadsView<T>& grad_q, const More& more_of) const noexcept {
    using P = Pack<Real, Tier>;
    const AttentionSequence& s = block.sequence();
    for (Index r = 0; r < block.rows(); ++r) {
      Real* const sums = grad_q_ + r * query_dim();
      scale(sums);
      if (const Real* const more = more_of(r)) {
        for (Index d = 0; d < query_dim(); d += P::width) {
          (P::load(sums + d) + P::load(more + d)).store(sums + d);
        }
      }
      convert_row<Tier>(sums, grad_q.dim,
                        grad_q.row(s.batch, s.first_query + block.query(r), block.head(r)));
    }
  }

 private:
  Index row_size() const noexcept { return stored_dim<S>(setting_.out.dim); }

  void scale(Real* row) const noexcept {
    using P = Pack<Real, Tier>;
    const P factor = P::broadcast(setting_.scale);
    for (Index d = 0; d < query_dim(); d += P::width) (P::load(row + d) * factor).store(row + d);
  }

  Real dot(const Real* padded, const T* out) const noexcept {
    using P = Pack<Real, Tier>;
    P total = P::zero();
    const Index dim = setting_.out.dim;
    Index d = 0;
    for (; d + P::width <= dim; d += P::width) {
      total = mul_add(P::load(padded + d), load_as<P>(out + d), total);
    }
    if (d < dim) {
      total = mul_add(P::load(padded + d), load_partial_as<P>(out + d, dim - d), total);
    }
    return sum(total);
  }

  const Setting& setting_;
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
