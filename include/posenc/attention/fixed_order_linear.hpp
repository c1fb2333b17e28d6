// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/kernels.hpp>
#include <posenc/attention/key_tile.hpp>
#include <posenc/attention/linear.hpp>
#include <posenc/attention/pack_keys.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/core/double_double.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/transpose.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>

POSENC_BEGIN

/// Linear with an order of its own: each output is one chain of multiply-adds over the inputs, in
/// their order, to which the bias is added. So a token's outputs have the same bits alone and among
/// others, on any number of threads, and a module that decodes gives those of one that sees the whole
/// sequence.
///   Accuracy: as Linear
///   Cost:     the weight is packed in each call, and yet, with AVX-512, 4096 x 4096 floats take 0.4 to
///             0.7 of Linear's time for 2 to 64 rows; one row takes 1.3 times as long, and up to 2.5
///             times where the weight is small enough for a cache
template <class T>
struct FixedOrderLinear : LinearParameters<T> {
  using LinearParameters<T>::LinearParameters;

  /// out <- x W^T + b.
  ///   Shapes:   x [B, S, in], out [B, S, out]
  ///   Aliasing: none
  ///   Throws:   ShapeError
  ///   Cost:     memory for 140 rows of x a thread, from the workspace where one is given
  void apply(EmbeddingsView<const T> x, EmbeddingsView<T> out) const {
    apply(detail::CallingThread(), x, out);
  }
  /// The same on the threads of an Eigen device, which share out the outputs.
  template <class Device>
  void apply(const Device& device, EmbeddingsView<const T> x, EmbeddingsView<T> out,
             AttentionWorkspace* workspace_or_none = nullptr) const {
    this->check("FixedOrderLinear::apply", x, out);
    if (out.empty()) return;
    AttentionWorkspace own;
    AttentionWorkspace& workspace = workspace_or_none == nullptr ? own : *workspace_or_none;
    detail::Carver measure(nullptr);
    (void)Scratch(measure, x.dim);
    workspace.reserve(detail::slot_count(device), measure.used());
    const Index tiles = (out.dim + detail::tile_keys - 1) / detail::tile_keys;
    const auto products = static_cast<double>(x.batch * x.seq * x.dim * detail::tile_keys);
    const auto run = [&](Index first, Index last) {
      detail::Carver carver(workspace.slot(detail::slot_index(device)));
      const Scratch scratch(carver, x.dim);
      for (Index tile = first; tile < last; ++tile) {
        if (x.batch * x.seq == 1) {
          apply_to_row(tile * detail::tile_keys, x.data, out.data);
        } else {
          apply_tile(tile * detail::tile_keys, x, out, scratch);
        }
      }
    };
    detail::parallel_for(device, tiles, 0, products / 16, run);
  }

 private:
  static constexpr Index strip_rows = detail::kernel_rows<tier::Best>;

  struct Scratch {
    Scratch(detail::Carver& carver, Index in)
        : weights(carver.take<T>(detail::tile_keys * in)),
          rows(carver.take<T>(strip_rows * in)),
          products(carver.take<T>(strip_rows * detail::tile_keys)) {}

    T* weights;   ///< packed as keys of attention are
    T* rows;      ///< [strip_rows, in]
    T* products;  ///< [strip_rows, tile_keys]
  };

  /// Outputs first .. first + tile_keys - 1 of one row, for which packing would take longer than the
  /// products: squares of the weight are transposed on their way into them.
  void apply_to_row(Index first, const T* x, T* out) const noexcept {
    using P = Pack<T, tier::Best>;
    const Index in = this->in_dim(), end = (std::min)(first + detail::tile_keys, this->out_dim());
    const auto finish = [&](Index output, Index i, T sum) {
      const T* weights = this->weight.data() + output * in;
      for (; i < in; ++i) sum = mul_add(x[i], weights[i], sum);
      out[output] = this->bias.size() == 0 ? sum : sum + this->bias(output);
    };
    Index output = first;
    for (; output + P::width <= end; output += P::width) {
      const T* weights = this->weight.data() + output * in;
      P sum = P::zero();
      Index i = 0;
      for (; i + P::width <= in; i += P::width) {
        P square[P::width];
        for (Index n = 0; n < P::width; ++n) square[n] = P::load(weights + n * in + i);
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
  void apply_tile(Index first, EmbeddingsView<const T> x, EmbeddingsView<T> out,
                  const Scratch& scratch) const noexcept {
    const Index count = (std::min)(detail::tile_keys, out.dim - first);
    const detail::VisibleKeys outputs = pack_weights(first, count, scratch.weights);
    const Index rows = x.batch * x.seq;
    for (Index r = 0; r < rows; r += strip_rows) {
      const Index strip = (std::min)(strip_rows, rows - r);
      for (Index i = 0; i < strip; ++i) {
        std::copy_n(x.row((r + i) / x.seq, (r + i) % x.seq), x.dim, scratch.rows + i * x.dim);
      }
      detail::for_row_groups<tier::Best>(
          strip, detail::ScoreKernel<tier::Best, T, T>{scratch.rows, scratch.weights, x.dim, T{1},
                                                       outputs, scratch.products, scratch.weights});
      for (Index i = 0; i < strip; ++i) {
        const T* product = scratch.products + i * detail::tile_keys;
        T* to = out.row((r + i) / x.seq, (r + i) % x.seq) + first;
        if (this->bias.size() == 0) {
          std::copy_n(product, count, to);
        } else {
          const T* added = this->bias.data() + first;
          for (Index j = 0; j < count; ++j) to[j] = product[j] + added[j];
        }
      }
    }
  }

  /// Puts rows first .. first + count - 1 of the weight where the kernel reads keys.
  detail::VisibleKeys pack_weights(Index first, Index count, T* packed) const noexcept {
    const Index in = this->in_dim();
    detail::VisibleKeys outputs{0, count, 0};
    for (Index n = 0; n * detail::tile_lanes < count; ++n) {
      const Index begin = n * detail::tile_lanes;
      const Index lanes = (std::min)(detail::tile_lanes, count - begin);
      T* block = packed + begin * in;
      if (lanes < detail::tile_lanes) std::fill_n(block, detail::tile_lanes * in, T{0});
      detail::pack_keys(this->weight.data() + (first + begin) * in, in, 0, lanes, in, block);
      outputs.blocks |= 1u << n;
    }
    return outputs;
  }
};

POSENC_END
