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

/// Memory of which each thread has a slot of its own, kept from call to call. It is one block: glibc returns the last
/// ones of several to the system at the end of each call, and their pages take longer to come back than a short prompt.
class Slots {
 public:
  std::size_t bytes() const noexcept { return memory_.size(); }

  /// At least so many bytes for each of `count` slots, or more for the first; what they hold is nobody's.
  ///   Throws: ShapeError for a negative number of slots, std::bad_alloc
  void reserve(Index count, std::size_t bytes, std::size_t bytes_of_first = 0) {
    if (count < 0) {
      fail<ShapeError>("Slots::reserve", "slots must not be negative but are ", count);
    }
    if (count == 0) return;
    // More than a vector can hold would be a std::length_error.
    constexpr std::size_t most = static_cast<std::size_t>(-1) / 4;
    if ((std::max)(bytes, bytes_of_first) > most) throw_bad_alloc();
    const std::size_t first = whole_lines((std::max)({bytes_of_first, bytes, first_}));
    const std::size_t other = whole_lines((std::max)(bytes, other_));
    const std::size_t others = (std::max)(static_cast<std::size_t>(count) - 1, others_);
    if (first == first_ && other == other_ && others == others_) return;
    if (others > 0 && other > (most - first) / others) throw_bad_alloc();
    memory_ = AlignedVector<std::byte>(first + others * other);
    first_ = first;
    other_ = other;
    others_ = others;
  }

  /// A thread's memory, at the start of a cache line.
  std::byte* slot(Index thread) noexcept {
    return memory_.data() +
           (thread == 0 ? 0 : first_ + static_cast<std::size_t>(thread - 1) * other_);
  }

 private:
  static constexpr std::size_t whole_lines(std::size_t bytes) noexcept {
    return (bytes + 63) / 64 * 64;
  }

  AlignedVector<std::byte> memory_;
  std::size_t first_ = 0;   ///< bytes of the first slot
  std::size_t other_ = 0;   ///< bytes of each other slot
  std::size_t others_ = 0;  ///< slots besides the first
};

/// Cuts arrays out of a slot, each at the start of a cache line; without a slot it adds up their size, or
/// says the most that there is where that is more.
class Carver {
 public:
  explicit Carver(std::byte* begin) noexcept : begin_(begin) {}

  template <class T>
  T* take(Index count) noexcept {
    auto* const array = begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + used_);
    constexpr std::size_t most = static_cast<std::size_t>(-1);
    const bool fits = static_cast<std::size_t>(count) <= (most - 63) / sizeof(T);
    const std::size_t bytes =
        fits ? (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64 : most;
    used_ = bytes > most - used_ ? most : used_ + bytes;
    return array;
  }
  std::size_t used() const noexcept { return used_; }

 private:
  std::byte* begin_;
  std::size_t used_ = 0;
};

/// The workspace's slot of the thread that asks.
template <Device D>
Index slot_index([[maybe_unused]] const D& device) {
  if constexpr (requires { device.currentThreadId(); }) {
    // -1 where the thread is not one of the pool's.
    return static_cast<Index>(device.currentThreadId()) + 1;
  } else {
    return 0;
  }
}

/// How many slots a device's threads need. A device may have fewer threads than its pool, but any of
/// the pool's may come.
template <Device D>
Index slot_count([[maybe_unused]] const D& device) {
  if constexpr (requires { device.numThreadsInPool(); }) {
    return static_cast<Index>(device.numThreadsInPool()) + 1;
  } else {
    return 1;
  }
}

}  // namespace detail
POSENC_END
