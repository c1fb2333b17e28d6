// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kv_storage.hpp>
#include <posenc/attention/detail/kv_tokens.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/attention/kv_cache_config.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/refusal.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

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
/// value; const calls from several threads at once are fine. What touches many keys takes an Eigen
/// device first, or none, and leaves the same bits.
///   Layout:   keys [sequence][head][key / 32][D][32], in bfloat16 [..][ceil(D / 2)][32][2] with
///             channel 2i + 1 before 2i, values [sequence][head][key][Dv rounded up to a multiple of
///             16]; a key stays where it is, at its number modulo capacity()
///   Accuracy: stored in S, rounded once to nearest even; attention computes in Compute<S>
///   Cost:     all memory is taken, and zeroed, when the cache is made; see bytes()
template <class S>
class KvCache {
  static_assert(detail::is_scalar<S>, POSENC_DETAIL_SCALAR_RULE);

 public:
  using Real = Compute<S>;

  ///   Throws: ConfigError, std::bad_alloc
  explicit KvCache(const KvCacheConfig& config)
      : limits_(config),
        storage_(config.sequences, config.kv_heads, limits_.capacity, config.head_dim,
                 config.value_dim == 0 ? config.head_dim : config.value_dim),
        ranges_(at(config.sequences)) {}

  KvCache(const KvCache&) = default;
  KvCache(KvCache&&) noexcept = default;
  /// What cannot be copied for want of memory leaves the cache as it was.
  KvCache& operator=(const KvCache& other) {
    KvCache copy(other);
    return *this = std::move(copy);
  }
  KvCache& operator=(KvCache&&) noexcept = default;

  Index sequences() const noexcept { return static_cast<Index>(ranges_.size()); }
  Index kv_heads() const noexcept { return storage_.heads(); }
  Index head_dim() const noexcept { return storage_.dim(); }
  Index value_dim() const noexcept { return storage_.value_dim(); }
  Index capacity() const noexcept { return storage_.capacity(); }
  Index window() const noexcept { return limits_.window; }  ///< 0: no ring
  Index max_append() const noexcept { return limits_.max_append; }
  std::size_t bytes() const noexcept {
    return storage_.bytes() + ranges_.capacity() * sizeof(detail::KeyRange);
  }

  /// The end of the sequence: the number that its next key gets.
  ///   Throws: ShapeError
  Index length(Index sequence) const {
    check_sequence("KvCache::length", sequence);
    return ranges_[at(sequence)].end;
  }
  /// The oldest key that is still there. In a ring the keys of a tile of 128 go together, when the
  /// first key of a newer tile takes their place.
  ///   Throws: ShapeError
  Index first(Index sequence) const {
    check_sequence("KvCache::first", sequence);
    return ranges_[at(sequence)].begin;
  }
  /// Appends n keys and values to batch row b's sequence, sequences[b].
  ///   Shapes: k [B, n, Hkv, D], v [B, n, Hkv, Dv]; sequences [B], no two the same. Elements may be
  ///           of any type with the Compute type of S
  ///   Throws: ShapeError, before anything is written; also where a sequence would pass capacity(),
  ///           and in a ring where n > max_append
  ///   Cost:   one pass over k and v. No allocation
  template <class T>
  void append(ListView<Index> sequences, HeadsView<T> k,
              HeadsView<const std::remove_const_t<T>> v) {
    append(detail::CallingThread(), sequences, k, v);
  }
  template <Device D, class T>
  void append(const D& device, ListView<Index> sequences, HeadsView<T> k,
              HeadsView<const std::remove_const_t<T>> v) {
    using Element = std::remove_const_t<T>;
    check_append<Element>(sequences, k, v);
    append_checked<Element>(device, sequences, k, v);
  }
  /// The same for one sequence: B = 1.
  template <class T>
  void append(Index sequence, HeadsView<T> k, HeadsView<const std::remove_const_t<T>> v) {
    append(detail::CallingThread(), sequence, k, v);
  }
  template <Device D, class T>
  void append(const D& device, Index sequence, HeadsView<T> k,
              HeadsView<const std::remove_const_t<T>> v) {
    append(device, std::span<const Index>(&sequence, 1), k, v);
  }

