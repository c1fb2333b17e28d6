// SPDX-License-Identifier: MIT
// Tests Sinusoidal against the plain reference, over layouts, positions and tensors.
#include "reference/sinusoidal.hpp"

#include "additive/embeddings.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/concepts.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>
#include <unsupported/Eigen/CXX11/Tensor>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace sinusoidal_test {

namespace {

using Catch::Matchers::Message;
using posenc::Index;
using posenc::Positions;
using posenc::Sinusoidal;
using posenc::SinusoidalLayout;

static_assert(posenc::AdditiveEncoding<Sinusoidal, float>);
static_assert(posenc::AdditiveEncoding<Sinusoidal, double>);
static_assert(posenc::AdditiveEncoding<Sinusoidal, Eigen::half>);
static_assert(posenc::AdditiveEncoding<Sinusoidal, Eigen::bfloat16>);

constexpr std::array layouts{SinusoidalLayout::Interleaved, SinusoidalLayout::Concatenated,
                             SinusoidalLayout::ConcatenatedEndInclusive};

reference::SinusoidalLayout reference_layout(SinusoidalLayout layout) {
  if (layout == SinusoidalLayout::Interleaved) return reference::SinusoidalLayout::Interleaved;
  if (layout == SinusoidalLayout::Concatenated) return reference::SinusoidalLayout::Concatenated;
  return reference::SinusoidalLayout::ConcatenatedEndInclusive;
}

double expected(const posenc::SinusoidalConfig& config, Index channel, double position) {
  return config.scale *
         reference::sinusoidal_channel(reference_layout(config.layout), config.model_dim, channel,
                                       position + static_cast<double>(config.start), config.base);
}

/// Returns P of one row in double.
std::vector<double> encoding_of(const Sinusoidal& encoding, double position) {
  std::vector<double> row(static_cast<std::size_t>(encoding.model_dim()));
  encoding.write_to(
      posenc::EmbeddingsView<double>{
          .data = row.data(), .batch = 1, .seq = 1, .dim = encoding.model_dim()},
      Positions::real({position}));
  return row;
}

const std::vector<double> scattered{0, 41, -3, 41, 0.25, 5000, -1e5 + 0.75};

}  // namespace

TEMPLATE_TEST_CASE("Sinusoidal: writes the reference's numbers", "", float, double, Eigen::half,
                   Eigen::bfloat16) {
  const auto layout = GENERATE(from_range(layouts));
  const Index width = GENERATE(1, 2, 3, 4, 7, 16, 255, 256, 257, 260, 521);
  if (width == 1 && layout != SinusoidalLayout::Interleaved) return;
  const double scale = GENERATE(1.0, -0.125);
  const Index start = GENERATE(0, 17, -4);
  const posenc::SinusoidalConfig config{.model_dim = width,
                                        .layout = layout,
                                        .base = start == 17 ? 500.0 : 10000.0,
                                        .start = start,
                                        .scale = scale};

  for (const Index batch : {1, 3}) {
    const auto seq = static_cast<Index>(scattered.size());
    GuardedEmbeddings<TestType> out(batch, seq, width);
    Sinusoidal(config).write_to(out.view(), Positions::real(scattered));
    double worst = 0;
    for (Index b = 0; b < batch; ++b) {
      for (Index s = 0; s < seq; ++s) {
        for (Index d = 0; d < width; ++d) {
          const double position = scattered[static_cast<std::size_t>(s)];
          const double want = expected(config, d, position);
          // The promised 4e-16, the reference's rounding to double, and the rounding of its angle.
          const double absolute = 5.2e-16 + 0x1p-62 * std::abs(position);
          const double allowed = rounding_of<TestType>(want) + std::abs(scale) * absolute;
          worst = std::max(worst, std::abs(out(b, s, d) - want) / allowed);
        }
      }
    }
    CAPTURE(width, static_cast<int>(layout), scale, start, batch);
    CHECK(worst <= 1);
    CHECK(out.guards_hold());
  }
}

TEMPLATE_TEST_CASE("Sinusoidal: adds what it writes, rounded once", "", float, double, Eigen::half,
                   Eigen::bfloat16) {
  using C = posenc::Compute<TestType>;
  const auto layout = GENERATE(from_range(layouts));
  const Index width = GENERATE(5, 8, 300);
  const Index seq = GENERATE(1, 6);
  const Sinusoidal encoding({.model_dim = width, .layout = layout, .scale = 0.75});
  const auto positions = Positions::range(1000, seq);

  GuardedEmbeddings<TestType> x(2, seq, width), before(2, seq, width);
  GuardedEmbeddings<C> encoded(2, seq, width);
  x.fill(1);
  before.fill(1);
  encoding.add_to(x.view(), positions);
  encoding.write_to(encoded.view(), positions);
  CHECK(is_sum(x, before, encoded.matrix()));
  CHECK(x.guards_hold());
}

