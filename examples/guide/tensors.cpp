// SPDX-License-Identifier: MIT
// The lines of tensors.md: views of tensors and of other memory, positions, threads and errors.
#define EIGEN_USE_THREADS
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/eigen.hpp>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

using posenc::Index;
using posenc::Positions;
using Heads = Eigen::Tensor<float, 4, Eigen::RowMajor>;

namespace {

int failures = 0;

void expect(bool holds, const char* claim) {
  if (holds) return;
  std::cout << "wrong: " << claim << '\n';
  ++failures;
}

bool same_bits(const Heads& a, const float* b) {
  return std::equal(a.data(), a.data() + a.size(), b);
}

}  // namespace

int main() {
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  const auto positions = Positions::range(0, 5);

  Eigen::Tensor<float, 4, Eigen::RowMajor> q(1, 5, 4, 64);  // q(b, s, h, d)
  q.setRandom();
  std::vector<float> memory(q.data(), q.data() + q.size());
  Heads threaded = q;
  rope.rotate(posenc::bshd(q), positions);

  // Memory of another project: one view, no copy.
  const posenc::HeadsView<float> view{
      .data = memory.data(), .batch = 1, .seq = 5, .heads = 4, .dim = 64};
  rope.rotate(view, positions);
  expect(same_bits(q, memory.data()), "a tensor and a view of a vector have the same result");

  // One projection writes queries, keys and values beside each other.
  Eigen::Tensor<float, 3, Eigen::RowMajor> qkv(2, 5, (4 + 1 + 1) * 64);  // qkv(b, s, features)
  qkv.setRandom();
  const auto heads = posenc::split_heads(posenc::bsd(qkv), 4 + 1 + 1);
  rope.rotate_all({posenc::slice_heads(heads, 0, 4), posenc::slice_heads(heads, 4, 1)}, positions);

  // Batch row 0 has 7 tokens in its cache, row 1 has 130.
  const auto next = Positions::starts({7, 130}, 5);
  expect(next.at(0, 2) == 9 && next.at(1, 2) == 132, "a row counts from its own start");

  Eigen::ThreadPool pool(2);
  const Eigen::ThreadPoolDevice device(&pool, 2);
  rope.rotate(posenc::bshd(threaded), positions, device);
  expect(same_bits(q, threaded.data()), "threads do not change the bits");

  Heads narrow(2, 8, 16, 48);
  narrow.setZero();
  std::string message;
  try {
    rope.rotate(posenc::bshd(narrow), Positions::range(0, 8));
  } catch (const posenc::ShapeError& error) {
    message = error.what();  // the tensor is unchanged
  }
  std::cout << message << '\n';
  expect(message ==
             "posenc::Rope::rotate: head_dim (48) must include the rotary channels [0, 64); x is "
             "[2, 8, 16, 48]",
         "the message names function, rule and values");
  return failures;
}
