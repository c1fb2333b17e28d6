// SPDX-License-Identifier: MIT
#include "scalings.hpp"

#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/ntk_by_parts.hpp>
#include <posenc/frequency/yarn.hpp>

namespace study {

const std::vector<Scaling>& scalings() {
  // excerpt: rescaled_rope
  using posenc::frequencies;
  constexpr double base = 10000;
  static const std::vector<Scaling> all = {
      {"linear",
       [](const Shape& shape, double factor, Index) {
         return frequencies(
             posenc::LinearScaling{.rotary_dim = shape.head_dim(), .base = base, .factor = factor});
       }},
      {"NTK",
       [](const Shape& shape, double factor, Index) {
         return frequencies(
             posenc::NtkScaling{.rotary_dim = shape.head_dim(), .base = base, .factor = factor});
       }},
      {"NTK-by-parts",
       [](const Shape& shape, double factor, Index) {
         return frequencies(posenc::NtkByPartsScaling{.rotary_dim = shape.head_dim(),
                                                      .base = base,
                                                      .factor = factor,
                                                      .original_max_position = shape.length});
       }},
      {"YaRN",
       [](const Shape& shape, double factor, Index) {
         return frequencies(posenc::YarnScaling{.rotary_dim = shape.head_dim(),
                                                .base = base,
                                                .factor = factor,
                                                .original_max_position = shape.length});
       }},
      {"dynamic NTK", [](const Shape& shape, double, Index length) {
         return frequencies(posenc::DynamicNtkScaling{.rotary_dim = shape.head_dim(),
                                                      .base = base,
                                                      .factor = 1,
                                                      .original_max_position = shape.length},
                            length);
       }}};
  // end of excerpt
  return all;
}

}  // namespace study