  /// Says what append() takes.
  template <class Where, class K, class V>
  requires(!std::same_as<std::remove_const_t<K>, std::remove_const_t<V>>) void append(
      const Where&, HeadsView<K>, HeadsView<V>) {
    static_assert(detail::never<K>,
                  "posenc::KvCache::append: k and v must have elements of one type");
  }

  /// Copies keys and values out, from key `first` on: the inverse of append().
  ///   Shapes: k [1, n, Hkv, D], v [1, n, Hkv, Dv]
  ///   Throws: ShapeError, also where one of the keys is not there
  template <detail::Written T>
  void copy_keys(Index sequence, Index first, HeadsView<T> k,
                 HeadsView<std::type_identity_t<T>> v) const {
    copy_keys(detail::CallingThread(), sequence, first, k, v);
  }
  template <Device D, class T>
  void copy_keys(const D& device, Index sequence, Index first, HeadsView<T> k,
                 HeadsView<std::type_identity_t<T>> v) const {
    constexpr auto function = "KvCache::copy_keys";
    check_element<T>();
    check_sequence(function, sequence);
    detail::check_tokens<T>(function, storage_, 1, k, v);
    check_keys(function, sequence, first, k.seq);
    detail::check_output(function, "k", k);
    detail::check_output(function, "v", v);
    detail::for_each_piece(
        device, 1, k.seq, kv_heads(), bytes_of_keys<T>(1), [&](Index) { return first; },
        [&](Index, Index head, Index key, Index s, Index n) {
          storage_.read_keys(sequence, head, key, detail::rows_of<T>(k, 0, head, s, n));
          storage_.read_values(sequence, head, key, detail::rows_of<T>(v, 0, head, s, n));
        });
  }

  /// Makes a sequence hold the keys `first` .. first + n - 1 and no others, whatever it held before: a
  /// session that copy_keys() saved, from first(sequence) on, goes on with the numbers, the bits and the
  /// ring's state that it had.
  ///   Shapes: k [1, n, Hkv, D], v [1, n, Hkv, Dv]
  ///   Throws: ShapeError, before anything is written; also unless `first` is 0 where the cache is no
  ///           ring, and where the keys are more than a sequence can hold
  ///   Cost:   one pass over k and v. No allocation
  template <class T>
  void restore(Index sequence, Index first, HeadsView<T> k,
               HeadsView<const std::remove_const_t<T>> v) {
    restore(detail::CallingThread(), sequence, first, k, v);
  }
  template <Device D, class T>
  void restore(const D& device, Index sequence, Index first, HeadsView<T> k,
               HeadsView<const std::remove_const_t<T>> v) {
    using Element = std::remove_const_t<T>;
    constexpr auto function = "KvCache::restore";
    check_element<Element>();
    check_sequence(function, sequence);
    detail::check_tokens<const Element>(function, storage_, 1, k, v);
    if (first < 0 || (limits_.window == 0 && first != 0)) {
      detail::fail<ShapeError>(function, "the first key must be ",
                               limits_.window == 0 ? "0 where the cache is no ring" : "at least 0",
                               " but is ", first);
    }
    limits_.check_end(function, sequence, first, k.seq);
    const Index end = first + k.seq;
    if (first < limits_.oldest(end)) {
      detail::fail<ShapeError>(function, "the keys ", first, " to ", end - 1,
                               " are more than a sequence holds, whose oldest key would be ",
                               limits_.oldest(end));
    }
    storage_.begin_values(sequence, first);
    detail::write_tokens(
        device, storage_, HeadsView<const Element>(k), v, bytes_of_keys<Element>(1),
        [&](Index) { return sequence; }, [&](Index) { return first; });
    ranges_[at(sequence)] = {first, end};
  }

