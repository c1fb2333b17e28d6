// SPDX-License-Identifier: MIT
#pragma once

namespace support {

/// How many of `count` random cases are tried, the first ones of those that their seeds give: a quarter, or all of them
/// where the tests are configured with POSENC_FULL_TESTS.
constexpr unsigned sampled(unsigned count) {
#if defined(POSENC_FULL_TESTS)
  return count;
#else
  return (count + 3) / 4;
#endif
}

}  // namespace support
