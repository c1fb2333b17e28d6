// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/detail/move_reset_index.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/index_span.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/tensor/detail/ids_in_place.hpp>
#include <posenc/tensor/position_kind.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

POSENC_BEGIN

/// The positions [B, S] of tokens on one or more axes: a cheap value.
///
/// Positions may be in any order, repeated or negative. Positions with batch() == 1 apply to all
/// batch rows of a tensor. They are stored as double, which holds every integer up to 2^53 exactly;
/// view() reads ids where they are.
///   Throws: PositionError for an integer beyond 2^53, NaN or infinity; ShapeError if counts do not
///           match
///   Cost:   range(), starts() and view() allocate nothing per token; the other forms store one
///           double per position
class Positions {
 public:
  /// Returns start, start + 1, ..., start + count - 1 for every batch row. The token after n cached
  /// ones has range(n, 1).
  static Positions range(Index start, Index count) {
    constexpr auto function = "Positions::range";
    Positions p(function, Form::Range, 1, count, 1);
    p.range_start_ = checked_double(function, start);
    if (count == 0) return p;
    p.update_stats(checked_double(function, start));
    p.update_stats(checked_double(function, start + (count - 1)));
    return p;
  }

  /// Returns positions whose batch row b is starts[b], starts[b] + 1, ...: the rows of a batched
  /// cache.
  static Positions starts(IndexList starts, Index count) {
    constexpr auto function = "Positions::starts";
    Positions p(function, Form::Starts, static_cast<Index>(starts.size()), count, 1);
    p.assign_ids(function, starts, count);
    return p;
  }

  /// Returns explicit ids [S] of 32 or 64 bits for every batch row.
  static Positions ids(IndexList ids_of_row) { return ids(1, ids_of_row); }

  /// Returns explicit ids [B, S], row-major, for example of padded rows or speculative trees. Those
  /// of no batch row, ids(0, {}), fit every tensor [0, S].
  static Positions ids(Index batch, IndexList ids_of_batch) {
    constexpr auto function = "Positions::ids";
    Positions p = table(function, batch, static_cast<Index>(ids_of_batch.size()));
    p.assign_ids(function, ids_of_batch, 1);
    return p;
  }

  /// Returns ids [B, S] of 32 or 64 bits that are read where they are, without a copy and without
  /// an allocation. The memory must outlive these positions and their copies, and must not change
  /// meanwhile; owned() copies it. Rows may have any stride. If it is 0, batch() is 1.
  ///   Throws: ShapeError for a view that no memory can have; PositionError
  ///   Cost:   one pass over the ids
  static Positions view(MatrixView<const std::int32_t> ids) { return view_of(ids); }
  /// Overload for 64-bit ids [B, S].
  static Positions view(MatrixView<const Index> ids) { return view_of(ids); }
  /// Overload for ids [S] for every batch row: a vector, an array or a span.
  template <class Ids>
  requires(!std::convertible_to<Ids&, MatrixView<const std::int32_t>> &&
           !std::convertible_to<Ids&, MatrixView<const Index>>) static Positions
      view(Ids&& ids_of_row) {
    static_assert(std::is_lvalue_reference_v<Ids> ||
                      std::ranges::enable_borrowed_range<std::remove_cvref_t<Ids>>,
                  "posenc::Positions: view() does not copy the ids, so its argument must not be a "
                  "temporary that owns them: store it in a variable, or use ids(), which copies");
    return IndexSpan(ids_of_row).visit([]<class Id>(ListView<Id> ids) {
      return view_of(MatrixView<const Id>{
          .data = ids.data(), .rows = 1, .cols = static_cast<Index>(ids.size())});
    });
  }

  /// Returns real-valued positions [B, S], row-major, of Unspecified kind: interpolated or
  /// continuous coordinates.
  static Positions real(Index batch, ListView<double> positions) {
    constexpr auto function = "Positions::real";
    Positions p = table(function, batch, static_cast<Index>(positions.size()));
    p.kind_ = PositionKind::Unspecified;
    for (const double position : positions) p.push_finite(function, position);
    return p;
  }
  /// Returns real-valued positions [S] for every batch row.
  static Positions real(ListView<double> positions) { return real(1, positions); }