TEMPLATE_TEST_CASE("Sinusoidal: batch rows that share positions get the bits of one alone", "",
                   float, double, Eigen::bfloat16) {
  const auto layout = GENERATE(from_range(layouts));
  const Index width = GENERATE(65, 130);
  const Index batch = GENERATE(4, 7, 8, 9, 13);
  const Index seq = 67;  // longer than a block of positions
  const Sinusoidal encoding({.model_dim = width, .layout = layout, .scale = 0.75});
  const auto positions = Positions::range(1000, seq);

  GuardedEmbeddings<TestType> together(batch, seq, width), alone(batch, seq, width);
  together.fill(1);
  alone.fill(1);
  encoding.add_to(together.view(), positions);
  const auto rows = alone.view();
  for (Index b = 0; b < batch; ++b) {
    for (Index s = 0; s < seq; ++s) {
      encoding.add_to(posenc::EmbeddingsView<TestType>{rows.row(b, s), 1, 1, width},
                      Positions::range(1000 + s, 1));
    }
  }
  CAPTURE(static_cast<int>(layout), width, batch);
  CHECK(together.matrix().values == alone.matrix().values);
  CHECK(together.guards_hold());
}

TEST_CASE("Sinusoidal: every form of positions gives the same bits") {
  const auto layout = GENERATE(from_range(layouts));
  const Sinusoidal encoding({.model_dim = 9, .layout = layout});
  const auto write = [&](const Sinusoidal& e, const Positions& positions) {
    std::vector<float> out(72);
    e.write_to(posenc::EmbeddingsView<float>{out.data(), 2, 4, 9, 36, 9}, positions);
    return out;
  };
  const auto expected_bits = write(encoding, Positions::range(5, 4));
  CHECK(write(encoding, Positions::ids({5, 6, 7, 8})) == expected_bits);
  CHECK(write(encoding, Positions::real({5, 6, 7, 8})) == expected_bits);
  CHECK(write(encoding, Positions::starts({5, 5}, 4)) == expected_bits);
  const std::vector<Index> both{5, 6, 7, 8, 5, 6, 7, 8};
  CHECK(write(encoding, Positions::ids(2, both)) == expected_bits);

  // A start is a shift of all positions.
  const Sinusoidal shifted({.model_dim = 9, .layout = layout, .start = 3});
  CHECK(write(shifted, Positions::range(2, 4)) == expected_bits);
  CHECK(write(shifted, Positions::starts({2, 2}, 4)) == expected_bits);

  // Batch rows at other positions get their own encoding.
  const auto apart = write(encoding, Positions::starts({5, 90}, 4));
  CHECK(std::equal(apart.begin(), apart.begin() + 36, expected_bits.begin()));
  const auto far = write(encoding, Positions::range(90, 4));
  CHECK(std::equal(apart.begin() + 36, apart.end(), far.begin() + 36));
}

TEST_CASE("Sinusoidal: a step k is one rotation, wherever it starts") {
  const auto layout = GENERATE(from_range(layouts));
  const Index width = 12;
  const Sinusoidal encoding({.model_dim = width, .layout = layout});
  const bool interleaved = layout == SinusoidalLayout::Interleaved;
  for (const double k : {1.0, -7.0, 2048.0, 0.5}) {
    const auto turn = encoding_of(encoding, k);
    for (const double p : {0.0, 3.0, -512.0, 1048576.0}) {
      const auto from = encoding_of(encoding, p);
      const auto to = encoding_of(encoding, p + k);
      for (std::size_t i = 0; i < 6; ++i) {
        const std::size_t s = interleaved ? 2 * i : i;
        const std::size_t c = interleaved ? 2 * i + 1 : i + 6;
        CHECK(std::abs(to[s] - (from[s] * turn[c] + from[c] * turn[s])) < 2e-15);
        CHECK(std::abs(to[c] - (from[c] * turn[c] - from[s] * turn[s])) < 2e-15);
      }
    }
  }
}

