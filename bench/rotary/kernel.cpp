// SPDX-License-Identifier: MIT
// Rotation kernel without the surrounding call: the heads of one position of Llama-3-8B, for which
// the checks and loops of the public call weigh most.
#include "cases.hpp"
#include <posenc/rotary/detail/rotation_kernels.hpp>

namespace {

using bench::Index, bench::Llama3;

template <class Pairing, class T>
void kernel_case(benchmark::State& state) {
  constexpr Index pairs = Llama3::rotary_dim / 2, dim = Llama3::head_dim;
  bench::Setup<Llama3, Pairing, T> setup(1, Llama3::heads);
  bench::Comparison(state,
                    [&] {
                      T* x = bench::opaque(setup.x.data());
                      posenc::detail::block_kernel<Pairing, T>(pairs).rotate_token(
                          x, x, pairs, Llama3::heads, setup.angles.cos.data(),
                          setup.angles.sin.data(), dim, dim);
                    })
      .beside("vs_limit", setup.limit())
      .faster_than(
          "vs_plain",
          [&] { bench::plain_rotate<Pairing>(setup.view(), setup.angles.cos, setup.angles.sin); })
      .measure(setup.bytes());
}

template <class Pairing>
void add_pairing() {
  const std::string name = bench::case_name<Llama3, Pairing>("decode");
  bench::add(name + "kernel", kernel_case<Pairing, float>);
  bench::add(name + "bf16_kernel", kernel_case<Pairing, Eigen::bfloat16>);
  bench::add(name + "f16_kernel", kernel_case<Pairing, Eigen::half>);
}

const bool added = (add_pairing<posenc::HalfRotate>(), add_pairing<posenc::Interleaved>(), true);

}  // namespace
