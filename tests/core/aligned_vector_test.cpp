// SPDX-License-Identifier: MIT
// Tests the alignment of arrays, and that large ones request large pages.
#include "support/catch.hpp"
#include <posenc/core/detail/aligned_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace aligned_vector_test {

using posenc::detail::AlignedVector;
using posenc::detail::huge_page_bytes;

namespace {

std::uintptr_t address_of(const AlignedVector<char>& array) {
  return reinterpret_cast<std::uintptr_t>(array.data());
}

/// Returns the VmFlags that Linux reports for the mapping of an address, or "" if it reports none.
std::string mapping_flags(std::uintptr_t address) {
  std::ifstream maps("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      found = begin <= address && address < end;
    } else if (found && line.starts_with("VmFlags:")) {
      return line + ' ';
    }
  }
  return "";
}

}  // namespace

TEST_CASE("arrays are aligned to cache lines, large ones to pages of 2 MiB", "[core]") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, 2 * huge_page_bytes - 1}) {
    CHECK(address_of(AlignedVector<char>(bytes)) % 64 == 0);
  }
  for (const std::size_t bytes : {2 * huge_page_bytes, 3 * huge_page_bytes + 5}) {
    const AlignedVector<char> array(bytes);
    CHECK(address_of(array) % (POSENC_HUGE_PAGES != 0 ? huge_page_bytes : 64) == 0);
  }
}

TEST_CASE("large arrays request large pages", "[core]") {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) return;
  const auto requests = [](std::size_t bytes) {
    const AlignedVector<char> array(bytes);
    const std::string flags = mapping_flags(address_of(array));
    // A kernel that reports no flags cannot be asked.
    return flags.empty() ? POSENC_HUGE_PAGES != 0 : flags.find(" hg ") != std::string::npos;
  };
  CHECK(requests(std::size_t{64} << 20) == (POSENC_HUGE_PAGES != 0));
}

TEST_CASE("resize() of an aligned vector keeps old elements across the limit of large pages",
          "[core]") {
  AlignedVector<char> array(huge_page_bytes, 'a');
  array.resize(2 * huge_page_bytes);
  CHECK(array.front() == 'a');
  CHECK(array[huge_page_bytes - 1] == 'a');
  array.resize(1);
  array.shrink_to_fit();
  CHECK(array.front() == 'a');
}

}  // namespace aligned_vector_test
