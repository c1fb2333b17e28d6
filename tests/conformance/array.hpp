// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/tensor/view.hpp>

#include <Eigen/Core>

#include <cctype>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace conformance {

using posenc::Index;

/// Error of a case that needs something that the library, or this test, does not have.
struct NotSupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Error of a case whose data are inconsistent.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Tensor in C order that owns its elements. They are in an Eigen array, because std::vector<bool>
/// has no data pointer.
template <class T>
struct Array {
  static constexpr Index largest = Index{1} << 28;

  std::vector<Index> shape;
  Eigen::Array<T, Eigen::Dynamic, 1> data;

  Array() = default;
  /// Constructs a tensor of zeros.
  explicit Array(std::vector<Index> extents) : shape(std::move(extents)) {
    Index size = 1;
    for (const Index extent : shape) {
      if (extent < 0 || extent > largest) throw Malformed("an extent of a tensor");
      size *= extent;
      if (size > largest) throw Malformed("the size of a tensor");
    }
    data.setConstant(size, T(0));
  }

  Index rank() const { return static_cast<Index>(shape.size()); }
  Index size() const { return data.size(); }
  /// Returns the extent of an axis; negative axes count from the last one.
  Index extent(Index axis) const {
    const Index at = axis < 0 ? axis + rank() : axis;
    if (at < 0 || at >= rank()) {
      throw Malformed("a tensor of rank " + std::to_string(rank()) + " has no axis " +
                      std::to_string(axis));
    }
    return shape[static_cast<std::size_t>(at)];
  }
};

template <class A>
using ElementOf = std::remove_pointer_t<decltype(std::declval<A&>().data.data())>;

/// One axis of a tensor. The default is an axis that the tensor does not have.
struct Axis {
  Index extent = 1, stride = 0;
};

/// Returns a tensor's axes by the names in a layout like "(batch, heads, seq, dim)".
inline std::map<std::string, Axis> named_axes(const std::vector<Index>& shape,
                                              const std::string& layout) {
  std::vector<std::string> names;
  bool inside = false;
  for (const char c : layout) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (letter && !inside) names.emplace_back();
    if (letter) names.back() += c;
    inside = letter;
  }
  if (names.size() != shape.size()) {
    throw Malformed("the layout " + layout + " does not fit a tensor of rank " +
                    std::to_string(shape.size()));
  }
  std::map<std::string, Axis> axes;
  Index stride = 1;
  for (std::size_t i = names.size(); i-- > 0;) {
    axes[names[i]] = {shape[i], stride};
    stride *= shape[i];
  }
  return axes;
}

/// Returns a view of heads, for a tensor whose axes have the names batch, heads, seq and dim; any
/// but dim may be missing. Without a layout: (batch, heads, seq, dim), (batch, seq, dim) or (seq,
/// dim).
template <class A>
posenc::HeadsView<ElementOf<A>> heads_of(A& x, std::string layout = "") {
  if (layout.empty()) {
    layout = x.rank() == 4   ? "(batch, heads, seq, dim)"
             : x.rank() == 3 ? "(batch, seq, dim)"
                             : "(seq, dim)";
  }
  auto axes = named_axes(x.shape, layout);
  const Axis batch = axes["batch"], seq = axes["seq"], heads = axes["heads"], dim = axes["dim"];
  if (axes.size() != 4 || dim.stride != 1) throw NotSupported("the layout " + layout);
  return {x.data.data(), batch.extent, seq.extent, heads.extent,
          dim.extent,    batch.stride, seq.stride, heads.stride};
}

/// Returns a view of tokens, (batch, seq, dim) or (seq, dim).
template <class A>
posenc::EmbeddingsView<ElementOf<A>> embeddings_of(A& x) {
  const Index dim = x.extent(-1), seq = x.extent(-2);
  if (x.rank() > 3) throw Malformed("embeddings must have rank 2 or 3");
  return {x.data.data(), x.rank() == 3 ? x.extent(0) : 1, seq, dim, seq * dim, dim};
}

template <class A>
posenc::MatrixView<ElementOf<A>> matrix_of(A& x) {
  if (x.rank() != 2) throw Malformed("a table must have rank 2");
  return {x.data.data(), x.extent(0), x.extent(1), x.extent(1)};
}

/// Returns a view of a mask or of scores of rank 1 to 4, whose axes are the last ones of (batch,
/// heads, query, key).
template <class A>
posenc::ScoresView<ElementOf<A>> scores_of(A& x) {
  if (x.rank() < 1 || x.rank() > 4) throw Malformed("a mask must have rank 1 to 4");
  const auto extent = [&x](Index from_last) {
    return x.rank() >= from_last ? x.extent(-from_last) : 1;
  };
  const Index batch = extent(4), heads = extent(3), queries = extent(2), keys = extent(1);
  return {x.data.data(),          batch,          heads, queries, keys,
          heads * queries * keys, queries * keys, keys,  1};
}

}  // namespace conformance