  /// Forgets the keys from `length` on: those of rejected tokens in speculative decoding. A ring
  /// does not get back what they replaced; while it is at most max_append keys shorter than it ever
  /// was, the next queries still find their whole windows.
  ///   Throws: ShapeError unless first(sequence) <= length <= length(sequence)
  void truncate(Index sequence, Index length) {
    constexpr auto function = "KvCache::truncate";
    check_sequence(function, sequence);
    detail::KeyRange& range = ranges_[at(sequence)];
    if (length < range.begin || length > range.end) {
      detail::fail<ShapeError>(function, "the new length must lie within [", range.begin, ", ",
                               range.end, "], the keys of sequence ", sequence, ", but is ",
                               length);
    }
    for (Index head = 0; head < kv_heads(); ++head) {
      storage_.cut_values(sequence, head, length, range.end);
    }
    range.end = length;
  }

  /// Forgets all keys; the next one is key 0.
  ///   Throws: ShapeError
  void clear(Index sequence) {
    check_sequence("KvCache::clear", sequence);
    ranges_[at(sequence)] = {};
  }

  /// Makes sequence `to` a copy of `from`: a beam that splits, a prefix that is shared.
  ///   Throws: ShapeError
  ///   Cost:   one pass over the keys that are there
  void copy(Index from, Index to) { copy(detail::CallingThread(), from, to); }
  template <Device D>
  void copy(const D& device, Index from, Index to) {
    constexpr auto function = "KvCache::copy";
    check_sequence(function, from);
    check_sequence(function, to);
    if (from == to) return;
    const detail::KeyRange range = ranges_[at(from)];
    const Index first = range.begin / detail::tile_keys;
    const Index last = (range.end + detail::tile_keys - 1) / detail::tile_keys;
    const double bytes = bytes_of_keys<S>(detail::tile_keys);
    detail::parallel_for(
        device, (last - first) * kv_heads(), bytes, bytes / 16, [&](Index unit, Index end) {
          for (; unit < end; ++unit) {
            storage_.copy_tile(from, to, unit % kv_heads(), first + unit / kv_heads());
          }
        });
    ranges_[at(to)] = range;
  }

  /// Removes keys first .. first + count - 1; later ones move down by `count`. On those that move
  /// rotate(HeadsView<Real> k) is called, k [1, n, Hkv, D] a piece at a time, to take their
  /// positions back: `[&](auto k) { shift_keys(k, rope, {-count}); }` makes this the context shift.
  /// A ring cannot do this: its old keys go by themselves, truncate() takes the newest, and for others
  /// copy_keys(), rotate, and restore() what is left.
  ///   Throws:   ShapeError unless the keys are there, ConfigError in a ring, std::bad_alloc, what
  ///             rotate throws; before anything is written
  ///   Device:   it moves the keys; rotate is called on the calling thread and can be given it too
  ///   Accuracy: moved keys are rounded to S once more
  ///   Cost:     two passes over what moves, and memory for its keys in Compute<S>
  template <class Rotate>
  void erase(Index sequence, Index first, Index count, Rotate&& rotate) {
    erase(detail::CallingThread(), sequence, first, count, rotate);
  }
  template <Device D, class Rotate>
  void erase(const D& device, Index sequence, Index first, Index count, Rotate&& rotate) {
    constexpr auto function = "KvCache::erase";
    if (limits_.window != 0) {
      detail::fail<ConfigError>(function, "a ring (window ", limits_.window,
                                ") forgets its oldest keys alone; none can be erased");
    }
    check_sequence(function, sequence);
    check_keys(function, sequence, first, count);
    if (count == 0) return;
    detail::KeyRange& range = ranges_[at(sequence)];
    detail::rewrite_keys(device, storage_, sequence, first + count, range.end, -count,
                         [&](HeadsView<Real> keys, Index) { rotate(keys); });
    detail::for_each_head(
        device, kv_heads(), bytes_of_keys<S>(range.end - first - count),
        [&](Index head) { storage_.move_values(sequence, head, first + count, range.end, first); });
    range.end -= count;
  }

