// SPDX-License-Identifier: MIT
// Errors of exp, tanh and conversions, over all floats or every n-th.
#include "accuracy/bound.hpp"
#include "accuracy/in_parts.hpp"
#include "accuracy/promises.hpp"
#include "accuracy/survey.hpp"
#include "reference/float16.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/simd/exp.hpp>
#include <posenc/simd/tanh.hpp>

#include <algorithm>
#include <bit>

namespace accuracy {
namespace {

using posenc::Index;

float float_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

template <class Real, class Function, class Truth>
Histogram survey_function(const std::string& name, const promises::Promise& promise, Real low,
                          Real high, const Extent& extent, const Function& function,
                          const Truth& truth) {
  using P = posenc::Pack<Real, posenc::tier::Best>;
  Histogram errors(name + (std::is_same_v<Real, float> ? ", float" : ", double"), "ulp",
                   promise.number + std::string(" ulp"));
  support::Random random(extent.seed + extent.begin);
  const double bound = promise.value();
  Real x[P::width]{}, y[P::width];
  int filled = 0;
  const auto check = [&] {
    function(P::load(x)).store(y);
    for (int i = 0; i < filled; ++i) {
      const auto input = [&] { return hexadecimal(x[i]); };
      if constexpr (std::is_same_v<Real, float>) {
        // The C library's functions of double are within some ulp. More digits decide the rest.
        const auto value = static_cast<double>(y[i]), rough = truth(static_cast<double>(x[i]));
        const double unit = ulp<float>(rough), slack = 0x1p-49 * std::abs(rough);
        const double error = std::abs(value - rough), most = (error + slack) / unit;
        if (errors.add_within((error - slack) / unit, most, most / bound, input)) continue;
      }
      const long double want = truth(static_cast<long double>(x[i]));
      const double error = static_cast<double>(std::abs(static_cast<long double>(y[i]) - want)) /
                           ulp<Real>(static_cast<double>(want));
      errors.add(error, error / bound, input);
    }
    filled = 0;
  };
  const auto visit = [&](Real one) {
    x[filled++] = one;
    if (filled == P::width) check();
  };
  if constexpr (std::is_same_v<Real, float>) {
    for (std::uint64_t bits = extent.first(); bits < extent.end; bits += extent.stride) {
      const float one = float_of(bits);
      if (one >= low && one <= high) visit(one);
    }
  }
  // Bits weigh small numbers most; these are spread evenly.
  const std::uint64_t floats = extent.end - extent.begin;
  const std::uint64_t count = (std::min)(floats / extent.stride, floats >> 6);
  for (std::uint64_t n = 0; n < count; ++n) {
    visit(static_cast<Real>(random.uniform(static_cast<double>(low), static_cast<double>(high))));
  }
  check();
  return errors;
}

template <class Real>
void survey_functions_of(const Extent& extent, std::vector<Histogram>& all) {
  constexpr bool is_float = std::is_same_v<Real, float>;
  const bool fma = POSENC_HAS_FMA;
  const Real largest = is_float ? 87 : 690;
  const auto power = [](auto x) { return std::exp(x); };
  all.push_back(survey_function<Real>(
      "exp", is_float ? promises::exp : promises::exp_double, -largest, largest, extent,
      [](auto x) { return exp(x); }, power));
  all.push_back(survey_function<Real>(
      "exp_nonpositive", fma ? promises::exp_nonpositive : promises::exp_nonpositive_without_fma,
      is_float ? Real(-68.5) : Real(-623), Real(0), extent,
      [](auto x) { return exp_nonpositive(x); }, power));
  all.push_back(survey_function<Real>(
      "tanh", fma ? promises::tanh : promises::tanh_without_fma, Real(-22), Real(22), extent,
      [](auto x) { return tanh(x); }, [](auto x) { return std::tanh(x); }));
}

/// Rounds every float and compares with the nearest number of the format, ties to even.
template <class Narrow>
Histogram survey_conversion(const std::string& name, reference::Format16 format,
                            const Extent& extent, const Narrow& narrow) {
  using P = posenc::Pack<float, posenc::tier::Best>;
  constexpr std::size_t width = 2 * P::width;
  Histogram errors("float to " + name, "ulp", "nearest, ties to even");
  float x[width]{};
  std::uint16_t got[width];
  std::size_t filled = 0;
  const auto check = [&](float from, std::uint16_t bits) {
    const auto value = static_cast<double>(from);
    const std::uint16_t want = reference::encode(format, value);
    const double decoded = reference::decode(format, bits);
    const bool same = bits == want || (std::isnan(value) && std::isnan(decoded));
    double error = same ? 0 : std::numeric_limits<double>::infinity();
    if (same && std::isfinite(decoded) && std::isfinite(value)) {
      const int exponent = value == 0 ? format.min_exponent() : std::ilogb(value);
      error = std::abs(decoded - value) /
              std::ldexp(1.0, (std::max)(exponent, format.min_exponent()) - format.fraction_bits());
    }
    errors.add(error, same ? error : error + 2, [&] { return hexadecimal(from); });
  };
  const auto round = [&] {
    narrow.template operator()<P>(&x[0], &got[0]);
    for (std::size_t i = 0; i < filled; ++i) check(x[i], got[i]);
    filled = 0;
  };
  for (std::uint64_t bits = extent.first(); bits < extent.end; bits += extent.stride) {
    x[filled++] = float_of(bits);
    if (filled == width) round();
  }
  round();
  return errors;
}

}  // namespace

std::vector<Histogram> survey_functions(const Extent& extent) {
  return in_parts(extent, [](const Extent& part) {
    std::vector<Histogram> all;
    survey_functions_of<float>(part, all);
    survey_functions_of<double>(part, all);
    return all;
  });
}

std::vector<Histogram> survey_conversions(const Extent& extent) {
  const auto to_half = []<class P>(const float* from, std::uint16_t* to) {
    P::load(from).store_half(to);
    P::load(from + P::width).store_half(to + P::width);
  };
  const auto to_bfloat16 = []<class P>(const float* from, std::uint16_t* to) {
    P::load(from).store_bfloat16(to);
    P::load(from + P::width).store_bfloat16(to + P::width);
  };
  const auto to_bfloat16_pairs = []<class P>(const float* from, std::uint16_t* to) {
    float even[P::width], odd[P::width];
    for (Index i = 0; i < P::width; ++i) even[i] = from[2 * i], odd[i] = from[2 * i + 1];
    P::store_bfloat16_pairs(to, P::load(even), P::load(odd));
  };
  return in_parts(extent, [&](const Extent& part) -> std::vector<Histogram> {
    return {survey_conversion("half", reference::ieee_half, part, to_half),
            survey_conversion("bfloat16", reference::bfloat16, part, to_bfloat16),
            survey_conversion("bfloat16, pairs", reference::bfloat16, part, to_bfloat16_pairs)};
  });
}

}  // namespace accuracy
