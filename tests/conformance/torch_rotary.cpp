// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/rotation.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace conformance {
namespace {

/// Returns (-x of the second half, x of the first): a quarter turn of every pair.
template <class T>
void check_rotate_half(Case& c) {
  const auto x = c.read<T>("x");
  Array<T> y(x.shape);
  const auto heads = heads_of(x);
  const Array<T> cos({heads.seq, heads.dim / 2});
  Array<T> sin = cos;
  sin.data.setOnes();
  posenc::RotationTable<posenc::HalfRotate, T>::from_cos_sin(embeddings_of(cos), embeddings_of(sin))
      .rotate_into(heads, heads_of(y));
  c.check("y", y, Kind::Encoding);
}

/// Checks one vector at several positions, [S, D].
template <class T, class Pairing>
void check_vector(Case& c, const posenc::Rope<Pairing>& rope, const posenc::Positions& positions) {
  const auto vector = c.required<std::vector<double>>("vector");
  Array<T> x({positions.count(), static_cast<Index>(vector.size())});
  for (Index i = 0; i < x.size(); ++i) {
    x.data[i] = static_cast<T>(vector[static_cast<std::size_t>(i) % vector.size()]);
  }
  rope.rotate(heads_of(x), positions);
  c.check("rotated", x, Kind::Encoding);
}

/// Checks cos and sin as complex numbers, [S, pairs, 2].
template <class T, class Pairing>
void check_complex(Case& c, const posenc::Rope<Pairing>& rope) {
  const auto& shape = c.expected_shape("freqs_cis");
  if (shape.size() != 3 || shape[1] != rope.rotary_dim() / 2 || shape[2] != 2) {
    throw Malformed("freqs_cis must be [S, dim / 2, 2]");
  }
  const auto positions = positions_of(c, shape[0]);
  c.reaches(positions);
  const auto table = rope.template table<T>(positions);
  Array<T> values(shape);
  for (Index s = 0; s < shape[0]; ++s) {
    for (Index i = 0; i < shape[1]; ++i) {
      values.data[2 * (s * shape[1] + i)] = table.cos().row(0, s)[i];
      values.data[2 * (s * shape[1] + i) + 1] = table.sin().row(0, s)[i];
    }
  }
  c.check("freqs_cis", values, Kind::Encoding);
}

/// Returns the width of the rotary slice, if the case states it, or else of the full head.
Index rotary_dim_of(const Case& c) {
  for (const char* name : {"rotary_dim", "dim"}) {
    if (const auto dim = c.parameter<Index>(name)) return *dim;
  }
  for (const char* name : {"x", "q", "k"}) {
    if (c.has(name) && !c.shape(name).empty()) return c.shape(name).back();
  }
  throw Malformed("there is neither a dimension nor a tensor to rotate");
}

}  // namespace

void run_torch_rotary(Case& c) {
  c.knows({"rotary", "interleaved", "half", "complex", "partial", "grad", "rotate", "d", "dim",
           "offset", "theta", "negative", "fractional", "scattered", "far", "positions"},
          {"dim", "head_dim", "rotary_dim", "base", "theta", "offset", "layout", "layout_x",
           "pairs", "max_seq_len", "max_position_embeddings", "table_grown", "vector"});
  if (c.is_about("rotate")) {
    in_both_precisions([&c]<class T>() { check_rotate_half<T>(c); });
    return;
  }
  const double base = c.parameter<double>("theta", c.parameter<double>("base", 10000));
  const auto layout = c.parameter<std::string>("layout", c.parameter<std::string>("layout_x", ""));
  with_pairing(c, [&]<class Pairing>(Pairing) {
    const posenc::Rope<Pairing> rope(
        posenc::Unscaled{.rotary_dim = rotary_dim_of(c), .base = base});
    check_inv_freq(c, "inv_freq", rope.frequencies());
    in_both_precisions([&]<class T>() {
      check_rotations<T>(
          c, rope, [&c](const std::string&, Index seq) { return positions_of(c, seq); }, layout);
      if (c.parameter<std::vector<double>>("vector")) {
        check_vector<T>(c, rope, positions_of(c, 0));
      }
      if (c.first_expected({"freqs_cis"})) check_complex<T>(c, rope);
      if (c.first_expected({"cos"})) {
        check_cos_sin<T>(c, rope, positions_of(c, c.expected_extent("cos", 0)));
      }
    });
  });
}

}  // namespace conformance
