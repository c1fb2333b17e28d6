// SPDX-License-Identifier: MIT
// Rotation kernels that store another type, against those of float and a conversion.
#include "rotary/rotation_kernel_case.hpp"

namespace rotation_kernel_convert_test {

using posenc::Index;
using rotation_kernel_test::Angles;
using rotation_kernel_test::rounded_to;
using rotation_kernel_test::Shape;
using rotation_kernel_test::Tensor;

namespace {

template <class Pairing, class Tier, class In, class Out>
void rotate(const Shape& shape, bool token, Tensor<Pairing, In>& in, Tensor<Pairing, Out>& out,
            Angles<float>& angles) {
  const auto kernel = posenc::detail::block_kernel<Pairing, In, Tier, Out>(shape.pairs);
  if (token) {
    kernel.rotate_token(in.row(0, 0), out.row(0, 0), shape.pairs, shape.heads, angles.cos(),
                        angles.sin(), in.head_stride(), out.head_stride());
    return;
  }
  kernel.rotate({
      .in = in.row(0, 0),
      .out = out.row(0, 0),
      .in_seq_stride = in.seq_stride(),
      .in_head_stride = in.head_stride(),
      .out_seq_stride = out.seq_stride(),
      .out_head_stride = out.head_stride(),
      .seq = shape.seq,
      .heads = shape.heads,
      .pair_stride = in.half(),
      .pairs = shape.pairs,
      .angles = {angles.cos(), angles.sin(), angles.stride()},
  });
}

template <class Pairing, class Tier, class In, class Out>
void check(const Shape& shape, bool front, bool token) {
  support::Random random(static_cast<std::uint64_t>(100 * shape.pairs + shape.heads));
  Angles<float> angles(random, shape);
  Tensor<Pairing, In> in(shape, front);
  Tensor<Pairing, Out> out(shape, front);
  Tensor<Pairing, float> wide(shape, front);
  in.for_each([&](Index s, Index h, Index i) {
    for (const Index k : {0, 1}) {
      in.channel(s, h, i, k) = rounded_to<In>(static_cast<float>(random.normal()));
      wide.channel(s, h, i, k) = static_cast<float>(in.channel(s, h, i, k));
    }
  });
  rotate<Pairing, Tier>(shape, token, in, out, angles);
  rotate<Pairing, Tier>(shape, token, wide, wide, angles);
  bool same = true;
  in.for_each([&](Index s, Index h, Index i) {
    for (const Index k : {0, 1}) {
      const Out want = rounded_to<Out>(wide.channel(s, h, i, k));
      same = same && support::same_bits(&want, &out.channel(s, h, i, k), 1);
    }
  });
  INFO(Tier::name << ", " << Pairing::name << ", pairs " << shape.pairs << ", heads " << shape.heads
                  << (front ? ", front" : ", back") << (token ? ", token" : ""));
  CHECK(same);
  CHECK(out.surroundings_kept());
  CHECK(in.surroundings_kept());
}

template <class Pairing, class Tier, class In, class Out>
void check_pairing() {
  constexpr Index step = posenc::detail::RotationStep<Pairing, In, Tier, Out>::pairs;
  std::vector<Index> sizes{32, 48, 64, 130};
  for (Index pairs = 1; pairs <= 2 * step + 1; ++pairs) sizes.push_back(pairs);
  for (const Index pairs : sizes) {
    for (const Index heads : {1, 3, 5}) {
      for (const bool front : {true, false}) {
        Shape shape{.pairs = pairs, .seq = 2, .heads = heads, .heads_first = heads == 3};
        check<Pairing, Tier, In, Out>(shape, front, false);
        shape.seq = 1;
        check<Pairing, Tier, In, Out>(shape, front, true);
      }
    }
  }
}

template <class Tier, class In, class Out>
void check_both() {
  check_pairing<posenc::Interleaved, Tier, In, Out>();
  check_pairing<posenc::HalfRotate, Tier, In, Out>();
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("rotation_kernels: conversions on every tier", "[simd][rotation_kernels]",
                        tiers::All) {
  check_both<TestType, float, Eigen::bfloat16>();
  check_both<TestType, float, Eigen::half>();
  check_both<TestType, Eigen::bfloat16, float>();
}

}  // namespace rotation_kernel_convert_test
