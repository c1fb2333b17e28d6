// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/tensor/adapt.hpp>

#include <cstddef>
#include <type_traits>

// Adapters of Eigen::Tensor, TensorFixedSize and TensorMap: arguments of bshd(), bsd(), ... if they
// are row-major, of dhsb(), dsb(), ... if they are column-major. Only this header of posenc
// includes Eigen's Tensor module.
//
// Eigen's Tensor module includes <thread>, which does not compile with libc++ 14 to 19 built
// without threads, for example for WebAssembly. In that case this header is empty, unless
// -D_LIBCPP_THREAD disables the contents of <thread>.
#if !defined(_LIBCPP_HAS_NO_THREADS) || defined(_LIBCPP_THREAD)
POSENC_UNDEFINED_OPERANDS_BEGIN
#include <unsupported/Eigen/CXX11/Tensor>
POSENC_UNDEFINED_OPERANDS_END

POSENC_BEGIN

namespace detail {

/// The base of all TensorTraits of Eigen's tensors. describe() keeps the order of the dimensions of
/// row-major tensors and reverses that of column-major tensors.
template <int Rank, bool RowMajor, bool OwnsMemory>
struct EigenTensorTraits {
  static constexpr std::size_t rank = static_cast<std::size_t>(Rank);
  static constexpr bool row_major = RowMajor;
  static constexpr bool owns_memory = OwnsMemory;

  template <class Tensor>
  static auto describe(Tensor& x) {
    Strided<std::remove_pointer_t<decltype(x.data())>, rank> t{x.data(), {}, {}};
    // Eigen::Sizes, the dimensions of tensors of fixed size, has signed indices.
    using Dimensions = std::remove_cvref_t<decltype(x.dimensions())>;
    constexpr bool has_signed_indices = requires { Dimensions::total_size; };
    using At = std::conditional_t<has_signed_indices, std::ptrdiff_t, std::size_t>;
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

/// The description of Eigen::Tensor.
template <class T, int Rank, int Options, class IndexType>
struct TensorTraits<Eigen::Tensor<T, Rank, Options, IndexType>>
    : detail::EigenTensorTraits<Rank, (Options & Eigen::RowMajor) != 0, true> {};

/// The description of Eigen::TensorFixedSize.
template <class T, class Sizes, int Options, class IndexType>
struct TensorTraits<Eigen::TensorFixedSize<T, Sizes, Options, IndexType>>
    : detail::EigenTensorTraits<static_cast<int>(Sizes::count), (Options & Eigen::RowMajor) != 0,
                                true> {};

/// The description of Eigen::TensorMap, whose temporaries may be viewed.
template <class Tensor, int Options, template <class> class MakePointer>
struct TensorTraits<Eigen::TensorMap<Tensor, Options, MakePointer>>
    : detail::EigenTensorTraits<static_cast<int>(Tensor::NumIndices),
                                static_cast<int>(Tensor::Layout) == Eigen::RowMajor, false> {};

POSENC_END
#endif
