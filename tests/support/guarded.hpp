// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

namespace support {

using posenc::Index;

/// Memory between two inaccessible pages: a read or write beyond either end kills the test. All
/// bits are set, which is a NaN in every type.
template <class T>
class Guarded {
 public:
  explicit Guarded(Index capacity) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    size_ =
        (std::max)((static_cast<std::size_t>(capacity) * sizeof(T) + page - 1) / page * page, page);
    whole_ = size_ + 2 * page;
    void* mapped = mmap(nullptr, whole_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    pages_ = static_cast<unsigned char*>(mapped);
    inner_ = pages_ + page;
    if (mprotect(inner_, size_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    clear();
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(pages_, whole_); }

  /// Returns the first values, right after the page in front.
  T* first() noexcept { return reinterpret_cast<T*>(inner_); }
  /// Returns the last `count` values before the page behind.
  T* last(Index count) noexcept { return reinterpret_cast<T*>(inner_ + size_) - count; }
  /// Returns first() or last(count).
  T* at(bool front, Index count) noexcept { return front ? first() : last(count); }

  void clear() noexcept { std::memset(inner_, 0xff, size_); }

  /// True if all values except the `count` values at p have the bits that clear() set.
  bool kept_around(const T* p, Index count) const noexcept {
    const auto* begin = reinterpret_cast<const unsigned char*>(p);
    const auto* end = reinterpret_cast<const unsigned char*>(p + count);
    const auto untouched = [](unsigned char byte) { return byte == 0xff; };
    return std::all_of(static_cast<const unsigned char*>(inner_), begin, untouched) &&
           std::all_of(end, static_cast<const unsigned char*>(inner_ + size_), untouched);
  }

 private:
  unsigned char* pages_ = nullptr;
  unsigned char* inner_ = nullptr;
  std::size_t size_ = 0, whole_ = 0;
};

}  // namespace support
