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
    posenc::attention(device, x.q, x.k, x.v, x.out, options);
    posenc::attention_backward(device, x.q, x.k, x.v, x.out, x.grad_out, x.gradients, options);
  } else {
    posenc::attention(device, x.q, x.k, x.v, x.out, options, *bias.bias);
    posenc::attention_backward(device, x.q, x.k, x.v, x.out, x.grad_out, x.gradients, options,
                               *bias.bias, *bias.gradient);
  }
}

template <class T>
using Tensors = BackwardTensors<T>;
template <class T>
using Options = posenc::AttentionOptions<T>;

template void attend_and_back<float>(const support::AnyDevice&, const Tensors<float>&,
                                     const Options<float>&, const LearnedBiasCall&);
template void attend_and_back<double>(const support::AnyDevice&, const Tensors<double>&,
                                      const Options<double>&, const LearnedBiasCall&);
template void attend_and_back<Eigen::half>(const support::AnyDevice&, const Tensors<Eigen::half>&,
                                           const Options<Eigen::half>&, const LearnedBiasCall&);
template void attend_and_back<Eigen::bfloat16>(const support::AnyDevice&,
                                               const Tensors<Eigen::bfloat16>&,
                                               const Options<Eigen::bfloat16>&,
                                               const LearnedBiasCall&);

}  // namespace attention_test
