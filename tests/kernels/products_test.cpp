// SPDX-License-Identifier: MIT
// Tests on every tier that each product of the kernels has the bits of one chain of FMAs.
#include "chains.hpp"
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/core/mul_add.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/weighted_sum_kernel.hpp>
#include <posenc/simd/bfloat16.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

namespace kernels_test {

using posenc::Index;
using posenc::detail::ActiveLanes;
using posenc::detail::panel_lanes;
using posenc::detail::register_tile_rows;
using posenc::detail::SkipWeights;
using posenc::detail::tile_lanes;
using posenc::detail::tile_panels;

namespace {

const ActiveLanes some_lanes[]{
    {0, tile_lanes, 0xfu}, {3, 70, 0x7u}, {40, 41, 0x2u}, {5, 128, 0x9u}};

struct SomeTile {
  ActiveLanes lanes;
  bool is_stored;  ///< as in PanelPrefetch: full register tiles have a pass of their own for these
};
std::vector<SomeTile> some_tiles() {
  std::vector<SomeTile> tiles;
  for (const ActiveLanes& lanes : some_lanes) {
    tiles.push_back({lanes, false});
    tiles.push_back({lanes, true});
  }
  return tiles;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("products: panel products are chains over the channels",
                        "[attention][kernels]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  for (const Index dim : {1, 2, 17, 64}) {
    const auto of_lanes = random_numbers<T>(tile_lanes * dim, 1);
    std::vector<T> panels(of_lanes.size());
    for (Index n = 0; n < tile_panels; ++n) {
      posenc::detail::pack_panel<Tier>(of_lanes.data() + n * panel_lanes * dim, dim, 0, panel_lanes,
                                       dim, panels.data() + n * panel_lanes * dim);
    }
    for (Index rows = 1; rows <= register_tile_rows<Tier>; ++rows) {
      const auto x = random_numbers<T>(rows * dim, 2);
      for (const auto& [lanes, stored] : some_tiles()) {
        constexpr T untouched = -77;
        std::vector<T> out(static_cast<std::size_t>(rows * tile_lanes), untouched);
        posenc::detail::for_register_tiles<Tier>(
            rows, posenc::detail::PanelDotKernel<Tier, T, T>{
                      x.data(),
                      panels.data(),
                      dim,
                      T{0.5},
                      lanes,
                      out.data(),
                      {.next_region = panels.data(), .is_stored = stored}});
        bool right = true;
        for (Index r = 0; r < rows; ++r) {
          for (Index lane = 0; lane < tile_lanes; ++lane) {
            const T got = out[static_cast<std::size_t>(r * tile_lanes + lane)];
            if (!lanes.has_panel(lane / panel_lanes)) {
              right &= tiers::same(got, untouched);
            } else if (lane < lanes.end) {
              T sum = 0;
              for (Index d = 0; d < dim; ++d) {
                sum = posenc::mul_add(x[static_cast<std::size_t>(r * dim + d)],
                                      of_lanes[static_cast<std::size_t>(lane * dim + d)], sum);
              }
              right &= close(got, sum * T{0.5});
            }
          }
        }
        INFO(Tier::name << ": dim " << dim << ", " << rows << " rows, lanes " << lanes.begin
                        << " to " << lanes.end);
        REQUIRE(right);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("products: weighted sums are chains over the lanes", "[attention][kernels]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  for (const Index dim : {16, 48, 80, 144, 336}) {
    auto values = random_numbers<T>(tile_lanes * dim, 3);
    for (Index rows = 1; rows <= register_tile_rows<Tier>; ++rows) {
      auto weights = random_numbers<T>(rows * tile_lanes, 4);
      for (T& weight : weights) weight = std::abs(weight);
      const auto accumulator_scale = random_numbers<T>(rows, 5),
                 tile_scale = random_numbers<T>(rows, 6);
      for (const SomeTile& tile : some_tiles()) {
        const ActiveLanes& lanes = tile.lanes;
        for (const bool select : {false, true}) {
          auto marked = weights;
          auto some = values;
          if (select) {  // a lane that contributes nothing
            for (Index r = 0; r < rows; ++r) {
              marked[static_cast<std::size_t>(r * tile_lanes + lanes.begin)] =
                  posenc::detail::masked_weight<T>;
            }
            some[static_cast<std::size_t>(lanes.begin * dim)] = std::numeric_limits<T>::quiet_NaN();
          }
          const auto before = random_numbers<T>(rows * dim, 7);
          auto out = before;
          const auto run = [&]<SkipWeights Weights>(std::integral_constant<SkipWeights, Weights>) {
            posenc::detail::for_register_tiles<Tier>(
                rows, posenc::detail::WeightedSumKernel<Tier, T, T, Weights>{
                          marked.data(),
                          some.data(),
                          dim,
                          dim,
                          lanes,
                          accumulator_scale.data(),
                          tile_scale.data(),
                          out.data(),
                          {.next_region = some.data(), .is_stored = tile.is_stored}});
          };
          select ? run(std::integral_constant<SkipWeights, SkipWeights::Marked>())
                 : run(std::integral_constant<SkipWeights, SkipWeights::None>());
          bool right = true;
          for (Index r = 0; r < rows; ++r) {
            const auto row = static_cast<std::size_t>(r);
            for (Index d = 0; d < dim; ++d) {
              T sum = 0;
              for (Index lane = lanes.begin; lane < lanes.end; ++lane) {
                const T weight = marked[static_cast<std::size_t>(r * tile_lanes + lane)];
                if (!lanes.has_panel(lane / panel_lanes) || std::signbit(weight)) continue;
                sum = posenc::mul_add(weight, some[static_cast<std::size_t>(lane * dim + d)], sum);
              }
              const auto at = static_cast<std::size_t>(r * dim + d);
              right &= close(out[at], posenc::mul_add(before[at], accumulator_scale[row],
                                                      sum * tile_scale[row]));
            }
          }
          INFO(Tier::name << ": dim " << dim << ", " << rows << " rows, lanes " << lanes.begin
                          << " to " << lanes.end << (select ? ", marked" : ""));
          REQUIRE(right);
        }
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("products: weighted sums without an old factor are those added to 0",
                        "[attention][kernels]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  constexpr Index dim = 80;
  const auto values = random_numbers<T>(tile_lanes * dim, 3);
  for (Index rows = 1; rows <= register_tile_rows<Tier>; ++rows) {
    const auto weights = random_numbers<T>(rows * tile_lanes, 4);
    const auto accumulator_scale = random_numbers<T>(rows, 5),
               tile_scale = random_numbers<T>(rows, 6);
    const auto sums = [&](const T* old, T before) {
      std::vector<T> out(static_cast<std::size_t>(rows * dim), before);
      posenc::detail::for_register_tiles<Tier>(
          rows,
          posenc::detail::WeightedSumKernel<Tier, T, T, SkipWeights::None>{weights.data(),
                                                                           values.data(),
                                                                           dim,
                                                                           dim,
                                                                           {0, tile_lanes, 15},
                                                                           old,
                                                                           tile_scale.data(),
                                                                           out.data(),
                                                                           {values.data()}});
      return out;
    };
    INFO(Tier::name << ": " << rows << " rows");
    CHECK(sums(nullptr, std::numeric_limits<T>::quiet_NaN()) ==
          sums(accumulator_scale.data(), T{0}));
  }
}

TEMPLATE_LIST_TEST_CASE("products: weighted sums of pairs are chains over the lanes",
                        "[attention][kernels][bfloat16]", tiers::FloatPacks) {
  using Tier = typename TestType::Tier;
  using S = posenc::Bfloat16;
  if constexpr (posenc::detail::pair_products<Tier, S, S>) {
    for (const Index dim : {16, 48, 80, 144, 336}) {
      std::vector<S> values;
      for (const float x : random_numbers<float>(tile_lanes * dim, 3)) values.push_back(S(x));
      for (Index rows = 1; rows <= register_tile_rows<Tier>; ++rows) {
        auto weights = random_numbers<float>(rows * tile_lanes, 4);
        for (float& weight : weights) weight = static_cast<float>(S(std::abs(weight)));
        const auto old_scale = random_numbers<float>(rows, 5),
                   tile_scale = random_numbers<float>(rows, 6);
        for (const SomeTile& tile : some_tiles()) {
          const ActiveLanes& lanes = tile.lanes;
          for (const bool select : {false, true}) {
            auto marked = weights;
            auto some = values;
            // Kernels read no row outside of the active lanes.
            const S nan(std::numeric_limits<float>::quiet_NaN());
            std::fill_n(some.begin(), lanes.begin * dim, nan);
            std::fill(some.begin() + lanes.end * dim, some.end(), nan);
            if (select) {
              for (Index r = 0; r < rows; ++r) {
                marked[static_cast<std::size_t>(r * tile_lanes + lanes.end - 1)] =
                    posenc::detail::masked_weight<float>;
              }
              some[static_cast<std::size_t>((lanes.end - 1) * dim)] = nan;
            }
            std::vector<S> pairs(marked.size());
            posenc::detail::store_bfloat16_weights<Tier>({0, tile_lanes, 15}, rows, marked.data(),
                                                         pairs.data());
            const auto before = random_numbers<float>(rows * dim, 7);
            auto paired = before, single = before;
            const auto run =
                [&]<SkipWeights Weights>(std::integral_constant<SkipWeights, Weights>) {
                  const auto sum = [&](const auto* factors, std::vector<float>& out) {
                    using W = std::remove_cvref_t<decltype(*factors)>;
                    posenc::detail::for_register_tiles<Tier>(
                        rows, posenc::detail::WeightedSumKernel<Tier, float, S, Weights, W>{
                                  factors,
                                  some.data(),
                                  dim,
                                  dim,
                                  lanes,
                                  old_scale.data(),
                                  tile_scale.data(),
                                  out.data(),
                                  {.next_region = some.data(), .is_stored = tile.is_stored}});
                  };
                  sum(pairs.data(), paired);
                  sum(marked.data(), single);
                };
            select ? run(std::integral_constant<SkipWeights, SkipWeights::Marked>())
                   : run(std::integral_constant<SkipWeights, SkipWeights::None>());
            INFO(Tier::name << ": dim " << dim << ", " << rows << " rows, lanes " << lanes.begin
                            << " to " << lanes.end << (select ? ", marked" : ""));
            REQUIRE(std::equal(paired.begin(), paired.end(), single.begin(),
                               [](float x, float y) { return tiers::same(x, y); }));
          }
        }
      }
    }
  }
}

}  // namespace kernels_test
