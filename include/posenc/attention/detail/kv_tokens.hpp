// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kv_storage.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

// Many tokens into and out of a cache's memory, on a device's threads.
POSENC_BEGIN
namespace detail {

/// Tokens s .. s + n - 1 of one head of batch row b.
template <class T>
HeadsView<T> rows_of(HeadsView<T> x, Index b, Index head, Index s, Index n) noexcept {
  return {x.row(b, s, head), 1, n, 1, x.dim, 0, x.seq_stride, 0};
}

template <Device D, class Work>
void for_each_head(const D& device, Index heads, double bytes, const Work& work) {
  parallel_for(device, heads, bytes, bytes / 4, [&](Index head, Index end) {
    for (; head < end; ++head) work(head);
  });
}

/// Calls visit(b, head, key, s, n) for pieces of keys that different threads may write: those of one
/// head in one tile. Batch row b has the tokens 0 .. count - 1, the first of which is key
/// first_key(b); token s is key `key`. `bytes` is the size of one.
template <Device D, class FirstKey, class Visit>
void for_each_piece(const D& device, Index batch, Index count, Index heads, double bytes,
                    const FirstKey& first_key, const Visit& visit) {
  // A run of so many keys lies in this many tiles, or in one less.
  const Index tiles = count == 0 ? 0 : (count - 1) / tile_keys + 2;
  bytes *= static_cast<double>((std::min)(count, tile_keys));
  parallel_for(device, batch * tiles * heads, bytes, bytes / 4, [&](Index unit, Index end) {
    for (; unit < end; ++unit) {
      const Index head = unit % heads, b = unit / heads / tiles;
      const Index first = first_key(b), tile = first / tile_keys + unit / heads % tiles;
      const Index key = (std::max)(first, tile * tile_keys);
      const Index n = (std::min)(first + count, (tile + 1) * tile_keys) - key;
      if (n > 0) visit(b, head, key, key - first, n);
    }
  });
}

/// Tokens of a batch must fit the cache.
template <class T, class Storage>
void check_tokens(const char* function, const Storage& storage, Index batch, const HeadsView<T>& k,
                  const HeadsView<T>& v) {
  const Index heads = storage.heads(), dim = storage.dim(), value_dim = storage.value_dim();
  check_extents(function, "k", k);
  check_extents(function, "v", v);
  if (k.batch != batch || k.heads != heads || k.dim != dim) {
    fail<ShapeError>(function, "k ", k.extents(), " must be [", batch, ", n, ", heads, ", ", dim,
                     "]");
  }
  if (v.extents() != std::array<Index, 4>{batch, k.seq, heads, value_dim}) {
    fail<ShapeError>(function, "v ", v.extents(), " must be [", batch, ", ", k.seq, ", ", heads,
                     ", ", value_dim, "]");
  }
}

/// k [B, n, Hkv, D] and v become keys first_key(b) .. of sequence sequence_of(b).
template <Device D, class Storage, class T, class SequenceOf, class FirstKey>
void write_tokens(const D& device, Storage& storage, const HeadsView<const T>& k,
                  const HeadsView<const T>& v, double bytes, const SequenceOf& sequence_of,
                  const FirstKey& first_key) {
  for_each_piece(device, k.batch, k.seq, storage.heads(), bytes, first_key,
                 [&](Index b, Index head, Index first, Index s, Index n) {
                   storage.write_keys(sequence_of(b), head, first, rows_of(k, b, head, s, n));
                   storage.write_values(sequence_of(b), head, first, rows_of(v, b, head, s, n));
                 });
}

/// Keys first .. end - 1, through change(k, first), to their place or one `move` away, which is lower.
/// Nothing is written before the last change was made.
template <Device D, class Storage, class Change>
void rewrite_keys(const D& device, Storage& storage, Index sequence, Index first, Index end,
                  Index move, Change&& change) {
  using Real = typename Storage::Real;
  // Panels that are whole are faster, so pieces end where they do.
  constexpr Index piece = tile_keys;
  const Index heads = storage.heads(), dim = storage.dim(), row = heads * dim;
  AlignedVector<Real> buffer(static_cast<std::size_t>((end - first) * row));
  const auto bytes = [&](Index count) { return static_cast<double>(count * dim) * sizeof(Real); };
  for (Index j = first; j < end;) {
    const Index n = (std::min)(end, (j / piece + 1) * piece) - j;
    const HeadsView<Real> keys{buffer.data() + (j - first) * row, 1, n, heads, dim};
    for_each_head(device, heads, bytes(n), [&](Index head) {
      storage.read_keys(sequence, head, j, rows_of(keys, 0, head, 0, n));
    });
    change(keys, j);
    j += n;
  }
  const Index count = end - first;
  const HeadsView<const Real> changed{buffer.data(), 1, count, heads, dim};
  for_each_head(device, heads, bytes(count), [&](Index head) {
    storage.write_keys(sequence, head, first + move, rows_of(changed, 0, head, 0, count));
  });
}

}  // namespace detail
POSENC_END
