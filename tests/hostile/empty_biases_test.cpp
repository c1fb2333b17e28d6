// SPDX-License-Identifier: MIT
// Biases for no scores, and their tables and gradients, return at once. ctest's time limit checks
// this.
#include "hostile/empty_extents.hpp"
#include "support/catch.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/forget_gates.hpp>
#include <posenc/bias/forget_gradient.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/window.hpp>

#include <array>
#include <span>
#include <vector>

namespace empty_biases_test {

using empty_extents::for_all_empty;
using empty_extents::make;
using posenc::EmbeddingsView;
using posenc::Index;
using posenc::MatrixView;

namespace {

/// Adds to empty tiles with few and with many queries or keys, whose strides are nonzero although
/// there is no memory.
template <class Bias, class Gradient>
void add_to_empty(const Bias& bias, Gradient& gradient) {
  const std::vector<double> positions(600);
  for (std::size_t count = 0; count <= positions.size(); count += count < 64 ? 1 : 67) {
    const std::span<const double> some(positions.data(), count), none;
    const auto n = static_cast<Index>(count);
    for (const Index stride : {Index{0}, Index{64}, Index{1} << 62}) {
      const MatrixView<float> rows{nullptr, n, 0, stride}, columns{nullptr, 0, n, stride};
      make([&] { bias.add(0, some, none, rows); });
      make([&] { bias.add(0, none, some, columns); });
      make([&] { bias.template add_gradient<float>(0, some, none, rows, gradient); });
      make([&] { bias.template add_gradient<float>(0, none, some, columns, gradient); });
    }
  }
}

}  // namespace

TEST_CASE("add of empty tiles: nothing is added", "[hostile]") {
  std::vector<float> numbers(64);
  const MatrixView<const float> table{numbers.data(), 8, 1}, cells{numbers.data(), 9, 1};
  const posenc::Alibi alibi({.heads = 1, .form = posenc::AlibiForm::Causal});
  const posenc::Kerple kerple({.form = posenc::KerpleForm::Logarithmic, .r1 = {1}, .r2 = {1}});
  const posenc::Fire fire({.c = 1,
                           .threshold = 8,
                           .hidden_weight = {1},
                           .hidden_bias = {0},
                           .output_weight = {1},
                           .output_bias = {0}});
  const posenc::T5Bias<float> t5(
      table, {.buckets = 8, .max_distance = 16, .direction = posenc::T5Direction::Bidirectional});
  const posenc::WindowBias<float> window(cells, {.rows = 2, .cols = 2});
  const auto check = [](const auto& bias) {
    auto gradient = bias.zero_gradient();
    add_to_empty(bias, gradient);
  };
  std::vector<double> slopes = alibi.zero_gradient();
  const std::span<double> of_slopes(slopes);
  add_to_empty(alibi, of_slopes);
  check(kerple);
  check(fire);
  check(t5);
  check(window);
}

TEST_CASE("LogCpb of empty tables: made at once without heads", "[hostile]") {
  float number = 0, other = 0;
  for_all_empty<2>({9, 1}, [&](const std::array<Index, 2>& n) {
    INFO(n[0] << ", " << n[1]);
    const MatrixView<float> table{&number, n[0], n[1]}, maxvit{&other, n[1], n[0]};
    make([&] { posenc::window_table_of_maxvit<float>(maxvit, table); });
    make([&] { (void)posenc::TableGradient(n[0], n[1]); });
  });
  constexpr Index side = Index{1} << 20;
  const posenc::WindowIndex index({.rows = side, .cols = side, .class_token = true});
  const posenc::WindowBias<float> window(MatrixView<const float>{&number, index.table_rows(), 0},
                                         {.rows = side, .cols = side, .class_token = true});
  CHECK(window.heads() == 0);
}

TEST_CASE("ForgetGates of no tokens: made at once, gradients too", "[hostile]") {
  float number = 0;
  double sum = 0;
  for_all_empty<3>({1, 3, 2}, [&](const std::array<Index, 3>& n) {
    INFO(n[0] << ", " << n[1] << ", " << n[2]);
    const EmbeddingsView<float> x{&number, n[0], n[1], n[2]};
    const EmbeddingsView<double> sums{&sum, n[0], n[1], n[2]};
    for (const Index sequences : {Index{0}, Index{1}}) {
      make([&] {
        posenc::ForgetGates gates(sequences, n[2]);
        const std::vector<Index> named(static_cast<std::size_t>(sequences), 0);
        make([&] { gates.append(named, x); });
        make([&] { gates.append(named, std::vector<Index>{0}, x); });
        make([&] { gates.restore(0, 0, sums); });
        make([&] { gates.copy_sums(0, 0, sums); });
      });
      make([&] {
        const std::vector<Index> tokens(static_cast<std::size_t>(sequences), n[1]);
        if (n[1] > 0 && n[2] > 0 && (n[1] > 64 || n[2] > 64))
          return;  // numbers that must be stored
        posenc::ForgetGradient gradient(n[2], tokens);
        make([&] { gradient.log_gates(0, x); });
        make([&] { gradient.logits<float>(0, x, x); });
        make([&] { gradient.add<float>(0, 0, 0, 0, {nullptr, n[1], 0}); });
      });
    }
  });
  posenc::ForgetGates gates(1, 1);
  const std::vector<Index> named{0};
  const posenc::ForgettingBias bias(gates, named);
  for (const Index huge : empty_extents::huge) {
    make([&] {
      bias.check("test", {.queries = huge, .aligned_key = huge, .has_aligned_key = true});
    });
  }
}

}  // namespace empty_biases_test
