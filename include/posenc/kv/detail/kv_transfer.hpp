// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/call_diagnostics.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/detail/kv_storage.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/detail/token_runs.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

// Transfer of many tokens into and out of a cache's memory, on a device's threads.
POSENC_BEGIN
namespace detail {

POSENC_DETAIL_CALL_RULE(
    AppendRule,
    "posenc: KvCache::append takes (sequences, k, v) or (sequences, cu_seqlens, k, v), then an "
    "Eigen "
    "device or none; k and v are HeadsViews (from bshd(tensor) or another adapter) of one element "
    "type, sequences is a posenc::Index, which is std::int64_t, or a vector, an array or a span of "
    "them");

/// Tokens and heads of a run: the unit of parallel work.
struct TokenChunk {
  Index run = 0;
  Index head = 0, heads = 1;   ///< first head, number of heads
  Index key = 0;               ///< key number of the first token
  Index first = 0, count = 0;  ///< tokens, counted in their batch row
};

/// Returns the view of a chunk in batch row b.
template <class T>
HeadsView<T> chunk_view(HeadsView<T> x, Index b, const TokenChunk& chunk) noexcept {
  T* const first = x.row(b, chunk.first, chunk.head);
  return {first, 1, chunk.count, chunk.heads, x.dim, 0, x.seq_stride, x.head_stride};
}

/// Calls visit(chunk) for chunks that different threads may write: the keys of a chunk lie in one
/// tile. The first token of run n becomes key first_key(n).
///   bytes: bytes of a key of one head
template <Device D, class FirstKey, class Visit>
void parallel_for_chunks(const D& device, const TokenRuns& runs, Index heads, double bytes,
                         const FirstKey& first_key, const Visit& visit) {
  const Index longest = runs.longest();
  if (longest == 0) return;
  // A run of `longest` keys lies in this many tiles, or in one less.
  const Index tiles = (longest - 1) / tile_keys + 2;
  const Index chunks = runs.size() * tiles;
  // If runs differ in length, most chunks are empty.
  const double keys = runs.offsets.empty()
                          ? static_cast<double>((std::min)(longest, tile_keys))
                          : static_cast<double>(runs.tokens) / static_cast<double>(chunks);
  bytes *= keys;
  parallel_for(device, chunks * heads, bytes, bytes / 4, [&](Index unit, Index end) {
    while (unit < end) {
      const Index head = unit % heads, n = unit / heads / tiles;
      const Index chunk_heads = (std::min)(heads - head, end - unit);
      const Index first = first_key(n), tile = first / tile_keys + unit / heads % tiles;
      const Index key = (std::max)(first, tile * tile_keys);
      const Index count = (std::min)(first + runs.count(n), (tile + 1) * tile_keys) - key;
      if (count > 0)
        visit(TokenChunk{.run = n,
                         .head = head,
                         .heads = chunk_heads,
                         .key = key,
                         .first = runs.first(n) + key - first,
                         .count = count});
      unit += chunk_heads;
    }
  });
}

/// Throws ShapeError unless the tokens of a batch fit the cache.
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

/// Writes the tokens of k [B, n, Hkv, D] and v as keys first_key(n) .. of the sequence that run n
/// continues, in tiles with selects(run, tile) only.
template <Device D, class Storage, class T, class FirstKey, class Selects>
void write_tokens(const D& device, Storage& storage, const TokenRuns& runs,
                  const HeadsView<const T>& k, const HeadsView<const T>& v,
                  const FirstKey& first_key, const Selects& selects) {
  const double bytes = static_cast<double>(k.dim + v.dim) * sizeof(T);
  parallel_for_chunks(
      device, runs, storage.heads(), bytes, first_key, [&](const TokenChunk& chunk) {
        if (!selects(chunk.run, chunk.key / tile_keys)) return;
        const Index sequence = runs.sequence(chunk.run), b = runs.row(chunk.run);
        storage.write_keys(sequence, chunk.head, chunk.key, chunk_view(k, b, chunk));
        storage.write_values(sequence, chunk.head, chunk.key, chunk_view(v, b, chunk));
      });
}

/// Returns keys first .. end - 1 of a sequence, [end - first, Hkv, D], after a call of change(k,
/// first) on each chunk of them.
template <Device D, class Storage, class Change>
AlignedVector<typename Storage::Real> changed_keys(const D& device, const Storage& storage,
                                                   Index sequence, Index first, Index end,
                                                   Change&& change) {
  using Real = typename Storage::Real;
  const Index heads = storage.heads(), dim = storage.dim(), row = heads * dim;
  AlignedVector<Real> buffer(static_cast<std::size_t>((end - first) * row));
  // Chunks end at tile boundaries, because complete panels are faster.
  for_aligned_chunks({first, end}, tile_keys, [&](Index j, Index n) {
    const HeadsView<Real> keys{buffer.data() + (j - first) * row, 1, n, heads, dim};
    const double bytes = static_cast<double>(n * dim) * sizeof(Real);
    parallel_for(device, heads, bytes, bytes / 4, [&](Index head, Index last) {
      storage.read_keys(sequence, head, j,
                        chunk_view(keys, 0, {.head = head, .heads = last - head, .count = n}));
    });
    change(keys, j);
  });
  return buffer;
}

}  // namespace detail
POSENC_END
