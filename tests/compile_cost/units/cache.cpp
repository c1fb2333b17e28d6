// SPDX-License-Identifier: MIT
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>

using namespace posenc;

void decode(KvCache<float>& cache, const HeadsView<const float>& q, const HeadsView<const float>& k,
            const HeadsView<const float>& v, const HeadsView<float>& out) {
  cache.append({0}, k, v);
  attention(q, cache, {0}, out, {.causal = Causal::BottomRight});
}
