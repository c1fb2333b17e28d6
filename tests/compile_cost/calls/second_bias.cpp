// SPDX-License-Identifier: MIT
#include "attention.cpp"
#include <posenc/bias/alibi.hpp>

void attend(const HeadsView<const float>& q, const HeadsView<const float>& k,
            const HeadsView<const float>& v, const HeadsView<float>& out, const Alibi& alibi) {
  attention(q, k, v, out, {.causal = Causal::BottomRight}, alibi);
}
