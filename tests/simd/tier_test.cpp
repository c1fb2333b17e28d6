// SPDX-License-Identifier: MIT
// Tiers that the flags allow, and the tiers of their remainders.
#include "support/catch.hpp"
#include <posenc/simd/tier.hpp>

#include <set>
#include <string>
#include <type_traits>
#include <vector>

#define TEXT_OF_TIER(x) TEXT_OF_TIER_EXPANDED(x)
#define TEXT_OF_TIER_EXPANDED(x) #x

namespace tier_test {

namespace tier = posenc::tier;

namespace {

/// Returns the names of a tier and of the tiers of its remainders, up to the one of single values.
template <class Tier>
std::vector<std::string> chain() {
  std::vector<std::string> names{Tier::name};
  if constexpr (!std::is_same_v<Tier, tier::Scalar>) {
    static_assert(tier::allowed<typename tier::Narrower<Tier>::Type> || !tier::allowed<Tier>);
    for (const std::string& name : chain<typename tier::Narrower<Tier>::Type>()) {
      names.push_back(name);
    }
  }
  return names;
}

template <class... Tiers>
std::multiset<std::string> names_of(tier::List<Tiers...>) {
  return {Tiers::name...};
}

}  // namespace

TEST_CASE("POSENC_TIER: names the tier of public calls", "[tier]") {
  CHECK(std::string(tier::Best::name) == TEXT_OF_TIER(POSENC_TIER));
  CHECK(tier::allowed<tier::Best>);
}

TEST_CASE("Tier: remainders go to narrower tiers, down to single values", "[tier]") {
  using Names = std::vector<std::string>;
  CHECK(chain<tier::Avx512>() == Names{"avx512", "avx2", "sse2", "scalar"});
  CHECK(chain<tier::Neon>() == Names{"neon", "scalar"});
  CHECK(std::is_same_v<tier::Narrower<tier::Scalar>::Type, tier::Scalar>);
}

TEST_CASE("Tier: allowed on its own architecture alone", "[tier]") {
  CHECK(names_of(tier::All()) ==
        std::multiset<std::string>{"avx2", "avx512", "neon", "scalar", "sse2"});
  CHECK(tier::allowed<tier::Scalar>);
#if defined(__x86_64__)
  CHECK(tier::allowed<tier::Sse2>);
  CHECK_FALSE(tier::allowed<tier::Neon>);
#elif defined(__aarch64__)
  CHECK(tier::allowed<tier::Neon>);
  CHECK_FALSE(tier::allowed<tier::Sse2>);
#endif
}

}  // namespace tier_test

#undef TEXT_OF_TIER
#undef TEXT_OF_TIER_EXPANDED
