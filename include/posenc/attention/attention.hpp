// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/check_call.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/attention/pack_keys.hpp>
#include <posenc/attention/query_block.hpp>
#include <posenc/attention/refused_calls.hpp>
#include <posenc/attention/visibility.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Keys and values that lie in the user's tensors: each tile is packed before it is used.
template <Scalar T>
class TensorKeys {
 public:
  using Stored = PackedQuery<tier::Best, T, T>;

  struct Scratch {
    Stored* keys;
    Stored* values;
  };

  TensorKeys(HeadsView<const T> k, HeadsView<const T> v) : k_(k), v_(v) {}

  Index heads() const noexcept { return k_.heads; }
  KeyRange keys_of_row(Index) const noexcept { return {0, k_.seq}; }

  Scratch carve(Carver& carver) const noexcept {
    return {carver.take<Stored>(tile_keys * key_size()),
            carver.take<Stored>(tile_keys * padded_value_dim(v_.dim))};
  }

  /// Of keys outside `seen` nothing is read.
  KeyTile<Stored> tile(const AttentionSequence& s, Index head, Index tile, KeyRange seen,
                       const Scratch& scratch) const noexcept {
    const Index stride = padded_value_dim(v_.dim);
    const Index begin = (std::max)(seen.begin, tile * tile_keys);
    const Index end = (std::min)(seen.end, (tile + 1) * tile_keys);
    for (Index n = 0; n < tile_blocks; ++n) {
      const Index of_block = tile * tile_keys + n * tile_lanes;
      const Index first = (std::max)(begin, of_block);
      const Index last = (std::min)(end, of_block + tile_lanes);
      if (first >= last) continue;
      Stored* block = scratch.keys + n * tile_lanes * key_size();
      // Lanes without a key are multiplied as well: with zeros, not with what happens to be there.
      if (last - first < tile_lanes) std::fill_n(block, tile_lanes * key_size(), Stored(0));
      pack_keys(k_.row(s.batch, s.first_key + first, head), k_.seq_stride, first - of_block,
                last - first, k_.dim, block);
    }
    const bool finite =
        pack_values(v_.row(s.batch, s.first_key + begin, head), v_.seq_stride, end - begin, v_.dim,
                    scratch.values + (begin - tile * tile_keys) * stride, stride);
    return {scratch.keys, scratch.values, stride, finite, scratch.keys};
  }

 private:
  Index key_size() const noexcept { return stored_dim<Stored>(k_.dim); }

  HeadsView<const T> k_, v_;
};

/// One call of attention(), cut into blocks of queries; and where there are fewer of them than
/// threads, into tiles of keys.
template <class Device, Scalar T, class Bias, class Keys>
class AttentionRun {
 public:
  using Real = Compute<T>;

  AttentionRun(const Device& device, const AttentionCall<T, Bias>& call, const Keys& keys)
      : device_(device), call_(call), keys_(keys) {
    cut(Block::most_rows);
    // Few blocks: smaller ones may do for all threads, and bound what a split over keys has to keep.
    if (blocks_ < thread_count(device)) cut(rows_of_split);
  }

  void run(AttentionWorkspace& workspace) const {
    const Index threads = thread_count(device_);
    const Index tiles = (most_keys() + tile_keys - 1) / tile_keys;
    const Index parts =
        blocks_ < threads && tiles > 1 ? (std::min)(tiles, rows_of_parts / rows()) : 0;
    Carver measure(nullptr);
    (void)Slot(*this, measure);
    const std::size_t of_slot = measure.used();
    (void)parts_of(measure, parts);
    workspace.reserve(slot_count(device_), of_slot, measure.used());
    if (parts > 1) {
      for (Index n = 0; n < blocks_; ++n) run_split(n, parts, workspace);
      return;
    }
    const auto run_blocks = [&](Index first, Index last) {
      Carver carver(workspace.slot(slot_index(device_)));
      Slot slot(*this, carver);
      for (Index n = first; n < last; ++n) run_block(n, slot);
    };
    parallel_for(device_, blocks_, 0, static_cast<double>(tiles) * cycles_of_tile(), run_blocks);
  }

 private:
  using Block = QueryBlock<T, Bias, typename Keys::Stored>;

  /// What a thread keeps in its slot of the workspace.
  struct Slot {
    Slot(const AttentionRun& run, Carver& carver) noexcept
        : block(run.call_, run.rows(), carver),
          sums(RowSums<Real>::carve(carver, run.rows(), run.call_.value_dim)),
          scratch(Block::Scratch::carve(carver, run.rows())),
          key_scratch(run.keys_.carve(carver)) {}

    Block block;
    RowSums<Real> sums;
    typename Block::Scratch scratch;
    typename Keys::Scratch key_scratch;
  };