  /// Returns the positions of sequences that are packed one after the other. cu_seqlens are the
  /// prefix sums [0, n_0, n_0 + n_1, ...] of their lengths, as in AttentionOptions. The positions
  /// of sequence i begin at starts[i], or at 0 if `starts` is empty.
  static Positions packed(IndexList cu_seqlens, IndexList starts = {}) {
    constexpr auto function = "Positions::packed";
    bool is_valid = !cu_seqlens.empty() && cu_seqlens.front() == 0;
    for (std::size_t i = 1; i < cu_seqlens.size(); ++i) {
      is_valid = is_valid && cu_seqlens[i - 1] <= cu_seqlens[i];
    }
    if (!is_valid) {
      detail::fail<ShapeError>(function, "cu_seqlens must begin with 0 and not decrease but are ",
                               cu_seqlens);
    }
    if (!starts.empty() && starts.size() + 1 != cu_seqlens.size()) {
      detail::fail<ShapeError>(function, "there must be one start for each of the ",
                               cu_seqlens.size() - 1, " sequences but there are ", starts.size());
    }
    Positions p = table(function, 1, cu_seqlens.back());
    for (std::size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
      const Index start = starts.empty() ? 0 : starts[i];
      for (Index t = 0; t < cu_seqlens[i + 1] - cu_seqlens[i]; ++t) {
        p.push(checked_double(function, start + t));
      }
    }
    return p;
  }

  /// Returns positions of padded rows. keep is [B, S], true for tokens and false for padding. The
  /// n-th token of a row gets position n - 1, and padding gets masked_position. Hugging Face gives
  /// padding position 1, BLOOM 0. The value matters only if queries attend to keys of padding.
  static Positions from_padding_mask(MatrixView<const bool> keep, Index masked_position = 1) {
    constexpr auto function = "Positions::from_padding_mask";
    detail::check_extents(function, "keep", keep);
    Positions p(function, Form::Table, keep.rows, keep.cols, 1);
    if (keep.empty()) return p;
    for (Index b = 0; b < keep.rows; ++b) {
      Index next = 0;
      for (Index s = 0; s < keep.cols; ++s) {
        p.push(checked_double(function, keep.row(b)[s] ? next++ : masked_position));
      }
    }
    return p;
  }

  /// Returns the positions of the cells of a rows x cols grid in row-major order, one token per
  /// cell. Axis 0 is the row, axis 1 the column.
  static Positions grid(Index rows, Index cols) {
    constexpr auto function = "Positions::grid";
    if (rows < 0 || cols < 0) {
      detail::fail<ShapeError>(function, "rows and columns must not be negative but are ", rows,
                               " and ", cols);
    }
    const auto cells = detail::checked_mul({rows, cols});
    if (!cells || *cells > exact_limit) {
      detail::fail<ShapeError>(function, "a grid of ", rows, " x ", cols, " has too many cells");
    }
    Positions p(function, Form::Table, 1, *cells, 2);
    p.kind_ = PositionKind::RowsColumns;
    for (Index cell = 0; cell < *cells; ++cell) {
      const Index row = cell / cols;
      p.push(static_cast<double>(row));
    }
    for (Index cell = 0; cell < *cells; ++cell) p.push(static_cast<double>(cell % cols));
    return p;
  }

  /// Combines positions of one axis each into positions on several axes, such as (t, h, w) ids. All
  /// must have the same batch and count. The kind is that of the axes if they agree, else
  /// Unspecified.
  static Positions axes(ListView<Positions> axes) {
    constexpr auto function = "Positions::axes";
    if (axes.empty()) detail::fail<ShapeError>(function, "there must be at least one axis");
    Positions p(function, Form::Table, axes[0].batch_, axes[0].count_,
                static_cast<Index>(axes.size()));
    p.kind_ = axes[0].kind_;
    for (const Positions& axis : axes) {
      if (axis.kind_ != p.kind_) p.kind_ = PositionKind::Unspecified;
      if (axis.axes_ != 1 || axis.batch_ != p.batch_ || axis.count_ != p.count_) {
        detail::fail<ShapeError>(function, "every axis must be [", p.batch_, ", ", p.count(),
                                 "] but one is [", axis.batch_, ", ", axis.count(), "]");
      }
      for (Index b = 0; p.count_ != 0 && b < p.batch_; ++b) {
        for (Index s = 0; s < p.count_; ++s) p.push(axis.at(b, s));
      }
    }
    return p;
  }

  /// Joins the positions of sequences that are packed one after the other into one batch row, for
  /// example prompts with images. packed() has a shorter form for consecutive positions. All parts
  /// must have one batch row and the same axes. The kind is that of the parts if they agree, else
  /// Unspecified.
  static Positions concatenate(ListView<Positions> parts) {
    constexpr auto function = "Positions::concatenate";
    if (parts.empty()) detail::fail<ShapeError>(function, "there must be at least one part");
    Index count = 0;
    for (const Positions& part : parts) {
      if (part.batch_ != 1 || part.axes_ != parts[0].axes_) {
        detail::fail<ShapeError>(function, "every part must have 1 batch row and ", parts[0].axes_,
                                 parts[0].axes_ == 1 ? " axis" : " axes", " but one has ",
                                 part.batch_, " and ", part.axes_);
      }
      const auto sum = detail::checked_add(count, part.count_);
      if (!sum) detail::fail<ShapeError>(function, "the parts have more than 2^53 positions");
      count = *sum;
    }
    Positions p(function, Form::Table, 1, count, parts[0].axes_);
    p.kind_ = parts[0].kind_;
    for (const Positions& part : parts) {
      if (part.kind_ != p.kind_) p.kind_ = PositionKind::Unspecified;
    }
    for (Index axis = 0; axis < p.axes_; ++axis) {
      for (const Positions& part : parts) {
        for (Index s = 0; s < part.count_; ++s) p.push(part.at(0, s, axis));
      }
    }
    return p;
  }

