// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/tensor/position_kind.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

POSENC_BEGIN

namespace detail {

/// Checks numbers of pairs from a model's file; the bound keeps invalid numbers from filling
/// memory.
inline void check_sections(const char* function, ListView<Index> sections) {
  for (const Index section : sections) {
    if (section < 0 || section > 65536) {
      fail<ConfigError>(function, "sections must lie between 0 and 65536 but are ", sections);
    }
  }
}

}  // namespace detail

/// A table that names the axis of Positions that rotates each pair of channels. It is the only
/// difference between plain rope and a rotary encoding on several axes. Immutable.
/// Models differ only in their frequencies, in this table and in the order of the axes.
/// interop/multimodal_axes.hpp and interop/vision_axes.hpp build the tables of published models.
/// Positions that are equal on all axes give plain rope, bit-identical, for any table.
///   Throws: ConfigError for an axis that does not exist
class PairAxes {
 public:
  /// Constructs the table of plain rope: one axis for any number of pairs.
  PairAxes() = default;

  /// Constructs a table in which pair i reads axis axis_of_pair[i] of axis_count. An axis that no
  /// pair reads is allowed.
  PairAxes(Index axis_count, std::vector<Index> axis_of_pair)
      : axis_count_(axis_count), axis_of_pair_(std::move(axis_of_pair)) {
    constexpr auto function = "PairAxes";
    if (axis_count < 1) {
      detail::fail<ConfigError>(function, "there must be at least one axis, not ", axis_count);
    }
    for (std::size_t i = 0; i < axis_of_pair_.size(); ++i) {
      const Index axis = axis_of_pair_[i];
      if (axis < 0 || axis >= axis_count) {
        detail::fail<ConfigError>(function, "pair ", i, " reads axis ", axis, " of ", axis_count);
      }
      const std::size_t next = i + 1;
      if (next == axis_of_pair_.size() || axis_of_pair_[next] != axis) {
        range_ends_.push_back(static_cast<Index>(next));
      }
    }
  }

  /// Returns groups of consecutive pairs: the first for axis 0, the next for axis 1, and so on.
  static PairAxes sections(ListView<Index> pairs_of_axis) {
    detail::check_sections("PairAxes::sections", pairs_of_axis);
    std::vector<Index> axis_of_pair;
    for (std::size_t axis = 0; axis < pairs_of_axis.size(); ++axis) {
      for (Index i = 0; i < pairs_of_axis[axis]; ++i) {
        axis_of_pair.push_back(static_cast<Index>(axis));
      }
    }
    return PairAxes(static_cast<Index>(pairs_of_axis.size()), std::move(axis_of_pair));
  }

  /// Returns a table with all pairs on one axis out of several.
  static PairAxes only(Index axis, Index axis_count, Index pairs) {
    detail::check_sections("PairAxes::only", ListView<Index>(&pairs, 1));
    return PairAxes(axis_count, std::vector<Index>(static_cast<std::size_t>(pairs), axis));
  }

  /// Returns this table, restricted to positions of one kind. A rope with it throws PositionError
  /// for positions of another kind.
  PairAxes with_kind(PositionKind kind) const {
    PairAxes axes = *this;
    axes.kind_ = kind;
    return axes;
  }
  /// Returns the kind of positions that is accepted; Unspecified accepts all kinds.
  PositionKind kind() const noexcept { return kind_; }

  /// Returns the number of axes that the positions must have.
  Index axis_count() const noexcept { return axis_count_; }
  /// Returns the number of pairs, or 0 for the table of plain rope, which fits any number.
  Index pairs() const noexcept { return static_cast<Index>(axis_of_pair_.size()); }
  /// True if this is the table of plain rope.
  bool plain() const noexcept { return axis_count_ == 1 && axis_of_pair_.empty(); }
  /// Returns the axis of a pair; `pair` is not checked.
  Index axis(Index pair) const noexcept {
    return axis_of_pair_.empty() ? 0 : axis_of_pair_[static_cast<std::size_t>(pair)];
  }

