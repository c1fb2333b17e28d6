// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/index_span.hpp>

#include <cstddef>

POSENC_BEGIN
namespace detail {

/// Checks the offsets of sequences packed into `total` tokens.
///   Throws: ShapeError unless they begin with 0, end with total and do not decrease
inline void check_offsets(const char* function, const char* name, IndexSpan offsets, Index total) {
  if (offsets.front() != 0 || offsets.back() != total) {
    fail<ShapeError>(function, name, " must begin with 0 and end with ", total, " but goes from ",
                     offsets.front(), " to ", offsets.back());
  }
  for (std::size_t n = 1; n < offsets.size(); ++n) {
    if (offsets[n] < offsets[n - 1]) {
      fail<ShapeError>(function, name, " must not descend but has ", offsets[n], " after ",
                       offsets[n - 1]);
    }
  }
}

/// Overload for the sequences of a cache: also checks the number of offsets.
///   Throws: ShapeError
inline void check_offsets(const char* function, const char* name, IndexSpan offsets, Index total,
                          std::size_t sequences) {
  if (offsets.size() != sequences + 1) {
    fail<ShapeError>(function, name, " must have one entry more than the ", sequences,
                     " sequences but has ", offsets.size());
  }
  check_offsets(function, name, offsets, total);
}

}  // namespace detail
POSENC_END