  /// Returns the number of batch rows. Positions of 1 batch row fit tensors of any batch size.
  Index batch() const noexcept { return batch_; }
  /// Returns the number of tokens S.
  Index count() const noexcept { return count_; }
  /// Returns the same values as coordinates of another kind.
  Positions with_kind(PositionKind kind) && {
    kind_ = kind;
    return std::move(*this);
  }
  /// Overload that copies the positions.
  Positions with_kind(PositionKind kind) const& { return Positions(*this).with_kind(kind); }

  /// Returns the kind of coordinates: Tokens, unless the creating function documents another one.
  PositionKind kind() const noexcept { return kind_; }
  /// Returns the number of axes.
  Index axis_count() const noexcept { return axes_; }
  /// Returns the largest |position|, or 0 if there are none.
  double max_magnitude() const noexcept { return max_magnitude_; }
  /// True if every position is an integer, as lookups in tables require.
  bool integral() const noexcept { return integral_; }

  /// True if view() made these positions, which read ids of the caller.
  bool is_view() const noexcept { return form_ == Form::View; }
  /// Returns the same positions in memory of their own.
  Positions owned() const {
    if (!is_view()) return *this;
    Positions p("Positions::owned", Form::Table, batch_, count_, 1);
    p.values_.resize(static_cast<std::size_t>(batch_ * count_));
    for (Index b = 0; count_ != 0 && b < batch_; ++b) {
      ids_.copy(b, 0, count_, p.values_.data() + b * count_);
    }
    p.kind_ = kind_;
    p.max_magnitude_ = max_magnitude_;
    return p;
  }

  /// Returns the positions of tokens first .. first + count - 1 of every batch row, on all axes and
  /// of the same kind: a chunk of a prompt. That of a view is a view of the same ids.
  ///   Throws: ShapeError unless these tokens exist
  ///   Cost:   no allocation for range(), starts() and view() but one number per batch row of
  ///           starts(); other forms copy the chunk
  Positions slice(Index first, Index count) const {
    constexpr auto function = "Positions::slice";
    if (first < 0 || count < 0 || count > count_ || first > count_ - count) {
      detail::fail<ShapeError>(function, "the slice of ", count, " positions from ", first,
                               " on must lie within the ", this->count(), " positions");
    }
    Positions p(function, form_, batch_, count, axes_);
    p.kind_ = kind_;
    p.range_start_ = range_start_ + static_cast<double>(first);
    p.ids_ = ids_.from(first);
    if (form_ == Form::Starts) {
      p.values_ = values_;
      for (double& start : p.values_) start += static_cast<double>(first);
    }
    // A loop over the batch rows of no positions could be endless.
    for (Index axis = 0; count != 0 && axis < axes_; ++axis) {
      for (Index b = 0; b < batch_; ++b) {
        const bool is_run = form_ == Form::Range || form_ == Form::Starts;
        const Index step = is_run && count > 1 ? count - 1 : 1;  // from end to end of a run
        for (Index s = 0; s < count; s += step) {
          const double position = at(b, first + s, axis);
          form_ == Form::Table ? p.push(position) : p.update_stats(position);
        }
      }
    }
    return p;
  }

  /// Returns the position of token s of batch row b on an axis. Arguments are not checked.
  double at(Index b, Index s, Index axis = 0) const noexcept {
    const Index row = batch_ == 1 ? 0 : b;
    switch (form_) {
      case Form::Range:
        return range_start_ + static_cast<double>(s);
      case Form::Starts:
        return values_[static_cast<std::size_t>(row)] + static_cast<double>(s);
      case Form::View:
        return ids_.at(row, s);
      case Form::Table:
        break;
    }
    return values_[static_cast<std::size_t>((axis * batch_ + row) * count_ + s)];
  }

  /// Writes the positions of tokens first .. first + count - 1 of batch row b on the first axis.
  /// Arguments are not checked.
  void copy(Index b, Index first, Index count, double* positions) const noexcept {
    if (is_view()) return ids_.copy(batch_ == 1 ? 0 : b, first, count, positions);
    for (Index s = 0; s < count; ++s) positions[s] = at(b, first + s);
  }

