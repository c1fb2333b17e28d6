// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

POSENC_BEGIN
namespace detail {

/// A list of sequences must not name its nth one before.
///   Throws: ShapeError
inline void check_named_once(const char* function, std::span<const Index> sequences,
                             std::size_t n) {
  const auto before = sequences.first(n);
  if (std::find(before.begin(), before.end(), sequences[n]) != before.end()) {
    fail<ShapeError>(function, "sequence ", sequences[n], " is named twice");
  }
}

}  // namespace detail
POSENC_END
