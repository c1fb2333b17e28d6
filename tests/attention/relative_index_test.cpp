// SPDX-License-Identifier: MIT
// Tests the rows of DeBERTa's relative tables against its buckets.
#include "reference/relative.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/relative_index.hpp>
#include <posenc/core/error.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace relative_index_test {

using posenc::ConfigError;
using posenc::Index;
using support::message_of;

TEST_CASE("deberta_rows: rows are DeBERTa's buckets", "[attention][relative]") {
  for (const auto& [buckets, most] :
       {std::pair<Index, Index>{256, 512}, {8, 16}, {32, 128}, {0, 9}, {3, 7}, {257, 900}}) {
    CAPTURE(buckets, most);
    const std::vector<Index> rows = posenc::deberta_rows(buckets, most);
    const Index span = buckets > 0 ? buckets : most;
    REQUIRE(static_cast<Index>(rows.size()) == 2 * most + 1);
    Index wrong = 0;
    for (Index d = -most; d <= most; ++d) {
      const Index want =
          std::clamp<Index>(reference::deberta_bucket(d, buckets, most) + span, 0, 2 * span - 1);
      wrong += rows[static_cast<std::size_t>(d + most)] != want;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("deberta_rows: rejects settings without buckets", "[attention][relative][errors]") {
  CHECK(message_of<ConfigError>([] { (void)posenc::deberta_rows(8, 0); }) ==
        "posenc::deberta_rows: max_relative_positions must lie between 1 and 1048576 but is 0");
  CHECK(message_of<ConfigError>([] { (void)posenc::deberta_rows(8, 5); }) ==
        "posenc::deberta_rows: position_buckets must be 0, or at least 2 and less than twice "
        "max_relative_positions - 1 (4), but are 8");
}

}  // namespace relative_index_test