TEST_CASE("Sinusoidal: layouts differ as documented") {
  const auto row = [](Index width, SinusoidalLayout layout, double position) {
    return encoding_of(Sinusoidal({.model_dim = width, .layout = layout}), position);
  };
  // Values of the paper's formula for model_dim 4 at position 1.
  const auto paper = row(4, SinusoidalLayout::Interleaved, 1);
  CHECK(paper[0] == Approx(0.8414709848078965).margin(1e-15));
  CHECK(paper[1] == Approx(0.5403023058681398).margin(1e-15));
  CHECK(paper[2] == Approx(0.009999833334166664).margin(1e-15));
  CHECK(paper[3] == Approx(0.9999500004166653).margin(1e-15));

  // Even widths: the first two layouts hold the same numbers in another order.
  const auto interleaved = row(10, SinusoidalLayout::Interleaved, 123);
  const auto concatenated = row(10, SinusoidalLayout::Concatenated, 123);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(interleaved[2 * i] == concatenated[i]);
    CHECK(interleaved[2 * i + 1] == concatenated[i + 5]);
  }

  // Odd widths.
  CHECK(row(1, SinusoidalLayout::Interleaved, 2)[0] == Approx(std::sin(2.0)).margin(1e-15));
  CHECK(row(5, SinusoidalLayout::Concatenated, 2)[4] == 0);
  CHECK(row(5, SinusoidalLayout::ConcatenatedEndInclusive, 2)[4] == 0);

  // One frequency, for which the definition divides by zero.
  for (const Index width : {2, 3}) {
    const auto single = row(width, SinusoidalLayout::ConcatenatedEndInclusive, 2);
    CHECK(single[0] == Approx(std::sin(2.0)).margin(1e-15));
    CHECK(single[1] == Approx(std::cos(2.0)).margin(1e-15));
  }

  const auto slowest = [](SinusoidalLayout layout) {
    return Sinusoidal({.model_dim = 512, .layout = layout}).frequencies().inv_freq().back();
  };
  CHECK(slowest(SinusoidalLayout::Interleaved) == Approx(1.0366329284376980e-4).epsilon(1e-14));
  CHECK(slowest(SinusoidalLayout::Concatenated) == slowest(SinusoidalLayout::Interleaved));
  CHECK(slowest(SinusoidalLayout::ConcatenatedEndInclusive) == 1e-4);
}

TEST_CASE("Sinusoidal: is as exact at positions of 2^50 as at 0") {
  // With frequencies that are powers of two, the reference's angles are exact at any position.
  const posenc::SinusoidalConfig exact{
      .model_dim = 16, .layout = SinusoidalLayout::Concatenated, .base = 256};
  for (const double position :
       {0x1p40, -0x1p40, 0x1p40 + 1, 0x1p40 - 0.5, 0x1p45 + 3, 0x1p50 - 1, -0x1p50}) {
    const auto row = encoding_of(Sinusoidal(exact), position);
    const double allowed = std::abs(position) <= 0x1p40 ? 5.2e-16 : 1.2e-15;
    for (Index d = 0; d < 16; ++d) {
      CAPTURE(position, d);
      CHECK(std::abs(row[static_cast<std::size_t>(d)] - expected(exact, d, position)) <= allowed);
    }
  }
  // A shift by `start` is equally exact.
  auto shifted = exact;
  shifted.start = Index{1} << 40;
  CHECK(encoding_of(Sinusoidal(shifted), 1) == encoding_of(Sinusoidal(exact), 0x1p40 + 1));

  // The usual frequencies, within the precision of the long double angle: 2^32 * 2^-64 radians.
  const posenc::SinusoidalConfig usual{.model_dim = 64, .layout = SinusoidalLayout::Interleaved};
  for (const double position : {0x1p20 + 7, 4294967295.0}) {
    const auto row = encoding_of(Sinusoidal(usual), position);
    for (Index d = 0; d < 64; ++d) {
      CAPTURE(position, d);
      CHECK(std::abs(row[static_cast<std::size_t>(d)] - expected(usual, d, position)) <= 2e-9);
    }
  }
}

