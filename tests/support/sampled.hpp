// SPDX-License-Identifier: MIT
#pragma once

namespace support {

/// Returns the number of random cases to run out of `count`, starting with the first seed: a
/// quarter, or all of them if configured with POSENC_FULL_TESTS.
constexpr unsigned sampled(unsigned count) {
#if defined(POSENC_FULL_TESTS)
  return count;
#else
  return (count + 3) / 4;
#endif
}

}  // namespace support
