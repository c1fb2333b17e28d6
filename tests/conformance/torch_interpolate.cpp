// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include <posenc/additive/grid_resize.hpp>

#include <optional>
#include <string>
#include <vector>

namespace conformance {
namespace {

/// Returns a grid [rows, cols, channels], or [positions, channels] as one row, flattened to cells.
template <class A>
posenc::MatrixView<ElementOf<A>> cells_of(A& grid) {
  const Index dim = grid.extent(-1);
  return {grid.data.data(), dim == 0 ? 0 : grid.size() / dim, dim, dim};
}

posenc::GridShape grid_of(const std::vector<Index>& shape) {
  if (shape.size() == 3) return {shape[0], shape[1]};
  if (shape.size() == 2) return {1, shape[0]};
  throw Malformed("a grid must have rank 2 or 3");
}

posenc::GridResizeConfig config_of(const Case& c) {
  const auto mode = c.parameter<std::string>("mode", "");
  posenc::GridResizeConfig config{.source = grid_of(c.shape("grid")),
                                  .target = grid_of(c.expected_shape("out")),
                                  .antialias = c.parameter<bool>("antialias", false)};
  if (mode == "bicubic") {
    config.filter = posenc::ResizeFilter::Bicubic;
    const double a = config.antialias ? -0.5 : -0.75;
    if (c.parameter<double>("cubic_a", a) != a) throw NotSupported("another cubic_a");
  } else if (mode == "bilinear" || mode == "linear") {
    config.filter = posenc::ResizeFilter::Bilinear;
  } else {
    throw NotSupported("mode '" + mode + "'");
  }
  if (c.parameter<bool>("align_corners", false)) {
    config.coordinates = posenc::ResizeCoordinates::AlignCorners;
  }
  if (const auto scale = c.parameter<Json>("scale_factor")) {
    const auto factors =
        scale->is_array() ? scale->get<std::vector<double>>()
                          : std::vector<double>(c.shape("grid").size() - 1, scale->get<double>());
    if (factors.size() + 1 != c.shape("grid").size()) throw Malformed("scale_factor");
    config.col_scale = factors.back();
    if (factors.size() == 2) config.row_scale = factors.front();
  }
  return config;
}

template <class T>
void check_resize(Case& c) {
  const auto grid = c.read<T>("grid");
  const auto config = config_of(c);
  Array<T> out(c.expected_shape("out"));
  posenc::resize_grid(cells_of(grid), cells_of(out), config);
  c.check("out", out, Kind::Encoding);
  if (c.has("cotangent")) {
    const auto cotangent = c.read<T>("cotangent");
    Array<T> grad(grid.shape);
    posenc::resize_grid_adjoint(cells_of(cotangent), cells_of(grad), config);
    c.check("grad_grid", grad, Kind::Encoding);
  }
}

}  // namespace

void run_torch_interpolate(Case& c) {
  c.knows({"interpolate", "bicubic", "bilinear", "linear", "up", "down", "tiny", "align", "corners",
           "antialias", "scale", "factor", "size", "d"},
          {"mode", "align_corners", "antialias", "size", "scale_factor", "cubic_a"});
  in_both_precisions([&c]<class T>() { check_resize<T>(c); });
}

}  // namespace conformance
