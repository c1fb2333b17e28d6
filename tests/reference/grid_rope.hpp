// SPDX-License-Identifier: MIT
#pragma once

#include "reference/rope.hpp"
#include "reference/rope_axes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

// Encodings of images and videos as in the models' own code: tables for all positions that are cut,
// broadcast over a grid and concatenated. `Ids` are the positions of a token.
namespace reference {

/// diffusers: a table per axis, base^(-2j / dim), concatenated.
inline CosSin axial(const Ids& ids, const Sections& dims, const std::vector<long double>& bases) {
  CosSin result;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    std::vector<long double> w;
    for (std::int64_t i = 0; i < dims[axis]; i += 2) {
      w.push_back(1 / std::pow(bases[axis],
                               static_cast<long double>(i) / static_cast<long double>(dims[axis])));
    }
    append(result, cos_sin(ids.at(axis), w), 0, dims[axis] / 2);
  }
  return result;
}

/// numpy's arange: begin, begin + 1, ... below end.
inline std::vector<double> arange(double begin, double end) {
  std::vector<double> values;
  for (double value = begin; value < end; value += 1) values.push_back(value);
  return values;
}

/// The cartesian product, the last axis fastest.
inline std::vector<Ids> meshgrid(const std::vector<std::vector<double>>& axes) {
  std::vector<Ids> cells{{}};
  for (const auto& axis : axes) {
    std::vector<Ids> longer;
    for (const Ids& cell : cells) {
      for (const double value : axis) {
        longer.push_back(cell);
        longer.back().push_back(value);
      }
    }
    cells = longer;
  }
  return cells;
}

inline std::vector<Ids> joined(std::vector<Ids> first, const std::vector<Ids>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// Frames, rows and columns.
using Size = std::vector<std::int64_t>;

inline double extent(const Size& size, std::size_t axis) {
  return static_cast<double>(size.at(axis));
}

/// Flux: ids of text are zeros, before those of the image, whose first column stays zero.
inline std::vector<Ids> flux(std::int64_t text, std::int64_t rows, std::int64_t cols) {
  std::vector<Ids> ids(static_cast<std::size_t>(text), Ids{0, 0, 0});
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      Ids id{0, 0, 0};
      id[1] = id[1] + static_cast<double>(row);
      id[2] = id[2] + static_cast<double>(col);
      ids.push_back(id);
    }
  }
  return ids;
}

/// Flux 2: products of the ranges of time, rows, columns and text; references at scale + scale t.
inline std::vector<Ids> flux2(std::int64_t text, const std::vector<Size>& pictures) {
  std::vector<Ids> ids = meshgrid({{0}, {0}, {0}, arange(0, static_cast<double>(text))});
  const double scale = 10;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const double t = i == 0 ? 0 : scale + scale * static_cast<double>(i - 1);
    ids = joined(
        ids,
        meshgrid({{t}, arange(0, extent(pictures[i], 1)), arange(0, extent(pictures[i], 2)), {0}}));
  }
  return ids;
}

/// Qwen-Image: tables for 0 .. 4095 and -4096 .. -1, which are sliced.
inline std::vector<Ids> qwen_image(std::int64_t text, const std::vector<Size>& pictures,
                                   bool scale_rope, bool layered) {
  const std::vector<double> positive = arange(0, 4096), negative = arange(-4096, 0);
  const auto side = [&](std::int64_t n) {
    if (!scale_rope) return std::vector<double>(positive.begin(), positive.begin() + n);
    std::vector<double> values(negative.end() - (n - n / 2), negative.end());
    values.insert(values.end(), positive.begin(), positive.begin() + n / 2);
    return values;
  };
  std::vector<Ids> video;
  std::int64_t most = 0;
  const auto layers = static_cast<std::int64_t>(pictures.size()) - 1;
  for (std::int64_t i = 0; i <= layers; ++i) {
    const Size& size = pictures[static_cast<std::size_t>(i)];
    const auto first = static_cast<double>(i);
    const auto frames = layered && i == layers ? std::vector<double>{negative.back()}
                                               : arange(first, first + extent(size, 0));
    video = joined(video, meshgrid({frames, side(size[1]), side(size[2])}));
    most = scale_rope ? std::max({size[1] / 2, size[2] / 2, most})
                      : std::max({size[1], size[2], most});
  }
  if (layered) most = std::max(most, layers);
  std::vector<Ids> ids;
  for (std::int64_t i = most; i < most + text; ++i) {
    const double at = positive[static_cast<std::size_t>(i)];
    ids.push_back({at, at, at});
  }
  return joined(ids, video);
}

