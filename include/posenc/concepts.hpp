// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <span>

// Position enters attention at three points. Each point has one concept, one type that does
// nothing, and laws that every model of the concept obeys. tests/laws runs the laws over all
// models, and can run them over a user's type as well.
POSENC_BEGIN

/// (1) Additive encoding: X += P[positions], before the projections.
///   Laws: the increment does not depend on X; equal positions get equal increments; the adjoint
///         with respect to X is the identity, so backward needs no call
template <class E, class T>
concept AdditiveEncoding = Scalar<T> &&
    requires(const E& encoding, EmbeddingsView<T> x, const Positions& positions) {
  encoding.add_to(x, positions);
};

/// (2) Rotary encoding: q, k <- R(position) q, k, in place, after the projections.
///   Laws: linear in x; the score of a rotated query and a rotated key depends only on the
///         difference of their positions; channels outside the rotary slice keep their bits; a
///         token's result does not depend on its neighbours
template <class R, class T>
concept RotaryEncoding = Scalar<T> &&
    requires(const R& rotary, HeadsView<T> x, const Positions& positions) {
  rotary.rotate_queries(x, positions);
  rotary.rotate_keys(x, positions);
  { rotary.softmax_scale_multiplier() } -> std::convertible_to<double>;
};

/// (2) Rotary encoding with a backward pass. Training needs it; inference does not.
///   Laws: the adjoint is the transpose, <rotate(x), y> == <x, adjoint(y)>
template <class R, class T>
concept DifferentiableRotary = RotaryEncoding<R, T> &&
    requires(const R& rotary, HeadsView<T> grad, const Positions& positions) {
  rotary.adjoint_queries(grad, positions);
  rotary.adjoint_keys(grad, positions);
};

/// (3) Score bias: S += B(head, query positions, key positions), after scaling and before the mask.
/// It is added to one tile of scores at a time. Tiles are float or double, [queries, keys]. A bias
/// for a fixed number of heads returns it from heads(); attention then rejects any other number.
///   Shapes: query_positions [Sq], key_positions [Sk], tile [Sq, Sk]
///   Throws: models of posenc throw ShapeError for other shapes and heads
///   Laws: the increment does not depend on S; it depends only on head and positions, so any cut
///         into tiles gives the same scores; add() does not throw if heads() agrees, because it
///         runs on a device's threads while outputs are being written
template <class B, class T>
concept ScoreBias = Scalar<T> &&
    requires(const B& bias, Index head, std::span<const double> query_positions,
             std::span<const double> key_positions, const MatrixView<Compute<T>>& tile) {
  bias.add(head, query_positions, key_positions, tile);
};

/// (3) Score bias that depends on the head and on query - key only. It can write its values for a
/// row of distances. Attention calls write_values() once for all queries that it processes
/// together. The concept is optional: a bias without it works through add().
/// write_values(head, farthest, values) takes a std::span<Compute<T>> and writes the value for the
/// distance farthest - u to values[u]. Distances are integers of either sign within 2^53. Some of
/// them belong to no score.
/// The bias must declare `using DistanceBiasSelf = <its own type>`. A derived class may replace
/// add(), so the inherited declaration does not make it a DistanceBias.
///   Laws: for integer positions add() adds exactly these values, bit by bit; write_values() does
///         not throw if heads() agrees
template <class B, class T>
concept DistanceBias = ScoreBias<B, T> && std::same_as<typename B::DistanceBiasSelf, B> &&
    requires(const B& bias, Index head, double farthest, std::span<Compute<T>> values) {
  bias.write_values(head, farthest, values);
};

/// Tokens of one tile of scores of one head. Rows are queries first_query, first_query + 1, ...;
/// columns are keys first_key, first_key + 1, ... of one sequence.
struct TokenTile {
  Index batch = 0;        ///< batch row of q
  Index sequence = 0;     ///< batch row, or the number of a packed sequence
  Index head = 0;         ///< query head
  Index first_query = 0;  ///< first query, counted in the batch row of q
  Index aligned_key = 0;  ///< index of the key that is aligned with the first query
  Index first_key = 0;    ///< first key, counted from the sequence's first key
  std::span<const double> query_positions = {},  ///< positions of the tile's queries, row by row
      key_positions = {};                        ///< positions of its keys, column by column
};