  /// Returns the explicit positions [S] of batch row b on the first axis. Empty if is_view(), or if
  /// they are a range that starts at at(b, 0).
  std::span<const double> explicit_values(Index b) const noexcept {
    if (form_ != Form::Table) return {};
    const auto count = static_cast<std::size_t>(count_);
    return {values_.data() + (batch_ == 1 ? 0 : static_cast<std::size_t>(b) * count), count};
  }

 private:
  friend Positions pixel_grid(ListView<Index> extents, ListView<double> offsets);
  friend Positions with_zero_axis(const Positions& positions);

  enum class Form { Range, Starts, Table, View };
  static constexpr Index exact_limit = Index{1} << 53;

  Positions(const char* function, Form form, Index batch, Index count, Index axes)
      : form_(form), batch_(batch), count_(count), axes_(axes) {
    if (count < 0 || count > exact_limit) {
      detail::fail<ShapeError>(function,
                               "the number of positions must be between 0 and 2^53 but is ", count);
    }
    if (form != Form::Table) return;
    const auto size = detail::checked_mul({axes, batch, count});
    if (!size || *size > exact_limit) {
      detail::fail<ShapeError>(function, "positions [", batch, ", ", count, "] on ", axes,
                               axes == 1 ? " axis" : " axes", " are more than 2^53");
    }
    values_.reserve(static_cast<std::size_t>(*size));
  }

  static Positions table(const char* function, Index batch, Index size) {
    if (batch < 0 || (batch == 0 ? size != 0 : size % batch != 0)) {
      detail::fail<ShapeError>(function, "the batch size (", batch,
                               ") must divide the number of positions (", size, ")");
    }
    return Positions(function, Form::Table, batch, batch == 0 ? 0 : size / batch, 1);
  }

  template <class Id>
  static Positions view_of(MatrixView<const Id> ids) {
    constexpr auto function = "Positions::view";
    detail::check_extents(function, "ids", ids);
    // One row, if all share their memory: there may be more of them than a loop can visit.
    if (!ids.empty() && ids.row_stride == 0) ids.rows = 1;
    Positions p(function, Form::View, ids.rows, ids.cols, 1);
    p.ids_ = detail::IdsInPlace(ids);
    if (ids.empty()) return p;
    for (Index b = 0; b < ids.rows; ++b) {
      p.check_ids(function, ListView<Id>(ids.row(b), static_cast<std::size_t>(ids.cols)), 1);
    }
    return p;
  }

  /// Copies integers, each of which starts a range of `run` positions.
  void assign_ids(const char* function, IndexSpan ids, Index run) {
    ids.visit([&](auto list) {
      check_ids(function, list, run);
      values_.assign(list.begin(), list.end());
    });
  }

  /// Checks integers, each of which starts a range of `run` positions, and updates max_magnitude_.
  /// It checks their minimum and maximum, because checking them one by one would take longer than
  /// everything else.
  template <class Id>
  void check_ids(const char* function, ListView<Id> ids, Index run) {
    if (ids.empty()) return;
    Id lowest = ids[0], highest = ids[0];
    for (const Id id : ids) {
      lowest = id < lowest ? id : lowest;
      highest = id > highest ? id : highest;
    }
    const Index low = lowest, high = highest, last = run > 0 ? run - 1 : 0;
    if (low < -exact_limit || high > exact_limit - last) {
      for (const Index id : ids) {
        checked_double(function, id);
        checked_double(function, id + last);
      }
    }
    if (run == 0) return;
    const Index magnitude = (std::max)(std::abs(low), std::abs(high + last));
    max_magnitude_ = (std::max)(max_magnitude_, static_cast<double>(magnitude));
  }

  static double checked_double(const char* function, Index id) {
    if (id < -exact_limit || id > exact_limit) {
      detail::fail<PositionError>(function, "integer positions must lie within 2^53 but one is ",
                                  id);
    }
    return static_cast<double>(id);
  }

  void push(double position) {
    values_.push_back(position);
    update_stats(position);
  }

  void push_finite(const char* function, double position) {
    if (!std::isfinite(position)) {
      detail::fail<PositionError>(function, "positions must be finite but one is ", position);
    }
    push(position);
  }

  void update_stats(double position) {
    max_magnitude_ = (std::max)(max_magnitude_, std::abs(position));
    integral_ = integral_ && position == std::rint(position);
  }

  Form form_;
  Index batch_;
  detail::MoveResetIndex count_;
  Index axes_;
  PositionKind kind_ = PositionKind::Tokens;
  double range_start_ = 0;
  double max_magnitude_ = 0;
  bool integral_ = true;
  detail::IdsInPlace ids_;  ///< of view()
  std::vector<double> values_;
};

POSENC_END
