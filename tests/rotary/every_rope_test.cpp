// SPDX-License-Identifier: MIT
// AnyRope and ChatGlmRope have every call of Rope, with bit-identical results.
#include "every_rope.hpp"

#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

#include <string>
#include <vector>

namespace every_rope_test {

using posenc::AnyRope;
using posenc::HalfRotate;
using posenc::Index;
using posenc::Interleaved;
using posenc::Positions;
using support::Heads;

namespace {

/// Returns the results of all calls, in order.
template <class T, class Rope>
auto results(const Rope& rope, Index position_rows) {
  support::Random random(1);
  const auto x = Heads<T>::random(random, every_rope::batch, every_rope::seq, every_rope::heads,
                                  every_rope::dim);
  std::vector<Heads<T>> kept;
  std::vector<double> numbers;
  every_rope::run_rope_calls(
      rope, every_rope::positions(rope.axis_count(), position_rows), x,
      [&](const Heads<T>& y) { kept.push_back(y); },
      [&](const std::vector<double>& y) { numbers.insert(numbers.end(), y.begin(), y.end()); });
  return std::pair(kept, numbers);
}

template <class T, class Rope>
void check_any(const Rope& rope) {
  const AnyRope any(rope);
  CHECK(every_rope::rope_properties(any) == every_rope::rope_properties(rope));
  for (const Index rows : {Index{1}, every_rope::batch}) {
    auto [want, numbers] = results<T>(rope, rows);
    auto [got, any_numbers] = results<T>(any, rows);
    REQUIRE(got.size() == want.size());
    for (std::size_t n = 0; n < got.size(); ++n) {
      INFO("result " << n);
      CHECK(support::same_bits(got[n].view(), want[n].view()));
    }
    CHECK(any_numbers == numbers);
    // A table is bit-identical to the rope that computed it: rotate, adjoint, inverse, two of
    // rotate_all, rotate_into.
    constexpr std::size_t first_rope_result = 4, first_table_result = 10;
    for (std::size_t n = 0; n < 6; ++n) {
      INFO("call " << n);
      CHECK(support::same_bits(want[first_table_result + n].view(),
                               want[first_rope_result + n].view()));
    }
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("AnyRope and ChatGlmRope: have every call of Rope", "[any_rope]",
                        rotation::Scalars) {
  rotation::for_each_pairing([](auto pairing) {
    check_any<TestType>(every_rope::plain<decltype(pairing)>());
    check_any<TestType>(every_rope::on_axes<decltype(pairing)>());
  });
  check_any<TestType>(every_rope::chatglm());
}

TEST_CASE("ChatGlmRope: two ropes, bit for bit", "[chatglm]") {
  const auto both = every_rope::chatglm();
  const auto position = both.position_half(), block = both.block_half();
  const auto p = every_rope::positions(2);
  support::Random random(2);
  const auto x = Heads<float>::random(random, 1, every_rope::seq, 2, every_rope::dim);
  const auto check = [&](const auto& one, const auto& two) {
    Heads<float> a = x, b = x;
    one(a.view());
    two(b.view());
    CHECK(support::same_bits(a.view(), b.view()));
  };
  check([&](auto v) { both.rotate(v, p); },
        [&](auto v) {
          position.rotate(v, p);
          block.rotate(v, p);
        });
  check([&](auto v) { both.inverse(v, p); },
        [&](auto v) {
          position.inverse(v, p);
          block.inverse(v, p);
        });
  check(
      [&](auto v) {
        posenc::shift_keys(v, both, {3, -4});
      },
      [&](auto v) {
        posenc::shift_keys(v, position, {3, -4});
        posenc::shift_keys(v, block, {3, -4});
      });
  CHECK(both.axes() == posenc::PairAxes::sections({10, 10}));
  CHECK(both.rotary_dim() == 40);
}

TEST_CASE("AnyRope: made from a rule as Rope is", "[any_rope]") {
  const posenc::YarnScaling yarn{
      .rotary_dim = 24, .base = 10000, .factor = 8, .original_max_position = 4096};
  const AnyRope any(posenc::PairingKind::HalfRotate, yarn, 2);
  CHECK(any.frequencies() == posenc::frequencies(yarn));
  CHECK(any.rotary_offset() == 2);
}

TEMPLATE_TEST_CASE("MixedRope: rotates several tensors, and back", "[mixed_rope]", Interleaved,
                   HalfRotate) {
  const auto rope = every_rope::mixed<TestType>();
  const auto p = every_rope::positions(2, every_rope::batch);
  support::Random random(3);
  const auto x = Heads<double>::random(random, every_rope::batch, every_rope::seq,
                                       every_rope::heads, every_rope::dim);
  std::vector<Heads<double>> kept;
  every_rope::run_shared_calls(rope, p, x, [&](const Heads<double>& y) { kept.push_back(y); });
  // rotate_queries, rotate_keys, adjoint_queries, adjoint_keys, rotate, adjoint, inverse, all, into
  for (const std::size_t n : {0U, 1U, 7U, 8U, 9U}) {
    CHECK(support::same_bits(kept[n].view(), kept[4].view()));
  }
  for (const std::size_t n : {2U, 3U, 6U}) {
    CHECK(support::same_bits(kept[n].view(), kept[5].view()));
  }
  rope.inverse(kept[4].view(), p);
  Heads<double> want = x;
  CHECK(support::max_abs_difference(support::row_of(kept[4].view(), 1, 9, 2),
                                    support::row_of(want.view(), 1, 9, 2)) < 1e-14);
}

TEST_CASE("rotate_into: an output that begins where its input does may not reach out of memory",
          "[rope][errors]") {
  std::vector<float> numbers(64, 1);
  const auto check = [&](const auto& rotate) {
    const posenc::HeadsView<float> in{
        .data = numbers.data(), .batch = 2, .seq = 1, .heads = 2, .dim = 8};
    const Index far = Index{1} << 61;
    for (const auto stride :
         {&posenc::HeadsView<float>::batch_stride, &posenc::HeadsView<float>::head_stride}) {
      auto out = in;
      out.*stride = stride == &posenc::HeadsView<float>::batch_stride ? far : -far;
      const auto message = support::message_of<posenc::ShapeError>([&] { rotate(in, out); });
      CHECK(message.find(": out [2, 1, 2, 8] with strides [") != std::string::npos);
      CHECK(message.find("] exceeds the address space") != std::string::npos);
    }
    CHECK(numbers == std::vector<float>(64, 1));
  };
  using View = posenc::HeadsView<float>;
  const auto p = Positions::range(0, 1);
  const posenc::Rope<HalfRotate> rope(every_rope::frequencies(4));
  const auto table = rope.table<float>(p);
  const posenc::XPos<HalfRotate> xpos(every_rope::frequencies(4), {.scale_base = 64});
  const posenc::MixedRope<HalfRotate> mixed(std::vector<double>(8, 1.0),
                                            {.axes = 1, .heads = 2, .rotary_dim = 8});
  const posenc::ChatGlmRope glm(8, 10000);
  check([&](View in, View out) { rope.rotate_into(in, out, p); });
  check([&](View in, View out) { table.rotate_into(in, out); });
  check([&](View in, View out) { xpos.rotate_queries_into(in, out, p); });
  check([&](View in, View out) { xpos.rotate_keys_into(in, out, p); });
  check([&](View in, View out) { mixed.rotate_into(in, out, p); });
  check([&](View in, View out) { glm.rotate_into(in, out, Positions::axes({p, p})); });
  check([&](View in, View out) { AnyRope(rope).rotate_into(in, out, p); });
}

}  // namespace every_rope_test
