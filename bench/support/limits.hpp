// SPDX-License-Identifier: MIT
#pragma once

#include "comparison.hpp"
#include "multiply_add.hpp"

#include <Eigen/Core>

#include <array>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>

// Passes that only move the bytes that a case has to move: no encoding and no attention can be
// faster. Each is written in several ways, because none is the fastest for every size and every
// processor. A Comparison finds the way that limits its case. Elements after a row's last full
// vector are omitted.
namespace bench {

constexpr float unit = 1;  // a factor that does not change x

namespace detail {

/// Calls step(i, n) for every vector of [0, count): in `streams` interleaved streams, with
/// `together` vectors of each per loop iteration, of which the n-th begins at element i.
template <Index streams, Index together, class Step>
POSENC_ALWAYS_INLINE void vectors(Index count, const Step& step) {
  constexpr Index turn = together * Vector::width;
  const Index part = count / (streams * turn) * turn;
  for (Index i = 0; i < part; i += turn) {
    unrolled<static_cast<std::size_t>(streams * together)>([&](std::size_t n) {
      const Index stream = static_cast<Index>(n) / together, v = static_cast<Index>(n) % together;
      step(stream * part + i + v * Vector::width, n);
    });
  }
  for (Index i = streams * part; i + Vector::width <= count; i += Vector::width) step(i, 0);
}

template <Index streams, Index together>
auto scale_in(float* x, Index count) {
  return [=] {
    float* data = opaque(x);
    const Vector factor = Vector::broadcast(*opaque(&unit));
    vectors<streams, together>(
        count, [&](Index i, std::size_t) { (Vector::load(data + i) * factor).store(data + i); });
  };
}

template <Index streams, Index together>
auto add_in(float* x, const float* t, Index count) {
  return [=] {
    float* data = opaque(x);
    const float* terms = opaque(t);
    vectors<streams, together>(count, [&](Index i, std::size_t) {
      (Vector::load(data + i) + Vector::load(terms + i)).store(data + i);
    });
  };
}

template <Index streams, Index together>
auto fill_in(float* x, Index count) {
  return [=] {
    float* data = opaque(x);
    const Vector value = Vector::broadcast(*opaque(&unit));
    vectors<streams, together>(count, [&](Index i, std::size_t) { value.store(data + i); });
  };
}

template <Index streams, Index together>
auto copy_in(float* to, const float* from, Index count) {
  return [=] {
    float* target = opaque(to);
    const float* source = opaque(from);
    vectors<streams, together>(
        count, [&](Index i, std::size_t) { Vector::load(source + i).store(target + i); });
  };
}

template <Index streams, Index together>
auto read_in(const float* x, Index count) {
  return [=] {
    const float* data = opaque(x);
    std::array<Vector, static_cast<std::size_t>(streams * together)> sums;
    sums.fill(Vector::zero());
    vectors<streams, together>(
        count, [&](Index i, std::size_t n) { sums[n] = sums[n] + Vector::load(data + i); });
    keep_sum(sums);
  };
}

}  // namespace detail

/// Runs one pass and then the other, both in the same way.
template <class... Ways>
auto one_after_the_other(const std::tuple<Ways...>& first, const std::tuple<Ways...>& second) {
  const auto in_turn = [](const auto& one, const auto& other) {
    return [one, other] {
      one();
      other();
    };
  };
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple{in_turn(std::get<I>(first), std::get<I>(second))...};
  }
  (std::index_sequence_for<Ways...>());
}

/// Pass x *= c.
inline auto scale(float* x, Index count) {
  // Eigen's arrays use the widest vectors of the flags with every compiler. g++ vectorises plain
  // loops with 256 bits for AVX-512.
  const auto with_eigen = [=] { Eigen::Map<Eigen::ArrayXf>(opaque(x), count) *= *opaque(&unit); };
  return std::tuple{with_eigen, detail::scale_in<1, 4>(x, count), detail::scale_in<1, 8>(x, count),
                    detail::scale_in<4, 2>(x, count)};
}

/// Pass x[r][0 .. width) *= c for every row; other channels of a row are not touched.
template <Index width>
auto scale_rows(float* x, Index rows, Index stride) {
  const auto with_eigen = [=] {
    const float factor = *opaque(&unit);
    float* data = opaque(x);
    for (Index r = 0; r < rows; ++r, data += stride) {
      Eigen::Map<Eigen::Array<float, width, 1>>{data} *= factor;
    }
  };
  const auto with_packs = [=] {
    using detail::Vector;
    const Vector factor = Vector::broadcast(*opaque(&unit));
    float* data = opaque(x);
    for (Index r = 0; r < rows; ++r, data += stride) {
      detail::unrolled<width / Vector::width>([&](std::size_t n) {
        float* at = data + static_cast<Index>(n) * Vector::width;
        (Vector::load(at) * factor).store(at);
      });
    }
  };
  return std::tuple{with_eigen, with_packs};
}

/// Pass x += t, for cases that read a table as large as x.
inline auto add_table(float* x, const float* t, Index count) {
  const auto with_eigen = [=] {
    Eigen::Map<Eigen::ArrayXf>(opaque(x), count) +=
        Eigen::Map<const Eigen::ArrayXf>(opaque(t), count);
  };
  return std::tuple{with_eigen, detail::add_in<1, 4>(x, t, count),
                    detail::add_in<2, 4>(x, t, count)};
}

/// Pass x = c, for cases that only write.
inline auto fill(float* x, Index count) {
  // The C library uses non-temporal stores if that is faster.
  const auto with_library = [=] {
    std::memset(opaque(x), 0, static_cast<std::size_t>(count) * sizeof(float));
  };
  return std::tuple{with_library, detail::fill_in<1, 4>(x, count), detail::fill_in<2, 4>(x, count)};
}

inline auto copy(float* to, const float* from, Index count) {
  const auto with_library = [=] {
    std::memcpy(opaque(to), opaque(from), static_cast<std::size_t>(count) * sizeof(float));
  };
  return std::tuple{with_library, detail::copy_in<1, 8>(to, from, count)};
}

/// Pass that reads x and adds it up.
inline auto read(const float* x, Index count) {
  return std::tuple{detail::read_in<1, 8>(x, count), detail::read_in<2, 4>(x, count),
                    detail::read_in<4, 2>(x, count), detail::read_in<8, 1>(x, count),
                    detail::read_in<4, 4>(x, count)};
}

}  // namespace bench
