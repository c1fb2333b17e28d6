// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/call_diagnostics.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/detail/kv_ranges.hpp>
#include <posenc/kv/detail/kv_storage.hpp>
#include <posenc/kv/detail/kv_transfer.hpp>
#include <posenc/kv/detail/kv_writes.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache_config.hpp>
#include <posenc/kv/kv_format.hpp>
#include <posenc/tensor/detail/check_offsets.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/detail/token_runs.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

POSENC_BEGIN

namespace detail {
template <KvFormat S>
class AppendTransaction;
template <KvFormat S>
class CacheKvSource;
}  // namespace detail

/// Cache of keys and values of earlier tokens, for several sequences. attention() of new queries
/// reads it.
/// Keys are numbered from 0 in the order of their sequence, and keep their numbers when a ring
/// evicts older keys. They are stored as given, so rotate them before append(). A cache is a value
/// type. Calls that touch many keys take an optional device last; the result is bit-identical on
/// every device.
///   Types:    S is an element type of tensors, or a KvRowFormat, for example Int8PerTokenHead. A
///             cache in a KvRowFormat takes and returns rows of float
///   Pool:     with a KvBlockPool a sequence has memory only for the keys that it holds, whatever
///             its capacity. A call that needs more memory may throw MemoryLimitError or
///             std::bad_alloc before anything is written. Copies of a sequence or of the cache
///             share blocks until one of them is written there. truncate() and clear() always
///             succeed, and return blocks to the pool, as the destructor does
///   Device:   the device writes only where no sequence holds keys. The calling thread overwrites
///             keys after the device has succeeded, so a device that throws leaves caches
///             unchanged. Eigen's pool does not throw: std::bad_alloc on one of its threads ends
///             the program
///   Threads:  const calls may run concurrently. Other calls may run beside them if they are for
///             other sequences
///   Layout:   keys [sequence][head][key / 32][D][32], in bfloat16 [..][ceil(D / 2)][32][2] with
///             channel 2i + 1 before 2i; values [sequence][head][key][Dv rounded up to a multiple
///             of 16]; with a KvRowFormat both [sequence][head][key][row_bytes()]. A key is stored
///             at its number modulo capacity() and does not move. Without a
///             pool, 2112 bytes separate heads whose keys, or values, take 64 KiB or more
///   Accuracy: stored in S, rounded once to nearest even or encoded once; attention computes in
///             Real
///   Cost:     without a pool, all memory is allocated and zeroed by the constructor; see bytes().
///             Keys or values of 4 MiB or more request pages of 2 MiB (POSENC_HUGE_PAGES)
template <class S>
class KvCache {
  static_assert(detail::CheckKvFormat<S>::value);
  using Storage = detail::KvStorage<tier::Best, S>;

 public:
  /// Type of arithmetic, and of the keys that callbacks receive: double for a cache of double,
  /// otherwise float.
  using Real = typename Storage::Real;

  /// Constructs a cache without keys that owns its memory.
  ///   Throws: ConfigError, std::bad_alloc
  explicit KvCache(const KvCacheConfig& config) : KvCache(config, nullptr) {}
  /// Constructs a cache without keys that allocates from a pool and keeps the pool alive.
  ///   Throws: ConfigError, std::bad_alloc
  KvCache(const KvCacheConfig& config, const KvBlockPool& pool) : KvCache(config, &pool) {}

  /// Copies a cache. With a pool the copy shares its blocks until one of them is written.
  ///   Throws: std::bad_alloc
  KvCache(const KvCache&) = default;
  /// Moves a cache; the source has no sequences afterwards.
  KvCache(KvCache&&) noexcept = default;
  /// Replaces the cache by a copy of another one. If memory does not suffice, it is unchanged.
  ///   Throws: std::bad_alloc
  KvCache& operator=(const KvCache& other) {
    KvCache copy(other);
    return *this = std::move(copy);
  }
  /// Replaces the cache by another one, whose memory it takes over.
  KvCache& operator=(KvCache&&) noexcept = default;