/// Queries and keys of one sequence in a call of attention().
struct TokenSpan {
  Index batch = 0,               ///< batch row of q
      sequence = 0,              ///< batch row, or the number of a packed sequence
      heads = 0;                 ///< number of query heads
  Index first_query = 0,         ///< first query, counted in the batch row of q
      queries = 0;               ///< number of queries
  Index aligned_key = 0;         ///< valid if has_aligned_key
  bool has_aligned_key = false;  ///< true if queries have an aligned key; not for ByPosition
  Index first_key = 0,           ///< first key, counted from the sequence's first key
      end_key = 0;               ///< end of the keys, not included
};

/// (3) Score bias that depends on tokens, not on positions alone: S += B(query row, head, key).
/// Examples are biases of gates of the keys. It replaces a ScoreBias and obeys the same laws,
/// except that it may depend on the tokens in its argument. An optional check() is called for each
/// sequence before anything is written. A bias that has no data for these tokens throws there;
/// add() must not throw. CoPE (arXiv 2405.18719) is not a TokenBias. Its positions are sums of
/// sigmoids of the query's scores over all keys from the current one to the query, and a tile does
/// not contain them.
template <class B, class T>
concept TokenBias = Scalar<T> &&
    requires(const B& bias, const TokenTile& tokens, const MatrixView<Compute<T>>& tile) {
  bias.add(tokens, tile);
};

/// Queries of some heads of one sequence, whose scores a thread computes together.
template <class T>
struct QueryBiasBlock {
  HeadsView<const T> q = {};     ///< attention's queries
  Compute<T> scale = 1;          ///< factor of q k
  Index batch = 0;               ///< batch row of q
  Index first_query = 0;         ///< first query, counted in the batch row of q
  Index queries = 0;             ///< number of queries
  Index first_head = 0;          ///< first query head; all heads share a KV head
  Index heads = 0;               ///< number of query heads
  std::byte* scratch = nullptr;  ///< memory for scratch_bytes(), aligned to 64 bytes
};

/// Queries of one head of a block, and keys of one tile.
template <class T>
struct QueryBiasTile {
  const QueryBiasBlock<T>& block;          ///< block that the queries are part of
  TokenTile tokens = {};                   ///< queries and keys
  MatrixView<const Compute<T>> keys = {};  ///< [keys, D]; no data unless the bias has reads_keys

  /// Returns the channels of query i of the tile.
  const T* query(Index i) const noexcept {
    return block.q.row(tokens.batch, tokens.first_query + i, tokens.head);
  }
};

/// Gradients of the queries and keys of a tile, which a QueryBias adds to.
template <class T>
struct QueryBiasGradients {
  MatrixView<Compute<T>> queries = {},  ///< [queries, D]
      keys = {};                        ///< [keys, D]; no data if it is not requested
};

/// (3) Score bias that reads queries or keys: S += B(q, k, tokens), such as a RelativeBias. It
/// replaces a ScoreBias and obeys the same laws, except that it may depend on the tile in its
/// argument. The scores are [queries, keys] of the tile. A bias that declares
/// `static constexpr bool reads_keys = true` gets the keys as rows. Rows of keys that no query sees
/// may hold any numbers. Their scores are masked, and gradients of these are 0.
///   Optional: heads(); check(function, q), which throws before anything is written if the bias
///             does not fit q. For products that all tiles of a block need: scratch_bytes(block)
///             returns the size of a thread's memory for a block with the maximum of queries, and
///             begin(block) is called before the block's first tile
template <class B, class T>
concept QueryBias = Scalar<T> &&
    requires(const B& bias, const QueryBiasTile<T>& tile, const MatrixView<Compute<T>>& scores) {
  bias.add(tile, scores);
};

