// SPDX-License-Identifier: MIT
// Tests packing of rows into panels and padded rows, and unpacking.
#include "attention/key_place.hpp"
#include "chains.hpp"
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/tile.hpp>

#include <Eigen/Core>

#include <limits>
#include <tuple>
#include <vector>

namespace panel_test {

using kernels_test::random_numbers;
using posenc::Index;
using posenc::detail::packed_dim;
using posenc::detail::panel_lanes;
using support::to_double;

namespace {

/// Conversions between tensors of T and stored elements of S on a tier.
template <class StoredAs, class Element, class TheTier>
struct Way {
  using S = StoredAs;
  using T = Element;
  using Tier = TheTier;
};

template <class Tier>
using WaysOn =
    std::tuple<Way<float, float, Tier>, Way<double, double, Tier>, Way<float, Eigen::half, Tier>,
               Way<Eigen::half, float, Tier>, Way<Eigen::bfloat16, float, Tier>,
               Way<Eigen::bfloat16, Eigen::bfloat16, Tier>>;
using Ways = tiers::OnAll<WaysOn>;

template <class S>
S marker() {
  return static_cast<S>(-77.0F);
}

/// Returns the value rounded once, by Eigen's conversions.
template <class S, class T>
S rounded(T x) {
  return static_cast<S>(static_cast<posenc::Compute<T>>(x));
}

template <class S>
bool same(S a, S b) {
  return support::same_bits(&a, &b, 1);
}

const Index extents[]{0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32};

}  // namespace

TEMPLATE_LIST_TEST_CASE("pack_panel: rows go into lanes and come back", "[attention][cache]",
                        Ways) {
  using S = typename TestType::S;
  using T = typename TestType::T;
  using Tier = typename TestType::Tier;
  for (const Index dim : {0, 1, 3, 4, 8, 15, 16, 17, 40, 64, 100}) {
    for (const Index count : extents) {
      for (const Index first :
           {Index{0}, Index{1}, (panel_lanes - count) / 2, panel_lanes - count}) {
        if (first + count > panel_lanes) continue;
        const Index stride = dim + 3;
        const auto k = random_numbers<T>(count * stride, 1);
        const Index stored = packed_dim<S>(dim);
        std::vector<S> block(static_cast<std::size_t>(stored * panel_lanes + 1), marker<S>());
        posenc::detail::pack_panel<Tier>(k.data(), stride, first, count, dim, block.data());
        bool right = same(block.back(), marker<S>());
        for (Index d = 0; d < stored; ++d) {
          for (Index lane = 0; lane < panel_lanes; ++lane) {
            const bool ours = lane >= first && lane < first + count;
            const S want =
                !ours     ? marker<S>()
                : d < dim ? rounded<S>(k[static_cast<std::size_t>((lane - first) * stride + d)])
                          : S(0.0F);
            right &= same(block[attention_test::place<S>(lane, d)], want);
          }
        }
        std::vector<T> back(k.size() + 1, marker<T>());
        posenc::detail::unpack_panel<Tier>(block.data(), first, count, dim, back.data(), stride);
        right &= same(back.back(), marker<T>());
        for (std::size_t n = 0; n < k.size(); ++n) {
          const bool between = static_cast<Index>(n) % stride >= dim;
          right &= same(back[n], between ? marker<T>() : rounded<T>(rounded<S>(k[n])));
        }
        INFO("dim " << dim << ", lanes " << first << " + " << count);
        REQUIRE(right);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("pack_panel: a single row has the bits of one among many",
                        "[attention][cache]", Ways) {
  using S = typename TestType::S;
  using T = typename TestType::T;
  using Tier = typename TestType::Tier;
  using Limits = std::numeric_limits<float>;
  for (const Index dim : {5, 16, 31, 33, 64, 128, 131}) {
    auto k = random_numbers<T>(panel_lanes * dim, 2);
    std::size_t n = 0;
    for (const float x : {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(),
                          -Limits::infinity(), Limits::max(), Limits::denorm_min(), -0.0F, 0.0F,
                          -0x1.8p-130F, 0x1.01p0F, 0x1.03p0F, 0x1.002p0F, 65519.0F, 0x1p-25F}) {
      for (int i = 0; i < 9; ++i, n += 7) k[n % k.size()] = static_cast<T>(x);
    }
    const auto numbers = static_cast<std::size_t>(packed_dim<S>(dim) * panel_lanes);
    std::vector<S> together(numbers, marker<S>()), alone(numbers, marker<S>());
    posenc::detail::pack_panel<Tier>(k.data(), dim, 0, panel_lanes, dim, together.data());
    for (Index r = 0; r < panel_lanes; ++r) {
      posenc::detail::pack_panel<Tier>(k.data() + r * dim, dim, r, 1, dim, alone.data());
    }
    REQUIRE(support::same_bits(alone.data(), together.data(), static_cast<Index>(numbers)));
  }
}

TEMPLATE_LIST_TEST_CASE("pack_panel: values are padded with zeros", "[attention][cache]", Ways) {
  using S = typename TestType::S;
  using T = typename TestType::T;
  using Tier = typename TestType::Tier;
  for (const Index dim : {0, 1, 3, 8, 15, 16, 17, 33, 48}) {
    for (const Index count : {0, 1, 5}) {
      const Index stride = dim + 3, padded = posenc::detail::padded_value_dim(dim);
      const auto v = random_numbers<T>(count * stride, 2);
      std::vector<S> out(static_cast<std::size_t>(count * padded + 1), marker<S>());
      CHECK(posenc::detail::pack_values<Tier>(v.data(), stride, count, dim, out.data(), padded));
      bool right = same(out.back(), marker<S>());
      for (Index j = 0; j < count; ++j) {
        for (Index d = 0; d < padded; ++d) {
          const S want = d < dim ? rounded<S>(v[static_cast<std::size_t>(j * stride + d)]) : S(0);
          right &= same(out[static_cast<std::size_t>(j * padded + d)], want);
        }
      }
      INFO("dim " << dim << ", count " << count);
      REQUIRE(right);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("pack_panel: values that are not finite are noticed wherever they are",
                        "[attention][cache]", Ways) {
  using S = typename TestType::S;
  using T = typename TestType::T;
  using Tier = typename TestType::Tier;
  using Limits = std::numeric_limits<float>;
  const Index count = 3, dim = 37, stride = dim + 2, padded = posenc::detail::padded_value_dim(dim);
  std::vector<S> out(static_cast<std::size_t>(count * padded));
  const auto finite = [&](const std::vector<T>& v) {
    const bool noticed =
        posenc::detail::pack_values<Tier>(v.data(), stride, count, dim, out.data(), padded);
    CHECK(posenc::detail::all_finite<Tier>(out.data(), count * padded) == noticed);
    return noticed;
  };
  for (const float hostile : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    for (Index n = 0; n < count * stride; ++n) {
      std::vector<T> v(static_cast<std::size_t>(count * stride), T(-1));
      v[static_cast<std::size_t>(n)] = static_cast<T>(hostile);
      const bool between = n % stride >= dim;
      REQUIRE(finite(v) == between);
    }
  }
  // A finite number may overflow when it is rounded to S.
  std::vector<T> v(static_cast<std::size_t>(count * stride), T(0));
  v[5] = std::numeric_limits<T>::max();
  CHECK(finite(v) == (to_double(static_cast<S>(static_cast<posenc::Compute<T>>(v[5]))) <
                      std::numeric_limits<double>::infinity()));
}

TEMPLATE_LIST_TEST_CASE("pack_panel: columns of a matrix are packed into the first lanes",
                        "[kernels][panel]", tiers::All) {
  INFO(TestType::name);
  constexpr Index dim = 3, stride = 37;
  const auto columns = random_numbers<float>(dim * stride, 6);
  for (Index count = 1; count <= panel_lanes; ++count) {
    std::vector<float> panel(static_cast<std::size_t>(dim * panel_lanes), -77.0F);
    posenc::detail::pack_columns<TestType>(columns.data(), stride, count, dim, panel.data());
    bool right = true;
    for (Index d = 0; d < dim; ++d) {
      for (Index lane = 0; lane < panel_lanes; ++lane) {
        const float want =
            lane < count ? columns[static_cast<std::size_t>(d * stride + lane)] : -77.0F;
        right &= panel[static_cast<std::size_t>(d * panel_lanes + lane)] == want;
      }
    }
    CAPTURE(count);
    CHECK(right);
  }
}

}  // namespace panel_test