  /// Calls update(HeadsView<Real> k, Index first) on all keys, k [1, n, Hkv, D] a piece at a time
  /// whose first key is `first`, and stores what it leaves there: rerotate() after a change of
  /// frequencies.
  ///   Throws:   ShapeError, std::bad_alloc, what update throws; before anything is written
  ///   Device:   as in erase()
  ///   Accuracy: keys are rounded to S once more
  ///   Cost:     two passes over the keys, and memory for them in Compute<S>
  template <class Update>
  void update_keys(Index sequence, Update&& update) {
    update_keys(detail::CallingThread(), sequence, update);
  }
  template <Device D, class Update>
  void update_keys(const D& device, Index sequence, Update&& update) {
    check_sequence("KvCache::update_keys", sequence);
    const detail::KeyRange range = ranges_[at(sequence)];
    detail::rewrite_keys(device, storage_, sequence, range.begin, range.end, 0, update);
  }

 private:
  friend class detail::RevocableAppend<S>;
  friend class detail::CachedKeys<S>;

  static std::size_t at(Index i) noexcept { return static_cast<std::size_t>(i); }

  /// What first() will be when so many keys more, which append() takes, are appended.
  Index first_after(Index sequence, Index appended) const noexcept {
    const detail::KeyRange& range = ranges_[at(sequence)];
    return (std::max)(range.begin, limits_.oldest(range.end + appended));
  }

  /// Throws what append() does.
  template <Scalar T>
  void check_append(std::span<const Index> sequences, HeadsView<const std::type_identity_t<T>> k,
                    HeadsView<const std::type_identity_t<T>> v) const {
    constexpr auto function = "KvCache::append";
    check_element<T>();
    detail::check_tokens<const T>(function, storage_, static_cast<Index>(sequences.size()), k, v);
    for (std::size_t b = 0; b < sequences.size(); ++b) {
      check_sequence(function, sequences[b]);
      const auto others = sequences.first(b);
      if (std::find(others.begin(), others.end(), sequences[b]) != others.end()) {
        detail::fail<ShapeError>(function, "sequence ", sequences[b], " is named twice");
      }
      limits_.check_append(function, sequences[b], ranges_[at(sequences[b])].end, k.seq);
    }
  }

  template <class T, Device D>
  void append_checked(const D& device, std::span<const Index> sequences, HeadsView<const T> k,
                      HeadsView<const T> v) {
    detail::write_tokens(
        device, storage_, k, v, bytes_of_keys<T>(1), [&](Index b) { return sequences[at(b)]; },
        [&](Index b) { return ranges_[at(sequences[at(b)])].end; });
    for (const Index sequence : sequences) {
      detail::KeyRange& range = ranges_[at(sequence)];
      range.end += k.seq;
      range.begin = (std::max)(range.begin, limits_.oldest(range.end));
    }
  }

  template <class T>
  static void check_element() {
    static_assert(
        Scalar<T> && std::same_as<Compute<T>, Real>,
        "posenc::KvCache: keys and values must be float or a 16-bit type, or double for a "
        "cache that stores double");
  }
  void check_sequence(const char* function, Index sequence) const {
    if (sequence < 0 || sequence >= sequences()) {
      detail::fail<ShapeError>(function, "sequence ", sequence, " must lie within [0, ",
                               sequences(), ")");
    }
  }
  void check_keys(const char* function, Index sequence, Index first, Index count) const {
    const detail::KeyRange range = ranges_[at(sequence)];
    if (first < range.begin || first > range.end || count < 0 || count > range.end - first) {
      detail::fail<ShapeError>(function, count, " keys from key ", first, " on must lie within [",
                               range.begin, ", ", range.end, "), the keys of sequence ", sequence);
    }
  }

  /// Of so many keys and values of one head, in T.
  template <class T>
  double bytes_of_keys(Index keys) const noexcept {
    return static_cast<double>(keys * (head_dim() + value_dim())) * sizeof(T);
  }

  detail::CacheLimits limits_;
  detail::KvStorage<tier::Best, S> storage_;
  std::vector<detail::KeyRange> ranges_;
};

POSENC_END
