// SPDX-License-Identifier: MIT
#include <posenc/attention/attention.hpp>

using namespace posenc;

void attend(const HeadsView<const float>& q, const HeadsView<const float>& k,
            const HeadsView<const float>& v, const HeadsView<float>& out) {
  attention(q, k, v, out, {.causal = Causal::BottomRight});
}
