// SPDX-License-Identifier: MIT
// Rotations, tables, shifts of keys and gradients of frequencies on a device: bit-identical to one
// thread.
#define EIGEN_USE_THREADS
#include "every_rope.hpp"
#include "support/catch.hpp"
#include "support/devices.hpp"
#include <posenc/rotary/permute.hpp>

#include <vector>

namespace rotary_threads_test {

using posenc::AnyRope;
using posenc::HalfRotate;
using posenc::Index;
using posenc::Interleaved;
using support::Bytes;
using support::Heads;

namespace {

template <class T>
Heads<T> random_heads() {
  support::Random random(1);
  return Heads<T>::random(random, every_rope::batch, every_rope::seq, every_rope::heads,
                          every_rope::dim);
}

/// Runs calls(keep, keep_numbers, device...) on all devices.
template <class T, class Calls>
void check(const Calls& calls) {
  support::check_same_on_all_devices([&](const auto&... device) {
    Bytes bytes;
    calls([&](Heads<T> y) { y.for_each([&](T& value) { bytes.add(&value, 1); }); },
          [&](const std::vector<double>& numbers) { bytes.add(numbers); }, device...);
    return bytes;
  });
}

template <class T, class Rope>
void check_rope(const Rope& rope) {
  for (const Index rows : {Index{1}, every_rope::batch}) {
    const auto p = every_rope::positions(rope.axis_count(), rows);
    check<T>([&](const auto& keep, const auto& keep_numbers, const auto&... device) {
      every_rope::run_rope_calls(rope, p, random_heads<T>(), keep, keep_numbers, device...);
    });
  }
}

}  // namespace

TEST_CASE("rotate: every call gives the same bits on every device", "[rope][threads]") {
  check_rope<float>(AnyRope(every_rope::plain<Interleaved>()));
  check_rope<float>(AnyRope(every_rope::on_axes<HalfRotate>()));
  check_rope<float>(AnyRope(every_rope::chatglm()));
  check_rope<Eigen::bfloat16>(every_rope::plain<Interleaved>());
}

TEST_CASE("MixedRope and XPos: the same bits on every device", "[rope][threads]") {
  const auto mixed = every_rope::mixed<Interleaved>();
  const auto xpos = every_rope::xpos<HalfRotate>();
  for (const Index rows : {Index{1}, every_rope::batch}) {
    check<float>([&](const auto& keep, const auto& keep_numbers, const auto&... device) {
      const auto p = every_rope::positions(2, rows);
      auto x = random_heads<float>(), grad = x;
      every_rope::run_shared_calls(mixed, p, x, keep, device...);
      std::vector<double> gradient(2 * every_rope::heads * 20, -1.0);
      mixed.rotate(grad.view(), p);
      posenc::accumulate_frequency_gradient(mixed, x.view(), grad.view(), p, gradient, device...);
      keep_numbers(gradient);
    });
    check<float>([&](const auto& keep, const auto&, const auto&... device) {
      const auto p = every_rope::positions(1, rows);
      auto x = random_heads<float>(), out = x;
      every_rope::run_concept_calls(xpos, p, x, keep, device...);
      xpos.rotate_queries_into(x.view(), out.view(), p, device...);
      keep(out);
      xpos.rotate_keys_into(x.view(), out.view(), p, device...);
      keep(out);
    });
  }
}

TEST_CASE("RotationTable: made with the same bits on every device", "[rotation_table][threads]") {
  const auto rope = every_rope::plain<Interleaved>();
  const auto p = every_rope::positions(1, every_rope::batch);
  using Table = posenc::RotationTable<Interleaved, float>;
  support::check_same_on_all_devices([&](const auto&... device) {
    const auto table = rope.table<float>(p, device...);
    const auto given = Table::from_cos_sin(table.cos(), table.sin(), 1, 1, device...);
    const posenc::MatrixView<const float> rows{table.cos().data, 40, 20, 20};
    const auto cached = Table::from_cache(rows, rows, p, 1, 1, device...);
    Bytes bytes;
    for (const auto* made : {&table, &given, &cached}) {
      for (const auto view : {made->cos(), made->sin()}) {
        bytes.add(view.data, static_cast<std::size_t>(view.batch * view.seq * view.dim));
      }
    }
    std::vector<float> cos(static_cast<std::size_t>(table.batch() * table.seq() * 20)), sin = cos;
    const auto view_of = [&](std::vector<float>& x) {
      return posenc::EmbeddingsView<float>{x.data(), table.batch(), table.seq(), 20};
    };
    rope.table_into(p, view_of(cos), view_of(sin), device...);
    bytes.add(cos);
    bytes.add(sin);
    return bytes;
  });
}

TEST_CASE("permute_pairs: runs on every device", "[permute][threads]") {
  constexpr Index heads = 7, head_dim = 12, cols = 5;
  const posenc::HeadLayout rows{.head_dim = head_dim, .rotary_dim = 8, .rotary_offset = 2};
  std::vector<float> weights(heads * head_dim * cols);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i);
  support::check_same_on_all_devices([&](const auto&... device) {
    auto in_place = weights, out = weights, bias = weights;
    const auto view = [](auto& w) {
      return posenc::MatrixView<float>{w.data(), heads * head_dim, cols, cols};
    };
    posenc::permute_pairs<Interleaved, HalfRotate>(view(in_place), rows, device...);
    posenc::permute_pairs<HalfRotate, Interleaved>(view(weights), view(out), rows, device...);
    posenc::permute_pairs<Interleaved, HalfRotate>(std::span<float>(bias).first(heads * head_dim),
                                                   rows, device...);
    Bytes bytes;
    for (const auto* w : {&in_place, &out, &bias}) bytes.add(*w);
    return bytes;
  });
}

}  // namespace rotary_threads_test