  /// Returns the number of sequences.
  Index sequences() const noexcept { return ranges_.sequences(); }
  /// Returns Hkv, the number of KV heads.
  Index kv_heads() const noexcept { return storage_.heads(); }
  /// Returns D, the number of channels of a key's head.
  Index head_dim() const noexcept { return storage_.dim(); }
  /// Returns Dv, the number of channels of a value's head.
  Index value_dim() const noexcept { return storage_.value_dim(); }
  /// Returns the most keys per sequence that are in memory at a time, in whole tiles of 128. In a
  /// ring that is more than window() + max_append() - 1.
  Index capacity() const noexcept { return storage_.capacity(); }
  /// Returns the window of a ring in keys, or 0 if the cache is no ring.
  Index window() const noexcept { return ranges_.limits().window; }
  /// Returns the most keys per append() to a ring. Other caches have no such limit.
  Index max_append() const noexcept { return ranges_.limits().max_append; }
  /// Returns the bytes of this cache, without the blocks of a pool, which the pool counts.
  std::size_t bytes() const noexcept { return storage_.bytes() + ranges_.bytes(); }
  /// Returns the bytes that each 128 keys of a sequence, or a part of 128, take from a pool.
  std::size_t block_bytes() const noexcept { return storage_.blocks().bytes_per_block(); }

  /// Returns the end of the sequence: the number that its next key gets.
  ///   Throws: ShapeError
  Index length(Index sequence) const {
    ranges_.check_sequence("KvCache::length", sequence);
    return ranges_[sequence].end;
  }
  /// Returns the oldest key that is stored. A ring evicts the keys of a tile of 128 together, when
  /// the first key of a newer tile overwrites their memory.
  ///   Throws: ShapeError
  Index first(Index sequence) const {
    ranges_.check_sequence("KvCache::first", sequence);
    return ranges_[sequence].begin;
  }
  /// Appends n keys and values to sequences[b] for each batch row b. Keys that are rotated in float
  /// are rounded once, here: the bits are those of rotate_into() S and append().
  ///   Shapes: k [B, n, Hkv, D], v [B, n, Hkv, Dv]; sequences [B], no two the same. Elements may be
  ///           of any type with the Compute type of S
  ///   Throws: ShapeError, before anything is written; also if a sequence would exceed capacity(),
  ///           or in a ring if n > max_append
  ///   Cost:   one pass over k and v; no allocation without a pool
  template <class T, Device D = detail::CallingThread>
  void append(ListView<Index> sequences, HeadsView<T> k, HeadsView<const std::remove_const_t<T>> v,
              const D& device = {}) {
    const detail::TokenRuns runs{sequences, {}, k.seq};
    check_append<std::remove_const_t<T>>(runs, k, v);
    append_checked<std::remove_const_t<T>>(device, runs, k, v);
  }
  /// Overload of append() for packed sequences with different numbers of new tokens, 0 included.
  /// sequences[n] gets tokens cu_seqlens[n] .. cu_seqlens[n + 1] - 1 of the one batch row.
  ///   Shapes: k [1, total, Hkv, D], v [1, total, Hkv, Dv]; sequences [N]; cu_seqlens [N + 1], from
  ///           0 to total
  template <class T, Device D = detail::CallingThread>
  void append(ListView<Index> sequences, IndexList cu_seqlens, HeadsView<T> k,
              HeadsView<const std::remove_const_t<T>> v, const D& device = {}) {
    constexpr auto function = "KvCache::append";
    detail::check_extents(function, "k", k);
    detail::check_offsets(function, "cu_seqlens", cu_seqlens, k.seq, sequences.size());
    const detail::TokenRuns runs{sequences, cu_seqlens, k.seq};
    check_append<std::remove_const_t<T>>(runs, k, v);
    append_checked<std::remove_const_t<T>>(device, runs, k, v);
  }
  /// Overload of append() for one sequence: B = 1.
  template <class T, Device D = detail::CallingThread>
  void append(Index sequence, HeadsView<T> k, HeadsView<const std::remove_const_t<T>> v,
              const D& device = {}) {
    append(ListView<Index>(&sequence, 1), k, v, device);
  }

  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void append(detail::RefusedCall<detail::AppendRule>, ...);

  /// Copies keys and values out, starting with key `first`. This is the inverse of append().
  ///   Shapes: k [1, n, Hkv, D], v [1, n, Hkv, Dv]
  ///   Throws: ShapeError, also if one of the keys is not stored
  template <class T, Device D = detail::CallingThread>
  void copy_keys(Index sequence, Index first, HeadsView<T> k, HeadsView<std::type_identity_t<T>> v,
                 const D& device = {}) const {
    constexpr auto function = "KvCache::copy_keys";
    static_assert(detail::CheckWritable<T>::value);
    check_element<std::remove_const_t<T>>();
    ranges_.check_sequence(function, sequence);
    detail::check_tokens<T>(function, storage_, 1, k, v);
    ranges_.check_keys(function, sequence, first, k.seq);
    detail::check_output(function, "k", k);
    detail::check_output(function, "v", v);
    detail::parallel_for_chunks(
        device, {{&sequence, 1}, {}, k.seq}, kv_heads(), bytes_of_keys<T>(1),
        [&](Index) { return first; },
        [&](const detail::TokenChunk& piece) {
          storage_.read_keys(sequence, piece.head, piece.key, detail::chunk_view<T>(k, 0, piece));
          storage_.read_values(sequence, piece.head, piece.key, detail::chunk_view<T>(v, 0, piece));
        });
  }

