// SPDX-License-Identifier: MIT
#include "attend.hpp"

#include <posenc/attention/attention.hpp>

#include <Eigen/Core>

namespace attention_test {

template <posenc::Scalar T>
void attend(posenc::HeadsView<const std::type_identity_t<T>> q,
            posenc::HeadsView<const std::type_identity_t<T>> k,
            posenc::HeadsView<const std::type_identity_t<T>> v, posenc::HeadsView<T> out,
            const posenc::AttentionOptions<std::type_identity_t<T>>& options, const AnyBias* bias,
            const posenc::AttentionMemory<std::type_identity_t<T>>& memory) {
  if (bias == nullptr) {
    posenc::attention(q, k, v, out, options, {}, memory);
  } else {
    posenc::attention(q, k, v, out, options, *bias, memory);
  }
}

template <class T>
using In = posenc::HeadsView<const T>;
template <class T>
using Out = posenc::HeadsView<T>;
template <class T>
using Options = posenc::AttentionOptions<T>;
template <class T>
using Memory = posenc::AttentionMemory<T>;

template void attend<float>(In<float>, In<float>, In<float>, Out<float>, const Options<float>&,
                            const AnyBias*, const Memory<float>&);
template void attend<double>(In<double>, In<double>, In<double>, Out<double>,
                             const Options<double>&, const AnyBias*, const Memory<double>&);
template void attend<Eigen::half>(In<Eigen::half>, In<Eigen::half>, In<Eigen::half>,
                                  Out<Eigen::half>, const Options<Eigen::half>&, const AnyBias*,
                                  const Memory<Eigen::half>&);
template void attend<Eigen::bfloat16>(In<Eigen::bfloat16>, In<Eigen::bfloat16>, In<Eigen::bfloat16>,
                                      Out<Eigen::bfloat16>, const Options<Eigen::bfloat16>&,
                                      const AnyBias*, const Memory<Eigen::bfloat16>&);

}  // namespace attention_test
