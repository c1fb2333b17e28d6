// SPDX-License-Identifier: MIT
// The macros of the version can be compared by the preprocessor and pasted into names.
#include "support/catch.hpp"
#include <posenc/core/version.hpp>

#include <string>

#define TEXT_OF_VERSION(x) TEXT_OF_VERSION_EXPANDED(x)
#define TEXT_OF_VERSION_EXPANDED(x) #x

namespace version_test {

TEST_CASE("version: three plain numbers", "[version]") {
  for (const std::string part :
       {TEXT_OF_VERSION(POSENC_VERSION_MAJOR), TEXT_OF_VERSION(POSENC_VERSION_MINOR),
        TEXT_OF_VERSION(POSENC_VERSION_PATCH)}) {
    CAPTURE(part);
    CHECK(part.find_first_not_of("0123456789") == std::string::npos);
    CHECK((part == "0" || part.find('0') != 0));  // with a leading 0 it would be octal
    CHECK(part.size() <= 2);
  }
}

TEST_CASE("POSENC_VERSION_SUFFIX: marks all but releases", "[version]") {
  const std::string suffix = POSENC_VERSION_SUFFIX;
  CHECK((suffix.empty() || suffix == "-dev"));
}

TEST_CASE("POSENC_VERSION_MAJOR: the preprocessor compares versions", "[version]") {
#if POSENC_VERSION_MAJOR * 10000 + POSENC_VERSION_MINOR * 100 + POSENC_VERSION_PATCH >= 200
  SUCCEED();
#else
  FAIL("the first version with this test is 0.2.0");
#endif
}

}  // namespace version_test

#undef TEXT_OF_VERSION
#undef TEXT_OF_VERSION_EXPANDED
