// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/device.hpp>

#include <algorithm>
#include <cstddef>

POSENC_BEGIN
namespace detail {

/// Scratch memory with one arena per thread, kept from call to call.
/// All arenas are one allocation. With several, glibc returns the last ones to the system at the
/// end of each call, and faulting their pages in again takes longer than a short prompt.
class ScratchArenas {
 public:
  std::size_t bytes() const noexcept { return memory_.size() * sizeof(CacheLine); }

  /// Provides `count` arenas of at least `bytes` bytes each; the first has at least bytes_of_first.
  /// Contents are uninitialised.
  ///   Throws: ShapeError for a negative number of arenas, std::bad_alloc
  void reserve(Index count, std::size_t bytes, std::size_t bytes_of_first = 0) {
    if (count < 0) {
      fail<ShapeError>("ScratchArenas::reserve", "arenas must not be negative but are ", count);
    }
    if (count == 0) return;
    // A size beyond the maximum of a vector would throw std::length_error.
    constexpr std::size_t max_bytes = static_cast<std::size_t>(-1) / 4;
    if ((std::max)(bytes, bytes_of_first) > max_bytes) throw_bad_alloc();
    const std::size_t first = whole_lines((std::max)({bytes_of_first, bytes, first_}));
    const std::size_t other = whole_lines((std::max)(bytes, other_));
    const std::size_t others = (std::max)(static_cast<std::size_t>(count) - 1, others_);
    if (first == first_ && other == other_ && others == others_) return;
    if (others > 0 && other > (max_bytes - first) / others) throw_bad_alloc();
    memory_ = AlignedVector<CacheLine>((first + others * other) / sizeof(CacheLine));
    first_ = first;
    other_ = other;
    others_ = others;
  }

  /// Returns a thread's memory, aligned to a cache line (64 bytes).
  std::byte* arena(Index thread) noexcept {
    return reinterpret_cast<std::byte*>(memory_.data()) +
           (thread == 0 ? 0 : first_ + static_cast<std::size_t>(thread - 1) * other_);
  }

 private:
  /// Unoptimised code visits each element of a vector.
  struct CacheLine {
    std::byte bytes[64];
  };
  static constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
    return (bytes + 63) / 64 * 64;
  }

  AlignedVector<CacheLine> memory_;
  std::size_t first_ = 0;   ///< size of the first arena in bytes
  std::size_t other_ = 0;   ///< size of each other arena in bytes
  std::size_t others_ = 0;  ///< number of arenas besides the first
};

/// Bump allocator over one arena; every array starts at a cache line. Constructed with nullptr it
/// allocates nothing and only measures; the total saturates at SIZE_MAX.
class ArenaAllocator {
 public:
  explicit ArenaAllocator(std::byte* begin) noexcept : begin_(begin) {}

  template <class T>
  T* allocate(Index count) noexcept {
    return reinterpret_cast<T*>(allocate_bytes(count, sizeof(T)));
  }
  std::size_t bytes_used() const noexcept { return used_; }

 private:
  POSENC_NOINLINE std::byte* allocate_bytes(Index count, std::size_t size) noexcept {
    std::byte* const array = begin_ == nullptr ? nullptr : begin_ + used_;
    constexpr std::size_t max_bytes = static_cast<std::size_t>(-1);
    const bool fits = static_cast<std::size_t>(count) <= (max_bytes - 63) / size;
    const std::size_t bytes =
        fits ? (static_cast<std::size_t>(count) * size + 63) / 64 * 64 : max_bytes;
    used_ = bytes > max_bytes - used_ ? max_bytes : used_ + bytes;
    return array;
  }

  std::byte* begin_;
  std::size_t used_ = 0;
};

/// Returns the arena index of the calling thread.
template <Device D>
Index arena_index([[maybe_unused]] const D& device) {
  if constexpr (requires { device.currentThreadId(); }) {
    // The device returns -1 for a thread outside of its pool.
    return static_cast<Index>(device.currentThreadId()) + 1;
  } else {
    return 0;
  }
}

/// Returns the number of arenas that a device needs. Any thread of the pool may run a task, even if
/// the device uses fewer.
template <Device D>
Index arena_count([[maybe_unused]] const D& device) {
  if constexpr (requires { device.numThreadsInPool(); }) {
    return static_cast<Index>(device.numThreadsInPool()) + 1;
  } else {
    return 1;
  }
}

}  // namespace detail
POSENC_END
