// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/aligned_vector.hpp>
#include <posenc/core/error.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rotate.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

POSENC_BEGIN

namespace detail {

template <class T, class Real>
struct CheckTable {
  static_assert(
      std::is_same_v<Compute<T>, Real>,
      "posenc: a RotationTable of float rotates float and 16-bit types, one of double rotates "
      "double: rope.table<Real>(positions)");
  static constexpr bool value = true;
};

/// Whether a table of Real rotates tensors of T; an error that says so where not.
template <class T, class Real>
concept FitsTable = CheckTable<T, Real>::value;

template <class Real>
struct CheckTableReal {
  static_assert(
      std::is_floating_point_v<Real>,
      "posenc: a RotationTable holds float, for tensors of float and 16-bit types, or double: "
      "rope.table<float>(positions)");
  static constexpr bool value = true;
  using type = std::conditional_t<std::is_floating_point_v<Real>, Real, float>;
};

template <class Real>
concept TableReal = CheckTableReal<Real>::value && std::floating_point<Real>;

}  // namespace detail

/// cos and sin of one forward pass, made once and shared by q, k, every layer and every thread.
/// Immutable.
///   Type:  Real is float for tensors of float, half and bfloat16, double for double
///   Make:  rope.table<Real>(positions), or from cos and sin of your own
///   Holds: [B or 1, S, rotary_dim / 2] of each; a table with one batch row serves every batch
/// Rotating with a table gives the same bits as the Rope that made it.
template <class Pairing, std::floating_point Real>
class RotationTable {
 public:
  /// From cos and sin of the user's own, with the attention factor multiplied in; used as given.
  ///   Shapes: cos, sin [B or 1, S, rotary_dim / 2]
  ///   Throws: ShapeError, ConfigError
  static RotationTable from_cos_sin(EmbeddingsView<const Real> cos, EmbeddingsView<const Real> sin,
                                    Index rotary_offset = 0, double attention_factor = 1) {
    constexpr auto function = "RotationTable::from_cos_sin";
    check_same(function, cos.extents(), sin.extents());
    RotationTable table(function, cos.batch, cos.seq, {rotary_offset, cos.dim}, attention_factor);
    table.fill([&](Index b, Index s, Index count, Real* c, Real* n) {
      for (Index i = 0; i < count; ++i) {
        std::copy_n(cos.row(b, s + i), cos.dim, c + i * cos.dim);
        std::copy_n(sin.row(b, s + i), sin.dim, n + i * sin.dim);
      }
    });
    return table;
  }

  /// From rows of cos and sin caches indexed by position, as other libraries keep them.
  ///   Shapes: cos, sin [max_position, rotary_dim / 2]; positions [B or 1, S], integers on one axis
  ///   Throws: ShapeError, ConfigError, PositionError for a position outside [0, max_position)
  static RotationTable from_cache(MatrixView<const Real> cos, MatrixView<const Real> sin,
                                  const Positions& positions, Index rotary_offset = 0,
                                  double attention_factor = 1) {
    constexpr auto function = "RotationTable::from_cache";
    check_same(function, cos.extents(), sin.extents());
    detail::check_axes(function, positions, 1);
    detail::check_integral(function, positions);
    for (Index b = 0; b < positions.batch(); ++b) {
      for (Index s = 0; s < positions.count(); ++s) {
        const double p = positions.at(b, s);
        if (p < 0 || p >= static_cast<double>(cos.rows)) {
          detail::fail<PositionError>(function, "positions must lie within the ", cos.rows,
                                      " rows of the cache but one is ", p);
        }
      }
    }
    RotationTable table(function, positions.batch(), positions.count(), {rotary_offset, cos.cols},
                        attention_factor);
    table.fill([&](Index b, Index s, Index count, Real* c, Real* n) {
      for (Index i = 0; i < count; ++i) {
        const auto row = static_cast<Index>(positions.at(b, s + i));
        std::copy_n(cos.row(row), cos.cols, c + i * cos.cols);
        std::copy_n(sin.row(row), sin.cols, n + i * sin.cols);
      }
    });
    return table;
  }

  /// x <- m R x in place.
  ///   Shape:  x [B, S, H, D], B the table's or any where it has one row,
  ///           D >= rotary_offset + rotary_dim
  ///   Throws: ShapeError
  template <detail::Written T>
  requires detail::FitsTable<T, Real>
  void rotate(HeadsView<T> x) const { rotate(detail::CallingThread(), x); }
  /// The same on the threads of an Eigen device, split over batch and positions; the same bits.
  template <class Device, detail::Written T>
  requires detail::FitsTable<T, Real>
  void rotate(const Device& device, HeadsView<T> x) const {
    apply<T>("RotationTable::rotate", device, detail::Direction::Forward, {{{x, x}}});
  }

  /// Rotates several tensors of the same batch and sequence in place, q and k say.
  template <detail::Written T, std::same_as<HeadsView<T>>... Views>
  requires detail::FitsTable<T, Real>
  void rotate_all(HeadsView<T> x, Views... others) const {
    rotate_all(detail::CallingThread(), x, others...);
  }
  template <class Device, detail::Written T, std::same_as<HeadsView<T>>... Views>
  requires(detail::FitsTable<T, Real> && !std::same_as<Device, HeadsView<T>>) void rotate_all(
      const Device& device, HeadsView<T> x, Views... others) const {
    apply<T, 1 + sizeof...(Views)>("RotationTable::rotate_all", device, detail::Direction::Forward,
                                   {{{x, x}, {others, others}...}});
  }

