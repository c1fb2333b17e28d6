// SPDX-License-Identifier: MIT
#pragma once

#include "reference/float16.hpp"
#include "tiers.hpp"

#include <bit>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

/// The packs' conversions between float and 16 bits, each as a function over arrays.
namespace float16 {

using posenc::Index;

struct Half {
  static constexpr reference::Format16 format = reference::ieee_half;
  static constexpr int packs_per_call = 1;  ///< vectors per call

  template <class P>
  static void widen(const void* from, float* to) {
    P::load_half(from).store(to);
  }
  template <class P>
  static void narrow(const float* from, void* to) {
    P::load(from).store_half(to);
  }
};

struct Bfloat16 {
  static constexpr reference::Format16 format = reference::bfloat16;
  static constexpr int packs_per_call = 1;

  template <class P>
  static void widen(const void* from, float* to) {
    P::load_bfloat16(from).store(to);
  }
  template <class P>
  static void narrow(const float* from, void* to) {
    P::load(from).store_bfloat16(to);
  }
};

/// Conversion of even and odd values in two packs.
struct Bfloat16Pairs {
  static constexpr reference::Format16 format = reference::bfloat16;
  static constexpr int packs_per_call = 2;

  template <class P>
  static void widen(const void* from, float* to) {
    P even, odd;
    P::load_bfloat16_pairs(from, even, odd);
    float e[P::width], o[P::width];
    even.store(e);
    odd.store(o);
    for (Index i = 0; i < P::width; ++i) {
      to[2 * i] = e[i];
      to[2 * i + 1] = o[i];
    }
  }
  template <class P>
  static void narrow(const float* from, void* to) {
    float e[P::width], o[P::width];
    for (Index i = 0; i < P::width; ++i) {
      e[i] = from[2 * i];
      o[i] = from[2 * i + 1];
    }
    P::store_bfloat16_pairs(to, P::load(e), P::load(o));
  }
};

inline bool is_nan(reference::Format16 format, std::uint16_t bits) {
  return (bits & 0x7fff) > (2 * format.max_exponent + 1) << format.fraction_bits();
}

/// True if a and b have the same bits, or are NaN of the same sign with any payloads.
inline bool same(reference::Format16 format, std::uint16_t a, std::uint16_t b) {
  return a == b || (is_nan(format, a) && is_nan(format, b) && ((a ^ b) & 0x8000) == 0);
}

inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b) && std::signbit(a) == std::signbit(b));
}

/// Returns a description of the first float whose conversion differs from the expected bits, or ""
/// if there is none. `floats` must fill a number of vectors exactly.
template <class Conversion, class P>
std::string wrong_narrowing(const std::vector<float>& floats,
                            const std::vector<std::uint16_t>& expected) {
  constexpr auto step = static_cast<std::size_t>(Conversion::packs_per_call * P::width);
  std::uint16_t got[step];
  for (std::size_t at = 0; at + step <= floats.size(); at += step) {
    Conversion::template narrow<P>(floats.data() + at, got);
    for (std::size_t i = 0; i < step; ++i) {
      if (same(Conversion::format, got[i], expected[at + i])) continue;
      std::ostringstream text;
      text << std::hexfloat << floats[at + i] << std::hex << " (bits "
           << std::bit_cast<std::uint32_t>(floats[at + i]) << ") became " << got[i] << ", not "
           << expected[at + i];
      return text.str();
    }
  }
  return "";
}

inline std::vector<std::uint16_t> encoded(reference::Format16 format,
                                          const std::vector<float>& floats) {
  std::vector<std::uint16_t> bits;
  bits.reserve(floats.size());
  for (const float x : floats) bits.push_back(reference::encode(format, static_cast<double>(x)));
  return bits;
}

}  // namespace float16
