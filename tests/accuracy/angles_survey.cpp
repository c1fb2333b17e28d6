// SPDX-License-Identifier: MIT
// Errors of cos and sin over all floats as positions, or every n-th.
#include "accuracy/bound.hpp"
#include "accuracy/fast_truth.hpp"
#include "accuracy/in_parts.hpp"
#include "accuracy/promises.hpp"
#include "accuracy/survey.hpp"
#include "accuracy/truth.hpp"
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>
#include <type_traits>

namespace accuracy {
namespace {

using posenc::Index;
using posenc::detail::DoubleDouble;

constexpr double infinity = std::numeric_limits<double>::infinity();

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
constexpr std::array<int, 6> range_ends{0, 10, 20, 30, 40, 50};

template <class Real>
std::vector<Histogram> empty_histograms() {
  constexpr bool is_float = std::is_same_v<Real, float>;
  std::vector<Histogram> all;
  for (const int range : range_ends) {
    const char* allowed = (range > 40 ? promises::far_angle : promises::near_angle).number;
    all.emplace_back(
        "cos and sin, angles to 2^" + std::to_string(range) + (is_float ? ", float" : ", double"),
        is_float ? "ulp" : "2^-53",
        is_float ? std::string(promises::float_angle.number) + " ulp + " + allowed
                 : std::string(allowed));
  }
  return all;
}

/// cos and sin of 16 angles, as sums of two doubles.
class Truths {
 public:
  explicit Truths(const std::vector<DoubleDouble>& w) : w_(w) {
    for (std::size_t i = 0; i < w.size(); ++i) w_hi_[i] = w[i].hi, w_lo_[i] = w[i].lo;
  }

  /// A true value, known up to `slack`.
  struct Value {
    double hi, lo, slack;
  };

  void compute(double position) {
    position_ = position;
    for (std::size_t i = 0; i < w_.size(); i += P::width) {
      const PackCosSin<P> value =
          cos_sin_of(P::broadcast(position), {P::load(&w_hi_[i]), P::load(&w_lo_[i])});
      value.angle.store(&angle_[i]);
      value.quarter_turns.store(&turns_[i]);
      value.cos_rest.hi.store(&rests_[0][0][i]), value.cos_rest.lo.store(&rests_[0][1][i]);
      value.sin_rest.hi.store(&rests_[1][0][i]), value.sin_rest.lo.store(&rests_[1][1][i]);
    }
  }

  double angle(std::size_t i) const { return angle_[i]; }

  /// Returns cos of angle i, or sin.
  Value value(std::size_t i, bool is_sin) const {
    const auto turns = static_cast<long long>(turns_[i]) - (is_sin ? 1 : 0);
    const auto& rest = rests_[turns & 1];
    const double sign = ((turns + 1) & 2) != 0 ? -1 : 1;
    const double hi = sign * rest[0][i], lo = sign * rest[1][i];
    const bool is_precise = turns_[i] == 0 || std::abs(hi) > 0x1p-40;
    return {hi, lo, is_precise ? 0x1p-60 * std::abs(hi) : infinity};
  }
  std::string describe(std::size_t i) const { return hexadecimal(position_, w_[i].hi, w_[i].lo); }
  /// True if value() is within its slack of more digits, for all angles up to 2^50. The digits end
  /// at 2^-62, because the angle has 113 bits.
  bool agree() const {
    for (std::size_t i = 0; i < w_.size(); ++i) {
      if (std::abs(angle_[i]) > 0x1p50) continue;
      for (const bool is_sin : {false, true}) {
        const Value got = value(i, is_sin);
        const long double difference = (precise(i, is_sin) - static_cast<long double>(got.hi)) -
                                       static_cast<long double>(got.lo);
        if (!(std::abs(difference) <= static_cast<long double>(got.slack) + 0x1p-62L)) return false;
      }
    }
    return true;
  }
  /// Returns the same as value() with more digits.
  long double precise(std::size_t i, bool is_sin) const {
    const CosSin value = cos_sin_of(angle_of(position_, w_[i]));
    return is_sin ? value.sin : value.cos;
  }

