// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/places.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

// Mask stage: masks keys one by one, inside the visible range of a query.
POSENC_BEGIN
namespace detail {

/// Mask that is read at (b, h, i, j); axes of extent 1 are broadcast.
template <class T>
class BroadcastMask {
 public:
  BroadcastMask(const char* function, const char* name, ScoresView<const T> mask,
                const AttentionShape& shape)
      : mask_(mask) {
    check_extents(function, name, mask_);
    if (mask_.data == nullptr) return;
    check(function, name, shape);
    if (mask_.batch == 1) mask_.batch_stride = 0;
    if (mask_.heads == 1) mask_.head_stride = 0;
    if (mask_.queries == 1) mask_.query_stride = 0;
    if (mask_.keys == 1) mask_.key_stride = 0;
  }

  bool given() const noexcept { return mask_.data != nullptr; }
  Index key_stride() const noexcept { return mask_.key_stride; }

  /// Returns the row of query i, starting at key j. The mask must be given.
  const T* row(Index b, Index h, Index i, Index j) const noexcept { return &mask_(b, h, i, j); }

 private:
  void check(const char* function, const char* name, const AttentionShape& shape) const {
    const auto fits = [](Index extent, Index full) { return extent == full || extent == 1; };
    if (!fits(mask_.batch, shape.batch) || !fits(mask_.heads, shape.heads) ||
        !fits(mask_.queries, shape.queries) || !fits(mask_.keys, shape.keys)) {
      fail<ShapeError>(function, name, " ", mask_.extents(), " must broadcast to [", shape.batch,
                       ", ", shape.heads, ", ", shape.queries, ", ", shape.keys, "]");
    }
  }

  ScoresView<const T> mask_;
};

/// Masks of one call, and the causal rule if positions are not sorted.
template <Scalar T>
class Masks {
 public:
  using Real = Compute<T>;

  ///   Throws: ShapeError
  Masks(const char* function, const AttentionOptions<T>& options, const AttentionShape& shape,
        const Places<T>& places)
      : places_(places),
        keep_(function, "keep", options.keep, shape),
        masked_(function, "masked", options.masked, shape),
        additive_(function, "additive", options.additive, shape) {}

  /// True if any mask, or a per-key test of positions, applies to the call.
  bool any() const noexcept {
    return keep_.given() || masked_.given() || additive_.given() || places_.in_no_order();
  }

  /// True if any of `count` keys, starting at the sequence's key j, is visible to query i.
  bool show_any(const AttentionSequence& s, Index h, Index i, Index j, Index count) const noexcept {
    const Index b = s.batch, row = s.first_query + i, column = s.first_key + j;
    const auto has = [count](const bool* cells, bool value) {
      return std::memchr(cells, value ? 1 : 0, static_cast<std::size_t>(count)) != nullptr;
    };
    // A single boolean mask with contiguous keys is searched by memchr().
    if (!additive_.given() && !places_.in_no_order() && keep_.given() != masked_.given()) {
      const BroadcastMask<bool>& mask = keep_.given() ? keep_ : masked_;
      if (mask.key_stride() == 1) return has(mask.row(b, h, row, column), keep_.given());
    }
    for (Index n = 0; n < count; ++n) {
      if (shows(s, h, i, j + n)) return true;
    }
    return false;
  }

  /// Adds the additive mask to `count` scores of query i, starting at the sequence's key j, and
  /// sets the scores of masked keys to -inf. `count` is at most tile_keys.
  void apply(const AttentionSequence& s, Index h, Index i, Index j, Index count,
             Real* scores) const noexcept {
    const Index b = s.batch, row = s.first_query + i, column = s.first_key + j;
    if (additive_.given()) {
      const Real* mask = additive_.row(b, h, row, column);
      const Index stride = additive_.key_stride();
      for (Index n = 0; n < count; ++n) {
        const Real added = mask[n * stride];
        scores[n] = added == lowest ? lowest : scores[n] + added;
      }
    }
    if (keep_.given()) hide<false>(keep_, b, h, row, column, count, scores);
    if (masked_.given()) hide<true>(masked_, b, h, row, column, count, scores);
    if (places_.in_no_order()) {
      for (Index n = 0; n < count; ++n) {
        if (!places_.shows_position(s, i, j + n)) scores[n] = lowest;
      }
    }
  }

 private:
  static constexpr Real lowest = -std::numeric_limits<Real>::infinity();

  bool shows(const AttentionSequence& s, Index h, Index i, Index j) const noexcept {
    const Index b = s.batch, row = s.first_query + i, column = s.first_key + j;
    return (!keep_.given() || *keep_.row(b, h, row, column)) &&
           (!masked_.given() || !*masked_.row(b, h, row, column)) &&
           (!additive_.given() || *additive_.row(b, h, row, column) != lowest) &&
           (!places_.in_no_order() || places_.shows_position(s, i, j));
  }

  template <bool Hidden>
  static void hide(const BroadcastMask<bool>& mask, Index b, Index h, Index row, Index column,
                   Index count, Real* scores) noexcept {
    const bool* cells = mask.row(b, h, row, column);
    // Flags are widened first and compared afterwards: compilers vectorise each loop, but not both
    // steps in one.
    using Flag = std::conditional_t<sizeof(Real) == 8, std::int64_t, std::int32_t>;
    Flag flags[tile_keys];
    if (mask.key_stride() == 1) {
      for (Index n = 0; n < count; ++n) flags[n] = cells[n];
    } else {
      for (Index n = 0; n < count; ++n) flags[n] = cells[n * mask.key_stride()];
    }
    for (Index n = 0; n < count; ++n) {
      scores[n] = flags[n] == Flag{Hidden} ? lowest : scores[n];
    }
  }

  const Places<T>& places_;
  BroadcastMask<bool> keep_, masked_;
  BroadcastMask<Real> additive_;
};

}  // namespace detail
POSENC_END
