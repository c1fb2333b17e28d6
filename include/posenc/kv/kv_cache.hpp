// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/refusal.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/detail/kv_ranges.hpp>
#include <posenc/kv/detail/kv_storage.hpp>
#include <posenc/kv/detail/kv_tokens.hpp>
#include <posenc/kv/detail/kv_writes.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache_config.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/packing.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

POSENC_BEGIN

namespace detail {
template <Scalar S>
class RevocableAppend;
template <Scalar S>
class CachedKeys;
}  // namespace detail

/// Keys and values of earlier tokens, for several sequences: what attention() of new queries reads.
/// Keys are numbered from 0 by their place in the sequence and keep their number when a ring
/// forgets older ones. They are stored as they are given, so rotate them before. A cache is a plain
/// value. What touches many keys takes an Eigen device last, or none, and leaves the same bits.
///   Pool:     with a KvBlockPool a sequence has memory for the keys that it holds, whatever its capacity,
///             and what needs more of it may throw MemoryLimitError, or std::bad_alloc, before anything is
///             written. Copies of a sequence or of the cache share blocks until one of them writes there;
///             truncate() and clear() always succeed, and return blocks as the destructor does
///   Device:   it writes where no sequence holds keys. The calling thread writes what replaces keys, after
///             the device has succeeded, so a device that throws leaves caches as they were
///   Threads:  const calls may run at once, and other calls beside them if they are for other sequences
///   Layout:   keys [sequence][head][key / 32][D][32], in bfloat16 [..][ceil(D / 2)][32][2] with
///             channel 2i + 1 before 2i, values [sequence][head][key][Dv rounded up to a multiple of
///             16]; a key stays where it is, at its number modulo capacity(). Without a pool, 2112
///             bytes lie between heads whose keys, or values, take 64 KiB or more
///   Accuracy: stored in S, rounded once to nearest even; attention computes in Compute<S>
///   Cost:     without a pool all memory is taken, and zeroed, when the cache is made; see bytes()
template <class S>
class KvCache {
  static_assert(detail::CheckScalar<S>::value);

 public:
  using Real = Compute<S>;

  ///   Throws: ConfigError, std::bad_alloc
  explicit KvCache(const KvCacheConfig& config) : KvCache(config, nullptr) {}
  /// A cache that takes memory from a pool, and keeps it alive.
  KvCache(const KvCacheConfig& config, const KvBlockPool& pool) : KvCache(config, &pool) {}

  KvCache(const KvCache&) = default;
  KvCache(KvCache&&) noexcept = default;
  /// What cannot be copied for want of memory leaves the cache as it was.
  KvCache& operator=(const KvCache& other) {
    KvCache copy(other);
    return *this = std::move(copy);
  }
  KvCache& operator=(KvCache&&) noexcept = default;

  Index sequences() const noexcept { return ranges_.sequences(); }
  Index kv_heads() const noexcept { return storage_.heads(); }
  Index head_dim() const noexcept { return storage_.dim(); }
  Index value_dim() const noexcept { return storage_.value_dim(); }
  Index capacity() const noexcept { return storage_.capacity(); }
  Index window() const noexcept { return ranges_.limits().window; }  ///< 0: no ring
  Index max_append() const noexcept { return ranges_.limits().max_append; }
  /// But for the blocks of a pool, which counts them itself.
  std::size_t bytes() const noexcept { return storage_.bytes() + ranges_.bytes(); }
  /// What each 128 keys of a sequence, or less, take from a pool.
  std::size_t block_bytes() const noexcept { return storage_.bytes_of_block(); }

