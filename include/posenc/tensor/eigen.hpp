// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/tensor/adapt.hpp>

#include <cstddef>
#include <type_traits>

// Eigen::Tensor, TensorFixedSize and TensorMap as arguments of bshd(), bsd(), ..., or of dhsb(), dsb(), ...
// where they are column-major. This is the only header of posenc that includes Eigen's Tensor module.
//
// Eigen's Tensor module includes <thread>, with which libc++ 14 to 19 end the compilation where they were built without
// threads, as for WebAssembly. There this header is empty, unless -D_LIBCPP_THREAD has left out what <thread> contains.
#if !defined(_LIBCPP_HAS_NO_THREADS) || defined(_LIBCPP_THREAD)
POSENC_UNDEFINED_OPERANDS_BEGIN
#include <unsupported/Eigen/CXX11/Tensor>
POSENC_UNDEFINED_OPERANDS_END

POSENC_BEGIN

namespace detail {

/// Shared by all of them: row-major dimensions as they stand, column-major ones reversed.
template <int Rank, bool RowMajor, bool OwnsMemory>
struct EigenTensorTraits {
  static constexpr std::size_t rank = static_cast<std::size_t>(Rank);
  static constexpr bool row_major = RowMajor;
  static constexpr bool owns_memory = OwnsMemory;

  template <class Tensor>
  static auto describe(Tensor& x) {
    Strided<std::remove_pointer_t<decltype(x.data())>, rank> t{x.data(), {}, {}};
    // Eigen::Sizes, the dimensions of tensors of fixed size, count with sign.
    using Dimensions = std::remove_cvref_t<decltype(x.dimensions())>;
    constexpr bool with_sign = requires { Dimensions::total_size; };
    using At = std::conditional_t<with_sign, std::ptrdiff_t, std::size_t>;
    Index stride = 1;
    for (std::size_t axis = rank; axis-- > 0;) {
      t.extents[axis] = x.dimensions()[static_cast<At>(RowMajor ? axis : rank - 1 - axis)];
      t.strides[axis] = stride;
      stride = dense_stride({stride, t.extents[axis]});
    }
    return t;
  }
};

}  // namespace detail

template <class T, int Rank, int Options, class IndexType>
struct TensorTraits<Eigen::Tensor<T, Rank, Options, IndexType>>
    : detail::EigenTensorTraits<Rank, (Options & Eigen::RowMajor) != 0, true> {};

template <class T, class Sizes, int Options, class IndexType>
struct TensorTraits<Eigen::TensorFixedSize<T, Sizes, Options, IndexType>>
    : detail::EigenTensorTraits<static_cast<int>(Sizes::count), (Options & Eigen::RowMajor) != 0,
                                true> {};

template <class Tensor, int Options, template <class> class MakePointer>
struct TensorTraits<Eigen::TensorMap<Tensor, Options, MakePointer>>
    : detail::EigenTensorTraits<static_cast<int>(Tensor::NumIndices),
                                static_cast<int>(Tensor::Layout) == Eigen::RowMajor, false> {};

POSENC_END
#endif
