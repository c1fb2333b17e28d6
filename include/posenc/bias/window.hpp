// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/distances.hpp>
#include <posenc/bias/detail/gradient_sums.hpp>
#include <posenc/bias/detail/tile.hpp>
#include <posenc/bias/table_gradient.hpp>
#include <posenc/core/detail/move_reset_index.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

POSENC_STABLE_BEGIN

/// Window of tokens that attend to each other: Swin's, or the full image in BEiT.
struct WindowConfig {
  Index rows = 0;            ///< required: its height in tokens
  Index cols = 0;            ///< required: its width
  bool class_token = false;  ///< token 0 is a class token (BEiT)
};

static_assert(std::is_trivially_copyable_v<WindowConfig>);

POSENC_STABLE_END

POSENC_BEGIN

/// Row of a window's table that a query and a key share. Positions are token numbers: the window's
/// cells row by row, from 0 on, or from 1 on if token 0 is the class token. For cells at (y, x) the
/// row is
///     (y_query - y_key + rows - 1) (2 cols - 1) + (x_query - x_key + cols - 1).
/// After these n = (2 rows - 1) (2 cols - 1) rows there are three of the class token: n from it to
/// a cell, n + 1 from a cell to it, n + 2 from it to itself.
///   Throws: ConfigError
///   Source: arXiv 2103.14030; timm's layers/pos_embed_rel.py at aa4b585,
///           gen_relative_position_index
class WindowIndex {
 public:
  /// Constructs the index of a window.
  ///   Throws: ConfigError
  explicit WindowIndex(const WindowConfig& config) : config_(config) {
    constexpr Index limit = Index{1} << 20;
    if (config.rows < 1 || config.cols < 1 || config.rows > limit || config.cols > limit) {
      detail::fail<ConfigError>("WindowIndex", "rows and cols must be set and lie between 1 and ",
                                limit, ", but are ", config.rows, " and ", config.cols);
    }
  }

  /// Returns the settings.
  const WindowConfig& config() const noexcept { return config_; }
  /// Returns the number of tokens, including the class token.
  Index tokens() const noexcept { return config_.rows * config_.cols + class_tokens(); }
  /// Returns the number of table rows for pairs of cells.
  Index distances() const noexcept { return (2 * config_.rows - 1) * (2 * config_.cols - 1); }
  /// Returns the number of table rows.
  Index table_rows() const noexcept { return distances() + 3 * class_tokens(); }

  /// Returns the table's row, or `none` if one of the two is not a token of the window.
  Index row(double query, double key) const noexcept {
    return row_of(token_code(query), token_code(key));
  }
  /// The result of row() if a position is not a token of the window.
  static constexpr Index none = -1;

  /// Checks that all positions are tokens of the window.
  ///   Throws: PositionError
  void check_tokens(std::span<const double> positions) const {
    for (const double position : positions) {
      if (token_code(position) == not_in_window) {
        detail::fail<PositionError>("WindowIndex::check_tokens", "positions must be tokens of the ",
                                    "window, 0 .. ", tokens() - 1, ", but one is ", position);
      }
    }
  }

  /// Returns the code of a token, for loops over many pairs: row(q, k) is row_of(token_code(q),
  /// token_code(k)).
  Index token_code(double position) const noexcept {
    // Written so that NaN is outside, too.
    if (!(position >= 0 && position < static_cast<double>(tokens()))) return not_in_window;
    const auto token = static_cast<Index>(position);
    if (static_cast<double>(token) != position) return not_in_window;
    const Index cell = token - class_tokens();
    if (cell < 0) return class_token_code;
    return cell / config_.cols * (2 * config_.cols - 1) + cell % config_.cols;
  }
  /// Returns the table's row of two codes, or `none` if one of them is not of a token of the
  /// window.
  Index row_of(Index query, Index key) const noexcept {
    if (query >= 0 && key >= 0) return distances() / 2 + query - key;
    if (query == not_in_window || key == not_in_window) return none;
    if (key >= 0) return distances();
    return distances() + (query >= 0 ? 1 : 2);
  }

 private:
  static constexpr Index not_in_window = -1, class_token_code = -2;

  Index class_tokens() const noexcept { return config_.class_token ? 1 : 0; }

  WindowConfig config_;
};

