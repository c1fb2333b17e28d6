// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/index_span.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

POSENC_BEGIN
namespace detail {

/// Tokens of a batch [B, n, ..] by the sequence that they continue. Run n is batch row n or, with
/// offsets, tokens offsets[n] .. offsets[n + 1] - 1 of the only row.
struct TokenRuns {
  std::span<const Index> sequences;
  IndexSpan offsets;
  Index tokens;  ///< per batch row

  Index size() const noexcept { return static_cast<Index>(sequences.size()); }
  Index batch() const noexcept { return offsets.empty() ? size() : 1; }
  Index sequence(Index n) const noexcept { return sequences[static_cast<std::size_t>(n)]; }
  Index row(Index n) const noexcept { return offsets.empty() ? n : 0; }
  Index first(Index n) const noexcept { return offsets.empty() ? 0 : offset(n); }
  Index count(Index n) const noexcept {
    return offsets.empty() ? tokens : offset(n + 1) - offset(n);
  }
  Index longest() const noexcept {
    Index max_count = 0;
    for (Index n = 0; n < size(); ++n) max_count = (std::max)(max_count, count(n));
    return max_count;
  }

  /// Throws ShapeError if the sequence of run n is also that of an earlier run.
  void check_unique(const char* function, Index n) const {
    const Index* const nth = sequences.data() + n;
    if (std::find(sequences.data(), nth, *nth) != nth) {
      fail<ShapeError>(function, "sequence ", *nth, " is listed twice");
    }
  }

 private:
  Index offset(Index n) const noexcept { return offsets[static_cast<std::size_t>(n)]; }
};

}  // namespace detail
POSENC_END
