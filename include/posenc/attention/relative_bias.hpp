// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/gradients.hpp>
#include <posenc/attention/relative_index.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

POSENC_BEGIN

/// Output views of attention_backward() for a RelativeBias<T>. Gradients of tables are accumulated;
/// the gradient of RelativeBias::queries is overwritten. A view without data is not computed.
template <Scalar T>
struct RelativeGradient {
  HeadsView<Compute<T>> table = {};      ///< [1, R, H or 1, W], as the table
  HeadsView<Compute<T>> key_table = {};  ///< [1, R, H or 1, D], as the table of keys
  HeadsView<T> queries = {};             ///< [B, Sq, H, W]
};

/// Bias that depends on the query, by products with a table of relative positions. A score of query
/// i and key j of head h gets
///   scale * (x_i . table[row(i, j), h] + k_j . key_table[row(i, j), h])
/// Either term may be omitted. It is passed to attention() instead of a ScoreBias, and enters at
/// the same stage: soft cap, temperature and masks treat it as a bias.
///
///   Shaw (arXiv 1803.02155, eq. 4)   table a [2k + 1, D], KeyMinusQuery, first -k, Nearest,
///                                    Scaled. The term of the values (eq. 3) is not supported
///   Music Transformer (1809.04281)   table E_r [L, H, D], KeyMinusQuery, first 1 - L, Nothing,
///                                    Scaled
///   Transformer-XL (1901.02860, 3.3) q + u as attention's q, q + v as queries (add_to_heads), the
///                                    table W_R R of the distances Sk - 1 .. 0, reversed, or
///                                    -(T - 1) .. T - 1 (Conformer), QueryMinusKey, first the
///                                    smallest, Refused, Scaled. R is Sinusoidal at those
///                                    positions, of the model's width
///   DeBERTa-v2 (2006.03654)          table pos_key_proj [2 span, H, D], key_table pos_query_proj,
///                                    index deberta_index(), Scaled;
///                                    options.softmax_scale_multiplier 1 / sqrt(3) with both
///                                    tables, 1 / sqrt(2) with one. As in Hugging Face's
///                                    deberta_v2/modeling_deberta_v2.py both have the index of
///                                    i - j, where the paper has that of j - i for the keys
///   Inkling                          queries r [B, S, H, 16], the table P transposed [E, 1, 16],
///                                    QueryMinusKey, first 0, Nothing, Unscaled; scale 1 / D
///                                    (Hugging Face inkling/modular_inkling.py @04fafa2)
///
///   Shapes:   table [1, R, H or 1, W], key_table [1, R, H or 1, D]; queries x [B, Sq, H, W]. If
///             queries are omitted, x is attention's q [B, Sq, H, D]
///   Throws:   attention() throws ShapeError, ConfigError, PositionError, before anything is
///             written
///   Accuracy: as for scores: a chain of W roundings, one of the scale, and that of the sum
///   Bits:     depend only on the query and its visible keys, not on blocks or threads
///   Cost:     W multiply-adds per query and row of the table that its block reads; for key_table D
///             per key, row and block. Each thread has scratch memory for the products of a block
///             with the columns that its queries span and two tiles of columns more
template <class T>
struct RelativeBias {
  static_assert(detail::CheckScalar<T>::value);

  HeadsView<const T> table = {};                     ///< multiplied with x, unless omitted
  RelativeIndex index = {};                          ///< row of each distance in both tables
  RelativeScale scale = RelativeScale::Unspecified;  ///< required
  HeadsView<const T> queries = {};                   ///< x; attention's q if omitted
  HeadsView<const T> key_table = {};                 ///< multiplied with the keys, unless omitted

  // Functions of a DifferentiableQueryBias. They take the blocks and tiles of attention alone,
  // whose types select the implementations in detail/relative_functions.hpp.

  /// Checks the bias, and that each visible distance has a row, for BeyondTable::Refused.
  ///   Throws: ShapeError, ConfigError, PositionError
  void check(const char* function, const auto& call) const {
    check_relative(function, *this, call);
  }
  /// Returns the size of a block's products in bytes.
  std::size_t scratch_bytes(const auto& block) const { return relative_bytes(block, *this); }
  /// Prepares the products of a block.
  void begin(const auto& block) const { begin_relative(block, *this); }
  /// Adds the bias to a tile of scores.
  template <std::derived_from<QueryBiasTile<T>> Tile>
  void add(const Tile& tile, const MatrixView<Compute<T>>& scores) const {
    add_relative(tile, scores);
  }