TEST_CASE("Sinusoidal: reads row-major and column-major tensors and matrices") {
  const posenc::SinusoidalConfig config{.model_dim = 6, .layout = SinusoidalLayout::Interleaved};
  const Sinusoidal encoding(config);
  const auto positions = Positions::range(30, 3);
  const auto close = [&](double got, Index s, Index d) {
    return std::abs(got - expected(config, d, 30 + static_cast<double>(s))) <= 6.1e-8;
  };

  Eigen::Tensor<float, 3, Eigen::RowMajor> row_major(2, 3, 6);
  Eigen::Tensor<float, 3> column_major(6, 3, 2);
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> token_rows(3, 6);
  Eigen::MatrixXf token_columns(6, 3);
  row_major.setZero();
  column_major.setZero();
  token_rows.setZero();
  token_columns.setZero();
  encoding.add_to(posenc::bsd(row_major), positions);
  encoding.add_to(posenc::dsb(column_major), positions);
  encoding.add_to(posenc::sd(token_rows), positions);
  encoding.add_to(posenc::ds(token_columns), positions);
  bool right = true;
  for (Index s = 0; s < 3; ++s) {
    for (Index d = 0; d < 6; ++d) {
      for (Index b = 0; b < 2; ++b) {
        right = right && close(static_cast<double>(row_major(b, s, d)), s, d) &&
                close(static_cast<double>(column_major(d, s, b)), s, d);
      }
      right = right && close(static_cast<double>(token_rows(s, d)), s, d) &&
              close(static_cast<double>(token_columns(d, s)), s, d);
    }
  }
  CHECK(right);
}

TEST_CASE("Sinusoidal: gradient of a learned scale") {
  const posenc::SinusoidalConfig config{.model_dim = 11,
                                        .layout = SinusoidalLayout::ConcatenatedEndInclusive,
                                        .start = 2,
                                        .scale = 0.3};
  const Sinusoidal encoding(config);
  GuardedEmbeddings<float> grad(3, 4, 11);
  grad.fill(7);
  const auto sum = [&](const std::array<double, 3>& starts) {
    double total = 0;
    for (Index b = 0; b < 3; ++b) {
      for (Index s = 0; s < 4; ++s) {
        for (Index d = 0; d < 11; ++d) {
          const double position = starts[static_cast<std::size_t>(b)] + static_cast<double>(s);
          total += grad(b, s, d) * expected(config, d, position) / config.scale;
        }
      }
    }
    return total;
  };
  const posenc::EmbeddingsView<const float> view = grad.view();
  CHECK(encoding.scale_gradient(view, Positions::range(9, 4)) ==
        Approx(sum({9, 9, 9})).epsilon(1e-13));
  CHECK(encoding.scale_gradient(grad.view(), Positions::starts({9, 0, -70}, 4)) ==
        Approx(sum({9, 0, -70})).epsilon(1e-13));
}

TEST_CASE("Sinusoidal: empty tensors are left alone") {
  const Sinusoidal encoding({.model_dim = 4, .layout = SinusoidalLayout::Interleaved});
  for (const auto& [batch, seq] : {std::pair<Index, Index>{0, 3}, {2, 0}, {0, 0}}) {
    const posenc::EmbeddingsView<float> empty{
        .data = nullptr, .batch = batch, .seq = seq, .dim = 4};
    CHECK_NOTHROW(encoding.add_to(empty, Positions::range(0, seq)));
    CHECK_NOTHROW(encoding.write_to(empty, Positions::range(0, seq)));
    CHECK(encoding.scale_gradient(empty, Positions::range(0, seq)) == 0);
  }
}

TEST_CASE("Sinusoidal: rejects bad settings by name") {
  using posenc::ConfigError;
  const auto make = [](posenc::SinusoidalConfig config) { return Sinusoidal(config); };
  constexpr auto interleaved = SinusoidalLayout::Interleaved;
  CHECK_THROWS_MATCHES(make({.layout = interleaved}), ConfigError,
                       Message("posenc::Sinusoidal: model_dim must be set and positive but is 0"));
  CHECK_THROWS_MATCHES(
      make({.model_dim = 8}), ConfigError,
      Message("posenc::Sinusoidal: layout must be set to Interleaved, Concatenated or "
              "ConcatenatedEndInclusive"));
  CHECK_THROWS_MATCHES(make({.model_dim = 1, .layout = SinusoidalLayout::Concatenated}),
                       ConfigError,
                       Message("posenc::Sinusoidal: a concatenated layout needs at least 2 "
                               "channels per axis but has 1"));
  CHECK_THROWS_MATCHES(
      make({.model_dim = 8, .layout = interleaved, .base = 1}), ConfigError,
      Message("posenc::Sinusoidal: base must be set, finite and greater than 1, but is 1"));
  CHECK_THROWS_MATCHES(make({.model_dim = 8, .layout = interleaved, .start = Index{1} << 51}),
                       ConfigError,
                       Message("posenc::Sinusoidal: start must lie within 2^50 but is "
                               "2251799813685248"));
  CHECK_THROWS_MATCHES(make({.model_dim = 8,
                             .layout = interleaved,
                             .scale = std::numeric_limits<double>::infinity()}),
                       ConfigError, Message("posenc::Sinusoidal: scale must be finite but is inf"));
}

