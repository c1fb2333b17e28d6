// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/detail/attend.hpp>
#include <posenc/core/detail/compiled.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/kv/detail/kv_storage.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/kv/kv_format.hpp>
#include <posenc/tensor/detail/check_offsets.hpp>
#include <posenc/tensor/detail/erased_device.hpp>
#include <posenc/tensor/detail/token_runs.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>
#include <span>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// KV source over a KvCache: returns its tiles where they are stored, or decodes them.
template <KvFormat S>
class CacheKvSource {
  using Layout = typename KvStorage<tier::Best, S>::Layout;

 public:
  using Element = typename Layout::Stored;
  using Stored = Element;
  using Scratch = typename Layout::Scratch;

  CacheKvSource(const KvCache<S>& cache, std::span<const Index> sequences)
      : cache_(cache), sequences_(sequences) {}

  Index heads() const noexcept { return cache_.kv_heads(); }
  Scratch allocate(ArenaAllocator& allocator) const noexcept {
    return cache_.storage_.layout().allocate(allocator);
  }

  StoredKeyRanges stored() const noexcept { return {cache_.ranges_.data(), sequences_}; }

  KvTile<Stored> tile(const AttentionSequence& s, Index head, Index tile, const KeyRange& visible,
                      const Scratch& scratch) const noexcept {
    const Index sequence = sequences_[static_cast<std::size_t>(s.kv_index)];
    const Index first_key = tile * tile_keys;
    Index next_head = head, next = tile;
    if (first_key + tile_keys < s.stored) {
      ++next;
    } else if (head + 1 < heads()) {
      ++next_head;
      next = s.begin / tile_keys;
    }
    const auto& storage = cache_.storage_;
    return storage.layout().tile(storage.tile(sequence, head, tile),
                                 storage.tile(sequence, next_head, next),
                                 {visible.begin - first_key, visible.end - first_key}, scratch);
  }

 private:
  const KvCache<S>& cache_;
  std::span<const Index> sequences_;
};

/// Checks the tensors and sequences of a call over a cache.
///   Cache:  a KvCache
///   Throws: ShapeError, ConfigError
template <Scalar T, class Cache>
void check_cache(const char* function, const HeadsView<const T>& q, const Cache& cache,
                 std::span<const Index> sequences, const HeadsView<T>& out,
                 const AttentionOptions<T>& options) {
  check_extents(function, "q", q);
  check_extents(function, "out", out);
  if (q.dim != cache.head_dim() || q.heads % cache.kv_heads() != 0) {
    fail<ShapeError>(function, "q ", q.extents(), " must have the cache's head_dim ",
                     cache.head_dim(), " and a multiple of its ", cache.kv_heads(), " heads");
  }
  check_out(function, q, out, cache.value_dim());
  if (!options.key_lengths.empty() || !options.cu_seqlens_k.empty()) {
    fail<ConfigError>(
        function,
        "key_lengths and cu_seqlens_k must not be set, because the cache has the lengths");
  }
  if (!options.cu_seqlens_q.empty()) {
    if (q.batch != 1) {
      fail<ShapeError>(function, "cu_seqlens_q requires one batch row but q is ", q.extents());
    }
    check_offsets(function, "cu_seqlens_q", options.cu_seqlens_q, q.seq, sequences.size());
  } else if (static_cast<Index>(sequences.size()) != q.batch) {
    fail<ShapeError>(function, "sequences must have one entry for each of the ", q.batch,
                     " batch rows but has ", sequences.size());
  }
  for (const Index sequence : sequences) {
    if (sequence < 0 || sequence >= cache.sequences()) {
      fail<ShapeError>(function, "sequences must lie within the cache's ", cache.sequences(),
                       " but one is ", sequence);
    }
  }
}

/// Returns the number of keys of the longest of some sequences.
template <class Cache>
Index max_length(const Cache& cache, std::span<const Index> sequences) {
  Index length = 0;
  for (const Index sequence : sequences) length = (std::max)(length, cache.length(sequence));
  return length;
}

/// Throws ShapeError if a sequence has no key for its queries, or fewer keys than queries under
/// Causal::BottomRight. Queries without keys are legal where query_starts says so.
template <Scalar T, class Cache>
void check_cached_keys(const char* function, const HeadsView<const T>& q, const Cache& cache,
                       std::span<const Index> sequences, const AttentionOptions<T>& options) {
  if (!options.query_starts.empty() || options.causal == Causal::Unspecified) return;
  const TokenRuns runs{sequences, options.cu_seqlens_q, q.seq};
  for (Index n = 0; n < runs.size(); ++n) {
    const Index queries = runs.count(n), keys = cache.length(runs.sequence(n));
    const bool fits = options.causal == Causal::BottomRight ? queries <= keys : keys > 0;
    if (queries == 0 || fits) continue;
    fail<ShapeError>(function, "sequence ", runs.sequence(n), " of the cache has ", keys,
                     " keys for ", queries,
                     " queries: append() the keys of the queries first, or set query_starts");
  }
}

