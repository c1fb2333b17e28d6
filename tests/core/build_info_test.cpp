// SPDX-License-Identifier: MIT
// Tests that build_info() describes the unit that calls it.
#include "support/catch.hpp"
#include <posenc/core/build_info.hpp>

#include <sstream>
#include <string>

namespace build_info_test {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("build_info: describes the unit that calls it", "[build_info]") {
  const posenc::BuildInfo info = posenc::build_info();
  std::ostringstream version;
  version << POSENC_VERSION_MAJOR << '.' << POSENC_VERSION_MINOR << '.' << POSENC_VERSION_PATCH
          << POSENC_VERSION_SUFFIX;
  CHECK(info.version == version.str());
  CHECK(info.fma == (POSENC_HAS_FMA != 0));
  CHECK(info.checked == (POSENC_CHECKED != 0));
  CHECK(info.bfloat16_products == (POSENC_BFLOAT16_PRODUCTS != 0));
  CHECK_FALSE(info.tier.empty());
  CHECK(info.missing.empty());
  CHECK_THAT(info.tag, ContainsSubstring(info.level));
  CHECK_THAT(info.eigen, ContainsSubstring("."));
#if defined(__clang__)
  CHECK_THAT(info.compiler, ContainsSubstring("clang"));
#elif defined(__GNUC__)
  CHECK_THAT(info.compiler, ContainsSubstring("g++"));
#endif
#if defined(__x86_64__) && !defined(__SSE4_1__)
  CHECK(info.level == "sse2");
  CHECK_FALSE(info.fma);
#endif
}

TEST_CASE("build_info: prints one line", "[build_info]") {
  posenc::BuildInfo info;
  info.version = "1.2.3";
  info.level = "avx2";
  info.tier = "scalar";
  info.compiler = "g++ 12";
  info.eigen = "3.4.0";
  info.fma = true;
  std::ostringstream line;
  line << info;
  CHECK(line.str() == "posenc 1.2.3, tier scalar, level avx2, fma, Eigen 3.4.0, g++ 12");

  info.missing = "FMA (avx2)";
  line.str("");
  line << info;
  CHECK(line.str() ==
        "posenc 1.2.3, tier scalar, because of missing FMA (avx2), level avx2, fma, Eigen 3.4.0, "
        "g++ 12");

  info.missing.clear();
  info.fma = false;
  info.bfloat16_products = true;
  info.checked = true;
  info.fast_math = true;
  line.str("");
  line << info;
  CHECK(line.str() ==
        "posenc 1.2.3, tier scalar, level avx2, no fma, Eigen 3.4.0, g++ 12, "
        "bfloat16 products, checked, fast-math");
}

}  // namespace build_info_test
