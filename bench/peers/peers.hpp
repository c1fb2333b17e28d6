// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

// What another library's file tells about it. Its headers are included by that file alone, and by no other.
namespace bench {

using Index = std::int64_t;  // posenc's, whose headers need C++20: a peer's may need C++17

/// Heads at positions past, past + 1, ..., to be rotated in halves, as Llama does it.
struct RotationTask {
  Index past, seq, heads, dim;
  double base;
  std::vector<float> x;         ///< [seq, heads, dim]
  std::vector<float> cos, sin;  ///< [seq, dim / 2]
};

/// Causal attention of a sequence, or of its last token.
struct AttentionTask {
  Index queries, keys, heads, dim;
  std::vector<float> q;     ///< [queries, heads, dim]
  std::vector<float> k, v;  ///< [keys, heads, dim]
};

/// A task in a peer's own tensors, laid out as that library is used. Making them takes no part in the time.
struct Prepared {
  std::function<void()> run;
  std::function<std::vector<float>()> result;  ///< of the last run: [seq or queries, heads, dim]
};

/// [rows, columns, dim] as [columns, rows, dim]: to heads first, and back.
inline std::vector<float> transposed(const std::vector<float>& x, Index rows, Index columns,
                                     Index dim) {
  std::vector<float> y;
  for (Index c = 0; c < columns; ++c) {
    for (Index r = 0; r < rows; ++r) {
      const auto row = x.begin() + (r * columns + c) * dim;
      y.insert(y.end(), row, row + dim);
    }
  }
  return y;
}

template <class Task>
using Prepare = std::function<Prepared(const Task&)>;

/// Another library, on one thread.
struct Peer {
  std::string name;     ///< of its counters: vs_<name>, diff_<name>
  std::string version;  ///< of what runs
  Prepare<RotationTask> rotation = {};
  Prepare<AttentionTask> attention = {};
};

/// All that were compiled in; a peer's file adds it before main().
inline std::vector<Peer>& peers() {
  static std::vector<Peer> all;
  return all;
}

inline bool add_peer(Peer peer) {
  peers().push_back(std::move(peer));
  return true;
}

}  // namespace bench
