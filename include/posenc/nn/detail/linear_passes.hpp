// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/detail/function_ref.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/packed_gemm.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/nn/detail/skinny_gemm.hpp>
#include <posenc/nn/linear_parameters.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/transpose.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <type_traits>

// Forward and backward pass of Linear, on a tier.
POSENC_BEGIN
namespace detail {

/// Throws ShapeError, in the name of `function`, unless y, called `name`, has the shape of a
/// projection of x.
template <class Projection, class T, class Y>
void check_projection_shapes(const char* function, const Projection& projection,
                             const EmbeddingsView<T>& x, const char* name, const Y& y) {
  check_extents(function, "x", x);
  check_extents(function, name, y);
  const Index in = projection.in_dim(), out = projection.out_dim();
  if constexpr (std::is_base_of_v<LinearParameters<std::remove_const_t<T>>, Projection>) {
    const Index bias = projection.bias.size();
    if (x.dim != in || (bias != 0 && bias != out)) {
      fail<ShapeError>(function, "x ", x.extents(), " and bias (", bias, ") must fit the weight [",
                       out, ", ", in, "]");
    }
  } else if (x.dim != in) {
    fail<ShapeError>(function, "x ", x.extents(), " must be [B, S, ", in, "]");
  }
  if (y.extents() != std::array<Index, 3>{x.batch, x.seq, out}) {
    fail<ShapeError>(function, name, " ", y.extents(), " must be [", x.batch, ", ", x.seq, ", ",
                     out, "]");
  }
}

/// Throws ShapeError, in the name of `function`, unless a projection can be applied to x and out.
template <class Projection, class T>
void check_projection(const char* function, const Projection& projection, EmbeddingsView<const T> x,
                      EmbeddingsView<T> out) {
  check_projection_shapes(function, projection, x, "out", out);
  check_output(function, "out", out);
}

/// Computes outputs first .. end - 1 of a row x. Each output is one chain over the inputs. Square
/// blocks of the weight are transposed in registers, because packing the weight would take longer
/// than the products.
template <class Tier, class T>
void multiply_row_in_order(const T* weight, const T* x, Index in, T* out, Index first,
                           Index end) noexcept {
  using P = Pack<T, Tier>;
  const auto finish = [&](Index output, Index i, T sum) {
    for (; i < in; ++i) sum = mul_add(x[i], weight[output * in + i], sum);
    out[output] = sum;
  };
  Index output = first;
  for (; output + P::width <= end; output += P::width) {
    P sum = P::zero();
    Index i = 0;
    for (; i + P::width <= in; i += P::width) {
      P square[P::width];
      for (Index n = 0; n < P::width; ++n) square[n] = P::load(weight + (output + n) * in + i);
      if constexpr (P::width > 1) transpose(square);
      for (Index n = 0; n < P::width; ++n) sum = mul_add(square[n], P::broadcast(x[i + n]), sum);
    }
    T sums[P::width];
    sum.store(sums);
    for (Index n = 0; n < P::width; ++n) finish(output + n, i, sums[n]);
  }
  for (; output < end; ++output) finish(output, 0, T{0});
}

/// Runs a GEMM of a linear layer, see PackedGemm::run(). Its functions have no types of their own,
/// so that all passes share the code of the GEMM.
template <class Tier, class T, Device D>
POSENC_NOINLINE void run_gemm(const D& device, ScratchArenas& workspace,
                              const PackedGemm<Tier, T>& gemm, bool adds,
                              FunctionRef<void(Index, Index, Index, Index, T*)> pack,
                              FunctionRef<void(Index, Index, Index, Index, T*, Index)> load,
                              FunctionRef<T*(Index)> row_of) {
  gemm.run(device, workspace, adds, pack, load, row_of);
}

/// Runs the forward pass; see Linear::apply().
///   Throws: std::bad_alloc, before anything is written
template <class Tier, SumOrder Order, Device D, class T>
void linear_forward(const D& device, ScratchArenas& workspace,
                    const LinearParameters<T>& parameters, const EmbeddingsView<const T>& x,
                    const EmbeddingsView<T>& out) {
  if (out.empty()) return;
  using Few = SkinnyGemm<Tier, T>;
  using Many = PackedGemm<Tier, T>;
  const Index rows = x.batch * x.seq;
  const T* const weight = parameters.weight.data();
  if (Order == SumOrder::Any ? x.seq > Few::max_rows : rows > 1) {
    // Within a slice of the depth each number is one chain.
    const Index slice = Order == SumOrder::Any ? Many::cached_depth : Index{x.dim};
    run_gemm<Tier, T>(
        device, workspace, Many(rows, out.dim, x.dim, slice), false,
        [&](Index from, Index depth, Index first, Index count, T* panel) {
          pack_panel<Tier>(weight + first * x.dim + from, x.dim, 0, count, depth, panel);
        },
        [&](Index from, Index depth, Index first, Index count, T* to, Index stride) {
          copy_rows(x, first, count, from, depth, to, stride);
        },
        [&](Index row) { return token_row(out, row); });
  } else if constexpr (Order == SumOrder::Any) {
    // A pass takes max_rows tokens at most, from several batch rows. Their number changes no
    // token's bits.
    const Index batch_rows = Few::max_rows / x.seq;
    for (Index b = 0; b < x.batch; b += batch_rows) {
      const Index n = (std::min)(batch_rows, x.batch - b);
      Few(weight, {x.row(b, 0), n, x.seq, x.dim, x.batch_stride, x.seq_stride},
          {out.row(b, 0), n, out.seq, out.dim, out.batch_stride, out.seq_stride})
          .run(device, workspace);
    }
  } else {
    const auto products = static_cast<double>(x.dim * tile_lanes);
    parallel_for(device, (out.dim + tile_lanes - 1) / tile_lanes, 0, products / 16,
                 [&](Index first, Index last) {
                   multiply_row_in_order<Tier>(weight, x.data, x.dim, out.data, first * tile_lanes,
                                               (std::min)(last * tile_lanes, Index{out.dim}));
                 });
  }
  if (parameters.bias.size() == 0) return;
  for (Index row = 0; row < rows; ++row) {
    add_values<Tier>(parameters.bias.data(), token_row(out, row), out.dim);
  }
}

/// True if the gradient is not to be computed.
template <class T>
bool is_omitted(const LinearParameters<T>& gradient) noexcept {
  return gradient.weight.rows() == 0 && gradient.weight.cols() == 0 && gradient.bias.size() == 0;
}

template <class T>
void check_linear_gradient(const char* function, const char* name,
                           const LinearParameters<T>& parameters,
                           const LinearParameters<T>& gradient) {
  const auto& weight = gradient.weight;
  if (is_omitted(gradient)) return;
  if (weight.rows() != parameters.out_dim() || weight.cols() != parameters.in_dim() ||
      gradient.bias.size() != parameters.bias.size()) {
    fail<ShapeError>(function, name, " must have the shapes of its layer, a weight [",
                     parameters.out_dim(), ", ", parameters.in_dim(), "] and a bias of ",
                     parameters.bias.size(), ", but has [", weight.rows(), ", ", weight.cols(),
                     "] and ", gradient.bias.size());
  }
}

/// Throws ShapeError, in the name of `function`, unless all shapes fit the layer.
template <class T>
void check_linear_backward(const char* function, const LinearParameters<T>& parameters,
                           const EmbeddingsView<const T>& x,
                           const EmbeddingsView<const T>& grad_out, const EmbeddingsView<T>& grad_x,
                           const LinearParameters<T>& gradient) {
  check_optional_extents(function, "grad_x", grad_x);
  check_projection_shapes(function, parameters, x, "grad_out", grad_out);
  if (!checked_mul({x.batch, x.seq})) {
    fail<ShapeError>(function, "the tokens of x ", x.extents(), " exceed 2^63 - 1");
  }
  if (grad_x.data != nullptr) {
    if (grad_x.extents() != x.extents()) {
      fail<ShapeError>(function, "grad_x ", grad_x.extents(), " must have the shape of x, ",
                       x.extents());
    }
    check_output(function, "grad_x", grad_x);
  }
  check_linear_gradient(function, "gradient", parameters, gradient);
}

/// True if the distance between consecutive tokens is the same across batch rows.
template <class T>
bool is_dense(const EmbeddingsView<T>& x) noexcept {
  return x.data == nullptr || x.empty() || x.batch <= 1 || x.seq <= 1 ||
         x.batch_stride == x.seq * x.seq_stride;
}
/// Returns a view of dense x with all tokens in one batch row.
template <class T>
EmbeddingsView<T> flatten_batch(const EmbeddingsView<T>& x) noexcept {
  return {x.data, 1, x.batch * x.seq, x.dim, 0, x.seq == 1 ? x.batch_stride : x.seq_stride};
}

/// Runs the backward pass; see Linear::backward().
///   Throws: std::bad_alloc, before anything is written
template <class Tier, Device D, class T>
void linear_backward(const D& device, ScratchArenas& workspace,
                     const LinearParameters<T>& parameters, EmbeddingsView<const T> x,
                     EmbeddingsView<const T> grad_out, EmbeddingsView<T> grad_x,
                     LinearParameters<T>& gradient) {
  if (x.empty() && grad_out.empty()) return;
  const bool has_grad_x = grad_x.data != nullptr;
  if (is_dense(x) && is_dense(grad_out) && is_dense(grad_x)) {
    x = flatten_batch(x);
    grad_out = flatten_batch(grad_out);
    if (has_grad_x) grad_x = flatten_batch(grad_x);
  }
  const Index in = x.dim, out = grad_out.dim, tokens = x.batch * x.seq;
  const bool has_gradient = !is_omitted(gradient) && in > 0 && out > 0;
  const T* const weight = parameters.weight.data();
  T* const weight_gradient = gradient.weight.data();
  if (tokens <= SkinnyGemm<Tier, T>::max_rows) {
    // Each thread has columns of the weight to itself.
    constexpr Index group = 1024 / Index{sizeof(T)};
    const double products = static_cast<double>(group * tokens) * static_cast<double>(out);
    parallel_for(device, (in + group - 1) / group, 0, products / 8, [&](Index first, Index last) {
      const Index column = first * group, columns = (std::min)(last * group, in) - column;
      for (Index b = 0; b < x.batch; ++b) {
        if (has_gradient) {
          InPlaceGemm<Tier, T>{.a = grad_out.row(b, 0),
                               .a_row_stride = 1,
                               .a_depth_stride = grad_out.seq_stride,
                               .b = x.row(b, 0) + column,
                               .b_stride = x.seq_stride,
                               .c = weight_gradient + column,
                               .c_stride = in,
                               .rows = out,
                               .depth = x.seq,
                               .columns = columns}
              .add();
        }
        if (!has_grad_x) continue;
        for (Index s = 0; s < x.seq; ++s) std::fill_n(grad_x.row(b, s) + column, columns, T{0});
        InPlaceGemm<Tier, T>{.a = grad_out.row(b, 0),
                             .a_row_stride = grad_out.seq_stride,
                             .a_depth_stride = 1,
                             .b = weight + column,
                             .b_stride = in,
                             .c = grad_x.row(b, 0) + column,
                             .c_stride = grad_x.seq_stride,
                             .rows = x.seq,
                             .depth = out,
                             .columns = columns}
            .add();
      }
    });
  } else {
    using Gemm = PackedGemm<Tier, T>;
    // Columns of grad_out become rows of the GEMM. Several strips of them are loaded per call, so
    // that full cache lines of grad_out are read.
    const Gemm weight_gemm(out, in, x.seq, Gemm::cached_depth, 8 * Gemm::strip_rows);
    const Gemm input_gemm(tokens, in, out);
    // All memory is allocated before anything is written.
    if (has_gradient) weight_gemm.reserve(device, workspace);
    if (has_grad_x) input_gemm.reserve(device, workspace);
    // The gradient of the parameters reads x, which grad_x may overwrite, so it comes first.
    for (Index b = 0; has_gradient && b < x.batch; ++b) {
      run_gemm<Tier, T>(
          device, workspace, weight_gemm, true,
          [&](Index from, Index depth, Index first, Index count, T* panel) {
            pack_columns<Tier>(x.row(b, from) + first, x.seq_stride, count, depth, panel);
          },
          [&](Index from, Index depth, Index first, Index count, T* rows, Index stride) {
            transpose_into<Tier>(grad_out.row(b, from) + first, grad_out.seq_stride, depth, count,
                                 rows, stride);
          },
          [&](Index row) { return weight_gradient + row * in; });
    }
    if (has_grad_x) {
      run_gemm<Tier, T>(
          device, workspace, input_gemm, false,
          [&](Index from, Index depth, Index first, Index count, T* panel) {
            pack_columns<Tier>(weight + from * in + first, in, count, depth, panel);
          },
          [&](Index from, Index depth, Index first, Index count, T* rows, Index stride) {
            copy_rows(grad_out, first, count, from, depth, rows, stride);
          },
          [&](Index row) { return token_row(grad_x, row); });
    }
  }
  if (is_omitted(gradient) || gradient.bias.size() == 0) return;
  for (Index t = 0; t < tokens; ++t) {
    add_values<Tier>(token_row(grad_out, t), gradient.bias.data(), out);
  }
}

}  // namespace detail
POSENC_END