/// Learned table of relative positions in a window (Swin, BEiT): table[row, head] is added to each
/// score, with the row of WindowIndex. A model of ScoreBias.
///
/// Copies the table, head by head. Every layer has its own table; BEiT's may be shared. Positions
/// are token numbers, so with one window per batch row the default positions are right. Nothing is
/// added if the query or the key is not a token of the window (position -1, for example), as timm
/// does for prefix tokens beside Swin-V2's network. No known table has more than one class token.
/// Swin's shifted windows additionally mask regions by an `additive` of -100. LogCpb computes
/// Swin-V2's table, and window_table_of_maxvit() converts MaxViT's. resize_grid() returns the table
/// of another window.
///   Shapes:   table [WindowIndex::table_rows(), H], as relative_position_bias_table in checkpoints
///   Accuracy: the table's value, and the rounding of the sum
///   Cost:     a copy and an addition per score if neighbouring keys are neighbouring tokens,
///             otherwise a look-up
///   Source:   as WindowIndex; BEiT: arXiv 2106.08254
template <class T>
class WindowBias {
  static_assert(detail::CheckScalar<T>::value);

 public:
  /// Copies the table.
  ///   Throws: ConfigError; ShapeError if the table has another number of rows; std::bad_alloc
  WindowBias(MatrixView<const T> table, const WindowConfig& config)
      : index_(config), heads_(table.cols) {
    detail::check_extents("WindowBias", "table", table);
    if (table.rows != index_.table_rows()) {
      detail::fail<ShapeError>("WindowBias", "the table of a window of ", config.rows, " by ",
                               config.cols, config.class_token ? " and a class token" : "",
                               " must have ", index_.table_rows(), " rows but is ",
                               table.extents());
    }
    values_.reserve(static_cast<std::size_t>(table.rows * table.cols + detail::distance_padding));
    const Index cells = index_.distances();
    for (Index head = 0; head < table.cols; ++head) {
      for (Index row = 0; row < table.rows; ++row) {
        const Index from = row < cells ? cells - 1 - row : row;
        values_.push_back(static_cast<Compute<T>>(table.row(from)[head]));
      }
    }
    values_.resize(values_.size() + static_cast<std::size_t>(detail::distance_padding));
  }

  /// Returns the number of heads H.
  Index heads() const noexcept { return heads_; }
  /// Returns the index, which maps a query and a key to a row of the table.
  const WindowIndex& index() const noexcept { return index_; }

