// SPDX-License-Identifier: MIT
// XNNPACK: its rotary operator. Versions of 2024 and later.
#include "peers.hpp"

#include <xnnpack.h>

#include <memory>
#include <stdexcept>

namespace {

using bench::RotationTask;

void check(xnn_status status) {
  if (status != xnn_status_success) throw std::runtime_error("XNNPACK: an operator failed");
}

struct Rotation {
  Rotation(const RotationTask& t, bool in_place)
      : x(t.x), y(in_place ? 0 : t.x.size()), result(in_place ? x : y) {
    const auto seq = static_cast<std::size_t>(t.seq), pairs = static_cast<std::size_t>(t.dim / 2);
    for (std::size_t s = 0; s < seq; ++s) {  // per token: cosines, then sines
      const auto row = static_cast<std::ptrdiff_t>(s * pairs), end = row + t.dim / 2;
      weights.insert(weights.end(), t.cos.begin() + row, t.cos.begin() + end);
      weights.insert(weights.end(), t.sin.begin() + row, t.sin.begin() + end);
    }
    check(xnn_initialize(nullptr));
    check(xnn_create_rope_nthc_f32(0, &rope));
    check(xnn_reshape_rope_nthc_f32(rope, 1, seq, static_cast<std::size_t>(t.heads), 2 * pairs,
                                    nullptr));
    check(xnn_setup_rope_nthc_f32(rope, x.data(), weights.data(), result.data()));
  }
  Rotation(const Rotation&) = delete;
  Rotation& operator=(const Rotation&) = delete;
  ~Rotation() { xnn_delete_operator(rope); }

  std::vector<float> x, y, weights;
  std::vector<float>& result;
  xnn_operator_t rope = nullptr;
};

template <bool in_place>
bench::Prepared rotation(const RotationTask& task) {
  const auto state = std::make_shared<Rotation>(task, in_place);
  return {[state] { check(xnn_run_operator(state->rope, nullptr)); },
          [state] { return state->result; }};
}

const bool added = bench::add_peer({.name = "xnnpack",
                                    .version = "of 2024 or later",
                                    .rotation = rotation<true>,
                                    .rotation_into = rotation<false>});

}  // namespace
