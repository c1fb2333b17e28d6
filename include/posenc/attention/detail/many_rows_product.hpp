// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/pack_panel.hpp>
#include <posenc/attention/detail/slots.hpp>
#include <posenc/attention/detail/tiled_product.hpp>
#include <posenc/core/config.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>

POSENC_BEGIN
namespace detail {

/// out <- x W^T for many rows of x.
///   Bits: a row's do not depend on the other rows, nor on the device
template <class Tier, class T>
class ManyRowsProduct {
 public:
  ///   weight: [out.dim, x.dim]
  ManyRowsProduct(const T* weight, EmbeddingsView<const T> x, EmbeddingsView<T> out) noexcept
      : weight_(weight), x_(x), out_(out) {}

  ///   Throws: std::bad_alloc, before anything is written
  template <Device D>
  void run(const D& device, Slots& workspace) const {
    const Index in = x_.dim, seq = x_.seq;
    Index i = 0;
    do {
      const Index inputs = (std::min)(in - i, product_depth<T>);
      TiledProduct<Tier, T>(x_.batch * seq, out_.dim, inputs)
          .run(
              device, workspace,
              [&](Index first, Index count, T* panel) {
                pack_panel<Tier>(weight_ + first * in + i, in, 0, count, inputs, panel);
              },
              [&](Index first, Index count, T* to, Index stride) {
                for (Index r = first; r < first + count; ++r, to += stride) {
                  std::copy_n(x_.row(r / seq, r % seq) + i, inputs, to);
                }
              },
              [&](Index row, Index first, Index count, const T* products) {
                T* const to = out_.row(row / seq, row % seq) + first;
                if (i == 0) {
                  std::copy_n(products, count, to);
                } else {
                  add_row<Tier>(products, count, to);
                }
              });
      i += product_depth<T>;
    } while (i < in);
  }

 private:
  const T* weight_;
  EmbeddingsView<const T> x_;
  EmbeddingsView<T> out_;
};

}  // namespace detail
POSENC_END
