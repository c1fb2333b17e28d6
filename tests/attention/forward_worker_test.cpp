// SPDX-License-Identifier: MIT
// Tests that few queries, which read pieces of tiles, get the bits that packed tiles give.
#include "attention_case.hpp"
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include <posenc/attention/detail/attend.hpp>

#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

namespace forward_worker_test {

using attention_test::Case;
using attention_test::Shape;
using posenc::Causal;
using posenc::Index;

namespace {

/// Source of tensors that provides packed tiles alone.
template <class Tier, class T>
class PackedOnly : public posenc::detail::TensorKvSource<Tier, T> {
 public:
  using posenc::detail::TensorKvSource<Tier, T>::TensorKvSource;
  static constexpr bool has_pieces = false;
};

/// Returns the outputs of a call whose keys and values a source provides.
template <class Source, class Tier, class T>
std::vector<T> outputs(Case<T>& c, const posenc::AttentionOptions<T>& options) {
  posenc::detail::attend<Tier, T>(posenc::detail::ErasedDevice(posenc::detail::CallingThread()),
                                  c.q.view(), Source(c.k.view(), c.v.view()), c.shape.keys,
                                  c.shape.value_dim, c.out.view(), options,
                                  posenc::detail::ErasedBias<T>(posenc::NoBias()), {}, {});
  std::vector<T> all;
  c.out.for_each([&](const T& x) { all.push_back(x); });
  return all;
}

template <class Tier, class T>
void check(Case<T>& c, const posenc::AttentionOptions<T>& options) {
  using Pieces = posenc::detail::TensorKvSource<Tier, T>;
  const auto pieces = outputs<Pieces, Tier>(c, options);
  const auto packed = outputs<PackedOnly<Tier, T>, Tier>(c, options);
  bool same = true;
  for (std::size_t i = 0; i < packed.size(); ++i) same &= tiers::same(pieces[i], packed[i]);
  CHECK(same);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("ForwardWorker: few queries have the bits of packed tiles",
                        "[attention][pieces]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  const std::vector<Shape> shapes{
      {1, 16, 16, 1, 150, 48, 64},                             // one query per head
      {2, 5, 5, 1, 137, 16, 32},                               // a last head without a pair
      {1, 8, 8, 1, 3, 32, 16},                                 // the first few keys
      {1, 8, 4, 2, 5, 19, 7},      {1, 3, 3, 1, 131, 17, 33},  // dims that no vector divides
      {1, 5, 5, 1, 150, 72, 72},   {1, 12, 4, 1, 300, 7, 40},
      {1, 12, 3, 1, 300, 64, 48},  // four rows per head
      {1, 4, 4, 3, 40, 32, 336},   {1, 2, 1, 7, 270, 32, 48},
  };
  for (const Shape& shape : shapes) {
    for (const auto& layout : support::layouts()) {
      Case<T> c(shape, 4, layout);
      INFO(Tier::name << ", " << layout.name << ", keys " << shape.keys << ", heads "
                      << shape.heads);
      check<Tier>(c, {.causal = Causal::No});
      if (shape.queries > shape.keys) continue;
      posenc::AttentionOptions<T> windowed{.causal = Causal::BottomRight};
      for (const Index left : {9, 40, 140}) {
        windowed.window.left = left;
        check<Tier>(c, windowed);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("ForwardWorker: few queries ignore values of masked keys, even NaN",
                        "[attention][pieces]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  for (const Shape& shape : {Shape{1, 4, 4, 1, 150, 16, 32}, Shape{1, 6, 2, 2, 150, 32, 48},
                             Shape{1, 2, 2, 9, 40, 16, 16}}) {
    Case<T> c(shape, 5);
    const auto keep = std::make_unique<bool[]>(static_cast<std::size_t>(shape.keys));
    for (Index j = 0; j < shape.keys; ++j) keep[static_cast<std::size_t>(j)] = j % 7 != 3;
    posenc::AttentionOptions<T> options{.causal = Causal::No};
    options.keep = {keep.get(), 1, 1, 1, shape.keys};
    const auto clean = outputs<posenc::detail::TensorKvSource<Tier, T>, Tier>(c, options);
    for (Index h = 0; h < shape.kv_heads; ++h) {
      for (Index j = 3; j < shape.keys; j += 7) {
        c.v.view().row(0, j, h)[j % shape.value_dim] =
            j % 2 == 0 ? std::numeric_limits<T>::quiet_NaN() : std::numeric_limits<T>::infinity();
      }
    }
    const auto dirty = outputs<posenc::detail::TensorKvSource<Tier, T>, Tier>(c, options);
    INFO(Tier::name << ", keys " << shape.keys);
    CHECK(dirty == clean);
    // A visible NaN reaches the outputs.
    c.v.view().row(0, 1, 0)[0] = std::numeric_limits<T>::quiet_NaN();
    const auto seen = outputs<posenc::detail::TensorKvSource<Tier, T>, Tier>(c, options);
    CHECK_FALSE(seen == clean);
    check<Tier>(c, options);
  }
}

}  // namespace forward_worker_test
