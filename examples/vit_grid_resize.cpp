// SPDX-License-Identifier: MIT
// A vision transformer trained on 14 x 14 patches gets an image of 16 x 24. The class token's row
// is kept, the grid of learned positions is resampled, and the longer sequence uses its rows.
#include <posenc/posenc.hpp>

#include <cmath>
#include <iostream>

int main() {
  std::clog << posenc::build_info() << '\n';
  using posenc::Index;
  using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  constexpr Index dim = 8, prefix = 1;
  constexpr posenc::GridShape trained{14, 14}, image{16, 24};

  // Stand-in for trained weights: smooth waves over the grid, and a class token of ones.
  Table table(prefix + trained.rows * trained.cols, dim);
  table.row(0).setOnes();
  for (Index cell = 0; cell < trained.rows * trained.cols; ++cell) {
    for (Index d = 0; d < dim; ++d) {
      const auto row = static_cast<float>(cell / trained.cols);
      const auto col = static_cast<float>(cell % trained.cols);
      table(prefix + cell, d) =
          std::sin(0.1F * static_cast<float>(d + 1) * (d % 2 == 0 ? row : col));
    }
  }

  Table resized(prefix + image.rows * image.cols, dim);
  posenc::resize_grid(posenc::table_view(table), posenc::table_view(resized),
                      {.source = trained,
                       .target = image,
                       .filter = posenc::ResizeFilter::Bicubic,
                       .prefix_tokens = prefix});

  // A sequence of the image's patches after the class token.
  const Index tokens = resized.rows();
  Eigen::Tensor<float, 3, Eigen::RowMajor> x(1, tokens, dim);
  x.setZero();
  const auto positions = posenc::Positions::range(0, tokens);

  const posenc::Learned<float> before(posenc::table_view(table));
  try {
    before.add_to(posenc::bsd(x), positions);
  } catch (const posenc::PositionError& error) {
    std::cout << "the table as trained: " << error.what() << '\n';
  }
  const posenc::Learned<float> after(posenc::table_view(resized));
  after.add_to(posenc::bsd(x), positions);

  std::cout << "resized from " << table.rows() << " to " << resized.rows()
            << " rows; class token kept: " << (resized.row(0) == table.row(0) ? "yes" : "no")
            << '\n';
  std::cout << "corner patch, channel 0: " << table(table.rows() - 1, 0) << " before, "
            << x(0, tokens - 1, 0) << " after\n";
}
