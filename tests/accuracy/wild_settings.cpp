// SPDX-License-Identifier: MIT
// Every rule under settings that no model has: either a ConfigError, or frequencies and a factor that are
// finite and not negative.
#include "accuracy/bound.hpp"
#include "frequency/truth.hpp"

namespace accuracy {
namespace {

using posenc::Index;

constexpr double beyond = 2;

template <class Rule, class... Length>
double share_of(const Rule& rule, Length... length) {
  const posenc::Frequencies made = frequencies(rule, length...);
  bool sound = std::isfinite(made.attention_factor()) && made.attention_factor() > 0;
  for (const posenc::DoubleDouble& w : made.exact_inv_freq()) {
    sound = sound && std::isfinite(w.hi) && std::isfinite(w.lo) && w.hi >= 0;
  }
  return sound ? 0 : beyond;
}

/// Of a magnitude that a double has, of either sign, now and then 0.
const Range wild = {-1, 1};
double wild_number(double x) {
  return std::abs(x) < 1e-3 ? 0 : std::copysign(std::exp2(2098 * std::abs(x) - 1074), x);
}
double wild_positive(double x) { return std::abs(wild_number(x)); }
Index wild_index(double x) {
  return static_cast<Index>(std::exp2(62.9 * std::abs(x))) * (x < 0 ? -1 : 1);
}

}  // namespace

std::vector<Bound> wild_settings() {
  using namespace posenc;  // NOLINT: every rule there is
  std::vector<Bound> all;
  const auto add = [&](const std::string& name, std::size_t settings, const auto& share) {
    all.push_back({name + ", wild settings", std::vector<Range>(settings, wild), share});
  };
  add("Unscaled", 1, [](const Point& p) {
    return share_of(Unscaled{.rotary_dim = 32, .base = wild_positive(p[0])});
  });
  add("LinearScaling", 2, [](const Point& p) {
    return share_of(LinearScaling{
        .rotary_dim = 32, .base = wild_positive(p[0]), .factor = wild_positive(p[1])});
  });
  add("NtkScaling", 2, [](const Point& p) {
    return share_of(
        NtkScaling{.rotary_dim = 4, .base = wild_positive(p[0]), .factor = wild_positive(p[1])});
  });
  add("AlphaNtkScaling", 2, [](const Point& p) {
    return share_of(AlphaNtkScaling{
        .rotary_dim = 4, .base = wild_positive(p[0]), .alpha = wild_positive(p[1])});
  });
  add("DynamicNtkScaling", 4, [](const Point& p) {
    return share_of(DynamicNtkScaling{.rotary_dim = 4,
                                      .base = wild_positive(p[0]),
                                      .factor = wild_positive(p[1]),
                                      .original_max_position = wild_index(p[2])},
                    wild_index(p[3]));
  });
  add("VllmNtkScaling", 2, [](const Point& p) {
    return share_of(VllmNtkScaling{
        .rotary_dim = 8, .base = wild_positive(p[0]), .factor = wild_positive(p[1])});
  });
  add("VllmMixedNtkScaling", 3, [](const Point& p) {
    return share_of(VllmMixedNtkScaling{.rotary_dim = 8,
                                        .base = wild_positive(p[0]),
                                        .factor = wild_positive(p[1]),
                                        .mixed_b = wild_number(p[2])});
  });
  add("NtkByPartsScaling", 5, [](const Point& p) {
    return share_of(NtkByPartsScaling{.rotary_dim = 32,
                                      .base = wild_positive(p[0]),
                                      .factor = wild_positive(p[1]),
                                      .original_max_position = wild_index(p[2]),
                                      .alpha = wild_number(p[3]),
                                      .beta = wild_number(p[4])});
  });
  add("YarnScaling", 7, [](const Point& p) {
    return share_of(
        YarnScaling{.rotary_dim = 32,
                    .base = wild_positive(p[0]),
                    .factor = wild_positive(p[1]),
                    .original_max_position = wild_index(p[2]),
                    .beta_fast = wild_number(p[3]),
                    .beta_slow = wild_number(p[4]),
                    .truncate = p[5] > 0,
                    .crossing = p[6] > 0 ? YarnCrossing::Step : YarnCrossing::Backwards});
  });
  add("DynamicYarnScaling", 5, [](const Point& p) {
    return share_of(DynamicYarnScaling{.rotary_dim = 32,
                                       .base = wild_positive(p[0]),
                                       .original_max_position = wild_index(p[1]),
                                       .beta_fast = wild_number(p[2]),
                                       .beta_slow = wild_number(p[3])},
                    wild_index(p[4]));
  });
  add("TwoRampNtkScaling", 3, [](const Point& p) {
    return share_of(TwoRampNtkScaling{.rotary_dim = 32,
                                      .base = wild_positive(p[0]),
                                      .factor = wild_positive(p[1]),
                                      .original_max_position = wild_index(p[2])});
  });
  add("Llama3Scaling", 5, [](const Point& p) {
    return share_of(Llama3Scaling{.rotary_dim = 32,
                                  .base = wild_positive(p[0]),
                                  .factor = wild_positive(p[1]),
                                  .low_freq_factor = wild_number(p[2]),
                                  .high_freq_factor = wild_number(p[3]),
                                  .original_max_position = wild_index(p[4])});
  });
  add("LongRopeScaling", 6, [](const Point& p) {
    return share_of(LongRopeScaling{.rotary_dim = 4,
                                    .base = wild_positive(p[0]),
                                    .short_factor = {wild_number(p[1]), wild_number(p[2])},
                                    .long_factor = {wild_number(p[2]), wild_number(p[1])},
                                    .original_max_position = wild_index(p[3]),
                                    .factor = wild_positive(p[4])},
                    wild_index(p[5]));
  });
  add("ProportionalScaling", 3, [](const Point& p) {
    return share_of(ProportionalScaling{.head_dim = 32,
                                        .base = wild_positive(p[0]),
                                        .partial_rotary_factor = wild_number(p[1]),
                                        .factor = wild_positive(p[2])});
  });
  add("DivisorScaling", 3, [](const Point& p) {
    return share_of(DivisorScaling{.rotary_dim = 4,
                                   .base = wild_positive(p[0]),
                                   .divisors = {wild_number(p[1]), wild_number(p[2])}});
  });
  return all;
}

}  // namespace accuracy
