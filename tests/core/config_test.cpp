// SPDX-License-Identifier: MIT
// Tests the tags of the inline namespaces, which keep units with different flags apart.
#include "support/catch.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/pairing.hpp>

#include <cstdint>
#include <string>
#include <type_traits>

#define TEXT_OF(x) TEXT_OF_EXPANDED(x)
#define TEXT_OF_EXPANDED(x) #x

namespace config_test {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("Index: holds every product of attention shapes", "[config]") {
  STATIC_REQUIRE(std::is_same_v<posenc::Index, std::int64_t>);
}

TEST_CASE("POSENC_STABLE_TAG: holds the version alone", "[config]") {
  const std::string version =
      TEXT_OF(POSENC_VERSION_MAJOR) + std::string("_") + TEXT_OF(POSENC_VERSION_MINOR);
  CHECK(std::string(TEXT_OF(POSENC_STABLE_TAG)) == "v" + version);
}

TEST_CASE("POSENC_ABI_TAG: adds the level, the instruction sets, switches and compiler",
          "[config]") {
  std::string expected = TEXT_OF(POSENC_STABLE_TAG);
  expected.append("_").append(TEXT_OF(POSENC_LEVEL));
  expected.append("_").append(TEXT_OF(POSENC_INSTRUCTION_SETS)).append(TEXT_OF(POSENC_TIER_TAG));
  if (POSENC_CHECKED) expected += "_checked";
  if (!POSENC_HAS_EXCEPTIONS) expected += "_noexcept";
  if (POSENC_FAST_MATH) expected += "_fastmath";
#if defined(__clang__)
  expected += "_clang";
#elif defined(__GNUC__)
  expected += "_gcc";
#endif
#if defined(_LIBCPP_VERSION)
  expected += "_libcxx";
#endif
  if (POSENC_COMPILED) expected += "_compiled";
  CHECK(std::string(TEXT_OF(POSENC_ABI_TAG)) == expected);
}

TEST_CASE("POSENC_ABI_TAG: tags name inline namespaces", "[config]") {
  STATIC_REQUIRE(std::is_same_v<posenc::Index, posenc::POSENC_STABLE_TAG::Index>);
  STATIC_REQUIRE(std::is_same_v<posenc::YarnScaling, posenc::POSENC_STABLE_TAG::YarnScaling>);
  STATIC_REQUIRE(std::is_same_v<posenc::AlibiForm, posenc::POSENC_STABLE_TAG::AlibiForm>);
  STATIC_REQUIRE(std::is_same_v<posenc::HalfRotate, posenc::POSENC_STABLE_TAG::HalfRotate>);
  STATIC_REQUIRE(std::is_same_v<posenc::Frequencies, posenc::POSENC_ABI_TAG::Frequencies>);
  STATIC_REQUIRE(std::is_same_v<posenc::Alibi, posenc::POSENC_ABI_TAG::Alibi>);
}

TEST_CASE("POSENC_LEVEL: tells what the compiler may emit", "[config]") {
  const std::string level = TEXT_OF(POSENC_LEVEL);
#if defined(__FMA__)
  CHECK(POSENC_HAS_FMA == 1);
#elif defined(__x86_64__)
  CHECK(POSENC_HAS_FMA == 0);
#endif
#if defined(__AVX512F__)
  CHECK_THAT(level, ContainsSubstring("avx512"));
#elif defined(__AVX2__)
  CHECK_THAT(level, ContainsSubstring("avx2"));
#elif defined(__AVX__)
  CHECK_THAT(level, ContainsSubstring("avx"));
#elif defined(__x86_64__)
  CHECK_THAT(level, ContainsSubstring("sse"));
#endif
  CHECK(level != "generic");
}

}  // namespace config_test