  /// Rows of a block whose tiles are shared out, and of all tiles that are kept at once.
  static constexpr Index rows_of_split = 48, rows_of_parts = 4096;

  /// Makes blocks of about `rows`.
  void cut(Index rows) noexcept {
    const Index queries = call_.visible.most_queries();
    per_block_ = (std::clamp)(rows / call_.group, Index{1}, (std::max)(queries, Index{1}));
    per_sequence_ = (queries + per_block_ - 1) / per_block_;
    blocks_ = call_.visible.sequences() * keys_.heads() * per_sequence_;
  }

  /// Sums of single tiles, a group of rows apart.
  RowSums<Real> parts_of(Carver& carver, Index parts) const noexcept {
    return RowSums<Real>::carve(carver, (rows() + rows_at_once) * parts, call_.value_dim);
  }
  RowSums<Real> part(const RowSums<Real>& parts, Index n) const noexcept {
    const Index first = n * (rows() + rows_at_once);
    return {parts.highest + first, parts.sum + first, parts.out + first * call_.value_dim};
  }

  Index rows() const noexcept { return per_block_ * call_.group; }
  Index most_keys() const noexcept {
    Index most = 0;
    for (Index b = 0; b < call_.q.batch; ++b) most = (std::max)(most, keys_.keys_of_row(b).end);
    return most;
  }

  /// Whether block n has queries.
  bool begin(Index n, Block& block) const noexcept {
    const Index of_sequence = n / per_sequence_;
    const AttentionSequence s = call_.visible.sequence(
        of_sequence / keys_.heads(), [&](Index b) { return keys_.keys_of_row(b); });
    const Index first = n % per_sequence_ * per_block_;
    if (first >= s.queries) return false;
    block.begin(s, of_sequence % keys_.heads(), first, (std::min)(per_block_, s.queries - first));
    return true;
  }

  void add_tile(const Block& block, Index tile, const Slot& slot, const RowSums<Real>& sums) const {
    const KeyRange seen = block.look_at(tile, slot.scratch);
    if (seen.begin >= seen.end) return;
    block.add_tile(tile,
                   keys_.tile(block.sequence(), block.key_head(), tile, seen, slot.key_scratch),
                   slot.scratch, sums);
  }

  void run_block(Index n, Slot& slot) const {
    if (!begin(n, slot.block)) return;
    slot.sums.clear(slot.block.rows(), call_.value_dim);
    const KeyRange keys = slot.block.keys();
    for (Index tile = keys.begin / tile_keys; tile * tile_keys < keys.end; ++tile) {
      add_tile(slot.block, tile, slot, slot.sums);
    }
    slot.block.finish(slot.sums);
  }

  /// A block whose tiles are shared out: each yields sums of its own, which are merged in order, as
  /// run_block() does it.
  void run_split(Index n, Index parts, AttentionWorkspace& workspace) const {
    Carver carver(workspace.slot(0));
    Slot shared(*this, carver);
    const RowSums<Real> of_tiles = parts_of(carver, parts);
    if (!begin(n, shared.block)) return;
    const Index rows = shared.block.rows();
    shared.sums.clear(rows, call_.value_dim);
    const KeyRange keys = shared.block.keys();
    for (Index first = keys.begin / tile_keys; first * tile_keys < keys.end; first += parts) {
      const Index end = (std::min)(first + parts, (keys.end + tile_keys - 1) / tile_keys);
      const auto run_tiles = [&](Index from, Index to) {
        Carver own(workspace.slot(slot_index(device_)));
        const Slot slot(*this, own);
        for (Index i = from; i < to; ++i) {
          const RowSums<Real> sums = part(of_tiles, i);
          sums.clear(rows, call_.value_dim);
          add_tile(shared.block, first + i, slot, sums);
        }
      };
      parallel_for(device_, end - first, 0, cycles_of_tile(), run_tiles);
      for (Index i = 0; i < end - first; ++i) {
        merge_all<tier::Best>(shared.sums, part(of_tiles, i), rows, call_.value_dim);
      }
    }
    shared.block.finish(shared.sums);
  }

  /// Of one tile for one block, about.
  double cycles_of_tile() const noexcept {
    return static_cast<double>(rows() * tile_keys * (call_.q.dim + call_.value_dim)) / 16;
  }

  const Device& device_;
  const AttentionCall<T, Bias>& call_;
  const Keys& keys_;
  Index per_block_ = 0, per_sequence_ = 0, blocks_ = 0;
};

