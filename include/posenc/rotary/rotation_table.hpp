// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/compiled.hpp>
#include <posenc/core/detail/move_reset_index.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/rotary/detail/check_rotation.hpp>
#include <posenc/rotary/detail/rotate_tensors.hpp>
#include <posenc/rotary/detail/rotation_kernels.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rotary_calls.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>

POSENC_BEGIN

template <std::floating_point Real>
class AnyRotationTable;

/// A table of cos and sin of one forward pass, computed once and shared by q, k, every layer and
/// every thread. Immutable. Its rotations are bit-identical to those of the Rope that computed it.
/// rope.table<Real>(positions), from_cos_sin() and from_cache() return one. A table with one batch
/// row serves every batch.
///   Shapes: cos, sin [B or 1, S, rotary_dim / 2]
///   Types:  Real is float for tensors of float, half and bfloat16, double for double
template <class Pairing, std::floating_point Real>
class RotationTable : public TableCalls<RotationTable<Pairing, Real>, Real> {
 public:
  /// Builds a table from user-supplied cos and sin, which must include the attention factor and are
  /// used as given.
  ///   Shapes: cos, sin [B or 1, S, rotary_dim / 2]
  ///   Throws: ShapeError, ConfigError
  template <Device D = detail::CallingThread>
  static RotationTable from_cos_sin(EmbeddingsView<const Real> cos, EmbeddingsView<const Real> sin,
                                    Index rotary_offset = 0, double attention_factor = 1,
                                    const D& device = {}) {
    constexpr auto function = "RotationTable::from_cos_sin";
    check_tables(function, cos, sin);
    RotationTable table(function, cos.batch, cos.seq, {rotary_offset, cos.dim}, attention_factor);
    table.fill(device, [&](Index b, Index s, Index count, Real* c, Real* n) {
      for (Index i = 0; i < count; ++i) {
        std::copy_n(cos.row(b, s + i), cos.dim, c + i * cos.dim);
        std::copy_n(sin.row(b, s + i), sin.dim, n + i * sin.dim);
      }
    });
    return table;
  }

  /// Builds a table from rows of cos and sin caches indexed by position, the form in which other
  /// libraries store them.
  ///   Shapes: cos, sin [max_position, rotary_dim / 2]; positions [B or 1, S], integers on one axis
  ///   Throws: ShapeError, ConfigError, PositionError for a position outside [0, max_position)
  template <Device D = detail::CallingThread>
  static RotationTable from_cache(MatrixView<const Real> cos, MatrixView<const Real> sin,
                                  const Positions& positions, Index rotary_offset = 0,
                                  double attention_factor = 1, const D& device = {}) {
    constexpr auto function = "RotationTable::from_cache";
    check_tables(function, cos, sin);
    detail::check_axes(function, positions, 1);
    detail::check_integral(function, positions);
    detail::for_extreme_positions(positions, [&](double p) {
      if (p < 0 || p >= static_cast<double>(cos.rows)) {
        detail::fail<PositionError>(function, "positions must lie within the ", cos.rows,
                                    " rows of the cache but one is ", p);
      }
    });
    RotationTable table(function, positions.batch(), positions.count(), {rotary_offset, cos.cols},
                        attention_factor);
    table.fill(device, [&](Index b, Index s, Index count, Real* c, Real* n) {
      for (Index i = 0; i < count; ++i) {
        const auto row = static_cast<Index>(positions.at(b, s + i));
        std::copy_n(cos.row(row), cos.cols, c + i * cos.cols);
        std::copy_n(sin.row(row), sin.cols, n + i * sin.cols);
      }
    });
    return table;
  }

  /// Returns the number of batch rows; 1 serves every batch.
  Index batch() const noexcept { return batch_; }
  /// Returns the number of positions S.
  Index seq() const noexcept { return seq_; }
  /// Returns the number of rotated channels of a head.
  Index rotary_dim() const noexcept { return 2 * slice_.pairs; }
  /// Returns the first rotated channel of a head.
  Index rotary_offset() const noexcept { return slice_.offset; }
  /// Returns m, the factor that cos() and sin() include.
  double attention_factor() const noexcept { return attention_factor_; }
  /// Returns m cos, [B or 1, S, rotary_dim / 2].
  EmbeddingsView<const Real> cos() const noexcept { return view(cos_.data()); }
  /// Returns m sin, [B or 1, S, rotary_dim / 2].
  EmbeddingsView<const Real> sin() const noexcept { return view(sin_.data()); }

 private:
  template <class>
  friend class Rope;
  template <class, std::floating_point>
  friend class TableCalls;
  template <std::floating_point>
  friend class AnyRotationTable;

  static constexpr detail::RotaryCallNames names = detail::table_call_names;

