// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/aligned_vector.hpp>

POSENC_UNDEFINED_OPERANDS_BEGIN
#include <Eigen/Core>
POSENC_UNDEFINED_OPERANDS_END

#include <cstddef>

POSENC_BEGIN
namespace detail {

/// Where Eigen's product packs its blocks. Memory of its own would come from functions of Eigen whose
/// code depends on the flags and whose names do not: in a program of units with different flags, what
/// one of them allocates another may free.
template <class T>
class ProductBlocks : public Eigen::internal::level3_blocking<T, T> {
 public:
  /// For a product [rows, depth] times [depth, cols] into a column-major matrix.
  ProductBlocks(Eigen::Index rows, Eigen::Index cols, Eigen::Index depth) {
    this->m_mc = rows;
    this->m_nc = cols;
    this->m_kc = depth;
    Eigen::internal::computeProductBlockingSizes<T, T>(this->m_kc, this->m_mc, this->m_nc);
    constexpr Eigen::Index line = 64 / sizeof(T);
    const Eigen::Index size = (this->m_mc * this->m_kc + line - 1) / line * line;
    const auto count = static_cast<std::size_t>(size + this->m_kc * this->m_nc);
    if (count > few) memory_.resize(count);
    T* const memory = count > few ? memory_.data() : here_;
    this->m_blockA = memory;
    this->m_blockB = memory + size;
  }
  ProductBlocks(const ProductBlocks&) = delete;  // the blocks may lie here
  ProductBlocks& operator=(const ProductBlocks&) = delete;

 private:
  // Small products are frequent, and do without an allocation, as Eigen's own do.
  static constexpr std::size_t few = 32768 / sizeof(T);

  AlignedVector<T> memory_;
  alignas(64) T here_[few];
};

}  // namespace detail
POSENC_END