  /// The end of the sequence: the number that its next key gets.
  ///   Throws: ShapeError
  Index length(Index sequence) const {
    ranges_.check_sequence("KvCache::length", sequence);
    return ranges_[sequence].end;
  }
  /// The oldest key that is still there. In a ring the keys of a tile of 128 go together, when the
  /// first key of a newer tile takes their place.
  ///   Throws: ShapeError
  Index first(Index sequence) const {
    ranges_.check_sequence("KvCache::first", sequence);
    return ranges_[sequence].begin;
  }
  /// Appends n keys and values to batch row b's sequence, sequences[b].
  ///   Shapes: k [B, n, Hkv, D], v [B, n, Hkv, Dv]; sequences [B], no two the same. Elements may be
  ///           of any type with the Compute type of S
  ///   Throws: ShapeError, before anything is written; also where a sequence would pass capacity(),
  ///           and in a ring where n > max_append
  ///   Cost:   one pass over k and v. No allocation without a pool
  template <class T, Device D = detail::CallingThread>
  void append(ListView<Index> sequences, HeadsView<T> k, HeadsView<const std::remove_const_t<T>> v,
              const D& device = {}) {
    append_runs<std::remove_const_t<T>>(device, {sequences, {}, k.seq}, k, v);
  }
  /// The same for sequences with a number of new tokens each, which may be 0, packed into one batch row:
  /// sequences[n] gets tokens cu_seqlens[n] .. cu_seqlens[n + 1] - 1.
  ///   Shapes: k [1, total, Hkv, D], v [1, total, Hkv, Dv]; sequences [N]; cu_seqlens [N + 1], from 0 to
  ///           total
  template <class T, Device D = detail::CallingThread>
  void append(ListView<Index> sequences, ListView<Index> cu_seqlens, HeadsView<T> k,
              HeadsView<const std::remove_const_t<T>> v, const D& device = {}) {
    detail::check_offsets("KvCache::append", "cu_seqlens", cu_seqlens, k.seq, sequences.size());
    append_runs<std::remove_const_t<T>>(device, {sequences, cu_seqlens, k.seq}, k, v);
  }
  /// The same for one sequence: B = 1.
  template <class T, Device D = detail::CallingThread>
  void append(Index sequence, HeadsView<T> k, HeadsView<const std::remove_const_t<T>> v,
              const D& device = {}) {
    append(ListView<Index>(&sequence, 1), k, v, device);
  }

  // Say what append() takes.
  template <class Where, class K, class V, Device D = detail::CallingThread>
  requires(!detail::appends<K, V, Where>) void append(const Where&, HeadsView<K>, HeadsView<V>,
                                                      const D& = {}) {
    detail::refuse_append<K, V>();
  }
  template <class First, class Second, class K, class V, Device D = detail::CallingThread>
  requires(!detail::appends<K, V, First, Second>) void append(const First&, const Second&,
                                                              HeadsView<K>, HeadsView<V>,
                                                              const D& = {}) {
    detail::refuse_append<K, V>();
  }

  /// Copies keys and values out, from key `first` on: the inverse of append().
  ///   Shapes: k [1, n, Hkv, D], v [1, n, Hkv, Dv]
  ///   Throws: ShapeError, also where one of the keys is not there
  template <class T, Device D = detail::CallingThread>
  void copy_keys(Index sequence, Index first, HeadsView<T> k, HeadsView<std::type_identity_t<T>> v,
                 const D& device = {}) const {
    constexpr auto function = "KvCache::copy_keys";
    check_element<T>();
    ranges_.check_sequence(function, sequence);
    detail::check_tokens<T>(function, storage_, 1, k, v);
    ranges_.check_keys(function, sequence, first, k.seq);
    detail::check_output(function, "k", k);
    detail::check_output(function, "v", v);
    detail::for_each_piece(
        device, {{&sequence, 1}, {}, k.seq}, kv_heads(), bytes_of_keys<T>(1),
        [&](Index) { return first; },
        [&](const detail::TokenPiece& piece) {
          storage_.read_keys(sequence, piece.head, piece.key, detail::rows_of<T>(k, 0, piece));
          storage_.read_values(sequence, piece.head, piece.key, detail::rows_of<T>(v, 0, piece));
        });
  }

  /// Makes a sequence hold the keys `first` .. first + n - 1 and no others, whatever it held before: a
  /// session that copy_keys() saved, from first(sequence) on, goes on with the numbers, the bits and the
  /// ring's state that it had.
  ///   Shapes: k [1, n, Hkv, D], v [1, n, Hkv, Dv]
  ///   Throws: ShapeError, before anything is written; also unless `first` is 0 where the cache is no
  ///           ring, and where the keys are more than a sequence can hold
  ///   Pool:   blocks that the sequence held go back last; clear() before gives them back first
  ///   Cost:   one pass over k and v. No allocation without a pool
  template <class T, Device D = detail::CallingThread>
  void restore(Index sequence, Index first, HeadsView<T> k,
               HeadsView<const std::remove_const_t<T>> v, const D& device = {}) {
    using Element = std::remove_const_t<T>;
    constexpr auto function = "KvCache::restore";
    check_element<Element>();
    ranges_.check_sequence(function, sequence);
    detail::check_tokens<const Element>(function, storage_, 1, k, v);
    if (first < 0 || (ranges_.limits().window == 0 && first != 0)) {
      detail::fail<ShapeError>(
          function, "the first key must be ",
          ranges_.limits().window == 0 ? "0 where the cache is no ring" : "at least 0", " but is ",
          first);
    }
    ranges_.limits().check_end(function, sequence, first, k.seq);
    const Index end = first + k.seq;
    if (first < ranges_.limits().oldest(end)) {
      detail::fail<ShapeError>(function, "the keys ", first, " to ", end - 1,
                               " are more than a sequence holds, whose oldest key would be ",
                               ranges_.limits().oldest(end));
    }
    const auto written = [&](Index) {
      return detail::WrittenKeys{sequence, {first, end}, ranges_[sequence], false};
    };
    const detail::TokenRuns runs{{&sequence, 1}, {}, k.seq};
    detail::TokenWrites(function, storage_, runs, written)
        .run(device, HeadsView<const Element>(k), v);
    storage_.forget_filled(sequence);
    hold(sequence, {first, end});
  }

