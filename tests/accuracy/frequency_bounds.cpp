// SPDX-License-Identifier: MIT
// Documented bound of every frequency rule, 2^-95, and that of the float32 frequencies of Hugging
// Face.
#include "accuracy/bound.hpp"
#include "accuracy/promises.hpp"
#include "frequency/truth.hpp"
#include <posenc/frequency/hf_float32.hpp>

namespace accuracy {
namespace {

using posenc::Index;

template <class Rule, class... Length>
double share_of(const Rule& rule, Length... length) {
  const posenc::Frequencies ours = frequencies(rule, length...);
  const truth::InvFreq expected = truth::inv_freq(rule, length...);
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error =
        support::relative_error(posenc::detail::exact_inv_freq(ours)[i], expected[i]);
    largest = error <= largest ? largest : error;
  }
  return largest / promises::rules.value();
}

/// Returns the error against Hugging Face's 1 / base^(2i / r) in float with correctly rounded
/// operations, as a share of 2 ulp. A pow with an error of an ulp or two may cause that much.
double ulps_of_float32(const posenc::Unscaled& rule) {
  const posenc::Frequencies ours = hf_float32_frequencies(rule);
  const auto nearest = [](const Mpfr& x) { return static_cast<float>(static_cast<double>(x)); };
  double largest = 0;
  for (Index i = 0; i < rule.rotary_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rule.rotary_dim);
    const float power = nearest(pow(Mpfr(static_cast<double>(static_cast<float>(rule.base))),
                                    static_cast<double>(exponent)));
    const double expected = static_cast<double>(1 / power);
    const double off = std::abs(ours.inv_freq()[static_cast<std::size_t>(i)] - expected);
    largest = std::max(largest, off / (promises::hf_float32.value() * ulp<float>(expected)));
  }
  return largest;
}

Index index_of(double x) { return static_cast<Index>(x); }

}  // namespace

