// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/key_tile.hpp>
#include <posenc/attention/kv_storage.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/refusal.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

POSENC_STABLE_BEGIN

/// Either `capacity` or `window` has to be given.
struct KvCacheConfig {
  Index sequences = 1;
  Index kv_heads = 0;   ///< required
  Index head_dim = 0;   ///< required
  Index value_dim = 0;  ///< head_dim if 0
  Index capacity = 0;   ///< keys that a sequence can hold, rounded up to whole tiles
  /// Makes the cache a ring, in which new keys take the place of old ones: however long a sequence
  /// grows, each of the last max_append queries finds its last `window` keys, its own included.
  Index window = 0;
  Index max_append = 1;  ///< the most keys that a ring takes at once
};

POSENC_STABLE_END

POSENC_BEGIN

/// Keys and values of earlier tokens, for several sequences: what attention() of new queries reads.
/// Keys are numbered from 0 by their place in the sequence and keep their number when a ring
/// forgets older ones. They are stored as they are given, so rotate them before. A cache is a plain
/// value; const calls from several threads at once are fine.
///   Layout:   keys [sequence][head][key / 32][D][32], in bfloat16 [..][ceil(D / 2)][32][2] with
///             channel 2i + 1 before 2i, values [sequence][head][key][Dv rounded up to a multiple of
///             16]; a key stays in its slot, its number modulo capacity()
///   Accuracy: stored in S, rounded once to nearest even; attention computes in Compute<S>
///   Cost:     all memory is taken, and zeroed, when the cache is made; see bytes()
template <class S>
class KvCache {
  static_assert(detail::is_scalar<S>, POSENC_DETAIL_SCALAR_RULE);

 public:
  using Real = Compute<S>;

  ///   Throws: ConfigError, std::bad_alloc
  explicit KvCache(const KvCacheConfig& config)
      : window_(config.window),
        max_append_(config.max_append),
        storage_(config.sequences, config.kv_heads, capacity_of(config), config.head_dim,
                 config.value_dim == 0 ? config.head_dim : config.value_dim),
        ranges_(at(config.sequences)) {}

  Index sequences() const noexcept { return static_cast<Index>(ranges_.size()); }
  Index kv_heads() const noexcept { return storage_.heads(); }
  Index head_dim() const noexcept { return storage_.dim(); }
  Index value_dim() const noexcept { return storage_.value_dim(); }
  Index capacity() const noexcept { return storage_.capacity(); }
  Index window() const noexcept { return window_; }  ///< 0: no ring
  Index max_append() const noexcept { return max_append_; }
  std::size_t bytes() const noexcept {
    return storage_.bytes() + ranges_.capacity() * sizeof(Range);
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
    return ranges_[at(sequence)].first;
  }
  /// What first() will be when so many keys more are appended.
  ///   Throws: ShapeError
  Index first_after(Index sequence, Index appended) const {
    check_sequence("KvCache::first_after", sequence);
    const Range& range = ranges_[at(sequence)];
    return (std::max)(range.first, oldest(range.end + appended));
  }

  /// Appends n keys and values to batch row b's sequence, sequences[b].
  ///   Shapes: k [B, n, Hkv, D], v [B, n, Hkv, Dv]; sequences [B], no two the same. Elements may be
  ///           of any type with the Compute type of S
  ///   Throws: ShapeError, before anything is written; also where a sequence would pass capacity(),
  ///           and in a ring where n > max_append
  ///   Cost:   one pass over k and v. No allocation
  template <class T>
  void append(std::span<const Index> sequences, HeadsView<T> k,
              HeadsView<const std::remove_const_t<T>> v) {
    using Element = std::remove_const_t<T>;
    check_append<Element>(sequences, k, v);
    for (Index b = 0; b < k.batch; ++b) {
      const Index sequence = sequences[at(b)];
      Range& range = ranges_[at(sequence)];
      storage_.write_keys(sequence, range.end, batch_row<const Element>(k, b));
      storage_.write_values(sequence, range.end, batch_row<const Element>(v, b));
      range.end += k.seq;
      range.first = (std::max)(range.first, oldest(range.end));
    }
  }
  /// The same for one sequence: B = 1.
  template <class T>
  void append(Index sequence, HeadsView<T> k, HeadsView<const std::remove_const_t<T>> v) {
    append(std::span<const Index>(&sequence, 1), k, v);
  }

  /// Says what append() takes.
  template <class Where, class K, class V>
  requires(!std::same_as<std::remove_const_t<K>, std::remove_const_t<V>>) void append(
      const Where&, HeadsView<K>, HeadsView<V>) {
    static_assert(detail::never<K>,
                  "posenc::KvCache::append: k and v must have elements of one type");
  }

