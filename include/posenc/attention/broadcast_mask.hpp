// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/tensor/view.hpp>

POSENC_BEGIN
namespace detail {

/// Extents of one attention call.
struct AttentionShape {
  Index batch, heads, queries, keys;
};

/// A mask read at (b, h, i, j), with axes of extent 1 broadcast.
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

  /// The row of query i, from key j on; only of a mask that is given.
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

}  // namespace detail
POSENC_END