  /// Calls visit(axis, first, count) for the ranges of consecutive pairs on one axis that together
  /// are pairs first .. first + count - 1.
  template <class Visit>
  void for_each_run(Index first, Index count, const Visit& visit) const {
    if (range_ends_.empty()) {
      visit(Index{0}, first, count);
      return;
    }
    Index run = 0;
    for (const Index run_end : range_ends_) {
      const Index begin = (std::max)(run, first), end = (std::min)(run_end, first + count);
      if (begin < end) visit(axis(run), begin, end - begin);
      run = run_end;
    }
  }

  /// True if every pair reads the same axis in both tables, whatever their kinds.
  friend bool operator==(const PairAxes& a, const PairAxes& b) noexcept {
    return a.axis_count_ == b.axis_count_ && a.axis_of_pair_ == b.axis_of_pair_;
  }

 private:
  PositionKind kind_ = PositionKind::Unspecified;
  Index axis_count_ = 1;
  std::vector<Index> axis_of_pair_;
  std::vector<Index> range_ends_;  ///< ends of the ranges of consecutive pairs on the same axis
};

/// Frequencies together with the table of their axes, for encodings in which the index of the
/// frequencies restarts on every axis.
struct AxialFrequencies {
  Frequencies frequencies;  ///< of all pairs, one axis after the other
  PairAxes axes;            ///< the axis of each pair
  /// Pairing of the model's weights, if a function for one model made the frequencies. Rope and
  /// AnyRope reject the other pairing. Reset it if your weights are permuted.
  std::optional<PairingKind> pairing = std::nullopt;
};

namespace detail {

/// Returns the frequencies, restricted to positions of one kind and to one pairing.
inline AxialFrequencies restrict_to_model(PositionKind kind, PairingKind pairing,
                                          const AxialFrequencies& axial) {
  return {axial.frequencies, axial.axes.with_kind(kind), pairing};
}

/// Throws ConfigError if the frequencies are of a model with another pairing.
inline void check_pairing_of_model(const char* function, std::optional<PairingKind> of_model,
                                   PairingKind pairing) {
  if (!of_model || *of_model == pairing) return;
  const auto name = [](PairingKind kind) {
    return kind == PairingKind::HalfRotate ? "HalfRotate" : "Interleaved";
  };
  fail<ConfigError>(function, "the weights of the model of these frequencies are ", name(*of_model),
                    " but the rope is ", name(pairing),
                    "; if you have permuted the weights, reset AxialFrequencies::pairing");
}

/// Throws ConfigError unless the table is that of plain rope or has exactly `pairs` pairs.
inline void check_pair_axes(const char* function, const PairAxes& axes, Index pairs) {
  if (!axes.plain() && axes.pairs() != pairs) {
    fail<ConfigError>(function, "the table of axes is for ", axes.pairs(),
                      " pairs but there are frequencies for ", pairs);
  }
}

/// Computes factor cos and factor sin [seq, count] of pairs first .. first + count - 1 for tokens s
/// .. s + seq - 1 of batch row b. The position of a pair is that of the token on the pair's axis.
template <std::floating_point Real>
POSENC_NOINLINE void compute_cos_sin_rows(const Oscillator& oscillator, const PairAxes& axes,
                                          const Positions& positions, Index b, Index s, Index seq,
                                          Index first, Index count, double factor, Real* cos,
                                          Real* sin) noexcept {
  for (Index token = s; token < s + seq; ++token, cos += count, sin += count) {
    if (axes.axis_count() == 1) {
      oscillator.cos_sin_row(positions.at(b, token), first, count, factor, cos, sin);
      continue;
    }
    constexpr Index chunk = 64;
    double position_of_pair[static_cast<std::size_t>(chunk)];
    for (Index done = 0; done < count; done += chunk) {
      const Index part = (std::min)(chunk, count - done), begin = first + done;
      axes.for_each_run(begin, part, [&](Index axis, Index run, Index pairs) {
        std::fill_n(position_of_pair + (run - begin), pairs, positions.at(b, token, axis));
      });
      oscillator.cos_sin_row(position_of_pair, false, begin, part, factor, cos + done, sin + done);
    }
  }
}

}  // namespace detail
POSENC_END
