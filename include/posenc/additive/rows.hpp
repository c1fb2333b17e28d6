// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <span>

// The walk over a tensor and the checks that all additive encodings share.
POSENC_BEGIN
namespace detail {

/// Calls use(features of x, features of P) for every token. row(b, s) gives the D features of P of
/// one token; it is asked once for all batch rows where `shared` says that they agree.
template <class T, class Row, class Use>
void visit_rows(EmbeddingsView<T> x, bool shared, Row&& row, const Use& use) {
  const Index rows_per_position = shared ? x.batch : 1;
  for (Index b0 = 0; b0 < x.batch; b0 += rows_per_position) {
    for (Index s = 0; s < x.seq; ++s) {
      const auto* encoding = row(b0, s);
      for (Index b = b0; b < b0 + rows_per_position; ++b) use(x.row(b, s), encoding);
    }
  }
}

/// out[i] += in[i] for i < count, in out's arithmetic, rounded once.
template <Scalar T, class Value>
void accumulate(T* out, const Value* in, Index count) noexcept {
  using C = Compute<T>;
  for (Index i = 0; i < count; ++i) {
    out[i] = static_cast<T>(static_cast<C>(out[i]) + static_cast<C>(in[i]));
  }
}

/// x += P.
template <Scalar T, class Row>
void add_rows(EmbeddingsView<T> x, bool shared, Row&& row) {
  visit_rows(x, shared, row,
             [&x](T* out, const auto* encoding) { accumulate(out, encoding, x.dim); });
}

/// out = P.
template <Scalar T, class Row>
void write_rows(EmbeddingsView<T> out, bool shared, Row&& row) {
  visit_rows(out, shared, row, [&out](T* features, const auto* encoding) {
    for (Index i = 0; i < out.dim; ++i) features[i] = static_cast<T>(encoding[i]);
  });
}

/// Checks shared by all additive encodings, before anything is written.
template <class T>
void check_embeddings(const char* function, const EmbeddingsView<T>& x, Index dim,
                      const Positions& positions, Index axes = 1) {
  if (x.dim != dim) {
    fail<ShapeError>(function, "x must be [B, S, ", dim, "] but is ", x.extents());
  }
  check_positions(function, positions, x.batch, x.seq, axes, x.extents());
}

}  // namespace detail
POSENC_END