/// Checks everything but q, out, k and v; keys_of_row as for Visibility.
template <Scalar T, class Bias, class KeysOfRow>
Visibility<T> checked_visibility(const char* function, const AttentionShape& shape,
                                 const KeysOfRow& keys_of_row, const AttentionOptions<T>& options,
                                 const Bias& bias) {
  static_assert(
      ScoreBias<Bias, T>,
      "posenc::attention: Bias must provide add(head, query_positions, key_positions, tile); see "
      "ScoreBias in posenc/concepts.hpp");
  check_options<T>(function, options, shape);
  const Visibility<T> visible(function, options, shape, keys_of_row);
  check_bias(function, bias, visible, shape);
  if (options.dropout.probability > 0) visible.require_query_positions("dropout");
  return visible;
}

/// What attention() over tensors and over a cache have in common, once q, out and the keys fit.
template <class Device, Scalar T, class Bias, class Keys>
void attention_over(const char* function, const Device& device, const HeadsView<const T>& q,
                    const Keys& keys, Index key_count, Index value_dim, const HeadsView<T>& out,
                    const AttentionOptions<T>& options, const Bias& bias) {
  const double scale = checked_scale<T>(function, options, q.dim);
  const Visibility<T> visible = checked_visibility(
      function, {q.batch, q.heads, q.seq, key_count}, [&](Index b) { return keys.keys_of_row(b); },
      options, bias);
  if (q.batch == 0 || q.seq == 0 || q.heads == 0) return;
  if (value_dim == 0 && options.lse.data == nullptr && options.weights.data == nullptr) return;
  const AttentionCall<T, Bias> call{q,
                                    out,
                                    options,
                                    visible,
                                    bias,
                                    static_cast<Compute<T>>(scale),
                                    q.heads / keys.heads(),
                                    padded_value_dim(value_dim)};
  AttentionWorkspace own;
  AttentionRun(device, call, keys).run(options.workspace == nullptr ? own : *options.workspace);
}

}  // namespace detail

/// Scaled dot-product attention: out = softmax(scale * q k^T + bias + masks) v.
///   Shapes:   q [B, Sq, H, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv], out [B, Sq, H, Dv]; Hkv
///             divides H, and query head h uses key head h / (H / Hkv). Any of them may be empty.
///   Device:   Eigen::DefaultDevice or ThreadPoolDevice, which takes heads and blocks of queries, or
///             tiles of keys where there are few of those; without one the calling thread
///   Aliasing: out shares no memory with k, v and the masks; it may be q
///   Throws:   ShapeError, ConfigError, PositionError, std::bad_alloc, before anything is written. A
///             pool that finds no memory for its own tasks, or a user's bias that throws in one, ends
///             the program, since Eigen's pool lets no exception out of its threads
///   Order:    scale -> softcap -> bias (or bias -> softcap) -> masks -> softmax -> dropout
///   Masks:    a query that sees no key gives zeros and a log-sum-exp of -inf, or its sink; what a hidden key
///             holds, NaN included, never reaches the output. A score that is -inf in the end hides its
///             key as a mask does. Tiles of keys that nobody sees are not read
///   Bits:     a query's result depends on itself and on the keys that it sees, counted from key 0:
///             not on other queries, hidden keys, threads, or how many queries come in one call
///   Accuracy: arithmetic in Compute<T>, rounded once to T; |v| times the number of keys must not
///             exceed the largest of it. A score before scaling is off by at most D roundings of
///             sum |q k|; in bfloat16 on AVX512_BF16, which takes denormals for zero and otherwise
///             gives the same bits, by 2^-126 sum (1 + |q| + |k|) more
///   Cost:     O(B H Sq Sk (D + Dv)); memory independent of Sq and Sk unless options.weights is given
///   Source:   arXiv 1706.03762, equation 1; online softmax 1805.02867, tiles 2205.14135
template <class Device, Scalar T, class Bias = NoBias>
void attention(const Device& device, HeadsView<const std::type_identity_t<T>> q,
               HeadsView<const std::type_identity_t<T>> k,
               HeadsView<const std::type_identity_t<T>> v, HeadsView<T> out,
               const AttentionOptions<std::type_identity_t<T>>& options = {},
               const Bias& bias = {}) {
  constexpr auto function = "attention";
  detail::check_tensors<T>(function, q, k, v, out);
  detail::attention_over<Device, T>(function, device, q, detail::TensorKeys<T>(k, v), k.seq, v.dim,
                                    out, options, bias);
}

/// The same on the calling thread.
template <Scalar T, class Bias = NoBias>
void attention(HeadsView<const std::type_identity_t<T>> q,
               HeadsView<const std::type_identity_t<T>> k,
               HeadsView<const std::type_identity_t<T>> v, HeadsView<T> out,
               const AttentionOptions<std::type_identity_t<T>>& options = {},
               const Bias& bias = {}) {
  attention(detail::CallingThread(), q, k, v, out, options, bias);
}

POSENC_END
