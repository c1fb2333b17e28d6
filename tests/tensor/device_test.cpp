// SPDX-License-Identifier: MIT
// Calls on Eigen's thread pool: long ones are split between its threads, short ones run on the
// calling thread. Eigen decides from the costs that posenc passes to parallelFor(), by a model that
// differs between its versions.
#define EIGEN_USE_THREADS
#include "support/catch.hpp"
#include "support/devices.hpp"
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/rotary/rope.hpp>

#include <atomic>
#include <functional>
#include <vector>

namespace device_test {

using posenc::Index;
using posenc::Positions;

namespace {

/// Eigen's device, with a count of the ranges that it processes.
struct CountedPool {
  const Eigen::ThreadPoolDevice& device;
  std::atomic<int>& ranges;

  int numThreads() const { return device.numThreads(); }
  int numThreadsInPool() const { return device.numThreadsInPool(); }
  int currentThreadId() const { return device.currentThreadId(); }
  void parallelFor(Index count, const Eigen::TensorOpCost& cost,
                   const std::function<void(Index, Index)>& work) const {
    device.parallelFor(count, cost, [&](Index first, Index last) {
      ++ranges;
      work(first, last);
    });
  }
};

/// Returns the number of ranges into which a call on two threads is split.
int ranges_of(const std::function<void(const support::AnyDevice&)>& call) {
  Eigen::ThreadPool pool(2);
  const Eigen::ThreadPoolDevice device(&pool, 2);
  std::atomic<int> ranges = 0;
  call(support::AnyDevice(CountedPool{device, ranges}));
  return ranges;
}

std::vector<float> values(Index count) {
  return std::vector<float>(static_cast<std::size_t>(count), 0.5F);
}

int rotation(Index seq) {
  auto x = values(seq * 8 * 128);
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 128, .base = 10000});
  return ranges_of([&](const auto& device) {
    rope.rotate(posenc::HeadsView<float>{x.data(), 1, seq, 8, 128}, Positions::range(0, seq),
                device);
  });
}

int sinusoidal(Index seq) {
  auto x = values(seq * 1024);
  const posenc::Sinusoidal encoding(
      {.model_dim = 1024, .layout = posenc::SinusoidalLayout::Interleaved});
  return ranges_of([&](const auto& device) {
    encoding.add_to(posenc::EmbeddingsView<float>{x.data(), 1, seq, 1024}, Positions::range(0, seq),
                    device);
  });
}

int attention(Index seq) {
  auto x = values(seq * 4 * 64), out = x;
  const posenc::HeadsView<float> q{x.data(), 1, seq, 4, 64}, y{out.data(), 1, seq, 4, 64};
  return ranges_of([&](const auto& device) {
    posenc::attention(q, q, q, y, {.causal = posenc::Causal::TopLeft}, {}, {}, device);
  });
}

int linear(Index seq, Index dim) {
  auto x = values(seq * dim), out = x;
  const posenc::Linear<float> layer(dim, dim, true);
  return ranges_of([&](const auto& device) {
    layer.apply(posenc::EmbeddingsView<float>{x.data(), 1, seq, dim},
                posenc::EmbeddingsView<float>{out.data(), 1, seq, dim}, nullptr, device);
  });
}

}  // namespace

TEST_CASE("Device: long calls are split between the threads of Eigen's pool", "[threads]") {
  CHECK(rotation(512) >= 2);
  CHECK(sinusoidal(512) >= 2);
  CHECK(attention(256) >= 2);
  CHECK(linear(64, 512) >= 2);
  CHECK(linear(1, 2048) >= 2);
}

TEST_CASE("Device: short calls on Eigen's pool run on the calling thread", "[threads]") {
  CHECK(rotation(2) == 1);
  CHECK(sinusoidal(2) == 1);
  CHECK(attention(2) == 1);
  CHECK(linear(2, 16) == 1);
}

}  // namespace device_test