/// Z-Image: grids with a start, both parts padded to multiples of 32.
inline std::vector<Ids> z_image(const Size& size, std::int64_t caption) {
  std::int64_t padded = caption;
  while (padded % 32 != 0) ++padded;
  const auto start = static_cast<double>(padded) + 1;
  auto image = meshgrid({arange(start, start + extent(size, 0)), arange(0, extent(size, 1)),
                         arange(0, extent(size, 2))});
  while (image.size() % 32 != 0) image.push_back({0, 0, 0});
  return joined(image, meshgrid({arange(1, static_cast<double>(padded) + 1), {0}, {0}}));
}

/// Python's round: ties to even.
inline double python_round(double x) {
  const double down = std::floor(x), rest = x - down;
  if (rest != 0.5) return rest < 0.5 ? down : down + 1;
  return std::fmod(down, 2) == 0 ? down : down + 1;
}

/// torch's linspace.
inline std::vector<double> linspace(double first, double last, std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = count == 1 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1);
    values.push_back(first + (last - first) * share);
  }
  return values;
}

/// CogVideoX 1.0: the crop of the trained grid that a resized image covers, then linspace over it.
inline std::vector<Ids> cogvideox(std::int64_t text, const Size& size, double th, double tw) {
  const double h = extent(size, 1), w = extent(size, 2);
  double resize_height = th, resize_width = tw;
  if (h / w > th / tw) {
    resize_width = python_round(th / h * w);
  } else {
    resize_height = python_round(tw / w * h);
  }
  const double crop_top = python_round((th - resize_height) / 2.0);
  const double crop_left = python_round((tw - resize_width) / 2.0);
  const double stop_y = crop_top + resize_height, stop_x = crop_left + resize_width;
  const std::vector<Ids> ids(static_cast<std::size_t>(text), Ids{0, 0, 0});
  return joined(
      ids, meshgrid({arange(0, extent(size, 0)), linspace(crop_top, stop_y * (h - 1) / h, size[1]),
                     linspace(crop_left, stop_x * (w - 1) / w, size[2])}));
}

/// Lumina 2: zeros that ranges are written into.
inline std::vector<Ids> lumina2(std::int64_t caption, const Size& size) {
  const auto cells = static_cast<std::size_t>(size[1] * size[2]);
  const auto before = static_cast<std::size_t>(caption);
  std::vector<Ids> ids(before + cells, Ids{0, 0, 0});
  for (std::size_t i = 0; i < before; ++i) ids[i][0] = static_cast<double>(i);
  for (std::size_t i = 0; i < cells; ++i) {
    const auto cols = static_cast<std::size_t>(size[2]);
    ids[before + i] = {static_cast<double>(caption), static_cast<double>(i / cols),
                       static_cast<double>(i % cols)};
  }
  return ids;
}

/// Ideogram 4: text on three axes, then a grid plus an offset.
inline std::vector<Ids> ideogram4(std::int64_t text, const Size& size) {
  std::vector<Ids> ids;
  for (const double at : arange(0, static_cast<double>(text))) ids.push_back({at, at, at});
  auto image = meshgrid({{0}, arange(0, extent(size, 1)), arange(0, extent(size, 2))});
  for (Ids& id : image) {
    for (double& at : id) at += 65536;
  }
  return joined(ids, image);
}

/// Cosmos 3: a video whose VAE compresses `compression` frames into one.
inline std::vector<Ids> cosmos3_video(double offset, const Size& size, double fps,
                                      double compression) {
  std::vector<double> times;
  for (const double frame : arange(0, extent(size, 0))) {
    const double per_second = fps / compression, usual = 24 / compression;
    times.push_back((size[0] > 1 ? frame / per_second * usual : frame) + offset);
  }
  return meshgrid({times, arange(0, extent(size, 1)), arange(0, extent(size, 2))});
}

/// numpy's linspace without its end.
inline std::vector<double> open_linspace(double first, double last, std::int64_t count) {
  std::vector<double> values;
  const double step = (last - first) / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i) * step + first);
  return values;
}

