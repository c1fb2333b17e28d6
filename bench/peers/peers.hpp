// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

// Interface of another library's source. Only that source includes the library's headers.
namespace bench {

using Index = std::int64_t;  // as posenc::Index; a peer may be compiled as C++17

/// Heads at positions past, past + 1, ..., to be rotated in halves, as in Llama.
struct RotationTask {
  Index past, seq, heads, dim;
  double base;
  std::vector<float> x;         ///< [seq, heads, dim]
  std::vector<float> cos, sin;  ///< [seq, dim / 2]
};

/// Causal attention of a sequence, or of its last tokens. heads / kv_heads heads of queries share
/// the keys and values of a head.
struct AttentionTask {
  Index queries, keys, heads, kv_heads, dim;
  std::vector<float> q;     ///< [queries, heads, dim]
  std::vector<float> k, v;  ///< [keys, kv_heads, dim]

  Index past() const { return keys - queries; }
};

/// Task in a peer's own tensors, in the layout that the library is used with. Their construction is
/// not timed.
struct Prepared {
  std::function<void()> run;
  std::function<std::vector<float>()> result;  ///< last result: [seq or queries, heads, dim]
};

/// Returns [rows, columns, dim] as [columns, rows, dim], to convert to heads first and back.
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

/// Other library, on one thread.
struct Peer {
  std::string name;                          ///< of its counters: vs_<name>, diff_<name>
  std::string version;                       ///< at run time
  Prepare<RotationTask> rotation = {};       ///< in place, if the library can
  Prepare<RotationTask> rotation_into = {};  ///< from one tensor to another
  Prepare<AttentionTask> attention = {};
  Prepare<AttentionTask> attention_16_bit = {};  ///< keys and values in 16 bits
};

/// Returns all compiled peers. A peer's source adds itself before main().
inline std::vector<Peer>& peers() {
  static std::vector<Peer> all;
  return all;
}

inline bool add_peer(Peer peer) {
  peers().push_back(std::move(peer));
  return true;
}

}  // namespace bench
