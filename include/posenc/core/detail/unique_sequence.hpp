// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

POSENC_BEGIN
namespace detail {

/// Throws if entry n of a list of sequences also occurs before n.
///   Throws: ShapeError
inline void check_unique_sequence(const char* function, std::span<const Index> sequences,
                                  std::size_t n) {
  const Index* const nth = sequences.data() + n;
  if (std::find(sequences.data(), nth, *nth) != nth) {
    fail<ShapeError>(function, "sequence ", *nth, " is listed twice");
  }
}

}  // namespace detail
POSENC_END