  /// Throws what append() would, for callers that append last.
  template <Scalar T>
  void check_append(std::span<const Index> sequences, HeadsView<const std::type_identity_t<T>> k,
                    HeadsView<const std::type_identity_t<T>> v) const {
    constexpr auto function = "KvCache::append";
    check_element<T>();
    check_views<const T>(function, static_cast<Index>(sequences.size()), k, v);
    for (std::size_t b = 0; b < sequences.size(); ++b) {
      check_sequence(function, sequences[b]);
      const auto others = sequences.first(b);
      if (std::find(others.begin(), others.end(), sequences[b]) != others.end()) {
        detail::fail<ShapeError>(function, "sequence ", sequences[b], " is named twice");
      }
      check_room(function, sequences[b], k.seq);
    }
  }

  /// Copies keys and values out, from key `first` on: the inverse of append().
  ///   Shapes: k [1, n, Hkv, D], v [1, n, Hkv, Dv]
  ///   Throws: ShapeError, also where one of the keys is not there
  template <detail::Written T>
  void copy_keys(Index sequence, Index first, HeadsView<T> k,
                 HeadsView<std::type_identity_t<T>> v) const {
    constexpr auto function = "KvCache::copy_keys";
    check_element<T>();
    check_sequence(function, sequence);
    check_views<T>(function, 1, k, v);
    check_keys(function, sequence, first, k.seq);
    detail::check_output(function, "k", k);
    detail::check_output(function, "v", v);
    storage_.read_keys(sequence, first, k);
    storage_.read_values(sequence, first, v);
  }

