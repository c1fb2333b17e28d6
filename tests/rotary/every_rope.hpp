// SPDX-License-Identifier: MIT
#pragma once

#include "support/heads.hpp"
#include <posenc/concepts.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/frequency_gradient.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>

#include <array>
#include <cstddef>
#include <vector>

// One list of calls for all ropes. A call that one rope lacks is a compile error.
namespace every_rope {

using posenc::Index;
using posenc::Positions;
using support::Heads;

constexpr Index batch = 2, seq = 37, heads = 3, dim = 44;

inline posenc::Frequencies frequencies(Index pairs, double factor = 1.25) {
  std::vector<double> w;
  for (Index i = 0; i < pairs; ++i) w.push_back(1.0 / static_cast<double>(1 + 3 * i));
  return posenc::Frequencies::from_inv_freq(w, factor);
}

/// Returns positions [1, seq] or [batch, seq] on `axes` axes.
inline Positions positions(Index axes, Index rows = 1) {
  std::vector<Positions> all;
  for (Index axis = 0; axis < axes; ++axis) {
    std::vector<double> p;
    for (Index i = 0; i < rows * seq; ++i) {
      p.push_back(static_cast<double>((i * (axis + 2) + 5 * axis) % 23));
    }
    all.push_back(Positions::real(rows, p));
  }
  return Positions::axes(all);
}

// The ropes under test.

template <class Pairing>
posenc::Rope<Pairing> plain() {
  return posenc::Rope<Pairing>(frequencies(20), 2);
}
template <class Pairing>
posenc::Rope<Pairing> on_axes() {
  return posenc::Rope<Pairing>(frequencies(20), 2, posenc::mrope_chunked({8, 6, 6}));
}
inline posenc::ChatGlmRope chatglm() { return posenc::ChatGlmRope(frequencies(10)); }
template <class Pairing>
posenc::MixedRope<Pairing> mixed() {
  std::vector<double> w;
  for (int i = 0; i < 2 * heads * 20; ++i) w.push_back(0.01 * static_cast<double>(i % 37));
  return posenc::MixedRope<Pairing>(
      w, {.axes = 2, .heads = heads, .rotary_dim = 40, .rotary_offset = 1});
}
template <class Pairing>
posenc::XPos<Pairing> xpos() {
  return posenc::XPos<Pairing>(frequencies(20), {.scale_base = 64, .centre = 7.5}, 3);
}

/// Returns the output of a call that rotates x in place.
template <class T, class Call>
Heads<T> result_of(const Heads<T>& x, const Call& call) {
  Heads<T> y = x;
  call(y.view());
  return y;
}

/// Runs the calls of every rotary encoding: queries and keys, forward and backward.
template <class T, class Rope, class Keep, class... Device>
void run_concept_calls(const Rope& rope, const Positions& p, const Heads<T>& x, const Keep& keep,
                       const Device&... device) {
  keep(result_of(x, [&](auto v) { rope.rotate_queries(v, p, device...); }));
  keep(result_of(x, [&](auto v) { rope.rotate_keys(v, p, device...); }));
  keep(result_of(x, [&](auto v) { rope.adjoint_queries(v, p, device...); }));
  keep(result_of(x, [&](auto v) { rope.adjoint_keys(v, p, device...); }));
}

/// Runs the calls of encodings that treat queries and keys alike.
template <class T, class Rope, class Keep, class... Device>
void run_shared_calls(const Rope& rope, const Positions& p, const Heads<T>& x, const Keep& keep,
                      const Device&... device) {
  run_concept_calls(rope, p, x, keep, device...);
  keep(result_of(x, [&](auto v) { rope.rotate(v, p, device...); }));
  keep(result_of(x, [&](auto v) { rope.adjoint(v, p, device...); }));
  keep(result_of(x, [&](auto v) { rope.inverse(v, p, device...); }));
  Heads<T> q = x, k = x, out = x;
  rope.rotate_all({q.view(), k.view()}, p, device...);
  keep(q);
  keep(k);
  rope.rotate_into(Heads<T>(x).view(), out.view(), p, device...);
  keep(out);
}

/// Runs the calls of a table, whose results are bit-identical to those of its rope.
template <class T, class Rope, class Keep, class... Device>
void run_table_calls(const Rope& rope, const Positions& p, const Heads<T>& x, const Keep& keep,
                     const Device&... device) {
  const auto table = rope.template table<posenc::Compute<T>>(p, device...);
  keep(result_of(x, [&](auto v) { table.rotate(v, device...); }));
  keep(result_of(x, [&](auto v) { table.adjoint(v, device...); }));
  keep(result_of(x, [&](auto v) { table.inverse(v, device...); }));
  Heads<T> q = x, k = x, out = x;
  table.rotate_all({q.view(), k.view()}, device...);
  keep(q);
  keep(k);
  table.rotate_into(Heads<T>(x).view(), out.view(), device...);
  keep(out);
}

/// Runs the shifts of keys, and the gradients of frequencies.
template <class T, class Rope, class Keep, class KeepNumbers, class... Device>
void run_function_calls(const Rope& rope, const Positions& p, const Heads<T>& x, const Keep& keep,
                        const KeepNumbers& keep_numbers, const Device&... device) {
  const auto deltas = positions(rope.axis_count());
  const std::vector<Index> one(static_cast<std::size_t>(rope.axis_count()), -5);
  keep(result_of(x, [&](auto v) { posenc::shift_keys(v, rope, deltas, device...); }));
  keep(result_of(
      x, [&](auto v) { posenc::shift_keys(v, rope, std::span<const Index>(one), device...); }));
  keep(result_of(x, [&](auto v) { posenc::rerotate(v, rope, p, rope, deltas, device...); }));
  std::vector<double> gradient(posenc::detail::exact_inv_freq(rope.frequencies()).size(), 0.5);
  Heads<T> y = x, grad = x;
  posenc::accumulate_frequency_gradient(rope, y.view(), grad.view(), p, gradient, device...);
  rope.rotate(grad.view(), p);
  posenc::accumulate_frequency_gradient(rope, y.view(), grad.view(), p, gradient, device...);
  keep_numbers(gradient);
}

/// Runs all calls of Rope.
template <class T, class Rope, class Keep, class KeepNumbers, class... Device>
void run_rope_calls(const Rope& rope, const Positions& p, const Heads<T>& x, const Keep& keep,
                    const KeepNumbers& keep_numbers, const Device&... device) {
  run_shared_calls(rope, p, x, keep, device...);
  run_table_calls(rope, p, x, keep, device...);
  run_function_calls(rope, p, x, keep, keep_numbers, device...);
}

/// The properties that Rope reports.
struct RopeProperties {
  posenc::Frequencies frequencies;
  Index rotary_dim, rotary_offset, axis_count;
  posenc::AnglePolicy policy;
  posenc::PairAxes axes;
  double scale, table_factor;
  std::array<Index, 4> table;
  std::array<Index, 3> cos, sin;

  bool operator==(const RopeProperties&) const = default;
};

template <class Rope>
RopeProperties rope_properties(const Rope& rope) {
  const auto table = rope.template table<double>(positions(rope.axis_count()));
  return {rope.frequencies(),
          rope.rotary_dim(),
          rope.rotary_offset(),
          rope.axis_count(),
          rope.angle_policy(),
          rope.axes(),
          rope.softmax_scale_multiplier(),
          table.attention_factor(),
          {table.batch(), table.seq(), table.rotary_dim(), table.rotary_offset()},
          table.cos().extents(),
          table.sin().extents()};
}

}  // namespace every_rope
