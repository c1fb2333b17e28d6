// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kernel_tile.hpp>
#include <posenc/attention/detail/relative_gradients.hpp>
#include <posenc/attention/detail/relative_stage.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <new>
#include <type_traits>

// Functions of RelativeBias. A stage for the scores of a block, or for their gradients, lies in the
// block's scratch memory.
POSENC_BEGIN
namespace detail {

template <class Tier, Scalar T, class S>
RelativeStage<Tier, T, S> relative_stage_for(const KernelBlock<Tier, T, S>&,
                                             const RelativeBias<T>&);
template <class Tier, Scalar T, class S>
RelativeGradients<Tier, T, S> relative_stage_for(const KernelBlock<Tier, T, S>&,
                                                 const RelativeBias<T>&,
                                                 const RelativeGradient<T>&);

/// Returns the size of a stage in bytes. The arguments are the bias, and its gradient for a stage
/// of gradients.
template <class Tier, Scalar T, class S, class... Arguments>
std::size_t relative_bytes(const KernelBlock<Tier, T, S>& block, const Arguments&... arguments) {
  using Stage = decltype(relative_stage_for(block, arguments...));
  ArenaAllocator measure(nullptr);
  (void)measure.allocate<Stage>(1);
  (void)Stage(block, arguments..., measure);
  return measure.bytes_used();
}
template <class Tier, Scalar T, class S, class... Arguments>
void begin_relative(const KernelBlock<Tier, T, S>& block, const Arguments&... arguments) {
  using Stage = decltype(relative_stage_for(block, arguments...));
  static_assert(std::is_trivially_destructible_v<Stage>);
  ArenaAllocator allocator(block.scratch);
  void* const memory = allocator.allocate<Stage>(1);
  (new (memory) Stage(block, arguments..., allocator))->begin(block);
}

template <class Stage, Scalar T>
const Stage& stage_of(const QueryBiasBlock<T>& block) noexcept {
  return *std::launder(reinterpret_cast<const Stage*>(block.scratch));
}
template <class Tier, Scalar T, class S>
void add_relative(const KernelTile<Tier, T, S>& tile, const MatrixView<Compute<T>>& scores) {
  stage_of<RelativeStage<Tier, T, S>>(tile.block).add(tile, scores);
}
template <class Tier, Scalar T, class S>
void add_relative_gradient(const KernelTile<Tier, T, S>& tile,
                           const MatrixView<const Compute<T>>& grad,
                           const QueryBiasGradients<T>& to) {
  stage_of<RelativeGradients<Tier, T, S>>(tile.block).add(tile, grad, to);
}
template <class Tier, Scalar T, class S>
void end_relative(const KernelBlock<Tier, T, S>& block, const RelativeGradient<T>& gradient) {
  stage_of<RelativeGradients<Tier, T, S>>(block).end(block, gradient);
}

}  // namespace detail
POSENC_END