  /// Adds the bias of one head: tile(i, j) += table[index().row(query i, key j), head]. Positions
  /// are not checked to be tokens; index().check_tokens() does that.
  template <detail::WritableTile Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, MatrixView<Real> tile) const {
    detail::check_tile("WindowBias::add", head, heads(), query_positions, key_positions, tile);
    if (tile.empty()) return;
    constexpr Index max_keys = 256;
    RowSpan spans[max_keys];
    Real values[max_keys + detail::distance_padding];  // spans are written in full packs
    for (Index j = 0; j < tile.cols; j += max_keys) {
      const Index n = (std::min)(max_keys, tile.cols - j);
      const auto block =
          key_positions.subspan(static_cast<std::size_t>(j), static_cast<std::size_t>(n));
      const Index count = find_row_spans(block, spans);
      for (Index i = 0; i < tile.rows; ++i) {
        const Index query = index_.token_code(query_positions[static_cast<std::size_t>(i)]);
        Index first = 0;
        for (Index r = 0; r < count; ++r) {
          fill_row_span(head, query, spans[r], values + first);
          first += spans[r].count;
        }
        detail::add_values(values, tile.row(i) + j, n);
      }
    }
  }

  /// Adds the gradient of the table, for the gradient of the scores of one head:
  /// grad_table[index().row(query i, key j), head] += the sum of grad(i, j).
  ///   Types:  sums of a call are double, and are rounded once when added to the table
  ///   Shapes: grad [Sq, Sk]; grad_table as the table: a MatrixView, or a TableGradient, see
  ///           zero_gradient()
  ///   Throws: ShapeError; std::bad_alloc if the table has more than 1024 rows. On the threads of
  ///           attention_backward() a std::bad_alloc ends the program
  template <std::floating_point Real, detail::GradientOfTable Gradient,
            Device D = detail::CallingThread>
  void add_gradient(Index head, std::span<const double> query_positions,
                    std::span<const double> key_positions, MatrixView<const Real> grad,
                    Gradient&& grad_table, const D& device = {}) const {
    constexpr auto function = "WindowBias::add_gradient";
    detail::check_tile(function, head, heads(), query_positions, key_positions, grad);
    const auto table = detail::gradient_view(grad_table);
    detail::check_table_gradient(function, table, {index_.table_rows(), heads_});
    if (grad.empty()) return;
    detail::SmallVector<Index> keys(key_positions.size());
    std::transform(key_positions.begin(), key_positions.end(), keys.data(),
                   [this](double key) { return index_.token_code(key); });
    const auto add_rows = [&](double* sums, Index first, Index count) {
      for (Index i = first; i < first + count; ++i) {
        const Index query = index_.token_code(query_positions[static_cast<std::size_t>(i)]);
        for (Index j = 0; j < grad.cols; ++j) {
          const Index row = index_.row_of(query, keys[static_cast<std::size_t>(j)]);
          if (row != WindowIndex::none) sums[row] += static_cast<double>(grad.row(i)[j]);
        }
      }
    };
    const auto rows = static_cast<std::size_t>(index_.table_rows());
    const auto sums = detail::reduce_rows(device, grad.rows, Index{64}, rows,
                                          4.0 * static_cast<double>(grad.cols), add_rows);
    detail::add_sums(sums, head, table);
  }

  /// Returns zeros in the shape of the table.
  TableGradient zero_gradient() const { return TableGradient(index_.table_rows(), heads_); }

 private:
  /// Keys that are consecutive tokens of one row of the window, or one other key.
  struct RowSpan {
    Index count, code, tokens_left;  ///< tokens left in the window's row, from the first one on
  };

  /// Splits keys into spans and returns the number of spans.
  Index find_row_spans(std::span<const double> keys, RowSpan* spans) const noexcept {
    Index count = 0;
    const Index cols = index_.config().cols;
    double next = 0;  // the position after the last key's
    for (const double key : keys) {
      if (count > 0 && spans[count - 1].count < spans[count - 1].tokens_left && key == next) {
        ++spans[count - 1].count;
      } else {
        const Index code = index_.token_code(key);
        spans[count++] = {1, code, code < 0 ? 1 : cols - code % (2 * cols - 1)};
      }
      next = key + 1;
    }
    return count;
  }

  /// Writes the values to add to the scores of a span; -0 adds nothing.
  template <class Real>
  void fill_row_span(Index head, Index query, const RowSpan& span, Real* values) const noexcept {
    const Index row = index_.row_of(query, span.code), cells = index_.distances();
    const Compute<T>* const table = values_.data() + head * index_.table_rows();
    if (row >= 0 && row < cells) {
      const Compute<T>* const from = table + (cells - 1 - row);
      if constexpr (std::same_as<Real, Compute<T>>) {
        using P = Pack<Real, tier::Best>;
        for (Index u = 0; u < span.count; u += P::width) P::load(from + u).store(values + u);
      } else {
        for (Index u = 0; u < span.count; ++u) values[u] = static_cast<Real>(from[u]);
      }
    } else {
      const Real value = row == WindowIndex::none ? Real(-0.0) : static_cast<Real>(table[row]);
      for (Index u = 0; u < span.count; ++u) values[u] = value;
    }
  }

  WindowIndex index_;
  detail::MoveResetIndex heads_;
  /// [H, rows], plus padding that a pack may read beyond the end. Rows of cells are reversed, so
  /// that consecutive keys of a span read ascending addresses.
  std::vector<Compute<T>> values_;
};

/// Deduces T from a view of a table, const or not.
template <class T>
WindowBias(MatrixView<T>, const WindowConfig&) -> WindowBias<std::remove_const_t<T>>;

/// Converts a table of MaxViT's TensorFlow checkpoints, [H, 2 rows - 1, 2 cols - 1] by key - query,
/// to one of WindowBias. Both axes are reversed there, which reverses the order of the cells, and
/// heads come first.
///   Shapes:   maxvit [H, n], table [n, H], n = (2 rows - 1) (2 cols - 1)
///   Aliasing: none
///   Throws:   ShapeError
///   Source:   timm's layers/pos_embed_rel.py at aa4b585, RelPosBiasTf
template <detail::Writable T>
void window_table_of_maxvit(MatrixView<const std::type_identity_t<T>> maxvit, MatrixView<T> table) {
  constexpr auto function = "window_table_of_maxvit";
  detail::check_extents(function, "maxvit", maxvit);
  detail::check_extents(function, "table", table);
  if (maxvit.rows != table.cols || maxvit.cols != table.rows) {
    detail::fail<ShapeError>(function,
                             "maxvit [heads, cells] and table [cells, heads] must have the same "
                             "heads and cells but are ",
                             maxvit.extents(), " and ", table.extents());
  }
  detail::check_output(function, "table", table);
  if (maxvit.data == table.data && !table.empty()) {
    detail::fail<ShapeError>(function, "maxvit and table must not share memory; they are ",
                             maxvit.extents(), " and ", table.extents());
  }
  detail::check_overlap(function, maxvit, table);
  if (table.empty()) return;
  for (Index cell = 0; cell < table.rows; ++cell) {
    for (Index head = 0; head < table.cols; ++head) {
      table.row(cell)[head] = maxvit.row(head)[table.rows - 1 - cell];
    }
  }
}

POSENC_END