/// Part of attend_to_cache() that does not depend on the types of device and bias.
template <class Tier, Scalar T, KvFormat S>
void attend_to_cache_erased(const ErasedDevice& device, const HeadsView<const T>& q,
                            const KvCache<S>& cache, std::span<const Index> sequences,
                            const HeadsView<T>& out, const AttentionOptions<T>& options,
                            const ErasedBias<T>& bias, const AttentionMemory<T>& memory,
                            const InternalOptions& internal) {
  check_cache<T>(internal.function, q, cache, sequences, out, options);
  check_cached_keys<T>(internal.function, q, cache, sequences, options);
  attend<Tier>(device, q, CacheKvSource<S>(cache, sequences), max_length(cache, sequences),
               cache.value_dim(), out, options, bias, memory, internal);
}

#define POSENC_DETAIL_ATTEND_TO_CACHE(EXTERN, T, S)                                              \
  EXTERN template void attend_to_cache_erased<tier::Best, T, S>(                                 \
      const ErasedDevice&, const HeadsView<const T>&, const KvCache<S>&, std::span<const Index>, \
      const HeadsView<T>&, const AttentionOptions<T>&, const ErasedBias<T>&,                     \
      const AttentionMemory<T>&, const InternalOptions&);
#define POSENC_DETAIL_ATTEND_TO_SAME_CACHE(EXTERN, T) POSENC_DETAIL_ATTEND_TO_CACHE(EXTERN, T, T)
POSENC_DETAIL_DECLARE_COMPILED(POSENC_DETAIL_ATTEND_TO_SAME_CACHE)
POSENC_DETAIL_DECLARE_COMPILED_MIXED(POSENC_DETAIL_ATTEND_TO_CACHE)

/// Runs attention() over a cache on the given tier.
template <class Tier, Device D, Scalar T, KvFormat S, class Bias>
void attend_to_cache(const D& device, const HeadsView<const T>& q, const KvCache<S>& cache,
                     std::span<const Index> sequences, const HeadsView<T>& out,
                     const AttentionOptions<T>& options, const Bias& bias,
                     const AttentionMemory<T>& memory, const InternalOptions& internal = {}) {
  using Stored = typename CacheKvSource<S>::Stored;
  attend_to_cache_erased<Tier, T, S>(ErasedDevice(device), q, cache, sequences, out, options,
                                     erase_bias<Tier, Stored, T>(bias), memory, internal);
}

/// Parameter of a diagnostic overload that accepts caches alone.
struct AnyCache {
  template <class S>
  constexpr AnyCache(const KvCache<S>&) noexcept {}  // NOLINT: converts from every cache
};

}  // namespace detail

/// Computes attention of queries over the keys of a cache: out <- softmax(scale * q k^T + bias +
/// masks) v. Append the queries' own keys to the cache first. The result is bit-identical to
/// attention over tensors with the same keys, for all queries in one call or one token per call.
///   Shapes:   q [B, Sq, H, D], out [B, Sq, H, Dv]; batch row b reads sequences[b] of the cache,
///             whose kv_heads divide H. Masks are [B, H, Sq, length of the longest sequence]
///   Packed:   options.cu_seqlens_q [N + 1] with B = 1 packs sequences with different numbers of
///             queries, 0 included. Queries cu_seqlens_q[n] .. cu_seqlens_q[n + 1] - 1 read
///             sequences[n], bit-identical to a separate call. Key positions are [1 or N, length of
///             the longest sequence]
///   Causal:   use Causal::BottomRight for decoding: the last query is aligned with the last key of
///             its sequence
///   Ring:     the window of every query must begin at or after the first key that the cache holds,
///             else ConfigError
///   Device:   as for attention() over tensors
///   Throws:   ShapeError, ConfigError, PositionError, before anything is written. Without
///             options.query_starts also ShapeError if a sequence with queries has no keys, or
///             fewer keys than queries under Causal::BottomRight: append() was forgotten
///   Accuracy: arithmetic is in Compute<T>, for any format of the cache
///   Cost:     reads the visible keys and values once per group of query heads that share a KV head
template <Scalar T, KvFormat S, class Bias = NoBias, Device D = detail::CallingThread>
void attention(HeadsView<const std::type_identity_t<T>> q, const KvCache<S>& cache,
               ListView<Index> sequences, HeadsView<T> out,
               const AttentionOptions<std::type_identity_t<T>>& options, const Bias& bias = {},
               const AttentionMemory<std::type_identity_t<T>>& memory = {}, const D& device = {}) {
  static_assert(std::same_as<Compute<T>, typename KvCache<S>::Real>,
                "posenc::attention: a cache of double goes with queries of double, others with "
                "float and 16-bit types");
  detail::attend_to_cache<tier::Best, D, T>(device, q, cache, sequences, out, options, bias,
                                            memory);
}

// Tensors, a cache and sequences, followed by arguments that do not match, or by none.
template <class...>
void attention(detail::RefusedHeads<detail::OptionsRule>, detail::AnyCache, ListView<Index>,
               detail::RefusedHeads<detail::OptionsRule>, ...);

POSENC_END
