// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/twice.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
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
  add(std::type_identity<Twice<P>>());
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
  static constexpr Index most_axes = 64, most_pairs = 64;

  MixedAngles(Index axes, Index pairs) noexcept
      : axes_(axes),
        pairs_((std::min)(pairs, most_pairs)),
        slots_((std::min)(room / (std::max)(pairs_, Index{1}), most_slots) / axes),
        tokens_((std::min)(most_tokens, places / axes)) {}

  /// Returns the maximum number of pairs per call of fill().
  Index pairs() const noexcept { return pairs_; }

  /// Registers the coordinates of tokens from s up to `end` at most, and returns the number of
  /// tokens.
  Index take(const Positions& positions, Index b, Index s, Index end) noexcept {
    std::fill_n(used_, axes_, Index{0});
    const Index most = (std::min)(tokens_, end - s);
    Index token = 0;
    while (token < most && take_token(positions, b, s + token, token)) ++token;
    return token;
  }

  /// Computes cos and sin of pairs first .. first + count - 1 for every registered coordinate.
  /// frequency_of(axis, pair) returns an index into the oscillator.
  template <class FrequencyOf>
  void fill(const Oscillator& oscillator, Index first, Index count,
            const FrequencyOf& frequency_of) noexcept {
    for (Index axis = 0; axis < axes_; ++axis) {
      for (Index slot = axis * slots_; slot < axis * slots_ + used_[axis]; ++slot) {
        oscillator.row(coordinates_[slot], frequency_of(axis, first), count, 1.0,
                       cos_ + slot * pairs_, sin_ + slot * pairs_);
      }
    }
  }

  /// Writes cos and sin [tokens, count] of tokens from `token` on.
  template <std::floating_point Real>
  void write(Index token, Index tokens, Index count, Real* cos, Real* sin) noexcept {
    if (axes_ == 2) {  // the most common case, without the loop over axes
      const std::uint16_t *slot_a = slot_of_ + token, *slot_b = slot_a + tokens_;
      const Index pairs = pairs_;
      for (Index t = 0; t < tokens; ++t, cos += count, sin += count) {
        const Index a = slot_a[t] * pairs, b = slot_b[t] * pairs;
        add_angles(cos_ + a, sin_ + a, cos_ + b, sin_ + b, cos, sin, count);
      }
      return;
    }
    for (Index t = token; t < token + tokens; ++t, cos += count, sin += count) {
      const double *c = cos_ + row(0, t), *s = sin_ + row(0, t);
      for (Index axis = 1; axis + 1 < axes_; ++axis) {
        add_angles(c, s, cos_ + row(axis, t), sin_ + row(axis, t), cos_ + room, sin_ + room, count);
        c = cos_ + room, s = sin_ + room;
      }
      if (axes_ > 1) {
        const Index last = row(axes_ - 1, t);
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
  static constexpr Index room = 4096, most_slots = 512, most_tokens = 256, places = 2048;
  static_assert(room / most_pairs >= most_axes && most_tokens <= 65536);

  Index row(Index axis, Index token) const noexcept {
    return slot_of_[axis * tokens_ + token] * pairs_;
  }

  bool take_token(const Positions& positions, Index b, Index s, Index token) noexcept {
    for (Index axis = 0; axis < axes_; ++axis) {
      const double coordinate = positions.at(b, s, axis);
      double* const known = coordinates_ + axis * slots_;
      const Index used = used_[axis];
      // The coordinate is most likely the previous token's, or the one registered after it.
      Index slot = token == 0 ? 0 : slot_of_[axis * tokens_ + token - 1] - axis * slots_;
      if (slot < used && !(known[slot] == coordinate)) ++slot;
      if (slot == used || !(known[slot] == coordinate)) {
        slot = std::find(known, known + used, coordinate) - known;
      }
      if (slot == used) {
        if (used == slots_) return false;
        known[slot] = coordinate;
        ++used_[axis];
      }
      slot_of_[axis * tokens_ + token] = static_cast<std::uint16_t>(axis * slots_ + slot);
    }
    return true;
  }

  Index axes_, pairs_, slots_, tokens_;
  Index used_[most_axes];
  double coordinates_[most_slots];
  std::uint16_t slot_of_[places];  ///< [axes, tokens]
  /// [axes, slots, pairs], and a row for intermediate sums.
  alignas(64) double cos_[room + most_pairs];
  alignas(64) double sin_[room + most_pairs];
};

}  // namespace detail
POSENC_END
