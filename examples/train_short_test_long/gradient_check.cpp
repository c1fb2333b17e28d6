// SPDX-License-Identifier: MIT
// Compares the gradient of every method's parameters with central differences, in double.
#include "make_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace study;

/// Returns bytes of a small alphabet, some of them repeated.
Windows some_windows(const Shape& shape) {
  Windows windows{.rows = 2, .length = shape.length};
  for (Index i = 0; i < windows.rows * (windows.length + 1); ++i) {
    const auto number = mixed(7, 0, static_cast<std::uint64_t>(i));
    windows.bytes.push_back(static_cast<std::uint8_t>(number % static_cast<unsigned>(shape.bytes)));
  }
  return windows;
}

/// Returns the largest difference between an element of the gradient and the slope of the loss,
/// relative to the largest element, for as many elements as take about a second.
double check(const std::string& method, const Shape& shape) {
  const auto model = make_model<double>({.method = method, .shape = shape});
  const Windows windows = some_windows(shape);
  std::vector<double> parameters(static_cast<std::size_t>(model->parameter_count()));
  model->initialise(3, parameters);
  model->load(parameters);
  std::vector<double> gradient(parameters.size());
  constexpr double scale = 0.5;
  model->loss_and_gradient(windows, scale, gradient);
  double largest = 0, worst = 0;
  for (const double value : gradient) largest = std::max(largest, std::abs(value));
  const auto loss_at = [&](std::size_t i, double value) {
    const double before = std::exchange(parameters[i], value);
    model->load(parameters);
    parameters[i] = before;
    return model->loss(windows);
  };
  constexpr double step = 1e-5;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double x = parameters[i];
    const double slope = (loss_at(i, x + step) - loss_at(i, x - step)) / (2 * step);
    worst = std::max(worst, std::abs(gradient[i] - scale * slope));
  }
  return worst / largest;
}

}  // namespace

int main() try {
  const Shape shape{.layers = 2, .width = 8, .heads = 2, .length = 6, .bytes = 7};
  bool is_well = true;
  for (const std::string& method : methods()) {
    const double difference = check(method, shape);
    const bool agrees = difference < 1e-7;
    is_well = is_well && agrees;
    std::cout << method << ": gradient and central differences differ by " << difference
              << " of the largest" << (agrees ? "" : "  WRONG") << std::endl;
  }
  return is_well ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::cerr << "train_short_test_long_gradients: " << error.what() << '\n';
  return EXIT_FAILURE;
}
