// SPDX-License-Identifier: MIT
// Attention on AMX's matrix registers, which no machine that tests posenc has.
#include <posenc/attention/cached_attention.hpp>

#include <Eigen/Core>

static_assert(POSENC_HAS_AMX);

using T = Eigen::bfloat16;

void attend(posenc::HeadsView<const T> q, posenc::HeadsView<const T> k,
            posenc::HeadsView<const T> v, const posenc::KvCache<T>& cache,
            posenc::HeadsView<T> out) {
  const posenc::AttentionOptions<T> options{.causal = posenc::Causal::BottomRight,
                                            .products = posenc::Products::AmxBfloat16};
  posenc::attention(q, k, v, out, options);
  posenc::attention(q, cache, {0}, out, options);
}
