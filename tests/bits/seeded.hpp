// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

// Numbers from a seed, tensors, a hash of results, and a device.
namespace bits {

using posenc::Index;

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// Returns the next number: the finaliser of SplitMix64.
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  /// Returns a number within +-2, in steps that bfloat16 rounds.
  double number() { return static_cast<double>(next() >> 40) * 0x1p-22 - 2; }
  Index below(Index n) { return static_cast<Index>(next() % static_cast<std::uint64_t>(n)); }

 private:
  std::uint64_t state_;
};

/// FNV-1a hash, 64 bits, over the bytes of numbers.
class Hash {
 public:
  template <class T>
  void add(std::span<const T> values) {
    for (const T value : values) {
      // Payload and sign of a NaN depend on the processor.
      if (std::isnan(static_cast<float>(value))) {
        add_byte(0xff);
        continue;
      }
      unsigned char bytes[sizeof(T)];
      std::memcpy(bytes, &value, sizeof(T));
      for (const unsigned char byte : bytes) add_byte(byte);
    }
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(std::span<const T>(values));
  }
  std::uint64_t value() const { return hash_; }

 private:
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3u; }

  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

/// Prints a case and its hash, or compares them with the file.
void report(const std::string& name, const Hash& hash);

/// Dense tensor [B, S, H, D].
template <class T>
struct Heads {
  Index batch, seq, heads, dim;
  std::vector<T> values;

  Heads(Index b, Index s, Index h, Index d)
      : batch(b),
        seq(s),
        heads(h),
        dim(d),
        values(static_cast<std::size_t>(b * s * h * d), static_cast<T>(0.0F)) {}
  Heads(Index b, Index s, Index h, Index d, Random& random) : Heads(b, s, h, d) {
    for (T& value : values) value = static_cast<T>(static_cast<float>(random.number()));
  }

  posenc::HeadsView<T> view() { return tokens(0, seq); }
  /// Returns tokens first .. first + count - 1 of every batch row.
  posenc::HeadsView<T> tokens(Index first, Index count) {
    return {values.data() + first * heads * dim,
            batch,
            count,
            heads,
            dim,
            seq * heads * dim,
            heads * dim,
            dim};
  }
  /// Returns the tokens of a tensor with one head.
  posenc::EmbeddingsView<T> tokens_as_rows() {
    return {values.data(), batch, seq, dim, seq * dim, dim};
  }
  /// Returns the tokens of a tensor with one batch row and one head.
  posenc::MatrixView<T> rows() { return {values.data(), seq, dim, dim}; }
};

/// Dense mask or scores [B, H, Sq, Sk]. Boolean elements are bytes, unlike those of vector<bool>.
template <class T>
struct Scores {
  Index batch, heads, queries, keys;
  std::vector<T> values;

  Scores(Index b, Index h, Index i, Index j)
      : batch(b), heads(h), queries(i), keys(j), values(static_cast<std::size_t>(b * h * i * j)) {}

  posenc::ScoresView<T> view() { return as<T>(values.data()); }
  posenc::ScoresView<const bool> mask() const requires(sizeof(T) == sizeof(bool)) {
    return as<const bool>(reinterpret_cast<const bool*>(values.data()));
  }

 private:
  template <class Element>
  posenc::ScoresView<Element> as(Element* data) const {
    return {data, batch, heads, queries, keys, heads * queries * keys, queries * keys, keys, 1};
  }
};

/// Device with a number of threads that the program sets. It cuts work into as many ranges.
class Threads {
 public:
  struct Cost {
    double bytes_loaded, bytes_stored, cycles;
  };
  inline static int count = 1;

  int numThreads() const { return count; }
  int numThreadsInPool() const { return count; }
  int currentThreadId() const { return id; }
  template <class Work>
  void parallelFor(Index units, const Cost&, const Work& work) const {
    std::vector<std::thread> threads;
    for (Index n = 0; n < count; ++n) {
      const Index first = units * n / count, last = units * (n + 1) / count;
      if (first == last) continue;
      threads.emplace_back([&work, n, first, last] {
        id = static_cast<int>(n);
        work(first, last);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  inline static thread_local int id = -1;
};

/// Bias of minus a slope times the distance, with smaller slopes for later heads; it has no two
/// products that could be contracted.
struct Slope {
  template <class Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
    const double slope = std::ldexp(1.0, -static_cast<int>(head) - 2);
    for (std::size_t i = 0; i < query_positions.size(); ++i) {
      Real* row = tile.row(static_cast<Index>(i));
      for (std::size_t j = 0; j < key_positions.size(); ++j) {
        const double distance = std::abs(query_positions[i] - key_positions[j]);
        row[j] -= static_cast<Real>(slope * distance);
      }
    }
  }
};

}  // namespace bits
