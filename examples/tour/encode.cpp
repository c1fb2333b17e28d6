// SPDX-License-Identifier: MIT
#include "encode.hpp"

#include "random.hpp"

namespace tour {

double share_in_trained_range(const Eigen::MatrixXd& codes) {
  Index inside = 0;
  for (Index c = 0; c < codes.cols(); ++c) {
    const auto trained = codes.col(c).head(trained_length),
               rest = codes.col(c).tail(trained_length);
    const double slack = 0.01 * (trained.maxCoeff() - trained.minCoeff());
    inside += rest.minCoeff() >= trained.minCoeff() - slack &&
                      rest.maxCoeff() <= trained.maxCoeff() + slack
                  ? 1
                  : 0;
  }
  return static_cast<double>(inside) / static_cast<double>(codes.cols());
}

Matrix random_table(Index rows, Index width, std::uint64_t seed, double deviation) {
  Random random(seed);
  Matrix table(rows, width);
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < width; ++c) {
      table(r, c) = static_cast<float>(deviation * random.normal());
    }
  }
  return table;
}

}  // namespace tour
