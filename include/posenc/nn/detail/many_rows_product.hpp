// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/tiled_product.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>

POSENC_BEGIN
namespace detail {

/// out <- x W for many rows of x, a slice of W's depth after the other.
///   Bits: a row's do not depend on the other rows, nor on the device
template <class Tier, class T>
class ManyRowsProduct {
 public:
  ManyRowsProduct(EmbeddingsView<const T> x, EmbeddingsView<T> out) noexcept : x_(x), out_(out) {}

  /// What run() does first.
  ///   Throws: std::bad_alloc
  template <Device D>
  void reserve(const D& device, Slots& workspace) const {
    slice((std::min)(x_.dim, product_depth<T>)).reserve(device, workspace);
  }

  ///   pack(from, depth, first, count, panel): puts rows from .. from + depth - 1 of `count` columns of W, from
  ///           `first` on, into a panel of zeros
  ///   Throws: std::bad_alloc, before anything is written
  template <Device D, class PackColumns>
  void run(const D& device, Slots& workspace, const PackColumns& pack) const {
    Index from = 0;
    do {
      const Index depth = (std::min)(x_.dim - from, product_depth<T>);
      slice(depth).run(
          device, workspace,
          [&](Index first, Index count, T* panel) { pack(from, depth, first, count, panel); },
          [&](Index first, Index count, T* to, Index stride) {
            copy_rows(x_, first, count, from, depth, to, stride);
          },
          [&](Index row, Index first, Index count, const T* products) {
            T* const to = row_of_token(out_, row) + first;
            if (from == 0) {
              std::copy_n(products, count, to);
            } else {
              add_values<Tier>(products, to, count);
            }
          });
      from += product_depth<T>;
    } while (from < x_.dim);
  }

 private:
  TiledProduct<Tier, T> slice(Index depth) const noexcept {
    return {x_.batch * x_.seq, out_.dim, depth};
  }

  EmbeddingsView<const T> x_;
  EmbeddingsView<T> out_;
};

}  // namespace detail
POSENC_END
