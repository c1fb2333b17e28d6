// SPDX-License-Identifier: MIT
// The norm of MultiHeadAttention's queries and keys against its definition: documented accuracy,
// gradients against central differences, and bits on devices.
#define EIGEN_USE_THREADS
#include "reference/rms_norm.hpp"

#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/devices.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/nn/detail/rms_norm.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

namespace rms_norm_test {

using posenc::Index;
using posenc::detail::CallingThread;
using posenc::detail::RmsNorm;

namespace {

template <class T>
std::vector<T> random_numbers(Index count, double size, std::uint64_t seed) {
  support::Random random(seed);
  std::vector<T> numbers;
  for (Index n = 0; n < count; ++n) numbers.push_back(static_cast<T>(size * random.normal()));
  return numbers;
}

template <class T>
std::vector<double> doubles(const std::vector<T>& numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace

TEMPLATE_TEST_CASE("rms_norm: rows are within the documented bound", "[norm]", float, double) {
  using T = TestType;
  for (const Index size : {1, 2, 7, 8, 64, 130}) {
    for (const double magnitude : {1e-20, 1e-3, 1.0, 1e15}) {
      for (const double offset : {0.0, 1.0}) {
        INFO(size << " numbers of size " << magnitude << ", offset " << offset);
        constexpr Index rows = 5;
        constexpr double epsilon = 1e-6;
        const auto x = random_numbers<T>(rows * size, magnitude, 1);
        const auto weight = random_numbers<T>(size, 1, 2);
        std::vector<T> y(x.size());
        RmsNorm<T>(weight.data(), size, offset, epsilon)
            .apply(CallingThread(), rows, x.data(), y.data());
        std::vector<double> factor = doubles(weight);
        for (double& number : factor) number += offset;
        reference::Matrix matrix(rows, size);
        matrix.values = doubles(x);
        const auto want = reference::rms_norm(matrix, factor, epsilon);
        const auto u = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
        // Results of the reference are rounded to double, too.
        const double roundings =
            std::is_same_v<T, float> ? 1.001 : static_cast<double>(size) / 16 + 8 + 1;
        double worst = 0;
        for (std::size_t n = 0; n < y.size(); ++n) {
          const double allowed = roundings * u * std::abs(want.values[n]) +
                                 static_cast<double>(std::numeric_limits<T>::denorm_min());
          const double error = std::abs(static_cast<double>(y[n]) - want.values[n]);
          worst = support::worse(worst, error / allowed);
        }
        CHECK(worst <= 1);
        // In place.
        auto in_place = x;
        RmsNorm<T>(weight.data(), size, offset, epsilon)
            .apply(CallingThread(), rows, in_place.data(), in_place.data());
        CHECK(support::same_bits(in_place.data(), y.data(), static_cast<Index>(y.size())));
      }
    }
  }
}

TEST_CASE("rms_norm: floats do not overflow", "[norm]") {
  const float largest = std::numeric_limits<float>::max();
  const float x[4] = {largest, -largest, largest, largest}, weight[4] = {1, 1, 2, 0};
  float y[4];
  RmsNorm<float>(weight, 4, 0, 1e-6).apply(CallingThread(), 1, x, y);
  CHECK(y[0] == 1);
  CHECK(y[1] == -1);
  CHECK(y[2] == 2);
  CHECK(y[3] == 0);
  const float zeros[4] = {};
  RmsNorm<float>(weight, 4, 0, 1e-6).apply(CallingThread(), 1, zeros, y);
  for (const float number : y) CHECK(number == 0);
}

TEST_CASE("rms_norm: the backward pass equals slopes", "[norm][backward]") {
  constexpr Index rows = 3, size = 11;
  constexpr double epsilon = 1e-2;
  for (const double offset : {0.0, 1.0}) {
    auto x = random_numbers<double>(rows * size, 1, 1), weight = random_numbers<double>(size, 1, 2);
    const auto grad_out = random_numbers<double>(rows * size, 1, 3);
    const auto loss = [&] {
      std::vector<double> y(x.size());
      RmsNorm<double>(weight.data(), size, offset, epsilon)
          .apply(CallingThread(), rows, x.data(), y.data());
      double sum = 0;
      for (std::size_t n = 0; n < y.size(); ++n) sum += y[n] * grad_out[n];
      return sum;
    };
    auto grad = grad_out;
    std::vector<double> of_weight(size, 0.5), scales(rows);
    RmsNorm<double>(weight.data(), size, offset, epsilon)
        .backward(CallingThread(), rows, x.data(), grad.data(), of_weight.data(), scales.data());
    const auto check = [&](std::vector<double>& numbers, const std::vector<double>& gradient,
                           double before) {
      constexpr double step = 0x1p-12;
      double worst = 0;
      for (std::size_t n = 0; n < numbers.size(); ++n) {
        const double number = numbers[n];
        const auto at = [&](double distance) {
          numbers[n] = number + distance * step;
          return loss();
        };
        const double slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step);
        numbers[n] = number;
        worst =
            support::worse(worst, std::abs(gradient[n] - before - slope) / (1 + std::abs(slope)));
      }
      CHECK(worst < 1e-9);
    };
    check(x, grad, 0);
    check(weight, of_weight, 0.5);
    // Without a gradient of the weight, that of x has the same bits.
    auto alone = grad_out;
    RmsNorm<double>(weight.data(), size, offset, epsilon)
        .backward(CallingThread(), rows, x.data(), alone.data(), nullptr, scales.data());
    CHECK(alone == grad);
  }
}

TEST_CASE("rms_norm: bit-identical on every device", "[norm][threads]") {
  constexpr Index rows = 300, size = 129;
  const auto x = random_numbers<float>(rows * size, 1, 1);
  const auto weight = random_numbers<float>(size, 1, 2);
  const auto grad_out = random_numbers<float>(rows * size, 1, 3);
  support::check_same_on_all_devices([&](const auto&... device) {
    const auto run = [&](const auto& on) {
      std::vector<float> y(x.size()), grad = grad_out, of_weight(size);
      std::vector<double> scales(rows);
      const RmsNorm<float> norm(weight.data(), size, 1, 1e-6);
      norm.apply(on, rows, x.data(), y.data());
      norm.backward(on, rows, x.data(), grad.data(), of_weight.data(), scales.data());
      support::Bytes bytes;
      bytes.add(y);
      bytes.add(grad);
      bytes.add(of_weight);
      return bytes;
    };
    if constexpr (sizeof...(device) == 0) {
      return run(CallingThread());
    } else {
      return run(device...);
    }
  });
}

}  // namespace rms_norm_test
