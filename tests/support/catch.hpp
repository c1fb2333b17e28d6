// SPDX-License-Identifier: MIT
#pragma once

// Catch2, 3 or 2.13, under one set of names: TEST_CASE, TEMPLATE_TEST_CASE, GENERATE, Approx, and in Catch::Matchers
// WithinAbs, WithinRel, WithinULP, Message, Predicate, StartsWith, EndsWith and ContainsSubstring.
#if __has_include(<catch2/catch_test_macros.hpp>)

#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

using Catch::Approx;

#else

#include <catch2/catch.hpp>

#include <string>

namespace Catch::Matchers {
/// Contains under its Catch2 3 name. In Catch2 3 Contains is for ranges.
// NOLINTNEXTLINE(readability-identifier-naming)
inline auto ContainsSubstring(const std::string& text,
                              CaseSensitive::Choice case_sensitive = CaseSensitive::Yes) {
  return Contains(text, case_sensitive);
}
}  // namespace Catch::Matchers

#endif