  /// Forgets the keys from `length` on: those of rejected tokens in speculative decoding. A ring
  /// does not get back what they replaced; while it is at most max_append keys shorter than it ever
  /// was, the next queries still find their whole windows.
  ///   Throws: ShapeError unless first(sequence) <= length <= length(sequence)
  void truncate(Index sequence, Index length) {
    constexpr auto function = "KvCache::truncate";
    check_sequence(function, sequence);
    Range& range = ranges_[at(sequence)];
    if (length < range.first || length > range.end) {
      detail::fail<ShapeError>(function, "the new length must lie within [", range.first, ", ",
                               range.end, "], the keys of sequence ", sequence, ", but is ",
                               length);
    }
    storage_.cut_values(sequence, length, range.end);
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
  void copy(Index from, Index to) {
    constexpr auto function = "KvCache::copy";
    check_sequence(function, from);
    check_sequence(function, to);
    if (from == to) return;
    const Range range = ranges_[at(from)];
    storage_.copy_tiles(from, to, range.first / detail::tile_keys,
                        (range.end + detail::tile_keys - 1) / detail::tile_keys);
    ranges_[at(to)] = range;
  }

  /// Removes keys first .. first + count - 1; later ones move down by `count`. On those that move
  /// rotate(HeadsView<Real> k) is called, k [1, n, Hkv, D] a piece at a time, to take their
  /// positions back: `[&](auto k) { shift_keys(k, rope, {-count}); }` makes this the context shift.
  ///   Throws:   ShapeError unless the keys are there, ConfigError in a ring, whose old keys go by
  ///             themselves; what rotate throws, and then clear() the sequence unless it was the
  ///             first call
  ///   Accuracy: moved keys are rounded to S once more
  ///   Cost:     two passes over what moves
  template <class Rotate>
  void erase(Index sequence, Index first, Index count, Rotate&& rotate) {
    constexpr auto function = "KvCache::erase";
    if (window_ != 0) {
      detail::fail<ConfigError>(function, "a ring (window ", window_,
                                ") forgets its oldest keys alone; none can be erased");
    }
    check_sequence(function, sequence);
    check_keys(function, sequence, first, count);
    if (count == 0) return;
    Range& range = ranges_[at(sequence)];
    rewrite_keys(sequence, first + count, range.end, -count,
                 [&](HeadsView<Real> keys, Index) { rotate(keys); });
    storage_.move_values(sequence, first + count, range.end, first);
    range.end -= count;
  }

  /// Calls update(HeadsView<Real> k, Index first) on all keys, k [1, n, Hkv, D] a piece at a time
  /// whose first key is `first`, and stores what it leaves there: rerotate() after a change of
  /// frequencies.
  ///   Throws:   ShapeError; what update throws, and then clear() the sequence unless it was the
  ///             first call
  ///   Accuracy: keys are rounded to S once more
  ///   Cost:     two passes over the keys
  template <class Update>
  void update_keys(Index sequence, Update&& update) {
    check_sequence("KvCache::update_keys", sequence);
    const Range range = ranges_[at(sequence)];
    rewrite_keys(sequence, range.first, range.end, 0, update);
  }

  /// Keys tile * 128 .. tile * 128 + 127 of a head, as attention reads them.
  detail::KeyTile<S> tile(Index sequence, Index head, Index tile) const noexcept {
    return storage_.tile(sequence, head, tile);
  }

 private:
  /// Keys first .. end - 1 are there.
  struct Range {
    Index first = 0, end = 0;
  };

  static std::size_t at(Index i) noexcept { return static_cast<std::size_t>(i); }

  static Index capacity_of(const KvCacheConfig& config) {
    constexpr auto function = "KvCache";
    const auto require = [&](bool met, const char* name, const char* rule, Index value) {
      if (!met) detail::fail<ConfigError>(function, name, rule, " but is ", value);
    };
    // Sums and products below stay far from the end of Index.
    constexpr Index most = Index{1} << 40;
    const auto in_range = [&](const char* name, Index least, Index value) {
      require(value >= least, name, least == 0 ? " must not be negative" : " must be positive",
              value);
      require(value <= most, name, " must be at most 2^40", value);
    };
    in_range("sequences", 1, config.sequences);
    in_range("kv_heads", 1, config.kv_heads);
    in_range("head_dim", 1, config.head_dim);
    in_range("value_dim", 0, config.value_dim);
    in_range("capacity", 0, config.capacity);
    in_range("window", 0, config.window);
    in_range("max_append", 1, config.max_append);
    if ((config.capacity == 0) == (config.window == 0)) {
      detail::fail<ConfigError>(function, "either capacity or window must be given, but they are ",
                                config.capacity, " and ", config.window);
    }
    const auto whole_tiles = [](Index keys) {
      return (keys + detail::tile_keys - 1) / detail::tile_keys * detail::tile_keys;
    };
    const Index capacity =
        config.window == 0 ? whole_tiles(config.capacity)
                           : whole_tiles(config.window + config.max_append - 1) + detail::tile_keys;
    const double numbers = static_cast<double>(config.sequences) *
                           static_cast<double>(config.kv_heads) * static_cast<double>(capacity) *
                           static_cast<double>((std::max)(config.head_dim, config.value_dim) + 16);
    if (numbers > 0x1p56) {
      detail::fail<ConfigError>(function, "no memory holds ", config.sequences, " sequences of ",
                                capacity, " keys with ", config.kv_heads, " heads of ",
                                config.head_dim, " and ", config.value_dim, " numbers");
    }
    return capacity;
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
  template <class T>
  void check_views(const char* function, Index batch, const HeadsView<T>& k,
                   const HeadsView<T>& v) const {
    if (k.batch != batch || k.heads != kv_heads() || k.dim != head_dim()) {
      detail::fail<ShapeError>(function, "k ", k.extents(), " must be [", batch, ", n, ",
                               kv_heads(), ", ", head_dim(), "]");
    }
    if (v.extents() != std::array<Index, 4>{batch, k.seq, kv_heads(), value_dim()}) {
      detail::fail<ShapeError>(function, "v ", v.extents(), " must be [", batch, ", ", k.seq, ", ",
                               kv_heads(), ", ", value_dim(), "]");
    }
  }
  void check_room(const char* function, Index sequence, Index count) const {
    const Index length = ranges_[at(sequence)].end;
    if (window_ != 0 && count > max_append_) {
      detail::fail<ShapeError>(function, "a ring (window ", window_,
                               ") takes at most max_append = ", max_append_,
                               " keys at once but got ", count);
    }
    if (window_ == 0 && count > capacity() - length) {
      detail::fail<ShapeError>(function, "sequence ", sequence, " holds ", length,
                               " keys, and with ", count, " more would pass the capacity of ",
                               capacity());
    }
  }
  void check_keys(const char* function, Index sequence, Index first, Index count) const {
    const Range range = ranges_[at(sequence)];
    if (first < range.first || first > range.end || count < 0 || count > range.end - first) {
      detail::fail<ShapeError>(function, count, " keys from key ", first, " on must lie within [",
                               range.first, ", ", range.end, "), the keys of sequence ", sequence);
    }
  }

  template <class T>
  static HeadsView<T> batch_row(HeadsView<T> x, Index b) noexcept {
    x.data = x.row(b, 0, 0);
    x.batch = 1;
    return x;
  }

  /// The oldest key that has kept its place when the last one is end - 1.
  Index oldest(Index end) const noexcept {
    const Index last_tile = (end + detail::tile_keys - 1) / detail::tile_keys;
    return (std::max)(Index{0}, last_tile * detail::tile_keys - capacity());
  }

  /// Keys first .. end - 1, through change(k, first), to their place or a lower one.
  template <class Change>
  void rewrite_keys(Index sequence, Index first, Index end, Index move, Change&& change) {
    // Blocks of lanes that are whole are faster, so pieces end where blocks do.
    constexpr Index piece = detail::tile_keys;
    const Index row = kv_heads() * head_dim();
    std::vector<Real> buffer(at((std::min)(piece, end - first) * row));
    for (Index j = first; j < end;) {
      const Index n = (std::min)(end, (j / piece + 1) * piece) - j;
      const HeadsView<Real> keys{buffer.data(), 1,       n,   kv_heads(),
                                 head_dim(),    n * row, row, head_dim()};
      storage_.read_keys(sequence, j, keys);
      change(keys, j);
      storage_.write_keys(sequence, j + move, HeadsView<const Real>(keys));
      j += n;
    }
  }

  Index window_, max_append_;
  detail::KvStorage<S> storage_;
  std::vector<Range> ranges_;
};

POSENC_END
