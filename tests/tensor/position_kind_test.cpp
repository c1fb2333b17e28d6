// SPDX-License-Identifier: MIT
// Kinds of positions that fit each other, pair by pair, and their names.
#include "support/catch.hpp"
#include <posenc/tensor/position_kind.hpp>

#include <cstddef>
#include <set>
#include <string>

namespace position_kind_test {

using posenc::PositionKind;

namespace {

constexpr PositionKind kinds[] = {PositionKind::Unspecified,  PositionKind::Tokens,
                                  PositionKind::RowsColumns,  PositionKind::ColumnsRows,
                                  PositionKind::PatchCentres, PositionKind::Pixels};

}  // namespace

TEST_CASE("PositionKind: kinds fit themselves, unspecified ones, and ids of cells in any order",
          "[positions]") {
  // A row for each required kind, a column for each kind of positions, in the order above.
  const std::string table[] = {"yyyyyy", "yyyynn", "yyynnn", "yynynn", "ynnnyn", "ynnnny"};
  for (std::size_t i = 0; i < 6; ++i) {
    std::string row;
    for (const PositionKind kind : kinds) {
      row += posenc::detail::kinds_fit(kinds[i], kind) ? 'y' : 'n';
    }
    CAPTURE(i);
    CHECK(row == table[i]);
  }
}

TEST_CASE("PositionKind: names tell them apart", "[positions]") {
  std::set<std::string> names, creators;
  for (const PositionKind kind : kinds) {
    names.insert(posenc::detail::name_of(kind));
    creators.insert(posenc::detail::creators_of(kind));
  }
  CHECK(names.size() == 6);
  CHECK(creators.size() == 5);  // ids of tokens and unspecified coordinates have the same
  CHECK(std::string(posenc::detail::name_of(PositionKind::ColumnsRows)) ==
        "columns and rows of cells");
  CHECK(std::string(posenc::detail::creators_of(PositionKind::Pixels)) == "pixel_grid()");
}

}  // namespace position_kind_test
