// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/rotary/pair_axes.hpp>

#include <string>

/// Tables of axes as text.
namespace spelled_axes {

/// Returns the axes as letters: "tthhww" for 0, 0, 1, 1, 2, 2.
inline std::string spelled(const posenc::PairAxes& axes, const char* letters = "thwe") {
  std::string text;
  for (posenc::Index i = 0; i < axes.pairs(); ++i) text += letters[axes.axis(i)];
  return text;
}

inline std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace spelled_axes
