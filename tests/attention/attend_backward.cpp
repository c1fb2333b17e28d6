// SPDX-License-Identifier: MIT
#define EIGEN_USE_THREADS
#include "attend_backward.hpp"

#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>

#include <Eigen/Core>

namespace attention_test {

template <posenc::Scalar T>
void attend_and_back(const support::AnyDevice& device, const BackwardTensors<T>& x,
                     const posenc::AttentionOptions<T>& options, const LearnedBiasCall& bias) {
  if (bias.bias == nullptr) {
    posenc::attention(x.q, x.k, x.v, x.out, options, {}, {.lse = x.lse}, device);
    posenc::attention_backward(x.q, x.k, x.v, x.out, x.lse, x.grad_out, x.gradients, options, {},
                               {}, nullptr, device);
  } else {
    posenc::attention(x.q, x.k, x.v, x.out, options, *bias.bias, {.lse = x.lse}, device);
    posenc::attention_backward(x.q, x.k, x.v, x.out, x.lse, x.grad_out, x.gradients, options,
                               *bias.bias, *bias.gradient, nullptr, device);
  }
}

template void attend_and_back<float>(const support::AnyDevice&, const BackwardTensors<float>&,
                                     const posenc::AttentionOptions<float>&,
                                     const LearnedBiasCall&);
template void attend_and_back<double>(const support::AnyDevice&, const BackwardTensors<double>&,
                                      const posenc::AttentionOptions<double>&,
                                      const LearnedBiasCall&);
template void attend_and_back<Eigen::half>(const support::AnyDevice&,
                                           const BackwardTensors<Eigen::half>&,
                                           const posenc::AttentionOptions<Eigen::half>&,
                                           const LearnedBiasCall&);
template void attend_and_back<Eigen::bfloat16>(const support::AnyDevice&,
                                               const BackwardTensors<Eigen::bfloat16>&,
                                               const posenc::AttentionOptions<Eigen::bfloat16>&,
                                               const LearnedBiasCall&);

}  // namespace attention_test