  RotationTable(const char* function, Index batch, Index seq, detail::RotarySlice slice,
                double attention_factor)
      : batch_(batch), seq_(seq), slice_(slice), attention_factor_(attention_factor) {
    detail::check_slice_and_factor(function, slice, attention_factor);
    const auto size = detail::checked_mul({batch, seq, slice.pairs});
    // seq * pairs is checked separately, because it is a stride even if there are no batch rows.
    if (!size || !detail::checked_mul({*size, Index{sizeof(Real)}}) ||
        !detail::checked_mul({seq, slice.pairs})) {
      detail::fail<ShapeError>(function, "a table of [", batch, ", ", seq, ", ", slice.pairs,
                               "] values must fit into memory");
    }
    cos_.resize(static_cast<std::size_t>(*size));
    sin_.resize(cos_.size());
  }

  /// Fills the table. rows(b, s, count, cos, sin) must write [count, pairs] of each for positions s
  /// .. s + count - 1.
  template <Device D, class WriteRows>
  void fill(const D& device, const WriteRows& rows) {
    if (cos_.empty()) return;
    const double bytes = static_cast<double>(slice_.pairs * Index{2 * sizeof(Real)});
    detail::parallel_for(device, batch_ * seq_, bytes, 2 * bytes, [&](Index unit, Index unit_end) {
      while (unit < unit_end) {
        const Index b = unit / seq_, s = unit % seq_;
        const Index count = (std::min)(unit_end - unit, seq_ - s);
        const auto row = static_cast<std::size_t>(unit * slice_.pairs);
        rows(b, s, count, cos_.data() + row, sin_.data() + row);
        unit += count;
      }
    });
  }

  template <class View>
  static void check_tables(const char* function, const View& cos, const View& sin) {
    detail::check_extents(function, "cos", cos);
    detail::check_extents(function, "sin", sin);
    if (cos.extents() != sin.extents()) {
      detail::fail<ShapeError>(function, "cos ", cos.extents(), " and sin ", sin.extents(),
                               " must have the same shape");
    }
  }

  template <Scalar In, Scalar Out, Device D>
  void apply(const char* function, detail::Direction direction, const D& device,
             ListView<detail::RotationOperand<In, Out>> tensors) const;

  EmbeddingsView<const Real> view(const Real* data) const noexcept {
    return {data, batch_, Index{seq_}, slice_.pairs, seq_ * slice_.pairs, slice_.pairs};
  }

  Index batch_;
  detail::MoveResetIndex seq_;
  detail::RotarySlice slice_;
  double attention_factor_;
  detail::AlignedVector<Real> cos_, sin_;
};

// Defined outside of the class for `extern template`, as Rope::apply() is. Inlined, because the
// list of tensors would be stored and read again, which takes 12 ns: a quarter of rotating the key
// heads of a token.
template <class Pairing, std::floating_point Real>
template <Scalar In, Scalar Out, Device D>
POSENC_ALWAYS_INLINE void RotationTable<Pairing, Real>::apply(
    const char* function, detail::Direction direction, const D& device,
    ListView<detail::RotationOperand<In, Out>> tensors) const {
  const HeadsView<const In>& shape = tensors[0].in;
  for (const detail::RotationOperand<In, Out>& x : tensors) {
    detail::check_rotation(function, x, slice_);
    const bool is_empty = batch_ == 0 && x.in.batch == 0 && seq_ == 0;
    if (!is_empty && (seq_ != x.in.seq || (batch_ != 1 && batch_ != x.in.batch))) {
      detail::fail<ShapeError>(function, "the table's [", batch_, ", ", seq(),
                               "] must match batch and sequence of x, which is ", x.in.extents());
    }
  }
  detail::check_same_tokens(function, tensors);
  if (shape.batch == 1 && shape.seq == 1 && direction == detail::Direction::Forward) {
    detail::rotate_token<Pairing>(tensors, slice_, cos_.data(), sin_.data());
    return;
  }
  detail::rotate_tensors<Pairing>(
      device, tensors, slice_, direction, attention_factor_, batch_ == 1,
      [this](Index b, Index s, Index, Index first, Index, Real*, Real*) {
        const Index row = batch_ == 1 ? 0 : b;
        return detail::CosSinRows<Real>{cos().row(row, s) + first, sin().row(row, s) + first,
                                        slice_.pairs};
      });
}

#define POSENC_DETAIL_TABLE(EXTERN, PAIRING, T)                         \
  EXTERN template void RotationTable<PAIRING, Compute<T>>::apply<T, T>( \
      const char*, detail::Direction, const detail::CallingThread&,     \
      ListView<detail::RotationOperand<T, T>>) const;
#define POSENC_DETAIL_TABLES(EXTERN, T)       \
  POSENC_DETAIL_TABLE(EXTERN, Interleaved, T) \
  POSENC_DETAIL_TABLE(EXTERN, HalfRotate, T)
POSENC_DETAIL_DECLARE_COMPILED(POSENC_DETAIL_TABLES)

POSENC_END