  /// Returns views without data, which the user sets.
  RelativeGradient<T> zero_gradient() const noexcept { return {}; }
  /// Checks the shapes of requested gradients.
  ///   Throws: ShapeError
  void check_gradient(const char* function, const RelativeGradient<T>& gradient) const {
    const auto check_like = [function](const char* name, const auto& of,
                                       const HeadsView<const T>& tensor) {
      if (of.data == nullptr) return;
      detail::check_extents(function, name, of);
      if (detail::is_omitted(tensor)) {
        detail::fail<ShapeError>(function, name, " ", of.extents(),
                                 " needs the tensor, which is omitted");
      }
      if (of.extents() != tensor.extents()) {
        detail::fail<ShapeError>(function, name, " ", of.extents(),
                                 " must have the shape of its tensor ", tensor.extents());
      }
      detail::check_output(function, name, of);
    };
    check_like("RelativeGradient::table", gradient.table, table);
    check_like("RelativeGradient::key_table", gradient.key_table, key_table);
    check_like("RelativeGradient::queries", gradient.queries, queries);
  }
  /// Writes the gradient of the queries of a call without scores.
  void write_zeros(const RelativeGradient<T>& gradient) const {
    detail::write_zeros(gradient.queries);
  }
  /// Returns the size of a block's gradients in bytes.
  std::size_t scratch_bytes(const auto& block, const RelativeGradient<T>& gradient) const {
    return relative_bytes(block, *this, gradient);
  }
  /// Sets a block's gradients to zero.
  void begin(const auto& block, const RelativeGradient<T>& gradient) const {
    begin_relative(block, *this, gradient);
  }
  /// Adds the gradients of a tile of scores.
  template <std::derived_from<QueryBiasTile<T>> Tile>
  void add_gradient(const Tile& tile, const MatrixView<const Compute<T>>& grad,
                    const QueryBiasGradients<T>& to, RelativeGradient<T>&) const {
    add_relative_gradient(tile, grad, to);
  }
  /// Adds a block's gradients to those of the tables, and writes those of the queries.
  void end(const auto& block, const RelativeGradient<T>& gradient) const {
    end_relative(block, gradient);
  }
};

/// Computes out <- x + bias for each head: u and v of Transformer-XL.
///   Shapes:   x, out [B, S, H, D]; bias [1, 1, H, D]
///   Aliasing: out may be x
///   Throws:   ShapeError, before anything is written
///   Accuracy: sum in Compute<T>, rounded once
template <Scalar T>
void add_to_heads(HeadsView<const std::type_identity_t<T>> x,
                  HeadsView<const std::type_identity_t<T>> bias, HeadsView<T> out) {
  constexpr auto function = "add_to_heads";
  detail::check_extents(function, "x", x);
  detail::check_extents(function, "bias", bias);
  detail::check_extents(function, "out", out);
  if (bias.batch != 1 || bias.seq != 1 || bias.heads != x.heads || bias.dim != x.dim) {
    detail::fail<ShapeError>(function, "bias ", bias.extents(), " must be [1, 1, ", x.heads, ", ",
                             x.dim, "]");
  }
  if (out.extents() != x.extents()) {
    detail::fail<ShapeError>(function, "out ", out.extents(), " must have the shape of x ",
                             x.extents());
  }
  detail::check_output(function, "out", out);
  if (out.empty()) return;
  for (Index b = 0; b < x.batch; ++b) {
    for (Index s = 0; s < x.seq; ++s) {
      for (Index h = 0; h < x.heads; ++h) {
        const T *from = x.row(b, s, h), *added = bias.row(0, 0, h);
        T* const to = out.row(b, s, h);
        for (Index d = 0; d < x.dim; ++d) {
          to[d] =
              static_cast<T>(static_cast<Compute<T>>(from[d]) + static_cast<Compute<T>>(added[d]));
        }
      }
    }
  }
}

/// Adds the gradient of add_to_heads()'s bias to `gradient`: the sum over all tokens of grad, the
/// gradient of its result. The gradient of x is grad itself.
///   Shapes:   grad [B, S, H, D]; gradient [1, 1, H, D]
///   Throws:   ShapeError, before anything is written
///   Accuracy: sums in double, each added once
template <Scalar T>
void add_heads_gradient(HeadsView<const T> grad, HeadsView<Compute<T>> gradient) {
  constexpr auto function = "add_heads_gradient";
  detail::check_extents(function, "grad", grad);
  detail::check_extents(function, "gradient", gradient);
  if (gradient.batch != 1 || gradient.seq != 1 || gradient.heads != grad.heads ||
      gradient.dim != grad.dim) {
    detail::fail<ShapeError>(function, "gradient ", gradient.extents(), " must be [1, 1, ",
                             grad.heads, ", ", grad.dim, "]");
  }
  detail::check_output(function, "gradient", gradient);
  if (grad.empty()) return;
  for (Index h = 0; h < grad.heads; ++h) {
    for (Index d = 0; d < grad.dim; ++d) {
      double sum = 0;
      for (Index b = 0; b < grad.batch; ++b) {
        for (Index s = 0; s < grad.seq; ++s) sum += static_cast<double>(grad.row(b, s, h)[d]);
      }
      gradient.row(0, 0, h)[d] += static_cast<Compute<T>>(sum);
    }
  }
}

POSENC_END

#include <posenc/attention/detail/relative_functions.hpp>