  /// out <- m R x; out is x itself or shares no memory with it. Channels outside the rotary slice
  /// are copied.
  template <detail::Written T>
  requires detail::FitsTable<T, Real>
  void rotate_into(HeadsView<const std::type_identity_t<T>> x, HeadsView<T> out) const {
    rotate_into(detail::CallingThread(), x, out);
  }
  template <class Device, detail::Written T>
  requires detail::FitsTable<T, Real>
  void rotate_into(const Device& device, HeadsView<const std::type_identity_t<T>> x,
                   HeadsView<T> out) const {
    apply<T>("RotationTable::rotate_into", device, detail::Direction::Forward, {{{x, out}}});
  }

  /// x <- m R^T x: the backward pass, gradient of the output in, gradient of the input out. Keeps
  /// m.
  template <detail::Written T>
  requires detail::FitsTable<T, Real>
  void adjoint(HeadsView<T> x) const { adjoint(detail::CallingThread(), x); }
  template <class Device, detail::Written T>
  requires detail::FitsTable<T, Real>
  void adjoint(const Device& device, HeadsView<T> x) const {
    apply<T>("RotationTable::adjoint", device, detail::Direction::Adjoint, {{{x, x}}});
  }

  /// x <- R^T x / m: undoes rotate().
  template <detail::Written T>
  requires detail::FitsTable<T, Real>
  void inverse(HeadsView<T> x) const { inverse(detail::CallingThread(), x); }
  template <class Device, detail::Written T>
  requires detail::FitsTable<T, Real>
  void inverse(const Device& device, HeadsView<T> x) const {
    apply<T>("RotationTable::inverse", device, detail::Direction::Inverse, {{{x, x}}});
  }

  /// Batch rows; 1 serves every batch.
  Index batch() const noexcept { return batch_; }
  Index seq() const noexcept { return seq_; }
  Index rotary_dim() const noexcept { return 2 * slice_.pairs; }
  Index rotary_offset() const noexcept { return slice_.offset; }
  double attention_factor() const noexcept { return attention_factor_; }
  /// m cos, [B or 1, S, rotary_dim / 2].
  EmbeddingsView<const Real> cos() const noexcept { return view(cos_.data()); }
  /// m sin, [B or 1, S, rotary_dim / 2].
  EmbeddingsView<const Real> sin() const noexcept { return view(sin_.data()); }

 private:
  template <class>
  friend class Rope;

  RotationTable(const char* function, Index batch, Index seq, detail::RotarySlice slice,
                double attention_factor)
      : batch_(batch), seq_(seq), slice_(slice), attention_factor_(attention_factor) {
    detail::check_slice_and_factor(function, slice, attention_factor);
    cos_.resize(static_cast<std::size_t>(batch * seq * slice.pairs));
    sin_.resize(cos_.size());
  }

  /// rows(b, s, count, cos, sin) writes [count, pairs] of each for positions s .. s + count - 1.
  template <class WriteRows>
  void fill(const WriteRows& rows) {
    for (Index b = 0; b < batch_; ++b) {
      const auto row = static_cast<std::size_t>(b * seq_ * slice_.pairs);
      rows(b, Index{0}, seq_, cos_.data() + row, sin_.data() + row);
    }
  }

  template <std::size_t Rank>
  static void check_same(const char* function, const std::array<Index, Rank>& cos,
                         const std::array<Index, Rank>& sin) {
    if (cos != sin) {
      detail::fail<ShapeError>(function, "cos ", cos, " and sin ", sin,
                               " must have the same shape");
    }
  }

  template <Scalar T, std::size_t Count = 1, class Device>
  void apply(const char* function, const Device& device, detail::Direction direction,
             const std::array<detail::Rotated<T>, Count>& tensors) const {
    for (const detail::Rotated<T>& x : tensors) {
      detail::check_rotation<T>(function, x.in, x.out, slice_);
      if (seq_ != x.in.seq || (batch_ != 1 && batch_ != x.in.batch)) {
        detail::fail<ShapeError>(function, "the table's [", batch_, ", ", seq_,
                                 "] must match batch and sequence of x, which is ", x.in.extents());
      }
      detail::check_same_tokens(function, tensors[0].in, x.in);
    }
    detail::rotate_tensors<Pairing, Device, T>(
        device, tensors, slice_, direction, attention_factor_, batch_ == 1,
        [this](Index b, Index s, Index, Index first, Index, Real*, Real*) {
          const Index row = batch_ == 1 ? 0 : b;
          return detail::AngleRows<Real>{cos().row(row, s) + first, sin().row(row, s) + first,
                                         slice_.pairs};
        });
  }

  EmbeddingsView<const Real> view(const Real* data) const noexcept {
    return {data, batch_, seq_, slice_.pairs, seq_ * slice_.pairs, slice_.pairs};
  }

  Index batch_, seq_;
  detail::RotarySlice slice_;
  double attention_factor_;
  detail::AlignedVector<Real> cos_, sin_;
};

POSENC_END
