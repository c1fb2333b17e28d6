// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

// Checks of output views, alone and together with input views.
POSENC_BEGIN
namespace detail {

/// The address range of one row of a view. Integers order addresses across views.
struct RowRange {
  std::uintptr_t begin, end;
  bool is_output;
};

template <class T>
RowRange address_range(const T* row, Index count, bool is_output) noexcept {
  return {reinterpret_cast<std::uintptr_t>(row), reinterpret_cast<std::uintptr_t>(row + count),
          is_output};
}

template <class T>
void append_rows(const HeadsView<T>& x, bool is_output, std::vector<RowRange>& rows) {
  for (Index b = 0; b < x.batch; ++b) {
    for (Index s = 0; s < x.seq; ++s) {
      for (Index h = 0; h < x.heads; ++h) {
        rows.push_back(address_range(x.row(b, s, h), x.dim, is_output));
      }
    }
  }
}
template <class T>
void append_rows(const MatrixView<T>& x, bool is_output, std::vector<RowRange>& rows) {
  for (Index r = 0; r < x.rows; ++r) rows.push_back(address_range(x.row(r), x.cols, is_output));
}

/// True if a row of one view shares memory with a row of the other. It compares rows, not whole
/// views, because the rows of q and k in a fused buffer alternate without sharing memory.
template <class In, class Out>
bool rows_overlap(const In& in, const Out& out) {
  std::vector<RowRange> rows;
  append_rows(in, false, rows);
  append_rows(out, true, rows);
  std::sort(rows.begin(), rows.end(),
            [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  std::uintptr_t in_end = 0, out_end = 0;
  for (const RowRange& row : rows) {
    if (row.begin < (row.is_output ? in_end : out_end)) return true;
    std::uintptr_t& view_end = row.is_output ? out_end : in_end;
    view_end = (std::max)(view_end, row.end);
  }
  return false;
}

/// True if a view that is read and one that is written have the same first element. Views of
/// different element types never have.
template <class In, class Out>
POSENC_ALWAYS_INLINE bool share_data(const In& in, const Out& out) noexcept {
  if constexpr (requires { in.data == out.data; }) {
    return in.data == out.data;
  } else {
    return false;
  }
}

/// In checked builds, throws ShapeError unless input and output are the same view or share no
/// memory. Both are HeadsViews, or both are MatrixViews.
template <class In, class Out>
void check_overlap([[maybe_unused]] const char* function, [[maybe_unused]] const In& in,
                   [[maybe_unused]] const Out& out) {
#if POSENC_CHECKED
  const ViewLayout from = layout_of(in), to = layout_of(out);
  bool same = share_data(in, out);
  for (std::size_t n = 0; n < from.rank(); ++n) {
    same = same && (from.extents[n] <= 1 || from.strides[n] == to.strides[n]);
  }
  if (!same && !in.empty() && !out.empty() && rows_overlap(in, out)) {
    fail<ShapeError>(
        function,
        "input and output overlap in part; pass the same view or separate memory; input is ",
        in.extents());
  }
#endif
}

POSENC_COLD inline void check_output_layout(const char* function, const char* name,
                                            const ViewLayout& x) {
  constexpr Index max_index = (std::numeric_limits<Index>::max)();
  const auto step = [&x](std::size_t axis) {
    const Index stride = x.strides[axis];
    return stride < 0 ? -(std::max)(stride, -max_index) : stride;
  };
  for (const Index extent : x.all_extents()) {
    if (extent <= 0) return;  // nothing is written
  }
  // Axes by their steps. Of equal steps the inner axis is first, so that the message names the
  // outer one.
  std::array<std::size_t, 4> order{};
  for (std::size_t n = 0; n < x.rank(); ++n) {
    const std::size_t axis = x.rank() - 1 - n;
    std::size_t at = n;
    for (; at > 0 && step(axis) < step(order[at - 1]); --at) order[at] = order[at - 1];
    order[at] = axis;
  }
  Index reach = 0;  // from the first to the last element of the axes so far
  for (std::size_t n = 0; n < x.rank(); ++n) {
    const std::size_t axis = order[n];
    if (x.extents[axis] == 1) continue;
    if (step(axis) <= reach) {
      fail<ShapeError>(function, name,
                       " is an output, so its elements must not share memory, but its ",
                       x.axes[axis].stride, " is ", x.strides[axis], " where at least ", reach + 1,
                       " is needed; ", name, " is ", x.all_extents());
    }
    const Index extent_reach = checked_mul_or(max_index, {x.extents[axis] - 1, step(axis)});
    const auto sum = checked_add(reach, extent_reach);
    if (!sum || *sum == max_index) {
      fail<ShapeError>(function, name, " must fit into memory, but its ", x.axes[axis].stride,
                       " is ", x.strides[axis], "; ", name, " is ", x.all_extents());
    }
    reach = *sum;
  }
}

/// Throws ShapeError if two elements of an output share memory. From the shortest stride to the
/// longest, every axis must step over the memory of the axes before it. It does not check for
/// negative extents.
template <class View>
void check_output(const char* function, const char* name, const View& x) {
  check_output_layout(function, name, layout_of(x));
}

/// True if a few comparisons show that a view passes check_extents() and check_output(). Then it
/// has elements and small extents and strides. Heads lie within tokens or tokens within heads, and
/// both lie within batch rows. If false, only the two functions can tell.
template <class T>
POSENC_ALWAYS_INLINE bool passes_fast_checks(const HeadsView<T>& x) noexcept {
  constexpr Index outer_stride = Index{1} << 25;  // stride for an axis of one element
  const Index head = x.heads > 1 ? Index{x.head_stride} : outer_stride;
  const Index token = x.seq > 1 ? Index{x.seq_stride} : outer_stride;
  const Index row = x.batch > 1 ? Index{x.batch_stride} : outer_stride;
  // All must be below 2^26, so that their products have at most 52 bits, and not negative.
  if (((x.batch | x.seq | x.heads | x.dim | head | token | row) >> 26) != 0) return false;
  const bool heads_within_tokens = head <= token;
  const Index inner = heads_within_tokens ? head : token,
              outer = heads_within_tokens ? token : head;
  const Index inner_extent = heads_within_tokens ? x.heads : x.seq;
  const Index outer_extent = heads_within_tokens ? x.seq : x.heads;
  const Index inner_span = inner_extent > 1 ? inner_extent * inner : Index{x.dim};
  const Index outer_span = outer_extent > 1 ? outer_extent * outer : inner_span;
  return x.data != nullptr && x.batch > 0 && inner_extent > 0 && outer_extent > 0 && x.dim > 0 &&
         x.dim <= inner && inner_span <= outer && outer_span <= row;
}

/// Overload for matrices: true if a few comparisons show that x passes both checks.
template <class T>
POSENC_ALWAYS_INLINE bool passes_fast_checks(const MatrixView<T>& x) noexcept {
  if (((x.rows | x.cols | x.row_stride) >> 26) != 0) return false;
  return x.data != nullptr && x.rows > 0 && x.cols > 0 && x.cols <= x.row_stride;
}

}  // namespace detail
POSENC_END
