// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/tiled_product.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// The products of a linear layer's backward pass for a few tokens, which take the weight and its gradient where
/// they lie: to pack them takes longer than so few products.
///   Bits: those of TiledProduct and ManyRowsProduct, which take batch rows that are not dense one after the other;
///         here all rows are one chain
template <class Tier, class T>
class FewRowsBackward {
 public:
  /// For more rows a product that packs is as fast.
  static constexpr Index most_rows = 12;

  ///   x [B, S, in], grad_out [B, S, out], at most most_rows rows in all
  FewRowsBackward(EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out) noexcept
      : in_(x.dim), out_(grad_out.dim), rows_(x.batch * x.seq) {
    for (Index r = 0; r < rows_; ++r) {
      x_[r] = row_of_token(x, r);
      grad_out_[r] = row_of_token(grad_out, r);
    }
  }

  /// gradient += grad_out^T x, [out, in].
  template <Device D>
  void add_to_weight(const D& device, T* gradient) const {
    for_columns(device, [&]<Index Columns>(std::integral_constant<Index, Columns>, Index first,
                                           const auto& load, const auto& store) {
      for (Index o = 0; o < out_; ++o) {
        P sums[std::size_t{Columns}];
        for (P& sum : sums) sum = P::zero();
        for (Index r = 0; r < rows_; ++r) {
          const P value = P::broadcast(grad_out_[r][o]);
          for (Index c = 0; c < Columns; ++c) {
            sums[c] = mul_add(value, load(x_[r] + first + c * P::width), sums[c]);
          }
        }
        T* const to = gradient + o * in_ + first;
        for (Index c = 0; c < Columns; ++c) {
          store(load(to + c * P::width) + sums[c], to + c * P::width);
        }
      }
    });
  }

  /// grad_x <- grad_out weight.
  ///   weight: [out, in]
  template <Device D>
  void write_x(const D& device, const T* weight, EmbeddingsView<T> grad_x) const {
    T* to[most_rows];
    for (Index r = 0; r < rows_; ++r) to[r] = row_of_token(grad_x, r);
    for_columns(device, [&]<Index Columns>(std::integral_constant<Index, Columns>, Index first,
                                           const auto& load, const auto& store) {
      for (Index o = 0; o == 0 || o < out_; o += product_depth<T>) {
        const Index end = (std::min)(o + product_depth<T>, out_);
        Index r = 0;
        const auto multiply = [&]<Index Rows>(std::integral_constant<Index, Rows>) {
          for (; r + Rows <= rows_; r += Rows) {
            P sums[std::size_t{Rows}][std::size_t{Columns}];
            for (auto& of_row : sums) std::fill_n(of_row, Columns, P::zero());
            for (Index i = o; i < end; ++i) {
              P values[std::size_t{Columns}];
              for (Index c = 0; c < Columns; ++c) {
                values[c] = load(weight + i * in_ + first + c * P::width);
              }
              for (Index n = 0; n < Rows; ++n) {
                const P value = P::broadcast(grad_out_[r + n][i]);
                for (Index c = 0; c < Columns; ++c) {
                  sums[n][c] = mul_add(value, values[c], sums[n][c]);
                }
              }
            }
            for (Index n = 0; n < Rows; ++n) {
              for (Index c = 0; c < Columns; ++c) {
                T* const at = to[r + n] + first + c * P::width;
                store(o == 0 ? sums[n][c] : load(at) + sums[n][c], at);
              }
            }
          }
        };
        if constexpr (kernel_rows<Tier> >= 12) multiply(std::integral_constant<Index, 4>());
        multiply(std::integral_constant<Index, 2>());
        multiply(std::integral_constant<Index, 1>());
      }
    });
  }

 private:
  using P = Pack<T, Tier>;
  /// Vectors at a time.
  static constexpr Index columns_at_once = 4;
  /// One row has few sums under way otherwise, and memory is read faster in longer pieces.
  static constexpr Index columns_of_one_row = 8;

  /// Calls work(number of vectors, first column, how to load and store one) for all `in` columns.
  template <Device D, class Work>
  void for_columns(const D& device, const Work& work) const {
    if (rows_ == 1) {
      for_columns<columns_of_one_row>(device, work);
    } else {
      for_columns<columns_at_once>(device, work);
    }
  }
  template <Index AtOnce, Device D, class Work>
  void for_columns(const D& device, const Work& work) const {
    constexpr Index group = AtOnce * P::width;
    const auto load = [](const T* p) { return P::load(p); };
    const auto store = [](P x, T* p) { x.store(p); };
    const double products = static_cast<double>(rows_ * group) * static_cast<double>(out_);
    parallel_for(device, (in_ + group - 1) / group, 0, products / 16, [&](Index begin, Index end) {
      Index c = begin * group;
      const Index last = (std::min)(end * group, in_);
      for (; c + group <= last; c += group) {
        work(std::integral_constant<Index, AtOnce>(), c, load, store);
      }
      if constexpr (AtOnce > columns_at_once) {
        for (; c + columns_at_once * P::width <= last; c += columns_at_once * P::width) {
          work(std::integral_constant<Index, columns_at_once>(), c, load, store);
        }
      }
      for (; c + P::width <= last; c += P::width) {
        work(std::integral_constant<Index, 1>(), c, load, store);
      }
      if (c < last) {
        const Index n = last - c;
        work(
            std::integral_constant<Index, 1>(), c,
            [n](const T* p) { return P::load_partial(p, n); },
            [n](P x, T* p) { x.store_partial(p, n); });
      }
    });
  }

  Index in_, out_, rows_;
  const T* x_[most_rows];
  const T* grad_out_[most_rows];
};

}  // namespace detail
POSENC_END