/// MiniMax-H3 with a patch of 2 x 2 latents: spans of frames are summed one after the other.
inline std::vector<Ids> minimax_h3(std::int64_t text, const Size& size, std::int64_t audio,
                                   bool first, bool last) {
  const double high = 2 * extent(size, 1), wide = 2 * extent(size, 2);
  const auto spatial = [&](double dim, std::int64_t count) {
    const double ratio = dim / std::sqrt(high * wide), left = (1.0 - ratio) / 2.0;
    auto values = open_linspace(left, left + ratio, count);
    for (double& value : values) value *= 32;
    return values;
  };
  const auto rows = spatial(high, size[1]), cols = spatial(wide, size[2]);
  const std::vector<double> frames_per_latent{1, 4, 4, 4, 4};
  const auto start = static_cast<double>(text);
  std::vector<double> times;
  double end = 0;
  for (std::int64_t frame = 0; frame < size[0]; ++frame) {
    times.push_back(start + end);
    end += 5.0 / 3.0 * frames_per_latent[static_cast<std::size_t>(frame % 5)];
  }
  auto ids = meshgrid({arange(0, start), {0}, {0}});
  if (first) ids = joined(ids, meshgrid({{start}, rows, cols}));
  if (last) ids = joined(ids, meshgrid({{start + end - 5.0 / 3.0}, rows, cols}));
  const auto sound = arange(start, start + static_cast<double>(audio));
  ids = joined(ids, meshgrid({sound, {0}, {cols.front()}}));
  ids = joined(ids, meshgrid({sound, {0}, {cols.back()}}));
  return joined(ids, meshgrid({times, rows, cols}));
}

// DINOv3.

/// Returns the coordinates (y, x) of patches: half pixels, divided, and mapped from [0, 1] to [-1,
/// 1].
inline std::vector<Ids> dinov3_coordinates(std::int64_t rows, std::int64_t cols,
                                           const std::string& normalize) {
  auto high = static_cast<double>(rows), wide = static_cast<double>(cols);
  if (normalize == "max") high = wide = std::max(high, wide);
  if (normalize == "min") high = wide = std::min(high, wide);
  std::vector<double> y, x;
  for (const double at : arange(0.5, static_cast<double>(rows))) y.push_back(at / high);
  for (const double at : arange(0.5, static_cast<double>(cols))) x.push_back(at / wide);
  auto cells = meshgrid({y, x});
  for (Ids& cell : cells) cell = {2.0 * cell[0] - 1.0, 2.0 * cell[1] - 1.0};
  return cells;
}

inline std::vector<long double> dinov3_periods(std::int64_t head_dim, long double base) {
  std::vector<long double> periods;
  for (std::int64_t t = 0; t < head_dim / 4; ++t) {
    periods.push_back(
        std::pow(base, 2 * static_cast<long double>(t) / static_cast<long double>(head_dim / 2)));
  }
  return periods;
}

inline std::vector<long double> dinov3_periods(std::int64_t head_dim, long double shortest,
                                               long double longest) {
  const long double base = longest / shortest;
  std::vector<long double> periods;
  const std::int64_t count = head_dim / 4;
  for (std::int64_t t = 0; t < count; ++t) {
    const long double exponent =
        count == 1 ? 0 : static_cast<long double>(t) / static_cast<long double>(count - 1);
    periods.push_back(std::pow(base, exponent) / base * longest);
  }
  return periods;
}

/// Returns the nearest float whose lower 16 bits are 0, ties to even.
inline long double to_bfloat16(long double x) {
  const auto single = static_cast<float>(x);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &single, sizeof bits);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  bits &= 0xffff0000u;
  float rounded = 0;
  std::memcpy(&rounded, &bits, sizeof bits);
  return static_cast<long double>(rounded);
}

/// Returns cos and sin of the angles 2 pi c / T, all of y before all of x.
inline CosSin dinov3(const Ids& coordinates, const std::vector<long double>& periods) {
  const long double pi = std::acos(-1.0L);
  CosSin result;
  for (const double c : coordinates) {
    for (const long double period : periods) {
      const long double angle = 2 * pi * static_cast<long double>(c) / period;
      result.cos.push_back(std::cos(angle));
      result.sin.push_back(std::sin(angle));
    }
  }
  return result;
}

}  // namespace reference
