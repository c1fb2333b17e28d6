// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/concepts.hpp>
#include <posenc/core/config.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <optional>
#include <span>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// A ScoreBias or TokenBias without its type: functions that call it. The schedules take it, so
/// that they are compiled once for all biases. A call adds to all rows of a head that see the same
/// keys, so its cost is small beside theirs.
///   Aliasing: refers to the bias, which must outlive it
template <Scalar T>
class ErasedBias {
 public:
  using Real = Compute<T>;

  template <class Bias>
  explicit ErasedBias(const Bias& bias) : bias_(&bias) {
    if constexpr (requires { bias.heads(); }) heads_ = static_cast<Index>(bias.heads());
    if constexpr (!std::is_same_v<Bias, NoBias>) {
      add_ = [](const void* self, const TokenTile& tokens, const MatrixView<Real>& scores) {
        const auto& of = *static_cast<const Bias*>(self);
        if constexpr (TokenBias<Bias, T>) {
          of.add(tokens, scores);
        } else {
          of.add(tokens.head, tokens.query_positions, tokens.key_positions, scores);
        }
      };
      if constexpr (requires { bias.check("", TokenSpan{}); }) {
        check_ = [](const void* self, const char* function, const TokenSpan& tokens) {
          static_cast<const Bias*>(self)->check(function, tokens);
        };
      }
    }
    if constexpr (DistanceBias<Bias, T>) {
      write_values_ = [](const void* self, Index head, double farthest, std::span<Real> values) {
        static_cast<const Bias*>(self)->write_values(head, farthest, values);
      };
    }
  }

  /// True if there is a bias.
  bool is_present() const noexcept { return add_ != nullptr; }
  /// True if it is a DistanceBias.
  bool is_distance_bias() const noexcept { return write_values_ != nullptr; }
  /// Returns the number of heads that it is for, if it has one.
  const std::optional<Index>& heads() const noexcept { return heads_; }
  /// True if it has check().
  bool has_check() const noexcept { return check_ != nullptr; }

  void check(const char* function, const TokenSpan& tokens) const {
    check_(bias_, function, tokens);
  }
  void add(const TokenTile& tokens, const MatrixView<Real>& scores) const {
    add_(bias_, tokens, scores);
  }
  void write_values(Index head, double farthest, std::span<Real> values) const {
    write_values_(bias_, head, farthest, values);
  }

 private:
  const void* bias_;
  std::optional<Index> heads_;
  void (*add_)(const void*, const TokenTile&, const MatrixView<Real>&) = nullptr;
  void (*check_)(const void*, const char*, const TokenSpan&) = nullptr;
  void (*write_values_)(const void*, Index, double, std::span<Real>) = nullptr;
};

}  // namespace detail
POSENC_END
