// SPDX-License-Identifier: MIT
#pragma once

#include "conformance/case.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace conformance {

/// True if a case pairs interleaved channels and returns halves, as DeepSeek in Hugging Face does.
inline bool takes_pairs_apart(const Case& c) {
  return c.parameter<std::string>("pairs", "")
             .rfind("input pairs (2i,2i+1); the output holds all first components", 0) == 0;
}

/// True if interleaved channels form a pair, by the parameter "pairs" of the case, else by its
/// feature, else by the statement of its origin.
inline bool is_interleaved(const Case& c) {
  const auto pairs = c.parameter<std::string>("pairs", c.parameter<std::string>("rope_pairs", ""));
  const auto begin = [&pairs](const char* with) { return pairs.rfind(with, 0) == 0; };
  if (begin("interleaved") || begin("(2i, 2i+1)")) return true;
  if (begin("halves") || begin("(i, i+") || takes_pairs_apart(c)) return false;
  if (!pairs.empty()) throw NotSupported("pairs: " + pairs);

  if (c.is_about("half")) return false;
  if (c.is_about("interleaved") || c.is_about("complex")) return true;

  const auto provenance = c.description().value("provenance", Json::object());
  const auto origin = provenance.value("origin", "");
  if (origin.find("rotate-half") != std::string::npos) return false;
  if (origin.find("interleaved") != std::string::npos) return true;
  throw NotSupported("it does not say which channels form a pair");
}

/// Calls f with the pairing of the case.
template <class F>
void with_pairing(const Case& c, const F& f) {
  if (is_interleaved(c)) {
    f(posenc::Interleaved{});
  } else {
    f(posenc::HalfRotate{});
  }
}

/// Returns the positions first, first + 1, ... for integers and fractions.
inline posenc::Positions positions_from(double first, Index count) {
  if (first == std::rint(first)) {
    return posenc::Positions::range(static_cast<Index>(first), count);
  }
  std::vector<double> positions;
  for (Index s = 0; s < count; ++s) positions.push_back(first + static_cast<double>(s));
  return posenc::Positions::real(positions);
}

/// Returns the positions of the tokens of a case: its tensor "positions" or "position_ids", [S] or
/// [B, S], or else those from its parameter "offset" on.
inline posenc::Positions positions_of(Case& c, Index seq) {
  for (const char* name : {"positions", "position_ids"}) {
    if (!c.has(name)) continue;
    const auto& shape = c.shape(name);
    if (shape.size() > 2) throw NotSupported("positions on several axes");
    const Index batch = shape.size() == 2 ? shape[0] : 1;
    const auto positions = [&]<class T>(const Array<T>& values) {
      const std::span<const T> span(values.data.data(), static_cast<std::size_t>(values.size()));
      if constexpr (std::same_as<T, Index>) {
        return posenc::Positions::ids(batch, span);
      } else {
        return posenc::Positions::real(batch, span);
      }
    };
    return c.dtype(name) == "int64" ? positions(c.read<Index>(name))
                                    : positions(c.read<double>(name));
  }
  return positions_from(c.parameter<double>("offset", 0), seq);
}

/// Returns the positions of the tokens of an input, given its name and length.
using PositionsOf = std::function<posenc::Positions(const std::string&, Index)>;

/// Rotates every input (x, q, k, t) of the case and compares with its result, and compares the
/// gradients with the adjoint.
template <class T, class Pairing>
void check_rotations(Case& c, const posenc::Rope<Pairing>& rope,
                     const PositionsOf& positions_of_input, const std::string& layout) {
  for (const std::string input : {"x", "q", "k", "t"}) {
    if (!c.has(input)) continue;
    auto x = c.read<T>(input);
    if (takes_pairs_apart(c)) {
      posenc::permute_pairs<posenc::Interleaved, posenc::HalfRotate>(
          std::span(x.data.data(), static_cast<std::size_t>(x.size())),
          {.head_dim = x.extent(-1), .rotary_dim = rope.rotary_dim()});
    }
    Array<T> y(x.shape);
    const auto heads = heads_of(x, layout);
    const auto positions = positions_of_input(input, heads.seq);
    c.reaches(positions);
    rope.rotate_into(heads, heads_of(y, layout), positions);
    const auto output = c.first_expected({input + "_intended", input + "_rot", input + "_embed",
                                          input + "_out", "y_intended", "y", "out"});
    if (output) c.check(*output, y, Kind::Encoding);

    const std::string gradient = "grad_" + input;
    const std::string cotangent = c.has("cotangent") ? "cotangent" : "cotangent_" + input;
    if (c.expects(gradient)) {
      auto grad = c.read<T>(cotangent);
      rope.adjoint(heads_of(grad, layout), positions);
      c.check(gradient, grad, Kind::Encoding);
    }
  }
}

/// Compares inverse frequencies, relative to each: those computed in float to the 1e-6 that the
/// data's description states, those in double to 1e-12.
inline void check_inv_freq(Case& c, const std::string& name,
                           const posenc::Frequencies& frequencies) {
  Array<double> inv_freq({frequencies.pairs()});
  std::copy_n(frequencies.inv_freq().begin(), frequencies.pairs(), inv_freq.data.begin());
  const auto check = [&](const std::string& tensor, double relative) {
    if (c.expects(tensor)) c.check(tensor, inv_freq, Allowed(Tolerance{.relative = relative}));
  };
  check(name, 1e-6);
  check(name + "_f64", 1e-12);
}

/// Compares cos and sin, [S, columns] or [B, S, columns]. A table as wide as the rotary slice
/// repeats each pair's value at the channels of the pair.
template <class T, class Pairing>
void check_cos_sin(Case& c, const posenc::Rope<Pairing>& rope, const posenc::Positions& positions) {
  c.reaches(positions);
  const auto table = rope.template table<T>(positions);
  const auto check = [&](const std::string& name, posenc::EmbeddingsView<const T> values) {
    const auto tensor = c.first_expected({name});
    if (!tensor) return;
    Array<T> full(c.expected_shape(*tensor));
    const auto out = embeddings_of(full);
    if (out.batch != values.batch || out.seq != values.seq ||
        (out.dim != values.dim && out.dim != 2 * values.dim)) {
      throw Malformed(name + " does not fit the positions");
    }
    for (Index b = 0; b < out.batch; ++b) {
      for (Index s = 0; s < out.seq; ++s) {
        for (Index i = 0; i < values.dim; ++i) {
          if (out.dim == values.dim) {
            out.row(b, s)[i] = values.row(b, s)[i];
          } else {
            out.row(b, s)[Pairing::first(i, values.dim)] = values.row(b, s)[i];
            out.row(b, s)[Pairing::second(i, values.dim)] = values.row(b, s)[i];
          }
        }
      }
    }
    c.check(name, full, Kind::Encoding);
  };
  check("cos", table.cos());
  check("sin", table.sin());
}

}  // namespace conformance
