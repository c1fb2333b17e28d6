// SPDX-License-Identifier: MIT
// Products and sums of single queries by themselves, with the first keys of a cache's tiles: several heads at once.
#include "few_rows_case.hpp"
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include <posenc/attention/detail/few_keys.hpp>
#include <posenc/core/detail/aligned_vector.hpp>

#include <cstddef>
#include <vector>

namespace few_keys_test {

using attention_test::FewRows;
using attention_test::Shape;
using posenc::Index;
using posenc::detail::AlignedVector;
using posenc::detail::Carver;
using posenc::detail::KeyTile;
using posenc::detail::padded_value_dim;
using posenc::detail::panel_lanes;
using posenc::detail::tile_keys;

namespace {

/// Tiles as a cache has them.
template <class T>
class Stored {
 public:
  Stored(posenc::HeadsView<T> k, posenc::HeadsView<T> v)
      : key_size_(tile_keys * k.dim),
        stride_(padded_value_dim(v.dim)),
        keys_(static_cast<std::size_t>(k.heads * key_size_)),
        values_(static_cast<std::size_t>(k.heads * tile_keys * stride_)) {
    for (Index h = 0; h < k.heads; ++h) {
      for (Index j = 0; j < k.seq; ++j) {
        const Index panel = j / panel_lanes * panel_lanes * k.dim, lane = j % panel_lanes;
        for (Index d = 0; d < k.dim; ++d) {
          keys_[static_cast<std::size_t>(h * key_size_ + panel + d * panel_lanes + lane)] =
              k.row(0, j, h)[d];
        }
        for (Index d = 0; d < v.dim; ++d) {
          values_[static_cast<std::size_t>((h * tile_keys + j) * stride_ + d)] = v.row(0, j, h)[d];
        }
      }
    }
  }

  KeyTile<T> stored_tile(Index, Index head, Index) const {
    return {.keys = keys_.data() + head * key_size_,
            .values = values_.data() + head * tile_keys * stride_,
            .value_stride = stride_};
  }

 private:
  Index key_size_, stride_;
  AlignedVector<T> keys_, values_;
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("products and sums of single queries, from tiles of several heads",
                        "[attention][few_keys]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  using FewKeys = posenc::detail::FewKeys<Tier, T, Stored<T>>;
  const std::vector<Shape> shapes{{1, 8, 8, 1, 1, 40, 40},
                                  {1, 11, 11, 1, 16, 33, 20},
                                  {1, 12, 6, 1, 5, 19, 7},
                                  {1, 12, 3, 1, 16, 24, 17}};
  for (const Shape& shape : shapes) {
    REQUIRE(FewKeys::serves(1, shape.heads / shape.kv_heads, shape.kv_heads, shape.keys));
    FewRows<Tier, T> few(shape);
    const Stored<T> source(few.stage.tensors.k.view(), few.stage.tensors.v.view());
    INFO(Tier::name << ", keys " << shape.keys << ", heads " << shape.heads);
    few.check([&](Carver& carver) {
      return FewKeys(source, few.stage.rows(shape.kv_heads), shape.kv_heads, carver);
    });
  }
}

}  // namespace few_keys_test
