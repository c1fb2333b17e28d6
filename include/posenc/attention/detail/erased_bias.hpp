// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/kernel_tile.hpp>
#include <posenc/attention/detail/masks.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/config.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Types that attention() accepts as a bias.
template <class Bias, class T>
concept AttentionBias = ScoreBias<Bias, T> || TokenBias<Bias, T> || QueryBias<Bias, T>;

/// Call of attention(), as a bias checks it.
template <Scalar T>
struct BiasCall {
  HeadsView<const T> q;
  const AttentionShape& shape;
  const AttentionGeometry<T>& geometry;
  const Masks<T>& masks;
};

/// A bias without its type: functions that call it. The schedules take it, so that they are
/// compiled once for all biases. A call adds to all rows of a head that see the same keys, so its
/// cost is small beside theirs.
///   Aliasing: refers to the bias, which must outlive it
template <Scalar T>
class ErasedBias {
 public:
  using Real = Compute<T>;

  /// Types: a QueryBias reads tiles of the given kernel types
  template <class Bias, class Types = KernelTypes<void, T, void>>
  explicit ErasedBias(const Bias& bias, Types = {}) : bias_(&bias) {
    if constexpr (requires { bias.heads(); }) heads_ = static_cast<Index>(bias.heads());
    if constexpr (QueryBias<Bias, T>) {
      query_ = &query_functions<Bias, Types>;
    } else if constexpr (!std::is_same_v<Bias, NoBias>) {
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
  bool is_present() const noexcept { return add_ != nullptr || reads_queries(); }
  /// True if it is a QueryBias.
  bool reads_queries() const noexcept { return query_ != nullptr; }
  /// True if it is a DistanceBias.
  bool is_distance_bias() const noexcept { return write_values_ != nullptr; }
  /// True if it is a QueryBias that reads keys as rows.
  bool reads_keys() const noexcept { return reads_queries() && query_->reads_keys; }
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
  /// The next four functions are those of a QueryBias.
  void check(const char* function, const BiasCall<T>& call) const {
    query_->check(bias_, function, call);
  }
  std::size_t scratch_bytes(const QueryBiasBlock<T>& block) const {
    return query_->scratch_bytes(bias_, block);
  }
  void begin(const QueryBiasBlock<T>& block) const { query_->begin(bias_, block); }
  void add(const QueryBiasTile<T>& tile, const MatrixView<Real>& scores) const {
    query_->add(bias_, tile, scores);
  }
  /// Calls write_values() of a DistanceBias.
  void write_values(Index head, double farthest, std::span<Real> values) const {
    write_values_(bias_, head, farthest, values);
  }

 private:
  struct QueryFunctions {
    bool reads_keys;
    void (*check)(const void*, const char*, const BiasCall<T>&);
    std::size_t (*scratch_bytes)(const void*, const QueryBiasBlock<T>&);
    void (*begin)(const void*, const QueryBiasBlock<T>&);
    void (*add)(const void*, const QueryBiasTile<T>&, const MatrixView<Real>&);
  };
  template <class Bias, class Types>
  static constexpr QueryFunctions query_functions{
      detail::reads_keys<Bias>,
      [](const void* self, [[maybe_unused]] const char* function,
         [[maybe_unused]] const BiasCall<T>& call) {
        [[maybe_unused]] const auto& of = *static_cast<const Bias*>(self);
        if constexpr (requires { of.check(function, call); }) {
          of.check(function, call);
        } else if constexpr (requires { of.check(function, call.q); }) {
          of.check(function, call.q);
        }
      },
      [](const void* self, const QueryBiasBlock<T>& block) {
        return Types::scratch_bytes(*static_cast<const Bias*>(self), block);
      },
      [](const void* self, const QueryBiasBlock<T>& block) {
        Types::begin(*static_cast<const Bias*>(self), block);
      },
      [](const void* self, const QueryBiasTile<T>& tile, const MatrixView<Real>& scores) {
        static_cast<const Bias*>(self)->add(Types::template tile_of<Bias>(tile), scores);
      }};

  const void* bias_;
  std::optional<Index> heads_;
  const QueryFunctions* query_ = nullptr;
  void (*add_)(const void*, const TokenTile&, const MatrixView<Real>&) = nullptr;
  void (*check_)(const void*, const char*, const TokenSpan&) = nullptr;
  void (*write_values_)(const void*, Index, double, std::span<Real>) = nullptr;
};

/// Returns a bias without its type, for tiles of keys of type S.
template <class Tier, class S, Scalar T, class Bias>
ErasedBias<T> erase_bias(const Bias& bias) {
  static_assert(
      AttentionBias<Bias, T>,
      "posenc::attention: Bias must provide add(head, query_positions, key_positions, tile) const, "
      "add(tokens, tile) const or add(tile, scores) const, with the tile of scores by value; see "
      "ScoreBias, TokenBias and QueryBias in posenc/concepts.hpp");
  return ErasedBias<T>(bias, KernelTypes<Tier, T, S>());
}

}  // namespace detail
POSENC_END
