// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kernels.hpp>
#include <posenc/attention/detail/linear_backward.hpp>
#include <posenc/attention/detail/pack_panel.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/attention/linear.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/core/double_double.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/transpose.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>

POSENC_BEGIN
namespace detail {

/// out <- x W^T + b, in the order of FixedOrderLinear: outputs in tiles of tile_keys, as attention has
/// its keys.
template <class Tier, class T>
class FixedOrderProduct {
 public:
  FixedOrderProduct(const LinearParameters<T>& parameters, EmbeddingsView<const T> x,
                    EmbeddingsView<T> out) noexcept
      : parameters_(parameters), x_(x), out_(out) {}

  template <Device D>
  void run(const D& device, Slots& workspace) const {
    Carver measure(nullptr);
    (void)Scratch(measure, x_.dim);
    workspace.reserve(slot_count(device), measure.used());
    const Index tiles = (out_.dim + tile_keys - 1) / tile_keys;
    const auto products = static_cast<double>(rows() * x_.dim * tile_keys);
    const auto run_tiles = [&](Index first, Index last) {
      Carver carver(workspace.slot(slot_index(device)));
      const Scratch scratch(carver, x_.dim);
      for (Index tile = first; tile < last; ++tile) {
        if (rows() == 1) {
          apply_to_row(tile * tile_keys);
        } else {
          apply_tile(tile * tile_keys, scratch);
        }
      }
    };
    parallel_for(device, tiles, 0, products / 16, run_tiles);
  }

 private:
  static constexpr Index strip_rows = kernel_rows<Tier>;

  struct Scratch {
    Scratch(Carver& carver, Index in)
        : weights(carver.take<T>(tile_keys * in)),
          rows(carver.take<T>(strip_rows * in)),
          products(carver.take<T>(strip_rows * tile_keys)) {}

    T* weights;   ///< packed as keys of attention are
    T* rows;      ///< [strip_rows, in]
    T* products;  ///< [strip_rows, tile_keys]
  };

  Index rows() const noexcept { return x_.batch * x_.seq; }
  const T* weights(Index output) const noexcept {
    return parameters_.weight.data() + output * x_.dim;
  }
  bool has_bias() const noexcept { return parameters_.bias.size() != 0; }

  /// Outputs first .. first + tile_keys - 1 of the only row, for which packing would take longer than
  /// the products: squares of the weight are transposed on their way into them.
  void apply_to_row(Index first) const noexcept {
    using P = Pack<T, Tier>;
    const T* x = x_.data;
    const Index in = x_.dim, end = (std::min)(first + tile_keys, out_.dim);
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

  /// Outputs first .. first + tile_keys - 1 of all rows.
  void apply_tile(Index first, const Scratch& scratch) const noexcept {
    const Index count = (std::min)(tile_keys, out_.dim - first);
    const Lanes outputs = pack_weights(first, count, scratch.weights);
    for (Index r = 0; r < rows(); r += strip_rows) {
      const Index strip = (std::min)(strip_rows, rows() - r);
      for (Index i = 0; i < strip; ++i) {
        std::copy_n(x_.row((r + i) / x_.seq, (r + i) % x_.seq), x_.dim, scratch.rows + i * x_.dim);
      }
      for_bundles<Tier>(
          strip, PanelProducts<Tier, T, T>{scratch.rows, scratch.weights, x_.dim, T{1}, outputs,
                                           scratch.products, scratch.weights});
      for (Index i = 0; i < strip; ++i) {
        const T* product = scratch.products + i * tile_keys;
        T* to = out_.row((r + i) / x_.seq, (r + i) % x_.seq) + first;
        if (has_bias()) {
          const T* added = parameters_.bias.data() + first;
          for (Index j = 0; j < count; ++j) to[j] = product[j] + added[j];
        } else {
          std::copy_n(product, count, to);
        }
      }
    }
  }

  /// Puts rows first .. first + count - 1 of the weight where the kernel reads keys.
  Lanes pack_weights(Index first, Index count, T* packed) const noexcept {
    const Index in = x_.dim;
    Lanes outputs{0, count, 0};
    for (Index n = 0; n * panel_lanes < count; ++n) {
      const Index begin = n * panel_lanes;
      const Index lanes = (std::min)(panel_lanes, count - begin);
      T* block = packed + begin * in;
      if (lanes < panel_lanes) std::fill_n(block, panel_lanes * in, T{0});
      pack_panel<Tier>(weights(first + begin), in, 0, lanes, in, block);
      outputs.panels |= 1u << n;
    }
    return outputs;
  }

  const LinearParameters<T>& parameters_;
  EmbeddingsView<const T> x_;
  EmbeddingsView<T> out_;
};

}  // namespace detail

/// Linear with an order of its own: each output is one chain of multiply-adds over the inputs, in
/// their order, to which the bias is added. So a token's outputs have the same bits alone and among
/// others, on any number of threads, and a module that decodes gives those of one that sees the whole
/// sequence.
///   Accuracy: as Linear
///   Cost:     the weight is packed in each call: with AVX-512 and a weight of 4096 x 4096 floats, one row takes
///             1.4 times Linear's time, two 3 times, 16 1.8 times, and 128 or more no longer
template <class T>
struct FixedOrderLinear : LinearParameters<T> {
  using LinearParameters<T>::LinearParameters;

  /// out <- x W^T + b.
  ///   Shapes:   x [B, S, in], out [B, S, out]
  ///   Aliasing: none
  ///   Throws:   ShapeError
  ///   Cost:     memory for 140 rows of x per thread, from the workspace where one is given
  void apply(EmbeddingsView<const T> x, EmbeddingsView<T> out) const {
    apply(detail::CallingThread(), x, out);
  }
  /// The same on the threads of an Eigen device, which share out the outputs.
  template <Device D>
  void apply(const D& device, EmbeddingsView<const T> x, EmbeddingsView<T> out,
             AttentionWorkspace* workspace_or_none = nullptr) const {
    detail::check_projection("FixedOrderLinear::apply", *this, x, out);
    if (out.empty()) return;
    AttentionWorkspace own;
    detail::FixedOrderProduct<tier::Best, T>(*this, x, out)
        .run(device, detail::slots_of(workspace_or_none == nullptr ? own : *workspace_or_none));
  }

  /// As Linear::backward(), in the order of Eigen's products: training needs no token's gradient to be the same
  /// alone and among others.
  void backward(EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, LinearParameters<T>& gradient) const {
    backward(detail::CallingThread(), x, grad_out, grad_x, gradient);
  }
  /// The same on two threads of an Eigen device, one for the parameters and one for x; the same bits.
  template <Device D>
  void backward(const D& device, EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, LinearParameters<T>& gradient) const {
    detail::LinearBackward<T>("FixedOrderLinear::backward", *this, x, grad_out, grad_x, gradient)
        .run(device);
  }
};

POSENC_END
