// SPDX-License-Identifier: MIT
// Products and sums of few queries by themselves, from keys and values where tensors have them.
#include "few_rows_case.hpp"
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/attention/detail/streamed_rows.hpp>
#include <posenc/attention/detail/tensor_source.hpp>

#include <vector>

namespace streamed_rows_test {

using attention_test::FewRows;
using attention_test::Shape;
using posenc::Index;
using posenc::detail::Carver;

TEMPLATE_LIST_TEST_CASE("products and sums of few queries, from rows of tensors",
                        "[attention][streamed_rows]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  using Source = posenc::detail::TensorKeys<Tier, T>;
  using Streamed = posenc::detail::StreamedRows<Tier, T>;
  const std::vector<Shape> shapes{
      {1, 16, 16, 1, 150, 40, 40},                             // a query per head
      {1, 8, 8, 1, 3, 33, 20},                                 // the first few keys
      {1, 8, 4, 2, 5, 19, 7},      {1, 3, 3, 1, 131, 17, 33},  // heads that fill no vector
      {1, 12, 3, 4, 140, 24, 17},  {1, 2, 1, 5, 37, 5, 1},
  };
  for (const Shape& shape : shapes) {
    for (const auto& layout : support::layouts()) {
      FewRows<Tier, T> few(shape, layout);
      const Source source(few.stage.tensors.k.view(), few.stage.tensors.v.view());
      INFO(Tier::name << ", " << layout.name << ", keys " << shape.keys << ", heads "
                      << shape.heads);
      few.check(
          [&](Carver& carver) { return Streamed(source, few.stage.rows(shape.kv_heads), carver); });
    }
  }
}

}  // namespace streamed_rows_test