/// (3) Score bias with learned parameters. add_gradient() takes the gradient of a tile of scores of
/// one head and adds the gradient of the parameters to `gradient`, which has their shape. A trained
/// bias also has zero_gradient(). It returns zeros that own their memory: either a type with `+=`
/// for another of its kind, or a std::vector<double>. Models of posenc take a device last.
///   Shapes: grad [Sq, Sk]; gradient as from zero_gradient()
///   Device: queries are distributed over its threads
///   Bits:   independent of the device
///   Throws: models of posenc throw ShapeError for other shapes and heads
///   Laws: add_gradient() is the derivative of add(); it accumulates over tiles and heads
template <class B, class T, class Gradient>
concept LearnedScoreBias = ScoreBias<B, T> &&
    requires(const B& bias, Index head, std::span<const double> query_positions,
             std::span<const double> key_positions, MatrixView<const Compute<T>> grad,
             Gradient& gradient) {
  bias.add_gradient(head, query_positions, key_positions, grad, gradient);
};

/// (3) Token bias with learned parameters. All threads share one gradient object, which has a
/// number for each token. A call may access only entries of its own head, and only those of the
/// queries and keys of its tile. Entries of queries and of keys must be separate. Calls for other
/// heads, and for other queries and other keys, run concurrently.
///   Laws: those of LearnedScoreBias
template <class B, class T, class Gradient>
concept LearnedTokenBias = TokenBias<B, T> &&
    requires(const B& bias, const TokenTile& tokens, MatrixView<const Compute<T>> grad,
             Gradient& gradient) {
  bias.add_gradient(tokens, grad, gradient);
};

/// (3) Query bias with a backward pass. add_gradient() takes the gradient of a tile of scores. It
/// adds the gradients of the tile's queries and keys to `to`, and that of the parameters to
/// `gradient`: what zero_gradient() returns, or NoGradient if there are no parameters.
///   Optional: scratch_bytes(block, gradient) and begin(block, gradient), as for scores. With
///             end(block, gradient) as well, the bias keeps the sums of a block in this memory.
///             end() adds them to the caller's gradient, in the order of blocks. Then
///             check_gradient(function, gradient) throws before anything is written, and
///             write_zeros(gradient) is called instead if there are no scores
///   Laws: those of LearnedScoreBias
template <class B, class T, class Gradient>
concept DifferentiableQueryBias = QueryBias<B, T> &&
    requires(const B& bias, const QueryBiasTile<T>& tile, const MatrixView<const Compute<T>>& grad,
             const QueryBiasGradients<T>& to, Gradient& gradient) {
  bias.add_gradient(tile, grad, to, gradient);
};

/// Additive encoding that adds nothing.
struct NoEncoding {
  /// Leaves x unchanged.
  template <class T>
  void add_to(EmbeddingsView<T>, const Positions&) const noexcept {}
};

/// Rotary encoding that rotates nothing. With NoBias this is attention without positions (NoPE).
struct NoRotation {
  /// Leaves the queries unchanged.
  template <class T>
  void rotate_queries(HeadsView<T>, const Positions&) const noexcept {}
  /// Leaves the keys unchanged.
  template <class T>
  void rotate_keys(HeadsView<T>, const Positions&) const noexcept {}
  /// Leaves the gradient of the queries unchanged.
  template <class T>
  void adjoint_queries(HeadsView<T>, const Positions&) const noexcept {}
  /// Leaves the gradient of the keys unchanged.
  template <class T>
  void adjoint_keys(HeadsView<T>, const Positions&) const noexcept {}
  /// Returns 1: the softmax scale is unchanged.
  constexpr double softmax_scale_multiplier() const noexcept { return 1; }
};

/// Score bias that adds nothing.
struct NoBias {
  /// Leaves the scores unchanged.
  template <class T>
  void add(Index, std::span<const double>, std::span<const double>, MatrixView<T>) const noexcept {}
};

POSENC_END
