// SPDX-License-Identifier: MIT
// Tests the alignment of arrays, and that large ones request large pages.
#include "support/catch.hpp"
#include <posenc/core/detail/aligned_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace aligned_vector_test {

using posenc::detail::AlignedVector;
using posenc::detail::huge_page_bytes;

namespace {

std::uintptr_t address_of(const AlignedVector<char>& array) {
  return reinterpret_cast<std::uintptr_t>(array.data());
}

/// Returns the VmFlags that Linux reports for the mapping of an address, or "" if it reports none.
[[maybe_unused]] std::string mapping_flags(std::uintptr_t address) {
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

TEST_CASE("AlignedVector: aligned to cache lines, large ones to pages of 2 MiB", "[core]") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, 2 * huge_page_bytes - 1}) {
    CHECK(address_of(AlignedVector<char>(bytes)) % 64 == 0);
  }
  CHECK_FALSE(posenc::detail::uses_huge_pages(2 * huge_page_bytes - 1));
  CHECK(posenc::detail::uses_huge_pages(2 * huge_page_bytes) == (POSENC_HUGE_PAGES != 0));
  for (const std::size_t bytes : {2 * huge_page_bytes, 3 * huge_page_bytes + 5}) {
    const AlignedVector<char> array(bytes);
    CHECK(address_of(array) % (POSENC_HUGE_PAGES != 0 ? huge_page_bytes : 64) == 0);
  }
}

TEST_CASE("AlignedVector: large arrays request large pages", "[core]") {
#if defined(MADV_HUGEPAGE)
  const auto requests = [](const void* array) {
    return mapping_flags(reinterpret_cast<std::uintptr_t>(array)).find(" hg ") != std::string::npos;
  };
  // Kernels without such pages, and emulators, show no request, whoever makes it.
  const std::size_t bytes = std::size_t{64} << 20;
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  const bool is_shown = madvise(mapped, bytes, MADV_HUGEPAGE) == 0 && requests(mapped);
  munmap(mapped, bytes);
  if (!is_shown) return;
  const AlignedVector<char> array(bytes);
  CHECK(requests(array.data()) == (POSENC_HUGE_PAGES != 0));
#endif
}

TEST_CASE("AlignedVector: resize() keeps old elements across the limit of large pages", "[core]") {
  AlignedVector<char> array(huge_page_bytes, 'a');
  array.resize(2 * huge_page_bytes);
  CHECK(array.front() == 'a');
  CHECK(array[huge_page_bytes - 1] == 'a');
  array.resize(1);
  array.shrink_to_fit();
  CHECK(array.front() == 'a');
}

}  // namespace aligned_vector_test
