// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

/// Documented bounds of accuracy, each once: docstrings must contain the words that are named here
/// (posenc_accuracy --docstrings), and the tests and searches use the numbers.
namespace promises {

/// A number of a docstring, and the words around it.
struct Promise {
  const char* number;  ///< as the docstring spells it: "1.2", "4e-16" or "2^-95"
  const char* header;  ///< path in include/posenc
  const char* words;   ///< words of the docstring; {} stands for the number

  double value() const {
    if (std::string_view(number).starts_with("2^")) return std::exp2(std::atof(number + 2));
    return std::atof(number);
  }
  std::string text() const {
    std::string all = words;
    return all.replace(all.find("{}"), 2, number);
  }
};

// In ulp of the result.
inline constexpr Promise exp{"1.2", "simd/exp.hpp", "Accuracy: {} ulp (double 1.25)"};
inline constexpr Promise exp_double{"1.25", "simd/exp.hpp", "1.2 ulp (double {})"};
inline constexpr Promise exp_nonpositive{"1.1", "simd/exp.hpp", "Accuracy: {} ulp (1.4 without"};
inline constexpr Promise exp_nonpositive_without_fma{"1.4", "simd/exp.hpp",
                                                     "1.1 ulp ({} without FMA)"};
inline constexpr Promise tanh{"2.6", "simd/tanh.hpp", "Accuracy: {} ulp (2.7 without FMA)"};
inline constexpr Promise tanh_without_fma{"2.7", "simd/tanh.hpp", "2.6 ulp ({} without FMA)"};
inline constexpr Promise logarithm{"1", "bias/detail/logarithm.hpp", "Accuracy: {} ulp"};
inline constexpr Promise alibi{"1", "bias/alibi.hpp", "{} ulp of slope * distance"};
inline constexpr Promise kerple{"1", "bias/kerple.hpp", "{} ulp of the bias in the tile's type"};
inline constexpr Promise fire_x{"2", "bias/fire.hpp", "x is within {} ulp of the tile's type"};
inline constexpr Promise fire_added{"4", "bias/fire.hpp", "(width + {}) ulp of the sum"};
inline constexpr Promise merge{"4", "attention/merge.hpp", "{} ulp of the larger output"};
inline constexpr Promise rotation{"2", "rotary/rope.hpp", "at most {} ulp of the pair's norm"};
inline constexpr Promise inverse_without_fma{"3", "rotary/rope.hpp",
                                             "without fma, if m is not 1: {})"};
inline constexpr Promise float_angle{"0.5", "frequency/angle_policy.hpp",
                                     "float within {} ulp + 4e-16"};
inline constexpr Promise hf_float32{"2", "frequency/hf_float32.hpp", "1 ulp off then, rarely {}."};
inline constexpr Promise dinov3_grid{"0.51", "interop/dinov3_grid.hpp",
                                     "augmentation within {} ulp of the definition"};
// The worst that searches found, of the pair's norm.
inline constexpr Promise rerotate_float{"4", "rotary/rerotate.hpp",
                                        "found at most {} ulp of the norm in float"};
inline constexpr Promise rerotate_double{"6", "rotary/rerotate.hpp",
                                         "ulp of the norm in float and {} in double"};

// Absolute, of cos and sin.
inline constexpr Promise near_angle{"4e-16", "frequency/angle_policy.hpp",
                                    "double within {} for |a| <= 2^40"};
inline constexpr Promise far_angle{"1e-15", "frequency/angle_policy.hpp",
                                   "for |a| <= 2^40, {} to 2^50"};
inline constexpr Promise last_near_angle{"2^40", "frequency/angle_policy.hpp", "for |a| <= {}, 1e"};
inline constexpr Promise last_angle{"2^50", "frequency/angle_policy.hpp", "1e-15 to {}"};
inline constexpr Promise mixed_axis{"2e-16", "rotary/mixed_rope.hpp",
                                    "each axis after the first adds {}"};

// Relative.
inline constexpr Promise rules{"2^-95", "frequency/frequencies.hpp", "(relative error <= {} of"};
inline constexpr Promise double_double{"2^-103", "core/detail/double_double.hpp",
                                       "+ - * / within {} relative"};
inline constexpr Promise double_double_power{"2^-97", "core/detail/double_double.hpp",
                                             "exp, log, pow within {}"};
inline constexpr Promise xpos_scale{"2^-51", "rotary/xpos.hpp", "relative error of at most {}"};
inline constexpr Promise fire_gradient{"2^-50", "bias/fire.hpp",
                                       "output_weight is within {} of the sum"};
inline constexpr Promise quad_double{"2^-195", "core/detail/quad_double.hpp",
                                     "+ - * / within {} of their larger"};
inline constexpr Promise quad_double_exp{"2^-185", "core/detail/quad_double.hpp",
                                         "exp and log within {}, for magnitudes"};
inline constexpr Promise minimax_h3{"1e-13", "interop/diffusion_positions.hpp",
                                    "project's positions within {} of the largest"};
inline constexpr Promise shift_keys_drift{"1e-4", "rotary/rerotate.hpp",
                                          "pair's norm drifts by less than {} of"};
inline constexpr Promise resize{"1e-14", "additive/grid_resize.hpp",
                                "sums within {} of the largest input"};

inline constexpr const Promise* all[] = {
    &exp,
    &exp_double,
    &exp_nonpositive,
    &exp_nonpositive_without_fma,
    &tanh,
    &tanh_without_fma,
    &logarithm,
    &alibi,
    &kerple,
    &fire_x,
    &fire_added,
    &merge,
    &rotation,
    &inverse_without_fma,
    &float_angle,
    &hf_float32,
    &dinov3_grid,
    &rerotate_float,
    &rerotate_double,
    &near_angle,
    &far_angle,
    &last_near_angle,
    &last_angle,
    &mixed_axis,
    &rules,
    &double_double,
    &double_double_power,
    &xpos_scale,
    &fire_gradient,
    &quad_double,
    &quad_double_exp,
    &minimax_h3,
    &shift_keys_drift,
    &resize,
};

/// Returns the bound of cos and sin at an angle, without the rounding to float.
inline double of_angle(double angle) {
  return (std::abs(angle) <= last_near_angle.value() ? near_angle : far_angle).value();
}

}  // namespace promises
