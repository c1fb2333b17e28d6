// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/tiled_product.hpp>
#include <posenc/nn/linear_parameters.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/transpose.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>

POSENC_BEGIN
namespace detail {

/// out <- x W^T + b, each output one chain of multiply-adds over the inputs, in their order, and then the bias.
template <class Tier, class T>
class FixedOrderProduct {
 public:
  FixedOrderProduct(const LinearParameters<T>& parameters, EmbeddingsView<const T> x,
                    EmbeddingsView<T> out) noexcept
      : parameters_(parameters), x_(x), out_(out) {}

  ///   Throws: std::bad_alloc, before anything is written
  template <Device D>
  void run(const D& device, Slots& workspace) const {
    if (rows() == 1) {
      const auto products = static_cast<double>(x_.dim * tile_lanes);
      const Index tiles = (out_.dim + tile_lanes - 1) / tile_lanes;
      parallel_for(device, tiles, 0, products / 16, [&](Index first, Index last) {
        apply_to_row(first * tile_lanes, (std::min)(last * tile_lanes, out_.dim));
      });
      return;
    }
    TiledProduct<Tier, T>(rows(), out_.dim, x_.dim)
        .run(
            device, workspace,
            [&](Index first, Index count, T* panel) {
              pack_panel<Tier>(weights(first), x_.dim, 0, count, x_.dim, panel);
            },
            [&](Index first, Index count, T* to, Index stride) {
              copy_rows(x_, first, count, 0, x_.dim, to, stride);
            },
            [&](Index row, Index first, Index count, const T* products) {
              T* const to = row_of_token(out_, row) + first;
              if (has_bias()) {
                const T* const added = parameters_.bias.data() + first;
                for (Index j = 0; j < count; ++j) to[j] = products[j] + added[j];
              } else {
                std::copy_n(products, count, to);
              }
            });
  }

 private:
  Index rows() const noexcept { return x_.batch * x_.seq; }
  const T* weights(Index output) const noexcept {
    return parameters_.weight.data() + output * x_.dim;
  }
  bool has_bias() const noexcept { return parameters_.bias.size() != 0; }

  /// Outputs first .. end - 1 of the only row, for which packing would take longer than the products: squares
  /// of the weight are transposed on their way into them.
  void apply_to_row(Index first, Index end) const noexcept {
    using P = Pack<T, Tier>;
    const T* x = x_.data;
    const Index in = x_.dim;
    const auto finish = [&](Index output, Index i, T sum) {
      const T* of_output = weights(output);
      for (; i < in; ++i) sum = mul_add(x[i], of_output[i], sum);
      out_.data[output] = has_bias() ? sum + parameters_.bias(output) : sum;
    };
    Index output = first;
    for (; output + P::width <= end; output += P::width) {
      const T* of_outputs = weights(output);
      P sum = P::zero();
      Index i = 0;
      for (; i + P::width <= in; i += P::width) {
        P square[P::width];
        for (Index n = 0; n < P::width; ++n) square[n] = P::load(of_outputs + n * in + i);
        if constexpr (P::width > 1) transpose(square);
        for (Index n = 0; n < P::width; ++n) {
          sum = mul_add(square[n], P::broadcast(x[i + n]), sum);
        }
      }
      T sums[P::width];
      sum.store(sums);
      for (Index n = 0; n < P::width; ++n) finish(output + n, i, sums[n]);
    }
    for (; output < end; ++output) finish(output, 0, T{0});
  }

  const LinearParameters<T>& parameters_;
  EmbeddingsView<const T> x_;
  EmbeddingsView<T> out_;
};

}  // namespace detail
POSENC_END