  /// Replaces the contents of a sequence by the keys `first` .. first + n - 1. Together with
  /// copy_keys() from first(sequence) on, it resumes a saved session: key numbers, bits and ring
  /// state are those of the saved sequence.
  ///   Shapes: k [1, n, Hkv, D], v [1, n, Hkv, Dv]
  ///   Throws: ShapeError, before anything is written; also if `first` is not 0 in a cache that is
  ///           no ring, or if a sequence cannot hold so many keys
  ///   Pool:   the sequence's old blocks are returned last; call clear() before to return them
  ///           first
  ///   Cost:   one pass over k and v; no allocation without a pool
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
          ranges_.limits().window == 0 ? "0 because the cache is not a ring" : "at least 0",
          " but is ", first);
    }
    ranges_.limits().check_end(function, sequence, first, k.seq);
    const Index end = first + k.seq;
    if (first < ranges_.limits().first_kept(end)) {
      detail::fail<ShapeError>(function, "the keys ", first, " to ", end - 1,
                               " are more than a sequence can store, whose oldest key would be ",
                               ranges_.limits().first_kept(end));
    }
    const auto written = [&](Index) {
      return detail::PendingWrite{.sequence = sequence,
                                  .keys = {first, end},
                                  .old = ranges_[sequence],
                                  .preserves_old = false};
    };
    const detail::TokenRuns runs{{&sequence, 1}, {}, k.seq};
    detail::TokenWrites(function, storage_, runs, written)
        .run(device, HeadsView<const Element>(k), v);
    storage_.blocks().set_stale_end(sequence, 0);
    set_range(sequence, {first, end});
  }

  /// Shortens a sequence to `length` keys, as when tokens of speculative decoding are rejected. In
  /// a ring, keys that the removed ones have overwritten are lost. Later queries still find their
  /// full windows if the ring is at most max_append keys shorter than its longest length so far.
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
    storage_.truncate_values(sequence, length, range.end);
    set_range(sequence, {range.begin, length});
  }

  /// Removes all keys of a sequence; its next key is key 0.
  ///   Throws: ShapeError
  void clear(Index sequence) {
    ranges_.check_sequence("KvCache::clear", sequence);
    set_range(sequence, {});
  }

  /// Copies sequence `from` to sequence `to`, as when a beam splits or a prefix is shared.
  ///   Throws: ShapeError, and with a pool std::bad_alloc
  ///   Cost:   one pass over the stored keys; with a pool no pass, because blocks are shared
  template <Device D = detail::CallingThread>
  void copy(Index from, Index to, const D& device = {}) {
    constexpr auto function = "KvCache::copy";
    ranges_.check_sequence(function, from);
    ranges_.check_sequence(function, to);
    if (from == to) return;
    const detail::KeyRange range = ranges_[from];
    const detail::KeyRange tiles = detail::tiles_of(range);
    const double bytes = bytes_of_keys<typename Storage::Element>(detail::tile_keys);
    if (storage_.blocks().has_pool()) {
      storage_.blocks().share(from, to);
    } else {
      // Keys are overwritten last, after every step that can fail.
      const detail::PendingWrite written{
          .sequence = to, .keys = range, .old = ranges_[to], .preserves_old = false};
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

  /// Removes keys first .. first + count - 1. Later keys move down by `count`.
  /// rotate(HeadsView<Real> k) is called on the keys that move, k [1, n, Hkv, D], one chunk per
  /// call, to adapt their positions: `[&](auto k) { shift_keys(k, rope, {-count}); }` implements
  /// the context shift.
  /// A ring does not support this call. It evicts its oldest keys itself, and truncate() removes
  /// the newest. For other keys use copy_keys(), rotate them, and restore() the rest.
  ///   Throws:   ShapeError if the keys are not stored, ConfigError for a ring, std::bad_alloc, and
  ///             what rotate throws; before anything is written
  ///   Device:   reads the keys; rotate runs on the calling thread and may use the same device
  ///   Accuracy: keys that move are rounded to S once more
  ///   Cost:     two passes over the keys that move, and memory for them in Real
  template <class Rotate, Device D = detail::CallingThread>
  void erase(Index sequence, Index first, Index count, Rotate&& rotate, const D& device = {}) {
    constexpr auto function = "KvCache::erase";
    if (ranges_.limits().window != 0) {
      detail::fail<ConfigError>(function, "a ring (window ", ranges_.limits().window,
                                ") evicts its oldest keys itself; no key can be erased");
    }
    ranges_.check_sequence(function, sequence);
    ranges_.check_keys(function, sequence, first, count);
    if (count == 0) return;
    const detail::KeyRange range = ranges_[sequence];
    const auto keys = detail::changed_keys(device, storage_, sequence, first + count, range.end,
                                           [&](HeadsView<Real> piece, Index) { rotate(piece); });
    allocate_for_write(function, {.sequence = sequence,
                                  .keys = {first, range.end - count},
                                  .old = range,
                                  .preserves_old = true});
    write_changed(keys, sequence, first, range.end - first - count);
    for (Index head = 0; head < kv_heads(); ++head) {
      storage_.move_values(sequence, head, first + count, range.end, first);
    }
    storage_.truncate_values(sequence, range.end - count, range.end);
    set_range(sequence, {range.begin, range.end - count});
  }

  /// Calls update(HeadsView<Real> k, Index first) on all keys of a sequence and stores the result.
  /// Each call gets a chunk k [1, n, Hkv, D] that starts with key `first`. Use it with rerotate()
  /// after a change of frequencies.
  ///   Throws:   ShapeError, std::bad_alloc, and what update throws; before anything is written
  ///   Device:   as for erase()
  ///   Accuracy: keys are rounded to S once more
  ///   Cost:     two passes over the keys, and memory for them in Real
  template <class Update, Device D = detail::CallingThread>
  void update_keys(Index sequence, Update&& update, const D& device = {}) {
    constexpr auto function = "KvCache::update_keys";
    ranges_.check_sequence(function, sequence);
    const detail::KeyRange range = ranges_[sequence];
    const auto keys =
        detail::changed_keys(device, storage_, sequence, range.begin, range.end, update);
    allocate_for_write(function,
                       {.sequence = sequence, .keys = range, .old = range, .preserves_old = true});
    write_changed(keys, sequence, range.begin, range.end - range.begin);
  }

 private:
  friend class detail::AppendTransaction<S>;
  friend class detail::CacheKvSource<S>;

  KvCache(const KvCacheConfig& config, const KvBlockPool* pool)
      : ranges_(config),
        storage_(config.sequences, config.kv_heads, ranges_.limits().capacity, config.head_dim,
                 config.value_dim == 0 ? config.head_dim : config.value_dim, pool) {}

  /// Throws the errors of append(), except those for lack of memory.
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
      return detail::PendingWrite{.sequence = runs.sequence(n),
                                  .keys = {held.end, held.end + runs.count(n)},
                                  .old = held,
                                  .preserves_old = true};
    };
    detail::TokenWrites("KvCache::append", storage_, runs, written).run(device, k, v);
    for (Index n = 0; n < runs.size(); ++n) {
      ranges_[runs.sequence(n)] = ranges_.range_after_append(runs.sequence(n), runs.count(n));
    }
  }

  void allocate_for_write(const char* function, const detail::PendingWrite& keys) {
    const auto written = [&](Index) { return keys; };
    detail::UnassignedBlocks spare = storage_.blocks().make_writable(function, 1, written);
    storage_.blocks().replace_shared(spare, 1, written);
  }
  /// Writes the result of changed_keys() as keys first .. first + count - 1.
  void write_changed(const detail::AlignedVector<Real>& keys, Index sequence, Index first,
                     Index count) noexcept {
    storage_.write_keys(
        sequence, 0, first,
        HeadsView<const Real>{
            .data = keys.data(), .batch = 1, .seq = count, .heads = kv_heads(), .dim = head_dim()});
  }
  /// Sets the range of keys of a sequence and releases the memory of all others.
  void set_range(Index sequence, const detail::KeyRange& keys) noexcept {
    ranges_[sequence] = keys;
    storage_.blocks().release_except(sequence, keys);
  }

  template <class T>
  static void check_element() {
    static_assert(
        Scalar<T> && std::same_as<Compute<T>, Real>,
        "posenc::KvCache: keys and values must be float or a 16-bit type, or double for a "
        "cache that stores double");
    static_assert(Storage::Layout::template converts<T>,
                  "posenc::KvCache: keys and values of a cache in a KvRowFormat must be float");
  }

  /// Returns the bytes of `keys` keys and values of one head, in T.
  template <class T>
  double bytes_of_keys(Index keys) const noexcept {
    return static_cast<double>(keys * (head_dim() + value_dim())) * sizeof(T);
  }

  detail::KvRanges ranges_;
  Storage storage_;
};

POSENC_END
