// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
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
  POSENC_COLD BroadcastMask(const char* function, const char* name, ScoresView<const T> mask,
                            const AttentionShape& shape)
      : mask_(mask) {
    check_optional_extents(function, name, mask_);
    if (mask_.data == nullptr) return;
    check(function, name, shape);
    if (mask_.batch == 1) mask_.batch_stride = 0;
    if (mask_.heads == 1) mask_.head_stride = 0;
    if (mask_.queries == 1) mask_.query_stride = 0;
    if (mask_.keys == 1) mask_.key_stride = 0;
  }

  bool is_present() const noexcept { return mask_.data != nullptr; }
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
        const AttentionGeometry<T>& geometry)
      : geometry_(geometry),
        keep_(function, "keep", options.keep, shape),
        masked_(function, "masked", options.masked, shape),
        additive_(function, "additive", options.additive, shape) {}

  /// True if any mask, or a per-key test of positions, applies to the call.
  bool is_active() const noexcept {
    return keep_.is_present() || masked_.is_present() || additive_.is_present() ||
           geometry_.needs_per_key_test();
  }

  /// True if any of `count` keys, starting at the sequence's key j, is visible to query i.
  bool is_any_visible(const AttentionSequence& s, Index h, Index i, Index j,
                      Index count) const noexcept {
    const Index b = s.batch, row = s.first_query + i, column = s.first_key + j;
    const auto has = [count](const bool* cells, bool value) {
      return std::memchr(cells, value ? 1 : 0, static_cast<std::size_t>(count)) != nullptr;
    };
    // A single boolean mask with contiguous keys is searched by memchr().
    if (!additive_.is_present() && !geometry_.needs_per_key_test() &&
        keep_.is_present() != masked_.is_present()) {
      const BroadcastMask<bool>& mask = keep_.is_present() ? keep_ : masked_;
      if (mask.key_stride() == 1) return has(mask.row(b, h, row, column), keep_.is_present());
    }
    for (Index n = 0; n < count; ++n) {
      if (is_visible(s, h, i, j + n)) return true;
    }
    return false;
  }

  /// Adds the additive mask to `count` scores of query i, starting at the sequence's key j, and
  /// sets the scores of masked keys to -inf. `count` is at most tile_keys.
  void apply(const AttentionSequence& s, Index h, Index i, Index j, Index count,
             Real* scores) const noexcept {
    const Index b = s.batch, row = s.first_query + i, column = s.first_key + j;
    if (additive_.is_present()) {
      const Real* mask = additive_.row(b, h, row, column);
      const Index stride = additive_.key_stride();
      for (Index n = 0; n < count; ++n) {
        const Real added = mask[n * stride];
        scores[n] = added == neg_infinity ? neg_infinity : scores[n] + added;
      }
    }
    if (keep_.is_present()) apply_bool_mask<false>(keep_, b, h, row, column, count, scores);
    if (masked_.is_present()) apply_bool_mask<true>(masked_, b, h, row, column, count, scores);
    if (geometry_.needs_per_key_test()) {
      for (Index n = 0; n < count; ++n) {
        if (!geometry_.is_visible_by_position(s, i, j + n)) scores[n] = neg_infinity;
      }
    }
  }

 private:
  static constexpr Real neg_infinity = -std::numeric_limits<Real>::infinity();

  bool is_visible(const AttentionSequence& s, Index h, Index i, Index j) const noexcept {
    const Index b = s.batch, row = s.first_query + i, column = s.first_key + j;
    return (!keep_.is_present() || *keep_.row(b, h, row, column)) &&
           (!masked_.is_present() || !*masked_.row(b, h, row, column)) &&
           (!additive_.is_present() || *additive_.row(b, h, row, column) != neg_infinity) &&
           (!geometry_.needs_per_key_test() || geometry_.is_visible_by_position(s, i, j));
  }

  template <bool MaskedValue>
  static void apply_bool_mask(const BroadcastMask<bool>& mask, Index b, Index h, Index row,
                              Index column, Index count, Real* scores) noexcept {
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
      scores[n] = flags[n] == Flag{MaskedValue} ? neg_infinity : scores[n];
    }
  }

  const AttentionGeometry<T>& geometry_;
  BroadcastMask<bool> keep_, masked_;
  BroadcastMask<Real> additive_;
};

}  // namespace detail
POSENC_END
