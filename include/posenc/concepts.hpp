// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <concepts>
#include <span>

// Position enters attention in three places. Each has one concept, one object that does nothing,
// and laws that every model obeys; tests/laws runs them over all models, and a user's own type can
// be put through the same tests.
POSENC_BEGIN

/// (1) X += P[positions], before the projections.
///   Laws: the increment does not depend on X; equal positions get equal increments; the adjoint
///         with respect to X is the identity, so backward needs no call.
template <class E, class T>
concept AdditiveEncoding = Scalar<T> &&
    requires(const E& encoding, EmbeddingsView<T> x, const Positions& positions) {
  encoding.add_to(x, positions);
};

/// (2) q, k <- R(position) q, k, after the projections, in place.
///   Laws: linear in x; the score of a rotated query and a rotated key depends on the difference of
///         their positions alone; channels outside the rotary slice keep their bits; one token's
///         result does not depend on its neighbours.
template <class R, class T>
concept RotaryEncoding = Scalar<T> &&
    requires(const R& rotary, HeadsView<T> x, const Positions& positions) {
  rotary.rotate_queries(x, positions);
  rotary.rotate_keys(x, positions);
  { rotary.softmax_scale_multiplier() } -> std::convertible_to<double>;
};

/// (2) with its backward pass, which training needs and inference does not.
///   Laws: the adjoint is the transpose, <rotate(x), y> == <x, adjoint(y)>
template <class R, class T>
concept DifferentiableRotary = RotaryEncoding<R, T> &&
    requires(const R& rotary, HeadsView<T> grad, const Positions& positions) {
  rotary.adjoint_queries(grad, positions);
  rotary.adjoint_keys(grad, positions);
};

/// (3) S += B(head, query positions, key positions), after scaling and before the mask, a tile of
/// scores at a time. Tiles are float or double, [queries, keys]. A bias that is made for a number
/// of heads says so by heads(); attention then refuses another number.
///   Laws: the increment does not depend on S; it depends on head and positions alone, so that any
///         cut into tiles gives the same scores; add() does not throw where heads() agree, for
///         it is called on a device's threads, in the midst of the work.
template <class B, class T>
concept ScoreBias = Scalar<T> &&
    requires(const B& bias, Index head, std::span<const double> query_positions,
             std::span<const double> key_positions, MatrixView<Compute<T>> tile) {
  bias.add(head, query_positions, key_positions, tile);
};

/// (3) that is a function of head and query - key. It can write its values for a row of distances, which
/// attention asks for once for all queries that go through it together. Optional: add() serves without.
/// bias.write_values(head, farthest, values), values a std::span<Compute<T>>, writes to values[u] what the
/// distance farthest - u gets. Distances are whole numbers within 2^53, of either sign, and some belong to no
/// score. The bias names itself by `using OfDistances = <its type>`: a type derived from it, whose add() may be
/// another, is then no DistanceBias.
///   Laws: where positions are whole numbers, add() adds these values, bit by bit; write_values() does not throw
///         where heads() agree
template <class B, class T>
concept DistanceBias = ScoreBias<B, T> && std::same_as<typename B::OfDistances, B> &&
    requires(const B& bias, Index head, double farthest, std::span<Compute<T>> values) {
  bias.write_values(head, farthest, values);
};

/// The tokens whose scores are a tile of one head: rows are queries first_query, first_query + 1, ..., columns
/// keys first_key, first_key + 1, ... of one sequence.
struct TokenTile {
  Index batch = 0;        ///< batch row of q
  Index sequence = 0;     ///< the batch row, or, of packed sequences, the sequence's number
  Index head = 0;         ///< of q
  Index first_query = 0;  ///< in the batch row of q
  Index first_place = 0;  ///< the key at which that query stands, counted as keys are
  Index first_key = 0;    ///< counted from the sequence's first key
  std::span<const double> query_positions = {}, key_positions = {};
};

/// The queries and keys of one sequence in a call of attention().
struct TokenSpan {
  Index batch = 0, sequence = 0, heads = 0;
  Index first_query = 0, queries = 0;
  Index first_place = 0;  ///< where has_places
  bool has_places =
      false;  ///< whether the call says at which keys queries stand; ByPosition does not
  Index first_key = 0, end_key = 0;
};

/// (3) S += B(query row, head, key), for what depends on tokens and not on positions alone: on a query's own
/// channels, on gates of the keys. In the place of a ScoreBias, under the same laws, but that it may
/// depend on the tokens that it is told. check(), where there is one, is called for each sequence before
/// anything is written, and is where a bias that has nothing for these tokens throws; add() must not.
/// CoPE (arXiv 2405.18719) is none: its positions are sums of sigmoids of the query's scores with all
/// keys from the one at hand to the query, which no tile knows.
template <class B, class T>
concept TokenBias = Scalar<T> &&
    requires(const B& bias, const TokenTile& tokens, MatrixView<Compute<T>> tile) {
  bias.add(tokens, tile);
};

/// (3) with parameters that are learned: add_gradient() adds theirs, for the gradient of a tile of
/// scores of one head, to `gradient`, which has their shape. A bias that is trained has zero_gradient()
/// besides: zeros that own their memory, to which `+=` adds others of the type, or a std::vector<double>.
///   Laws: it is the derivative of what add() adds; over tiles and heads it sums up
template <class B, class T, class Gradient>
concept LearnedScoreBias = ScoreBias<B, T> &&
    requires(const B& bias, Index head, std::span<const double> query_positions,
             std::span<const double> key_positions, MatrixView<const Compute<T>> grad,
             Gradient& gradient) {
  bias.add_gradient(head, query_positions, key_positions, grad, gradient);
};

/// The same of a TokenBias. A gradient has a number for each token, so that threads share one: a call reads
/// and writes what belongs to its own head, and there to the queries and keys of its tile alone, and those of
/// queries apart from those of keys, for tiles of other heads, and those with other queries and other keys,
/// come on other threads at that time.
///   Laws: those of LearnedScoreBias
template <class B, class T, class Gradient>
concept LearnedTokenBias = TokenBias<B, T> &&
    requires(const B& bias, const TokenTile& tokens, MatrixView<const Compute<T>> grad,
             Gradient& gradient) {
  bias.add_gradient(tokens, grad, gradient);
};

/// Additive encoding that adds nothing.
struct NoEncoding {
  template <class T>
  void add_to(EmbeddingsView<T>, const Positions&) const noexcept {}
};

/// Rotary encoding that rotates nothing. With NoBias this is attention without positions (NoPE).
struct NoRotation {
  template <class T>
  void rotate_queries(HeadsView<T>, const Positions&) const noexcept {}
  template <class T>
  void rotate_keys(HeadsView<T>, const Positions&) const noexcept {}
  template <class T>
  void adjoint_queries(HeadsView<T>, const Positions&) const noexcept {}
  template <class T>
  void adjoint_keys(HeadsView<T>, const Positions&) const noexcept {}
  constexpr double softmax_scale_multiplier() const noexcept { return 1; }
};

/// Score bias that adds nothing.
struct NoBias {
  template <class T>
  void add(Index, std::span<const double>, std::span<const double>, MatrixView<T>) const noexcept {}
};

POSENC_END
