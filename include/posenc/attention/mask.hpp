// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/options.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <limits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Extents of one attention call.
struct AttentionShape {
  Index batch, heads, queries, keys;
};

/// A mask read at (b, h, i, j), with axes of extent 1 broadcast; an absent one reads as the given
/// value everywhere.
template <class T>
class BroadcastMask {
 public:
  BroadcastMask(const char* function, const char* name, ScoresView<const T> mask,
                const AttentionShape& shape, T absent)
      : mask_(mask), absent_(absent) {
    if (mask_.data == nullptr) return;
    check(function, name, shape);
    if (mask_.batch == 1) mask_.batch_stride = 0;
    if (mask_.heads == 1) mask_.head_stride = 0;
    if (mask_.queries == 1) mask_.query_stride = 0;
    if (mask_.keys == 1) mask_.key_stride = 0;
  }

  T operator()(Index b, Index h, Index i, Index j) const noexcept {
    return mask_.data == nullptr ? absent_ : mask_(b, h, i, j);
  }

 private:
  void check(const char* function, const char* name, const AttentionShape& shape) const {
    const auto fits = [](Index extent, Index full) { return extent == full || extent == 1; };
    if (!fits(mask_.batch, shape.batch) || !fits(mask_.heads, shape.heads) ||
        !fits(mask_.queries, shape.queries) || !fits(mask_.keys, shape.keys)) {
      fail<ShapeError>(function, name, " ", mask_.extents(), " must broadcast to [", shape.batch,
                       ", ", shape.heads, ", ", shape.queries, ", ", shape.keys, "]");
    }
  }

  ScoresView<const T> mask_;
  T absent_;
};

/// Which keys each query sees, and at which positions they stand.
template <Scalar T>
class Visibility {
 public:
  using Real = Compute<T>;

  Visibility(const char* function, const AttentionOptions<T>& options, const AttentionShape& shape)
      : shape_(shape),
        options_(options),
        keep_(function, "keep", options.keep, shape, true),
        masked_(function, "masked", options.masked, shape, false),
        additive_(function, "additive", options.additive, shape, Real{0}) {
    check_lengths(function);
    check_given(function, "query_positions", options.query_positions, shape.queries);
    check_given(function, "key_positions", options.key_positions, shape.keys);
    if (options.causal == Causal::ByPosition &&
        !(options.query_positions && options.key_positions)) {
      fail<ConfigError>(function, "Causal::ByPosition needs query_positions and key_positions");
    }
  }

  /// Whether query i sees key j. An additive -inf hides the key, so that nothing of it is read.
  bool operator()(Index b, Index h, Index i, Index j) const noexcept {
    return j < length(b) && causal(b, i, j) && keep_(b, h, i, j) && !masked_(b, h, i, j) &&
           additive_(b, h, i, j) != -std::numeric_limits<Real>::infinity();
  }

  Real additive(Index b, Index h, Index i, Index j) const noexcept { return additive_(b, h, i, j); }

  double query_position(Index b, Index i) const noexcept {
    return options_.query_positions ? options_.query_positions->at(b, i)
                                    : static_cast<double>(i + first_query(b));
  }

  double key_position(Index b, Index j) const noexcept {
    return options_.key_positions ? options_.key_positions->at(b, j) : static_cast<double>(j);
  }

  /// The queries' positions must be given, or implied by the alignment or by there being as many
  /// queries as keys.
  void require_query_positions(const char* function) const {
    if (options_.query_positions) return;
    if (options_.key_positions) {
      fail<ConfigError>(function, "a bias needs query_positions where key_positions are given");
    }
    if (options_.causal == Causal::No && shape_.queries != shape_.keys) {
      fail<ConfigError>(function, "a bias needs query_positions where ", shape_.queries,
                        " queries meet ", shape_.keys, " keys without a causal alignment");
    }
  }

 private:
  Index length(Index b) const noexcept {
    return options_.key_lengths.empty() ? shape_.keys
                                        : options_.key_lengths[static_cast<std::size_t>(b)];
  }

  /// The key that stands where query 0 does.
  Index first_query(Index b) const noexcept {
    return options_.causal == Causal::BottomRight ? length(b) - shape_.queries : 0;
  }

  bool causal(Index b, Index i, Index j) const noexcept {
    switch (options_.causal) {
      case Causal::TopLeft:
      case Causal::BottomRight:
        return j <= i + first_query(b);
      case Causal::ByPosition:
        return key_position(b, j) <= query_position(b, i);
      case Causal::No:
        break;
    }
    return true;
  }

  void check_lengths(const char* function) const {
    const auto& lengths = options_.key_lengths;
    if (!lengths.empty() && static_cast<Index>(lengths.size()) != shape_.batch) {
      fail<ShapeError>(function, "key_lengths must have one entry for each of the ", shape_.batch,
                       " batch rows but has ", lengths.size());
    }
    for (const Index n : lengths) {
      if (n < 0 || n > shape_.keys) {
        fail<ShapeError>(function, "key_lengths must lie between 0 and the ", shape_.keys,
                         " keys but one is ", n);
      }
    }
  }

  void check_given(const char* function, const char* name,
                   const std::optional<Positions>& positions, Index count) const {
    if (!positions) return;
    check_axes(function, *positions, 1);
    if (positions->count() != count ||
        (positions->batch() != 1 && positions->batch() != shape_.batch)) {
      fail<ShapeError>(function, name, " [", positions->batch(), ", ", positions->count(),
                       "] must be [1 or ", shape_.batch, ", ", count, "]");
    }
  }

  AttentionShape shape_;
  const AttentionOptions<T>& options_;
  BroadcastMask<bool> keep_, masked_;
  BroadcastMask<Real> additive_;
};

}  // namespace detail
POSENC_END