  /// Forgets the keys from `length` on: those of rejected tokens in speculative decoding. A ring
  /// does not get back what they replaced; while it is at most max_append keys shorter than it ever
  /// was, the next queries still find their whole windows.
  ///   Throws: ShapeError unless first(sequence) <= length <= length(sequence)
  void truncate(Index sequence, Index length) {
    constexpr auto function = "KvCache::truncate";
    ranges_.check_sequence(function, sequence);
    const detail::KeyRange range = ranges_[sequence];
    if (length < range.begin || length > range.end) {
      detail::fail<ShapeError>(function, "the new length must lie within [", range.begin, ", ",
                               range.end, "], the keys of sequence ", sequence, ", but is ",
                               length);
    }
    storage_.cut_values(sequence, length, range.end);
    hold(sequence, {range.begin, length});
  }

  /// Forgets all keys; the next one is key 0.
  ///   Throws: ShapeError
  void clear(Index sequence) {
    ranges_.check_sequence("KvCache::clear", sequence);
    hold(sequence, {});
  }

  /// Makes sequence `to` a copy of `from`: a beam that splits, a prefix that is shared.
  ///   Throws: ShapeError, and with a pool std::bad_alloc
  ///   Cost:   one pass over the keys that are there; with a pool none
  template <Device D = detail::CallingThread>
  void copy(Index from, Index to, const D& device = {}) {
    constexpr auto function = "KvCache::copy";
    ranges_.check_sequence(function, from);
    ranges_.check_sequence(function, to);
    if (from == to) return;
    const detail::KeyRange range = ranges_[from];
    const detail::KeyRange tiles = detail::tiles_of(range);
    const double bytes = bytes_of_keys<S>(detail::tile_keys);
    if (storage_.shares()) {
      storage_.share(from, to);
    } else {
      // Keys are overwritten after everything that can fail.
      const detail::WrittenKeys written{to, range, ranges_[to], false};
      const auto copy_tiles = [&](const auto& on, bool overwriting) {
        const Index units = (tiles.end - tiles.begin) * kv_heads();
        detail::parallel_for(on, units, bytes, bytes / 16, [&](Index unit, Index end) {
          for (; unit < end; ++unit) {
            const Index tile = tiles.begin + unit / kv_heads();
            if (storage_.overwrites(written, tile) != overwriting) continue;
            storage_.copy_tile(from, to, unit % kv_heads(), tile);
          }
        });
      };
      copy_tiles(device, false);
      copy_tiles(detail::CallingThread(), true);
    }
    ranges_[to] = range;
  }

  /// Removes keys first .. first + count - 1; later ones move down by `count`. On those that move
  /// rotate(HeadsView<Real> k) is called, k [1, n, Hkv, D] a piece at a time, to take their
  /// positions back: `[&](auto k) { shift_keys(k, rope, {-count}); }` makes this the context shift.
  /// A ring cannot do this: its old keys go by themselves, truncate() takes the newest, and for others
  /// copy_keys(), rotate, and restore() what is left.
  ///   Throws:   ShapeError unless the keys are there, ConfigError in a ring, std::bad_alloc, what
  ///             rotate throws; before anything is written
  ///   Device:   it reads the keys; rotate is called on the calling thread and can be given it too
  ///   Accuracy: moved keys are rounded to S once more
  ///   Cost:     two passes over what moves, and memory for its keys in Compute<S>
  template <class Rotate, Device D = detail::CallingThread>
  void erase(Index sequence, Index first, Index count, Rotate&& rotate, const D& device = {}) {
    constexpr auto function = "KvCache::erase";
    if (ranges_.limits().window != 0) {
      detail::fail<ConfigError>(function, "a ring (window ", ranges_.limits().window,
                                ") forgets its oldest keys alone; none can be erased");
    }
    ranges_.check_sequence(function, sequence);
    ranges_.check_keys(function, sequence, first, count);
    if (count == 0) return;
    const detail::KeyRange range = ranges_[sequence];
    const auto keys = detail::changed_keys(device, storage_, sequence, first + count, range.end,
                                           [&](HeadsView<Real> piece, Index) { rotate(piece); });
    take_memory(function, {sequence, {first, range.end - count}, range, true});
    write_changed(keys, sequence, first, range.end - first - count);
    for (Index head = 0; head < kv_heads(); ++head) {
      storage_.move_values(sequence, head, first + count, range.end, first);
    }
    storage_.cut_values(sequence, range.end - count, range.end);
    hold(sequence, {range.begin, range.end - count});
  }

