// SPDX-License-Identifier: MIT
// Tests on every tier that products with unpacked keys have the bits of one chain of FMAs, for any number of channels.
#include "chains.hpp"
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include <posenc/core/mul_add.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/row_products.hpp>

#include <cstddef>
#include <vector>

namespace row_products_test {

using kernels_test::close;
using kernels_test::random_numbers;
using posenc::Index;
using posenc::detail::tile_lanes;

TEMPLATE_LIST_TEST_CASE("RowDotKernel: each product is a chain over the channels",
                        "[attention][kernels]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  using Kernel = posenc::detail::RowDotKernel<Tier, T, T>;
  struct Rows {
    Index of_head, heads;
  };
  constexpr Index keys = Kernel::P::width;
  for (const Index dim : {0, 1, 5, 16, 24, 31, 72, 80}) {
    for (const auto [count, heads] :
         {Rows{1, 1}, Rows{2, 1}, Rows{3, 1}, Rows{4, 1}, Rows{7, 1}, Rows{1, 2}}) {
      // Keys are exactly as long as their channels, so that memory checkers see reads beyond them.
      const Index seq_stride = heads * dim;
      const auto x = random_numbers<T>(count * heads * dim, 1);
      const auto k = random_numbers<T>(keys * seq_stride, 2);
      constexpr T untouched = -77;
      std::vector<T> out(static_cast<std::size_t>(count * heads * tile_lanes), untouched);
      for (const T* next : {static_cast<const T*>(nullptr), k.data()}) {
        Kernel{.rows = x.data(),
               .keys = k.data(),
               .head_stride = dim,
               .seq_stride = seq_stride,
               .dim = dim,
               .factor = T{0.5},
               .out = out.data(),
               .next = next}
            .run(count, heads);
        bool right = true;
        for (Index r = 0; r < count * heads; ++r) {
          for (Index key = 0; key < tile_lanes; ++key) {
            const T got = out[static_cast<std::size_t>(r * tile_lanes + key)];
            T sum = 0;
            for (Index d = 0; d < dim && key < keys; ++d) {
              sum = posenc::mul_add(
                  x[static_cast<std::size_t>(r * dim + d)],
                  k[static_cast<std::size_t>(key * seq_stride + r / count * dim + d)], sum);
            }
            right &= key < keys ? close(got, sum * T{0.5}) : tiers::same(got, untouched);
          }
        }
        INFO(Tier::name << ": dim " << dim << ", " << count << " rows, " << heads << " heads");
        REQUIRE(right);
      }
    }
  }
}

}  // namespace row_products_test
