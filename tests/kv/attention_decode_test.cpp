// SPDX-License-Identifier: MIT
// Decoding, chunked prefill and prefill over several tiles of keys are bit-identical, for each way
// to align the new queries with keys.
#include "decode_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>
#include <vector>

namespace attention_decode_test {

using attention_test::Decoding;
using attention_test::same_bits;
using attention_test::Variant;
using posenc::Causal;
using posenc::Index;
using posenc::Positions;
using posenc::slice_seq;

namespace {

enum class Place { KeysSoFar, FromStart, ByLength, ByPosition };
constexpr Place places[] = {Place::KeysSoFar, Place::FromStart, Place::ByLength, Place::ByPosition};
const char* const place_names[] = {"keys so far", "from start", "by length", "by position"};

/// Attends with `chunk` queries per call. Keys after the current ones are NaN in the buffer.
template <class T>
void run_in_chunks(Decoding<T>& d, Index chunk, Place place) {
  constexpr Index length = Decoding<T>::length;
  const auto nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  auto k = d.c.k, v = d.c.v;
  for (auto* x : {&k, &v}) x->for_each([nan](T& value) { value = nan; });
  for (Index done = 0; done < length; done += chunk) {
    const Index count = std::min(chunk, length - done), seen = done + count;
    support::copy(slice_seq(d.c.k.view(), done, count), slice_seq(k.view(), done, count));
    support::copy(slice_seq(d.c.v.view(), done, count), slice_seq(v.view(), done, count));
    const Index keys = place == Place::KeysSoFar ? seen : length;
    auto options = d.options(done, count, keys);
    const std::vector<Index> start{done}, lengths{seen};
    switch (place) {
      case Place::KeysSoFar:
        options.causal = Causal::BottomRight;
        break;
      case Place::FromStart:
        options.causal = Causal::FromStart;
        options.query_starts = start;
        break;
      case Place::ByLength:
        options.causal = Causal::BottomRight;
        options.key_lengths = lengths;
        break;
      case Place::ByPosition:
        options.causal = Causal::ByPosition;
        options.query_positions = Positions::range(done, count);
        options.key_positions = Positions::range(0, length);
        break;
    }
    attention_test::attend(slice_seq(d.c.q.view(), done, count), slice_seq(k.view(), 0, keys),
                           slice_seq(v.view(), 0, keys), slice_seq(d.c.out.view(), done, count),
                           options, d.bias(), d.memory(done, count));
  }
}

}  // namespace

TEMPLATE_TEST_CASE(
    "attention over KvCache: decoding over several tiles is bit-identical to prefill",
    "[attention][bits]", float, Eigen::bfloat16) {
  using T = TestType;
  std::size_t turn = 0;
  for (const Variant& variant : attention_test::variants()) {
    Decoding<T> whole(variant), cut(variant);
    whole.prefill();
    for (const Index chunk : {1, 3, 128, 200}) {
      const std::size_t p = turn++ / 2 % 4;
      for (const std::size_t place : {p, (p + 1) % 4}) {
        INFO(variant.name << ", chunks of " << chunk << ", " << place_names[place]);
        cut.clear();
        run_in_chunks(cut, chunk, places[place]);
        CHECK(support::same_bits(cut.c.out.view(), whole.c.out.view()));
        CHECK(same_bits(cut.lse.view(), whole.lse.view()));
      }
    }
  }
}

}  // namespace attention_decode_test