 private:
  using P = posenc::Pack<double, posenc::tier::Best>;
  static constexpr std::size_t size = 16;

  const std::vector<DoubleDouble>& w_;
  double position_ = 0;
  // Zeros at the end, if there are fewer frequencies.
  std::array<double, size> w_hi_{}, w_lo_{}, angle_{}, turns_{};
  std::array<std::array<std::array<double, size>, 2>, 2> rests_{};  ///< of cos and sin, hi and lo
};

/// Adds the error of cos or sin of angle i. More digits are computed where those at hand leave open what
/// is counted.
template <class Real>
void add_error(Histogram& errors, const Truths& truths, std::size_t i, bool is_sin, Real got,
               double bound) {
  static const double rounding_ulp = promises::float_angle.value();
  const Truths::Value value = truths.value(i, is_sin);
  constexpr bool is_float = std::is_same_v<Real, float>;
  const double unit = is_float ? ulp<float>(value.hi) : 0x1p-53;
  const double rounding = is_float ? rounding_ulp * unit : 0;
  const double error = std::abs((static_cast<double>(got) - value.hi) - value.lo);
  const double most = error + value.slack;
  const auto input = [&] { return truths.describe(i); };
  if (errors.add_within((error - value.slack) / unit, most / unit,
                        most > rounding ? (most - rounding) / bound : 0, input)) {
    return;
  }
  const auto exact_error =
      static_cast<double>(std::abs(static_cast<long double>(got) - truths.precise(i, is_sin)));
  errors.add(exact_error / unit, std::max(exact_error - rounding, 0.0) / bound, input);
}

/// Surveys positions whose bits are in [begin, end): histograms of float, then of double.
std::vector<Histogram> survey_part(const std::vector<DoubleDouble>& w, const Extent& extent) {
  std::vector<Histogram> floats = empty_histograms<float>(), doubles = empty_histograms<double>();
  const posenc::detail::Oscillator oscillator{std::span<const DoubleDouble>(w)};
  const auto count = static_cast<Index>(w.size());
  std::vector<float> c(w.size()), s(w.size());
  std::vector<double> c_double(w.size()), s_double(w.size());
  std::array<double, range_ends.size()> ends, bounds;
  for (std::size_t range = 0; range < ends.size(); ++range) {
    ends[range] = std::ldexp(1.0, range_ends[range]);
    bounds[range] = promises::of_angle(ends[range]);
  }
  Truths truths(w);
  long long visited = 0;
  for (std::uint64_t bits = extent.first(); bits < extent.end; bits += extent.stride) {
    const auto position =
        static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (!(std::abs(position * w[0].hi) <= 0x1p50)) continue;
    oscillator.cos_sin_row(position, 0, count, 1.0, c.data(), s.data());
    oscillator.cos_sin_row(position, 0, count, 1.0, c_double.data(), s_double.data());
    truths.compute(position);
    if (++visited % 1024 == 1 && !truths.agree()) {
      floats.front().add(infinity, infinity,
                         [&] { return "true values near " + truths.describe(0); });
    }
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double size = std::abs(truths.angle(i));
      if (size > 0x1p50) continue;
      std::size_t range = 0;
      while (size > ends[range]) ++range;
      add_error(floats[range], truths, i, false, c[i], bounds[range]);
      add_error(floats[range], truths, i, true, s[i], bounds[range]);
      add_error(doubles[range], truths, i, false, c_double[i], bounds[range]);
      add_error(doubles[range], truths, i, true, s_double[i], bounds[range]);
    }
  }
  floats.insert(floats.end(), doubles.begin(), doubles.end());
  return floats;
}

}  // namespace

std::vector<Histogram> survey_angles(const Extent& extent) {
  std::vector<DoubleDouble> w = model_frequencies();
  if (extent.frequency >= 0) w = {w.at(static_cast<std::size_t>(extent.frequency))};
  return in_parts(extent, [&](const Extent& part) { return survey_part(w, part); });
}

}  // namespace accuracy
