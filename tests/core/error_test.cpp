// SPDX-License-Identifier: MIT
// Tests the types of errors and the form of their messages.
#include "support/catch.hpp"
#include <posenc/core/error.hpp>
#include <posenc/tensor/extent.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace error_test {

using Catch::Matchers::Message;
using posenc::Index;
using posenc::detail::to_text;

TEST_CASE("Error: is the standard error that callers already catch", "[error]") {
  STATIC_REQUIRE(std::is_base_of_v<std::invalid_argument, posenc::ShapeError>);
  STATIC_REQUIRE(std::is_base_of_v<std::invalid_argument, posenc::ConfigError>);
  STATIC_REQUIRE(std::is_base_of_v<std::out_of_range, posenc::PositionError>);
  STATIC_REQUIRE(!std::is_base_of_v<posenc::ShapeError, posenc::ConfigError>);
  STATIC_REQUIRE(std::is_nothrow_copy_constructible_v<posenc::ShapeError>);
}

TEST_CASE("Error: the same types under all compiler flags", "[error]") {
  using namespace posenc::POSENC_STABLE_TAG;
  STATIC_REQUIRE(std::is_same_v<ShapeError, posenc::ShapeError>);
  STATIC_REQUIRE(std::is_same_v<ConfigError, posenc::ConfigError>);
  STATIC_REQUIRE(std::is_same_v<PositionError, posenc::PositionError>);
}

TEST_CASE("fail: names the function, the rule, the value and the whole shape", "[error]") {
  const std::array<Index, 4> extents{2, 8, 16, 96};
  CHECK_THROWS_MATCHES(
      posenc::detail::fail<posenc::ShapeError>("Rope::rotate", "head_dim (", Index{96},
                                               ") must hold 128 channels; x is ", extents),
      posenc::ShapeError,
      Message("posenc::Rope::rotate: head_dim (96) must hold 128 channels; x is [2, 8, 16, 96]"));
  CHECK_THROWS_MATCHES(posenc::detail::fail<posenc::PositionError>("f"), posenc::PositionError,
                       Message("posenc::f: "));
  CHECK_THROWS_MATCHES(posenc::detail::fail<posenc::ConfigError>("f", "base is ", 0.5),
                       posenc::ConfigError, Message("posenc::f: base is 0.5"));
}

TEST_CASE("fail: writes parts of all types, and messages of any length", "[error]") {
  const std::string name(1000, 'n');
  CHECK_THROWS_MATCHES(
      posenc::detail::fail<posenc::ConfigError>("f", name, std::string_view(" is "), std::size_t{3},
                                                " of ", posenc::Extent(4), " or ", 0.5F),
      posenc::ConfigError, Message("posenc::f: " + name + " is 3 of 4 or 0.5"));
}

TEST_CASE("fail: a thrown error is caught as its standard base", "[error]") {
  CHECK_THROWS_AS(posenc::detail::throw_error<posenc::ShapeError>("x"), std::invalid_argument);
  CHECK_THROWS_AS(posenc::detail::throw_error<posenc::ConfigError>("x"), std::invalid_argument);
  CHECK_THROWS_AS(posenc::detail::throw_error<posenc::PositionError>("x"), std::out_of_range);
}

TEST_CASE("to_text: writes numbers in full and in their shortest form", "[error]") {
  CHECK(to_text("as it is") == "as it is");
  CHECK(to_text(0) == "0");
  CHECK(to_text(std::numeric_limits<Index>::min()) == "-9223372036854775808");
  CHECK(to_text(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615");
  CHECK(to_text(0.1) == "0.1");
  CHECK(to_text(0.1F) == "0.1");
  CHECK(to_text(-2.5) == "-2.5");
  CHECK(to_text(1e300) == "1e+300");
  CHECK(std::stod(to_text(0x1.fffffffffffffp-3)) == 0x1.fffffffffffffp-3);
  CHECK(to_text(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(to_text(std::numeric_limits<double>::quiet_NaN()) == "nan");
}

TEST_CASE("to_text: writes extents in brackets", "[error]") {
  CHECK(to_text(std::span<const Index>{}) == "[]");
  CHECK(to_text(std::array<Index, 1>{7}) == "[7]");
  CHECK(to_text(std::array<Index, 3>{0, -1, Index{1} << 40}) == "[0, -1, 1099511627776]");
}

}  // namespace error_test
