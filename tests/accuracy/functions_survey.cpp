// SPDX-License-Identifier: MIT
// Errors of cos, sin, exp, tanh and conversions, over all floats or every n-th.
#include "accuracy/bound.hpp"
#include "accuracy/promises.hpp"
#include "accuracy/survey.hpp"
#include "accuracy/truth.hpp"
#include "reference/float16.hpp"
#include "support/compare.hpp"
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/simd/tanh.hpp>

#include <algorithm>
#include <bit>

namespace accuracy {
namespace {

using posenc::Index;
using posenc::detail::DoubleDouble;

constexpr std::uint64_t floats = 0x100000000u;

float float_of(std::uint64_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

/// Returns four frequencies each of Llama 2, Llama 3.1, Qwen 2.5 and DeepSeek V3.
std::vector<DoubleDouble> model_frequencies() {
  std::vector<DoubleDouble> chosen;
  const auto add = [&](const posenc::Frequencies& frequencies) {
    const auto& w = posenc::detail::exact_inv_freq(frequencies);
    for (std::size_t i = 0; i < 4; ++i) chosen.push_back(w[i * (w.size() - 1) / 3]);
  };
  add(frequencies(posenc::Unscaled{.rotary_dim = 128, .base = 10000}));
  add(frequencies(posenc::Llama3Scaling{.rotary_dim = 128,
                                        .base = 500000,
                                        .factor = 8,
                                        .low_freq_factor = 1,
                                        .high_freq_factor = 4,
                                        .original_max_position = 8192}));
  add(frequencies(posenc::Unscaled{.rotary_dim = 128, .base = 1000000}));
  add(frequencies(posenc::YarnScaling{.rotary_dim = 64,
                                      .base = 10000,
                                      .factor = 40,
                                      .original_max_position = 4096,
                                      .mscale = 1,
                                      .mscale_all_dim = 1}));
  return chosen;
}

/// Angles up to these powers of 2 have a histogram each.
constexpr int range_ends[] = {0, 10, 20, 30, 40, 50};

template <class Real>
void survey_angles_of(const std::vector<DoubleDouble>& w, const Extent& extent,
                      std::vector<Histogram>& all) {
  constexpr bool is_float = std::is_same_v<Real, float>;
  const std::string type = is_float ? "float" : "double";
  const std::size_t first = all.size();
  for (const int range : range_ends) {
    const char* allowed = (range > 40 ? promises::far_angle : promises::near_angle).number;
    all.emplace_back("cos and sin, angles to 2^" + std::to_string(range) + ", " + type,
                     is_float ? "ulp" : "2^-53",
                     is_float ? std::string(promises::float_angle.number) + " ulp + " + allowed
                              : std::string(allowed));
  }
  const posenc::detail::Oscillator oscillator{std::span<const DoubleDouble>(w)};
  std::vector<Real> c(w.size()), s(w.size());
  for (std::uint64_t bits = extent.first(); bits < floats; bits += extent.stride) {
    const auto position = static_cast<double>(float_of(bits));
    if (!(std::abs(position * w[0].hi) <= 0x1p50)) continue;
    oscillator.cos_sin_row(position, 0, static_cast<Index>(w.size()), 1.0, c.data(), s.data());
    for (std::size_t i = 0; i < w.size(); ++i) {
      const Quad angle = angle_of(position, w[i]);
      const double size = std::abs(static_cast<double>(angle));
      if (size > 0x1p50) continue;
      std::size_t range = 0;
      while (size > std::ldexp(1.0, range_ends[range])) ++range;
      const CosSin want = cos_sin_of(angle);
      const auto check = [&](Real got, long double truth) {
        const auto error = static_cast<double>(std::abs(static_cast<long double>(got) - truth));
        const double unit = is_float ? ulp<Real>(static_cast<double>(truth)) : 0x1p-53;
        const double rounding = is_float ? promises::float_angle.value() * unit : 0;
        all[first + range].add(error / unit,
                               std::max(error - rounding, 0.0) / promises::of_angle(size),
                               [&] { return hexadecimal(position, w[i].hi, w[i].lo); });
      };
      check(c[i], want.cos);
      check(s[i], want.sin);
    }
  }
}

template <class Real, class Function, class Truth>
Histogram survey_function(const std::string& name, const promises::Promise& promise, Real low,
                          Real high, const Extent& extent, const Function& function,
                          const Truth& truth) {
  using P = posenc::Pack<Real, posenc::tier::Best>;
  Histogram errors(name + (std::is_same_v<Real, float> ? ", float" : ", double"), "ulp",
                   promise.number + std::string(" ulp"));
  support::Random random(extent.seed);
  Real x[P::width], y[P::width];
  int filled = 0;
  const auto visit = [&](Real one) {
    x[filled++] = one;
    if (filled < P::width) return;
    function(P::load(x)).store(y);
    for (int i = 0; i < P::width; ++i) {
      const long double want = truth(static_cast<long double>(x[i]));
      const double error = static_cast<double>(std::abs(static_cast<long double>(y[i]) - want)) /
                           ulp<Real>(static_cast<double>(want));
      errors.add(error, error / promise.value(), [&] { return hexadecimal(x[i]); });
    }
    filled = 0;
  };
  if constexpr (std::is_same_v<Real, float>) {
    for (std::uint64_t bits = extent.first(); bits < floats; bits += extent.stride) {
      const float one = float_of(bits);
      if (one >= low && one <= high) visit(one);
    }
  }
  // Bits weigh small numbers most; these are spread evenly.
  const std::uint64_t count = (std::min)(floats / extent.stride, std::uint64_t{1} << 26);
  for (std::uint64_t n = 0; n < count; ++n) {
    visit(static_cast<Real>(random.uniform(static_cast<double>(low), static_cast<double>(high))));
  }
  return errors;
}

template <class Real>
void survey_functions_of(const Extent& extent, std::vector<Histogram>& all) {
  constexpr bool is_float = std::is_same_v<Real, float>;
  const bool fma = POSENC_HAS_FMA;
  const Real largest = is_float ? 87 : 690;
  const auto power = [](long double x) { return std::exp(x); };
  all.push_back(survey_function<Real>(
      "exp", promises::exp, -largest, largest, extent, [](auto x) { return exp(x); }, power));
  all.push_back(survey_function<Real>(
      "exp_nonpositive", fma ? promises::exp_nonpositive : promises::exp_nonpositive_without_fma,
      is_float ? Real(-68.5) : Real(-623), Real(0), extent,
      [](auto x) { return exp_nonpositive(x); }, power));
  all.push_back(survey_function<Real>(
      "tanh", fma ? promises::tanh : promises::tanh_without_fma, Real(-22), Real(22), extent,
      [](auto x) { return tanh(x); }, [](long double x) { return std::tanh(x); }));
}

/// Rounds every float and compares with the nearest number of the format, ties to even.
template <class Narrow>
Histogram survey_conversion(const std::string& name, reference::Format16 format,
                            const Extent& extent, const Narrow& narrow) {
  using P = posenc::Pack<float, posenc::tier::Best>;
  constexpr std::size_t width = 2 * P::width;
  Histogram errors("float to " + name, "ulp", "nearest, ties to even");
  float x[width];
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
  for (std::uint64_t bits = extent.first(); bits < floats; bits += extent.stride) {
    x[filled++] = float_of(bits);
    if (filled < width) continue;
    narrow.template operator()<P>(&x[0], &got[0]);
    for (std::size_t i = 0; i < width; ++i) check(x[i], got[i]);
    filled = 0;
  }
  return errors;
}

}  // namespace

std::vector<Histogram> survey_angles(const Extent& extent) {
  std::vector<Histogram> all;
  std::vector<DoubleDouble> w = model_frequencies();
  if (extent.frequency >= 0) w = {w.at(static_cast<std::size_t>(extent.frequency))};
  survey_angles_of<float>(w, extent, all);
  survey_angles_of<double>(w, extent, all);
  return all;
}

std::vector<Histogram> survey_functions(const Extent& extent) {
  std::vector<Histogram> all;
  survey_functions_of<float>(extent, all);
  survey_functions_of<double>(extent, all);
  return all;
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
  return {survey_conversion("half", reference::ieee_half, extent, to_half),
          survey_conversion("bfloat16", reference::bfloat16, extent, to_bfloat16),
          survey_conversion("bfloat16, pairs", reference::bfloat16, extent, to_bfloat16_pairs)};
}

}  // namespace accuracy
