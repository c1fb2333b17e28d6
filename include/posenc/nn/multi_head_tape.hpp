// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/options.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/nn/detail/multi_head_parts.hpp>
#include <posenc/nn/detail/qk_norms.hpp>
#include <posenc/nn/multi_head_config.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

POSENC_BEGIN

namespace detail {

/// Record of a forward pass of MultiHeadAttention for its backward pass. Tensors are dense in
/// `memory`.
template <class T>
struct ForwardPass {
  ScratchArenas memory;
  bool is_complete = false;  ///< forward() returned without an error
  bool is_self = false;      ///< keys and values were projected from x
  EmbeddingsView<T> x, keys_from, values_from;
  ModuleHeads<T> heads;  ///< q and k are normalised and rotated
  /// Queries and keys before their norm. Without a norm they are those of `heads`.
  ProjectedHeads<T> projected;
  LseView<T> lse;
  AttentionOptions<T> options;
  std::optional<Positions> query_positions, key_positions;  ///< key_positions: cross attention only

  const Positions& positions_of_keys() const { return is_self ? *query_positions : *key_positions; }

  /// Allocates memory for a call and copies its arguments. Inputs that are one tensor are copied
  /// once.
  void begin(const char* function, const MultiHeadAttentionConfig& config,
             const ModuleInputs<T>& inputs, const Positions& new_query_positions,
             const Positions* new_key_positions, const AttentionOptions<T>& new_options) {
    lay_out(function, config, inputs);
    is_self = new_key_positions == nullptr;
    query_positions.emplace(new_query_positions.owned());
    if (new_key_positions == nullptr) {
      key_positions.reset();
    } else {
      key_positions.emplace(new_key_positions->owned());
    }
    options = new_options;
  }

  /// Completes the record after attention has written log-sum-exps to `written`.
  void end(const LseView<T>& written) {
    if (written.data != lse.data && lse.queries != 0) {
      for (Index b = 0; b < lse.batch; ++b) {
        for (Index h = 0; h < lse.heads; ++h) {
          for (Index i = 0; i < lse.queries; ++i) lse(b, h, i) = written(b, h, i);
        }
      }
    }
    is_complete = true;
  }

 private:
  void lay_out(const char* function, const MultiHeadAttentionConfig& config,
               const ModuleInputs<T>& in) {
    const bool keys_are_x = same(in.keys_from, in.x), values_are_x = same(in.values_from, in.x);
    const bool values_are_keys = same(in.values_from, in.keys_from);
    const auto allocate = [&](ArenaAllocator allocator) {
      const auto copy_of = [&](const EmbeddingsView<const T>& view) {
        const Index count = checked_mul_or(0, {view.batch, view.seq, view.dim});
        return EmbeddingsView<T>{allocator.template allocate<T>(count), view.batch, view.seq,
                                 view.dim};
      };
      heads = allocate_heads(function, allocator, config, in);
      projected = {heads.q, heads.k};
      if (has_qk_norm(config)) {
        for (HeadsView<T>* view : {&projected.q, &projected.k}) {
          view->data =
              allocator.template allocate<T>(view->batch * view->seq * view->heads * view->dim);
        }
      }
      x = copy_of(in.x);
      keys_from = keys_are_x ? x : copy_of(in.keys_from);
      values_from = values_are_x ? x : values_are_keys ? keys_from : copy_of(in.values_from);
      const Index rows = checked_mul_or(0, {in.x.batch, config.heads, in.x.seq});
      lse = {allocator.template allocate<T>(rows), in.x.batch, config.heads, in.x.seq};
      return allocator.bytes_used();
    };
    memory.reserve(1, allocate(ArenaAllocator(nullptr)));
    allocate(ArenaAllocator(memory.arena(0)));
    copy(in.x, x);
    if (!keys_are_x) copy(in.keys_from, keys_from);
    if (!values_are_x && !values_are_keys) copy(in.values_from, values_from);
  }
  static bool same(const EmbeddingsView<const T>& a, const EmbeddingsView<const T>& b) noexcept {
    return a.data == b.data && a.extents() == b.extents() &&
           layout_of(a).strides == layout_of(b).strides;
  }
  static void copy(const EmbeddingsView<const T>& from, const EmbeddingsView<T>& to) noexcept {
    if (to.empty()) return;
    for (Index b = 0; b < to.batch; ++b) {
      for (Index s = 0; s < to.seq; ++s) std::copy_n(from.row(b, s), to.dim, to.row(b, s));
    }
  }
};

struct TapeAccess;

}  // namespace detail

/// Record of MultiHeadAttention::forward() for backward(): copies of inputs, positions and options;
/// rotated queries and keys, those before a qk_norm, values, outputs of the heads, and their
/// log-sum-exps. Arrays that the options refer to (masks, lists) must live until backward(). A tape
/// holds the last pass; backward() may run any number of times.
///   Memory:  B (Sq (model_dim + H (D + Dv + 1)) + Sk (key_input_dim + value_input_dim + Hkv (D +
///            Dv))) numbers, without the key and value inputs if they are x, plus a cache line per
///            tensor. A qk_norm needs another B (Sq H + Sk Hkv) D numbers and two cache lines. It
///            is reused: a later call that is no larger allocates nothing, except for positions
///            that are tables
///   Threads: one call at a time may use a tape
template <class T>
class MultiHeadTape {
 public:
  /// Constructs a tape without a pass.
  MultiHeadTape() = default;
  /// Moves a tape; the source holds no pass afterwards.
  MultiHeadTape(MultiHeadTape&&) noexcept = default;
  /// Replaces the tape by another one, whose pass it takes over.
  MultiHeadTape& operator=(MultiHeadTape&&) noexcept = default;

  /// Returns the bytes allocated for tensors.
  std::size_t bytes() const noexcept { return pass_.empty() ? 0 : pass_[0].memory.bytes(); }
  /// True if there is a pass for backward(). A forward() that throws leaves none.
  bool holds_pass() const noexcept { return !pass_.empty() && pass_[0].is_complete; }

 private:
  friend struct detail::TapeAccess;

  // Holds one element or none. Views point into it, so its address must not change when the tape is
  // moved.
  std::vector<detail::ForwardPass<T>> pass_;
};

namespace detail {

/// Access to the record of a tape.
struct TapeAccess {
  /// Discards the tape's pass and returns its record for a new one.
  template <class T>
  static ForwardPass<T>& pass_to_write(MultiHeadTape<T>& tape) {
    if (tape.pass_.empty()) tape.pass_ = std::vector<ForwardPass<T>>(1);
    tape.pass_[0].is_complete = false;
    return tape.pass_[0];
  }
  /// Returns nullptr if there is no pass.
  template <class T>
  static const ForwardPass<T>* pass_to_read(const MultiHeadTape<T>& tape) noexcept {
    return tape.holds_pass() ? tape.pass_.data() : nullptr;
  }
};

}  // namespace detail
POSENC_END
