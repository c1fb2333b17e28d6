// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/view.hpp>

#include <cstdint>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Rows of ids of 32 or 64 bits in memory of the caller, read as double.
class IdsInPlace {
 public:
  IdsInPlace() = default;
  template <class Id>
  explicit IdsInPlace(const MatrixView<const Id>& ids) noexcept
      : ids_(ids.data), row_stride_(ids.row_stride), is_short_(std::is_same_v<Id, std::int32_t>) {
    static_assert(std::is_same_v<Id, std::int32_t> || std::is_same_v<Id, Index>);
  }

  double at(Index row, Index n) const noexcept {
    const Index i = row * row_stride_ + n;
    return is_short_ ? static_cast<double>(ids<std::int32_t>()[i])
                     : static_cast<double>(ids<Index>()[i]);
  }

  /// Returns the ids from number `first` of each row on.
  IdsInPlace from(Index first) const noexcept {
    IdsInPlace later = *this;
    if (ids_ == nullptr) return later;
    if (is_short_) {
      later.ids_ = ids<std::int32_t>() + first;
    } else {
      later.ids_ = ids<Index>() + first;
    }
    return later;
  }

  /// Writes ids first .. first + count - 1 of a row to `positions`.
  void copy(Index row, Index first, Index count, double* positions) const noexcept {
    const Index from = row * row_stride_ + first;
    if (is_short_) {
      convert(ids<std::int32_t>() + from, count, positions);
    } else {
      convert(ids<Index>() + from, count, positions);
    }
  }

 private:
  template <class Id>
  const Id* ids() const noexcept {
    return static_cast<const Id*>(ids_);
  }
  template <class Id>
  static void convert(const Id* from, Index count, double* to) noexcept {
    for (Index n = 0; n < count; ++n) to[n] = static_cast<double>(from[n]);
  }

  const void* ids_ = nullptr;
  Index row_stride_ = 0;
  bool is_short_ = false;
};

}  // namespace detail
POSENC_END
