// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reference {

/// Returns the table's row for every pair of tokens of a window, [tokens, tokens], as Swin and BEiT
/// build it: from a list of coordinates, padded at the top and the left for the class token.
inline std::vector<std::vector<std::int64_t>> window_index(std::int64_t height, std::int64_t width,
                                                           bool class_token) {
  std::vector<std::int64_t> ys, xs;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      ys.push_back(y);
      xs.push_back(x);
    }
  }
  const std::size_t cells = ys.size(), first = class_token ? 1 : 0;
  const std::int64_t n = (2 * height - 1) * (2 * width - 1);
  std::vector<std::vector<std::int64_t>> index(cells + first,
                                               std::vector<std::int64_t>(cells + first));
  for (std::size_t a = 0; a < cells; ++a) {
    for (std::size_t b = 0; b < cells; ++b) {
      const std::int64_t dy = ys[a] - ys[b] + height - 1, dx = xs[a] - xs[b] + width - 1;
      index[first + a][first + b] = dy * (2 * width - 1) + dx;
    }
  }
  if (class_token) {
    for (auto& cell : index[0]) cell = n;
    for (auto& row : index) row[0] = n + 1;
    index[0][0] = n + 2;
  }
  return index;
}

/// Returns Swin-V2's coordinate of a distance; extent is the window's, or the pretrained one's.
inline double log_coordinate(std::int64_t distance, std::int64_t extent) {
  const double z = static_cast<double>(distance) / static_cast<double>(extent - 1) * 8;
  const double sign = z > 0 ? 1 : z < 0 ? -1 : 0;
  return sign * std::log2(std::abs(z) + 1) / std::log2(8.0);
}

/// Returns Swin-V2's table [cells, H] of a window: w1 [width, 2], b1 [width, 1], w2 [H, width].
inline Matrix log_cpb_table(std::int64_t height, std::int64_t width, std::int64_t trained_height,
                            std::int64_t trained_width, const Matrix& w1, const Matrix& b1,
                            const Matrix& w2) {
  Matrix table((2 * height - 1) * (2 * width - 1), w2.rows);
  std::int64_t cell = 0;
  for (std::int64_t dy = -(height - 1); dy < height; ++dy) {
    for (std::int64_t dx = -(width - 1); dx < width; ++dx, ++cell) {
      const double y = log_coordinate(dy, trained_height), x = log_coordinate(dx, trained_width);
      for (std::int64_t h = 0; h < w2.rows; ++h) {
        double f = 0;
        for (std::int64_t k = 0; k < w1.rows; ++k) {
          f += w2(h, k) * std::fmax(w1(k, 0) * y + w1(k, 1) * x + b1(k, 0), 0);
        }
        table(cell, h) = 16 / (1 + std::exp(-f));
      }
    }
  }
  return table;
}

/// Returns the coordinates of the `source` cells of an axis in timm's resize_rel_pos_bias_table.
inline std::vector<double> geometric_abscissae(std::int64_t source, std::int64_t target) {
  double left = 1.01, right = 1.5, q = 0;
  while (right - left > 1e-6) {
    q = (left + right) / 2;
    const double sum = (1 - std::pow(q, static_cast<double>(source / 2))) / (1 - q);
    (sum > static_cast<double>(target / 2) ? right : left) = q;
  }
  std::vector<double> right_side, all;
  double cur = 1;
  for (std::int64_t i = 0; i < source / 2; ++i) {
    right_side.push_back(cur);
    cur += std::pow(q, static_cast<double>(i + 1));
  }
  for (auto it = right_side.rbegin(); it != right_side.rend(); ++it) all.push_back(-*it);
  all.push_back(0);
  all.insert(all.end(), right_side.begin(), right_side.end());
  return all;
}

/// Returns the weights of an axis, [target, source]: linear between abscissae, constant beyond the
/// border.
inline Matrix geometric_weights(std::int64_t source, std::int64_t target) {
  const auto at = geometric_abscissae(source, target);
  Matrix weights(target, source);
  for (std::int64_t o = 0; o < target; ++o) {
    const auto x = static_cast<double>(o - target / 2);
    std::int64_t right = 0;
    while (right < source - 1 && at[static_cast<std::size_t>(right)] < x) ++right;
    const std::int64_t left = right > 0 ? right - 1 : 0;
    double from_left = std::fmax(x - at[static_cast<std::size_t>(left)], 0);
    double from_right = std::fmax(at[static_cast<std::size_t>(right)] - x, 0);
    if (from_left == 0 && from_right == 0) from_left = from_right = 1;
    weights(o, left) += from_right / (from_left + from_right);
    weights(o, right) += from_left / (from_left + from_right);
  }
  return weights;
}

}  // namespace reference
