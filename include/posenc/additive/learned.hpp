// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/additive/detail/rows.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cmath>
#include <concepts>
#include <optional>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Settings of Learned.
struct LearnedConfig {
  Index row_offset = 0;  ///< the row that position 0 reads; OPT: 2, RoBERTa: padding_row + 1 = 2
  std::optional<Index> padding_row = std::nullopt;  ///< the row that gets no gradient; RoBERTa: 1
};

static_assert(std::is_trivially_copyable_v<LearnedConfig>);

POSENC_STABLE_END

POSENC_BEGIN

/// Learned absolute positions (BERT, GPT-2, OPT, ViT): X += W[position + row_offset].
///
/// A view of the user's table, which must outlive it. Every call reads the current contents of the
/// table.
/// Tables often have more rows than there are positions, because the first rows are reserved:
///   OPT            2050 rows for 2048 positions, row_offset 2
///   RoBERTa        514 rows for 512 positions, row_offset 2, padding_row 1
///   BERT, GPT-2    no reserved rows
/// OPT and RoBERTa give masked tokens row 1, as Positions::from_padding_mask(keep, -1) does.
///   Shapes: table [rows, D], x [B, S, D]; positions [B or 1, S], integers on one axis
///   Types:  float, double, half, bfloat16; arithmetic in float (double for double), rounded once
///   Throws: ConfigError, ShapeError from the constructor. ShapeError; PositionError for a position
///           that is not an integer or whose row is not in the table. Nothing is written if a call
///           throws
///   Device: the threads of the device share the tokens, in add_gradient() the channels; results
///           are bit-identical
///   Cost:   one pass over x. No allocation
template <class T>
class Learned {
  static_assert(detail::CheckScalar<T>::value);

 public:
  /// Constructs the encoding from a view of the table.
  ///   Throws: ShapeError if the view is not valid; ConfigError if row_offset exceeds 2^53 or
  ///           padding_row is not a row of the table
  explicit Learned(MatrixView<const T> table, const LearnedConfig& config = {})
      : table_(table), config_(config) {
    detail::check_extents("Learned", "table", table);
    constexpr Index limit = Index{1} << 53;
    if (config.row_offset < -limit || config.row_offset > limit) {
      detail::fail<ConfigError>("Learned", "row_offset must lie within 2^53 but is ",
                                config.row_offset);
    }
    if (config.padding_row && (*config.padding_row < 0 || *config.padding_row >= table.rows)) {
      detail::fail<ConfigError>("Learned", "padding_row must be one of the table's ", table.rows,
                                " rows but is ", *config.padding_row);
    }
  }

  /// Adds W[position + row_offset] to x. The padding row is added like any other, as torch does.
  template <Device D = detail::CallingThread>
  void add_to(EmbeddingsView<T> x, const Positions& positions, const D& device = {}) const {
    check("Learned::add_to", x, positions);
    const auto table_row = [&](Index b, Index s, Index) {
      return table_.row(row_of(positions.at(b, s)));
    };
    detail::for_all_token_rows(
        device, x, positions.batch() == 1, [&] { return table_row; },
        [&x](const auto& out, const T* row) { detail::store_rows<true>(out, row, x.dim); });
  }

  /// Rejects other element types at compile time, with a message that states the rule.
  template <class X>
  requires(!std::same_as<X, T>) void add_to(EmbeddingsView<X>, const Positions&) const {
    static_assert(!std::is_const_v<X>,
                  "posenc: this tensor is written to, so it must not be const");
    static_assert(std::is_const_v<X>,
                  "posenc::Learned: x must have the type of the table's elements");
  }
  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void add_to(detail::RefusedCall<detail::AdditiveRule>, ...) const;

  /// Adds the gradient of the table: grad_table[position + row_offset] += grad. Tokens are added in
  /// the order of b, then s, so that equal input gives equal bits. The padding row gets no
  /// gradient. Other contents of grad_table are kept.
  ///   Shapes: grad [B, S, D], the gradient of the output; grad_table [rows, D]
  ///   Types:  sums are rounded to grad_table's type at every token. For 16-bit tables use a float
  ///           gradient, because 16-bit sums stop growing
  template <detail::Writable Gradient, Device D = detail::CallingThread>
  void add_gradient(EmbeddingsView<const T> grad, const Positions& positions,
                    MatrixView<Gradient> grad_table, const D& device = {}) const {
    constexpr auto function = "Learned::add_gradient";
    detail::check_extents(function, "grad_table", grad_table);
    if (grad_table.extents() != table_.extents()) {
      detail::fail<ShapeError>(function, "grad_table must have the table's shape ",
                               table_.extents(), " but is ", grad_table.extents());
    }
    detail::check_output(function, "grad_table", grad_table);
    check(function, grad, positions);
    if (grad.empty()) return;
    const double tokens = static_cast<double>(grad.batch) * static_cast<double>(grad.seq);
    detail::parallel_for_columns(device, grad.dim, tokens * (sizeof(T) + 2 * sizeof(Gradient)),
                                 tokens / 2, [&](Index first, Index count) {
                                   for (Index b = 0; b < grad.batch; ++b) {
                                     for (Index s = 0; s < grad.seq; ++s) {
                                       const Index row = row_of(positions.at(b, s));
                                       if (config_.padding_row == row) continue;
                                       detail::accumulate(grad_table.row(row) + first,
                                                          grad.row(b, s) + first, count);
                                     }
                                   }
                                 });
  }

  /// Returns the view of the table, [rows, D].
  MatrixView<const T> table() const noexcept { return table_; }
  /// Returns the settings.
  const LearnedConfig& config() const noexcept { return config_; }
  /// Returns D, the width of the table.
  Index model_dim() const noexcept { return table_.cols; }

 private:
  Index row_of(double position) const noexcept {
    return static_cast<Index>(position) + config_.row_offset;
  }

  template <class X>
  void check(const char* function, const X& x, const Positions& positions) const {
    detail::check_embeddings(function, x, table_.cols, positions);
    detail::check_integral(function, positions);
    detail::for_extreme_positions(positions, [&](double position) {
      // A real position may exceed the range of Index.
      if (!(std::abs(position) < 0x1p62)) {
        detail::fail<PositionError>(function, "position ", position,
                                    " reads no row, because the table has ", table_.rows, " rows");
      }
      const Index row = row_of(position);
      if (row < 0 || row >= table_.rows) {
        detail::fail<PositionError>(function, "position ", position, " reads row ", row,
                                    " (row_offset ", config_.row_offset, "), but the table has ",
                                    table_.rows, " rows");
      }
    });
  }

  MatrixView<const T> table_;
  LearnedConfig config_;
};

/// Deduces T from a view of a table, const or not.
template <class T>
Learned(MatrixView<T>, const LearnedConfig& = {}) -> Learned<std::remove_const_t<T>>;

POSENC_END