TEST_CASE("Sinusoidal: rejects tensors and positions that do not fit, and writes nothing") {
  using posenc::PositionError;
  using posenc::ShapeError;
  const Sinusoidal encoding(
      {.model_dim = 8, .layout = SinusoidalLayout::Interleaved, .start = Index{1} << 49});
  GuardedEmbeddings<float> x(2, 3, 8), before(2, 3, 8), narrow(2, 3, 7);
  x.fill(3);
  before.fill(3);

  const auto range = Positions::range(0, 3);
  const std::string widths = "x must be [B, S, 8] but is [2, 3, 7]";
  CHECK_THROWS_MATCHES(encoding.add_to(narrow.view(), range), ShapeError,
                       Message("posenc::Sinusoidal::add_to: " + widths));
  CHECK_THROWS_MATCHES(encoding.write_to(narrow.view(), range), ShapeError,
                       Message("posenc::Sinusoidal::write_to: " + widths));
  CHECK_THROWS_MATCHES(encoding.scale_gradient(narrow.view(), range), ShapeError,
                       Message("posenc::Sinusoidal::scale_gradient: " + widths));

  const std::string counts =
      "positions [1, 4] must match batch and sequence of x, which is [2, 3, 8]";
  CHECK_THROWS_MATCHES(encoding.add_to(x.view(), Positions::range(0, 4)), ShapeError,
                       Message("posenc::Sinusoidal::add_to: " + counts));
  CHECK_THROWS_MATCHES(encoding.write_to(x.view(), Positions::range(0, 4)), ShapeError,
                       Message("posenc::Sinusoidal::write_to: " + counts));
  CHECK_THROWS_MATCHES(encoding.scale_gradient(x.view(), Positions::range(0, 4)), ShapeError,
                       Message("posenc::Sinusoidal::scale_gradient: " + counts));
  CHECK_THROWS_AS(encoding.add_to(x.view(), Positions::starts({1, 2, 3}, 3)), ShapeError);
  CHECK_THROWS_MATCHES(
      encoding.add_to(x.view(), Positions::grid(1, 3)), ShapeError,
      Message("posenc::Sinusoidal::add_to: positions must have 1 axis but have 2"));

  // Neither start nor position exceeds the limit, but their sum does.
  const std::string reach =
      "|start| + |position| must not exceed 2^50, but start is 562949953421312 and a position has "
      "magnitude 562949953421313";
  const auto far = Positions::ids({0, (Index{1} << 49) + 1, 0});
  CHECK_THROWS_MATCHES(encoding.add_to(x.view(), far), PositionError,
                       Message("posenc::Sinusoidal::add_to: " + reach));
  CHECK_THROWS_MATCHES(encoding.write_to(x.view(), far), PositionError,
                       Message("posenc::Sinusoidal::write_to: " + reach));
  CHECK_THROWS_MATCHES(encoding.scale_gradient(x.view(), far), PositionError,
                       Message("posenc::Sinusoidal::scale_gradient: " + reach));
  CHECK_NOTHROW(encoding.scale_gradient(x.view(), Positions::ids({0, Index{1} << 49, 0})));

  CHECK(x.matrix().values == before.matrix().values);
  CHECK(x.guards_hold());
}

TEST_CASE("Sinusoidal: encodes as before after it was moved from") {
  for (const SinusoidalLayout layout : layouts) {
    Sinusoidal encoding({.model_dim = 64, .layout = layout}),
        assigned({.model_dim = 2, .layout = layout});
    const auto before = encoding_of(encoding, 41);
    Sinusoidal taken = std::move(encoding);
    CHECK(encoding_of(taken, 41) == before);
    CHECK(encoding_of(encoding, 41) == before);  // NOLINT(bugprone-use-after-move)
    assigned = std::move(taken);
    CHECK(encoding_of(assigned, 41) == before);
    CHECK(encoding_of(taken, 41) == before);  // NOLINT(bugprone-use-after-move)
  }
}

}  // namespace sinusoidal_test