  /// Calls update(HeadsView<Real> k, Index first) on all keys, k [1, n, Hkv, D] a piece at a time
  /// whose first key is `first`, and stores what it leaves there: rerotate() after a change of
  /// frequencies.
  ///   Throws:   ShapeError, std::bad_alloc, what update throws; before anything is written
  ///   Device:   as in erase()
  ///   Accuracy: keys are rounded to S once more
  ///   Cost:     two passes over the keys, and memory for them in Compute<S>
  template <class Update, Device D = detail::CallingThread>
  void update_keys(Index sequence, Update&& update, const D& device = {}) {
    constexpr auto function = "KvCache::update_keys";
    ranges_.check_sequence(function, sequence);
    const detail::KeyRange range = ranges_[sequence];
    const auto keys =
        detail::changed_keys(device, storage_, sequence, range.begin, range.end, update);
    take_memory(function, {sequence, range, range, true});
    write_changed(keys, sequence, range.begin, range.end - range.begin);
  }

 private:
  friend class detail::RevocableAppend<S>;
  friend class detail::CachedKeys<S>;

  KvCache(const KvCacheConfig& config, const KvBlockPool* pool)
      : ranges_(config),
        storage_(config.sequences, config.kv_heads, ranges_.limits().capacity, config.head_dim,
                 config.value_dim == 0 ? config.head_dim : config.value_dim, pool) {}

  /// Throws what append() does but for want of memory.
  template <Scalar T>
  void check_append(const detail::TokenRuns& runs, HeadsView<const std::type_identity_t<T>> k,
                    HeadsView<const std::type_identity_t<T>> v) const {
    constexpr auto function = "KvCache::append";
    check_element<T>();
    detail::check_tokens<const T>(function, storage_, runs.batch(), k, v);
    ranges_.check_append(function, runs);
  }

  template <class T, Device D>
  void append_checked(const D& device, const detail::TokenRuns& runs, HeadsView<const T> k,
                      HeadsView<const T> v) {
    const auto written = [&](Index n) {
      const detail::KeyRange& held = ranges_[runs.sequence(n)];
      return detail::WrittenKeys{
          runs.sequence(n), {held.end, held.end + runs.count(n)}, held, true};
    };
    detail::TokenWrites("KvCache::append", storage_, runs, written).run(device, k, v);
    for (Index n = 0; n < runs.size(); ++n) {
      ranges_[runs.sequence(n)] = ranges_.after(runs.sequence(n), runs.count(n));
    }
  }
  template <class T, Device D>
  void append_runs(const D& device, const detail::TokenRuns& runs, HeadsView<const T> k,
                   HeadsView<const T> v) {
    check_append<T>(runs, k, v);
    append_checked<T>(device, runs, k, v);
  }

  void take_memory(const char* function, const detail::WrittenKeys& keys) {
    const auto written = [&](Index) { return keys; };
    detail::SpareBlocks spare = storage_.prepare(function, 1, written);
    storage_.replace_shared(spare, 1, written);
  }
  /// Writes changed_keys(), which become `count` keys from `first` on.
  void write_changed(const detail::AlignedVector<Real>& keys, Index sequence, Index first,
                     Index count) noexcept {
    storage_.write_keys(
        sequence, 0, first,
        HeadsView<const Real>{
            .data = keys.data(), .batch = 1, .seq = count, .heads = kv_heads(), .dim = head_dim()});
  }
  /// A sequence has these keys from now on, and memory for no others.
  void hold(Index sequence, const detail::KeyRange& keys) noexcept {
    ranges_[sequence] = keys;
    storage_.keep_only(sequence, keys);
  }

  template <class T>
  static void check_element() {
    static_assert(
        Scalar<T> && std::same_as<Compute<T>, Real>,
        "posenc::KvCache: keys and values must be float or a 16-bit type, or double for a "
        "cache that stores double");
  }

  /// Of so many keys and values of one head, in T.
  template <class T>
  double bytes_of_keys(Index keys) const noexcept {
    return static_cast<double>(keys * (head_dim() + value_dim())) * sizeof(T);
  }

  detail::KvRanges ranges_;
  detail::KvStorage<tier::Best, S> storage_;
};

POSENC_END