std::vector<Bound> frequency_bounds() {
  using namespace posenc;  // NOLINT: all rules
  std::vector<Bound> all;
  const Range base = magnitude(1 + 1e-12, 1e100), factor = magnitude(1, 1e100);
  const Range usual_base = magnitude(100, 1e7), length = whole(1, 1 << 20), half_dim = whole(2, 16);
  all.push_back({"Unscaled", {base, half_dim}, [](const Point& p) {
                   return share_of(Unscaled{.rotary_dim = 2 * index_of(p[1]), .base = p[0]});
                 }});
  all.push_back({"NtkScaling", {base, factor, half_dim}, [](const Point& p) {
                   return share_of(
                       NtkScaling{.rotary_dim = 2 * index_of(p[2]), .base = p[0], .factor = p[1]});
                 }});
  all.push_back({"DynamicNtkScaling", {base, factor, length, length}, [](const Point& p) {
                   return share_of(DynamicNtkScaling{.rotary_dim = 16,
                                                     .base = p[0],
                                                     .factor = p[1],
                                                     .original_max_position = index_of(p[2])},
                                   index_of(p[3]));
                 }});
  all.push_back({"VllmMixedNtkScaling", {base, factor, magnitude(1e-3, 1e3)}, [](const Point& p) {
                   return share_of(VllmMixedNtkScaling{
                       .rotary_dim = 12, .base = p[0], .factor = p[1], .mixed_b = p[2]});
                 }});
  all.push_back({"LinearScaling", {base, factor, half_dim}, [](const Point& p) {
                   return share_of(LinearScaling{
                       .rotary_dim = 2 * index_of(p[2]), .base = p[0], .factor = p[1]});
                 }});
  all.push_back({"AlphaNtkScaling", {base, factor, half_dim}, [](const Point& p) {
                   return share_of(AlphaNtkScaling{
                       .rotary_dim = 2 * index_of(p[2]), .base = p[0], .alpha = p[1]});
                 }});
  all.push_back({"VllmNtkScaling", {base, factor, half_dim}, [](const Point& p) {
                   return share_of(VllmNtkScaling{
                       .rotary_dim = 2 * index_of(p[2]), .base = p[0], .factor = p[1]});
                 }});
  const auto by_parts = [](const Point& p) {
    return share_of(NtkByPartsScaling{.rotary_dim = 32,
                                      .base = p[0],
                                      .factor = p[1],
                                      .original_max_position = index_of(p[2]),
                                      .alpha = p[3],
                                      .beta = p[3] * (1 + p[4])});
  };
  all.push_back({"NtkByPartsScaling",
                 {usual_base, factor, length, magnitude(1e-3, 1e3), magnitude(1e-3, 1e3)},
                 by_parts});
  all.push_back({"NtkByPartsScaling, adjacent bounds",
                 {usual_base, factor, length, magnitude(1e-3, 1e3), magnitude(0x1p-52, 0x1p-48)},
                 by_parts});
  all.push_back({"LongRopeScaling",
                 {base, magnitude(1e-100, 1e100), magnitude(1e-100, 1e100), length, length},
                 [](const Point& p) {
                   return share_of(LongRopeScaling{.rotary_dim = 4,
                                                   .base = p[0],
                                                   .short_factor = {p[1], 1},
                                                   .long_factor = {p[2], 1 / p[1]},
                                                   .original_max_position = index_of(p[3]),
                                                   .attention_factor = 1},
                                   index_of(p[4]));
                 }});
  all.push_back({"ProportionalScaling", {base, factor, {0, 1}, half_dim}, [](const Point& p) {
                   return share_of(ProportionalScaling{.head_dim = 2 * index_of(p[3]),
                                                       .base = p[0],
                                                       .partial_rotary_factor = p[2],
                                                       .factor = p[1]});
                 }});
  all.push_back({"hf_float32_frequencies, ulp of 2", {usual_base, half_dim}, [](const Point& p) {
                   return ulps_of_float32({.rotary_dim = 2 * index_of(p[1]), .base = p[0]});
                 }});
  const auto yarn = [](const Point& p) {
    return share_of(YarnScaling{.rotary_dim = 32,
                                .base = p[0],
                                .factor = p[1],
                                .original_max_position = index_of(p[2]),
                                .beta_fast = p[3] * p[4],
                                .beta_slow = p[3],
                                .truncate = p[5] > 0.5});
  };
  all.push_back({"YarnScaling",
                 {usual_base, factor, length, magnitude(1e-3, 1e3), magnitude(1, 1e3), {0, 1}},
                 yarn});
  all.push_back({"YarnScaling, equal betas",
                 {usual_base, factor, length, magnitude(1e-3, 1e3), {1, 1}, {0, 0}},
                 yarn});
  const auto llama3 = [](const Point& p) {
    // Near the rotations of pair 5, or far from them.
    const double rotations = p[2] / 6.283185307179586 * std::pow(p[0], -10.0 / 32);
    const double low = rotations * p[3];
    return share_of(Llama3Scaling{.rotary_dim = 32,
                                  .base = p[0],
                                  .factor = p[1],
                                  .low_freq_factor = low,
                                  .high_freq_factor = low * (1 + p[4]),
                                  .original_max_position = index_of(p[2])});
  };
  all.push_back({"Llama3Scaling",
                 {usual_base, factor, length, magnitude(0.1, 10), magnitude(1e-3, 1e3)},
                 llama3});
  all.push_back({"Llama3Scaling, adjacent factors",
                 {usual_base, factor, length, {1 - 0x1p-50, 1}, magnitude(0x1p-52, 0x1p-48)},
                 llama3});
  all.push_back({"TwoRampNtkScaling", {usual_base, factor, length}, [](const Point& p) {
                   return share_of(TwoRampNtkScaling{.rotary_dim = 32,
                                                     .base = p[0],
                                                     .factor = p[1],
                                                     .original_max_position = index_of(p[2])});
                 }});
  all.push_back({"DynamicYarnScaling", {usual_base, length, length}, [](const Point& p) {
                   return share_of(
                       DynamicYarnScaling{
                           .rotary_dim = 32, .base = p[0], .original_max_position = index_of(p[1])},
                       index_of(p[2]));
                 }});
  all.push_back({"DivisorScaling", {base, magnitude(1e-100, 1e100)}, [](const Point& p) {
                   return share_of(
                       DivisorScaling{.rotary_dim = 4, .base = p[0], .divisors = {p[1], 1 / p[1]}});
                 }});
  return all;
}

}  // namespace accuracy
