// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/tensor/adapt.hpp>

POSENC_UNDEFINED_OPERANDS_BEGIN
#include <unsupported/Eigen/CXX11/Tensor>
POSENC_UNDEFINED_OPERANDS_END

#include <type_traits>

// Eigen::Tensor and Eigen::TensorMap as arguments of bshd(), bsd(), ... This is the only header of
// posenc that includes Eigen's Tensor module.
POSENC_BEGIN

namespace detail {

/// Shared by Tensor and TensorMap: row-major dimensions as they stand, column-major ones reversed.
template <int Rank, bool RowMajor>
struct EigenTensorTraits {
  static constexpr std::size_t rank = static_cast<std::size_t>(Rank);

  template <class Tensor>
  static auto describe(Tensor& x) {
    Strided<std::remove_pointer_t<decltype(x.data())>, rank> t{x.data(), {}, {}};
    Index stride = 1;
    for (std::size_t axis = rank; axis-- > 0;) {
      t.extents[axis] = x.dimensions()[RowMajor ? axis : rank - 1 - axis];
      t.strides[axis] = stride;
      stride *= t.extents[axis];
    }
    return t;
  }
};

}  // namespace detail

template <class T, int Rank, int Options, class I>
struct TensorTraits<Eigen::Tensor<T, Rank, Options, I>>
    : detail::EigenTensorTraits<Rank, (Options & Eigen::RowMajor) != 0> {};

template <class Tensor, int Options, template <class> class MakePointer>
struct TensorTraits<Eigen::TensorMap<Tensor, Options, MakePointer>>
    : detail::EigenTensorTraits<Tensor::NumIndices,
                                static_cast<int>(Tensor::Layout) == Eigen::RowMajor> {};

POSENC_END
