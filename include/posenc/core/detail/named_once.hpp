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
  const Index* const nth = sequences.data() + n;
  if (std::find(sequences.data(), nth, *nth) != nth) {
    fail<ShapeError>(function, "sequence ", *nth, " is named twice");
  }
}

}  // namespace detail
POSENC_END
