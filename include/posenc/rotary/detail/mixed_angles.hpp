// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/simd/detail/pack_pair.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Returns cos of the sum of two angles, given cos and sin of each.
template <class P>
POSENC_ALWAYS_INLINE P cos_of_sum(P cos_a, P sin_a, P cos_b, P sin_b) noexcept {
  return mul_sub(cos_a, cos_b, sin_a * sin_b);
}
template <class P>
POSENC_ALWAYS_INLINE P sin_of_sum(P cos_a, P sin_a, P cos_b, P sin_b) noexcept {
  return mul_add(sin_a, cos_b, cos_a * sin_b);
}

/// Computes cos and sin of the sums of two rows of angles.
template <class Tier = tier::Best, std::floating_point Real>
POSENC_ALWAYS_INLINE void add_angles(const double* cos_a, const double* sin_a, const double* cos_b,
                                     const double* sin_b, Real* cos, Real* sin,
                                     Index count) noexcept {
  using P = Pack<double, Tier>;
  Index i = 0;
  const auto add = [&]<class Q>(std::type_identity<Q>) {
    for (; i + Q::width <= count; i += Q::width) {
      const Q ca = Q::load(cos_a + i), sa = Q::load(sin_a + i);
      const Q cb = Q::load(cos_b + i), sb = Q::load(sin_b + i);
      store_as(cos_of_sum(ca, sa, cb, sb), cos + i);
      store_as(sin_of_sum(ca, sa, cb, sb), sin + i);
    }
  };
  add(std::type_identity<PackPair<P>>());
  add(std::type_identity<P>());
  if (const Index rest = count - i; rest > 0) {
    const P ca = P::load_partial(cos_a + i, rest), sa = P::load_partial(sin_a + i, rest);
    const P cb = P::load_partial(cos_b + i, rest), sb = P::load_partial(sin_b + i, rest);
    store_partial_as(cos_of_sum(ca, sa, cb, sb), cos + i, rest);
    store_partial_as(sin_of_sum(ca, sa, cb, sb), sin + i, rest);
  }
}

/// cos and sin of angles that are sums over axes, for consecutive tokens. Tokens often share a
/// coordinate, for example the cells of a grid. cos and sin of each coordinate are therefore
/// computed once and reused by all tokens with that coordinate. All memory is inside the object.
class MixedAngles {
 public:
  static constexpr Index max_axes = 64, max_pairs = 64;

  MixedAngles(Index axes, Index pairs) noexcept
      : axes_(axes),
        pairs_((std::min)(pairs, max_pairs)),
        entries_per_axis_((std::min)(capacity / (std::max)(pairs_, Index{1}), max_entries) / axes),
        tokens_((std::min)(max_tokens, max_entry_refs / axes)) {}

  /// Returns the maximum number of pairs per call of compute().
  Index pairs() const noexcept { return pairs_; }

  /// Registers the coordinates of tokens from s up to `end` at most, and returns the number of
  /// tokens.
  Index register_tokens(const Positions& positions, Index b, Index s, Index end) noexcept {
    std::fill_n(num_entries_, axes_, Index{0});
    const Index max_count = (std::min)(tokens_, end - s);
    Index token = 0;
    while (token < max_count && try_register(positions, b, s + token, token)) ++token;
    return token;
  }

  /// Computes cos and sin of pairs first .. first + count - 1 for every registered coordinate.
  /// frequency_of(axis, pair) returns an index into the oscillator.
  template <class FrequencyOf>
  void compute(const Oscillator& oscillator, Index first, Index count,
               const FrequencyOf& frequency_of) noexcept {
    for (Index axis = 0; axis < axes_; ++axis) {
      for (Index entry = axis * entries_per_axis_;
           entry < axis * entries_per_axis_ + num_entries_[axis]; ++entry) {
        oscillator.cos_sin_row(coordinates_[entry], frequency_of(axis, first), count, 1.0,
                               cos_ + entry * pairs_, sin_ + entry * pairs_);
      }
    }
  }

  /// Writes cos and sin [tokens, count] of tokens from `token` on.
  template <std::floating_point Real>
  void write(Index token, Index tokens, Index count, Real* cos, Real* sin) noexcept {
    if (axes_ == 2) {  // the most common case, without the loop over axes
      const std::uint16_t *entry_a = entry_of_ + token, *entry_b = entry_a + tokens_;
      const Index pairs = pairs_;
      for (Index t = 0; t < tokens; ++t, cos += count, sin += count) {
        const Index a = entry_a[t] * pairs, b = entry_b[t] * pairs;
        add_angles(cos_ + a, sin_ + a, cos_ + b, sin_ + b, cos, sin, count);
      }
      return;
    }
    for (Index t = token; t < token + tokens; ++t, cos += count, sin += count) {
      const double *c = cos_ + row_offset(0, t), *s = sin_ + row_offset(0, t);
      for (Index axis = 1; axis + 1 < axes_; ++axis) {
        add_angles(c, s, cos_ + row_offset(axis, t), sin_ + row_offset(axis, t), cos_ + capacity,
                   sin_ + capacity, count);
        c = cos_ + capacity, s = sin_ + capacity;
      }
      if (axes_ > 1) {
        const Index last = row_offset(axes_ - 1, t);
        add_angles(c, s, cos_ + last, sin_ + last, cos, sin, count);
      } else {
        for (Index i = 0; i < count; ++i) {
          cos[i] = static_cast<Real>(c[i]);
          sin[i] = static_cast<Real>(s[i]);
        }
      }
    }
  }

 private:
  static constexpr Index capacity = 4096, max_entries = 512, max_tokens = 256,
                         max_entry_refs = 2048;
  static_assert(capacity / max_pairs >= max_axes && max_tokens <= 65536);

  Index row_offset(Index axis, Index token) const noexcept {
    return entry_of_[axis * tokens_ + token] * pairs_;
  }

  /// Registers the coordinates of a token. Returns false if there is no room for a new one.
  bool try_register(const Positions& positions, Index b, Index s, Index token) noexcept {
    for (Index axis = 0; axis < axes_; ++axis) {
      const double coordinate = positions.at(b, s, axis);
      double* const known_coordinates = coordinates_ + axis * entries_per_axis_;
      const Index num_entries = num_entries_[axis];
      // The coordinate is most likely the previous token's, or the one registered after it.
      Index entry =
          token == 0 ? 0 : entry_of_[axis * tokens_ + token - 1] - axis * entries_per_axis_;
      if (entry < num_entries && !(known_coordinates[entry] == coordinate)) ++entry;
      if (entry == num_entries || !(known_coordinates[entry] == coordinate)) {
        entry = std::find(known_coordinates, known_coordinates + num_entries, coordinate) -
                known_coordinates;
      }
      if (entry == num_entries) {
        if (num_entries == entries_per_axis_) return false;
        known_coordinates[entry] = coordinate;
        ++num_entries_[axis];
      }
      entry_of_[axis * tokens_ + token] =
          static_cast<std::uint16_t>(axis * entries_per_axis_ + entry);
    }
    return true;
  }

  Index axes_, pairs_, entries_per_axis_, tokens_;
  Index num_entries_[max_axes];
  double coordinates_[max_entries];
  std::uint16_t entry_of_[max_entry_refs];  ///< [axes, tokens]
  /// [axes, entries, pairs], and a row for intermediate sums.
  alignas(64) double cos_[capacity + max_pairs];
  alignas(64) double sin_[capacity + max_pairs];
};

}  // namespace detail
POSENC_END
