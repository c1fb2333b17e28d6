// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace support {

// Tests are compiled without optimisation and would spend half of their time here.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif

/// The engine of std::mt19937_64 with its seeds (tests/core/random_bits_test.cpp compares them).
class MersenneTwister {
 public:
  explicit MersenneTwister(std::uint64_t seed) {
    for (std::uint64_t i = 0; i < size; ++i) {
      state_[i] = seed;
      seed = 6364136223846793005u * (seed ^ (seed >> 62)) + i + 1;
    }
  }

  [[gnu::always_inline]] inline std::uint64_t operator()() {
    if (next_ == size) refill();
    std::uint64_t x = state_[next_++];
    x ^= (x >> 29) & 0x5555555555555555u;
    x ^= (x << 17) & 0x71d67fffeda60000u;
    x ^= (x << 37) & 0xfff7eee000000000u;
    return x ^ (x >> 43);
  }

 private:
  static constexpr int size = 312, shift = 156;

  void refill() {
    constexpr std::uint64_t low = 0x7fffffff;
    for (int i = 0; i < size; ++i) {
      const std::uint64_t x = (state_[i] & ~low) | (state_[(i + 1) % size] & low);
      const std::uint64_t twist = (x & 1) != 0 ? 0xb5026f5aa96619e9u : 0;
      state_[i] = state_[(i + shift) % size] ^ (x >> 1) ^ twist;
    }
    next_ = 0;
  }

  std::uint64_t state_[size];
  int next_ = size;
};

/// Random numbers that depend on the seed alone. The mappings use + and * only, because those of
/// the standard library may differ.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Draws one number from each of a fuzzer's bytes, and after their end from the seed.
  Random(std::span<const std::uint8_t> bytes, std::uint64_t seed)
      : bytes_(bytes.data()), bytes_left_(bytes.size()), engine_(seed) {}

  /// Returns a number in [0, 1), a multiple of 2^-53.
  [[gnu::always_inline]] inline double uniform() {
    return static_cast<double>(next() >> 11) * 0x1p-53;
  }

  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// Returns a number with mean 0 and variance 1, within +-6: the sum of twelve uniform numbers
  /// minus 6.
  double normal() {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

  /// Returns an integer in [low, high], both included. The bias of the remainder is below 1e-9 for
  /// spans below 2^34. The span must be below 2^63.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    const std::uint64_t span = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int64_t>(next() % span);
  }

  /// Fills a container or span of any scalar, in its order.
  template <class Range>
  void fill_normal(Range&& range) {
    for (auto& value : range)
      value = static_cast<std::remove_reference_t<decltype(value)>>(normal());
  }

  template <class Range>
  void fill_uniform(Range&& range, double low, double high) {
    for (auto& value : range) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(uniform(low, high));
    }
  }

 private:
  [[gnu::always_inline]] inline std::uint64_t next() {
    if (bytes_left_ == 0) return engine_();
    --bytes_left_;
    return *bytes_++ * 0x0101010101010101u;  // its high bits are uniform(), its low bits integer()
  }

  const std::uint8_t* bytes_ = nullptr;
  std::size_t bytes_left_ = 0;
  MersenneTwister engine_;
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

}  // namespace support
