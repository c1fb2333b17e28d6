// SPDX-License-Identifier: MIT
// Checked builds reject an output that overlaps its input in part; this unit is a checked build in
// every configuration.
#undef POSENC_CHECKED
#define POSENC_CHECKED 1
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotation_table.hpp>

#include <string>
#include <vector>

namespace rope_overlap_test {

using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;
using posenc::ShapeError;
using support::message_of;

TEST_CASE("Rope: a partial overlap of input and output is an error in checked builds",
          "[rope][errors]") {
  const posenc::Rope<posenc::Interleaved> rope(
      posenc::Frequencies::from_inv_freq(std::vector<double>{1, 0.5}));
  const auto positions = Positions::range(0, 2);
  const auto table = rope.table<float>(positions);
  std::vector<float> memory(100, 1.0F);
  const auto at = [&](Index first) {
    return HeadsView<float>{memory.data() + first, 1, 2, 2, 4, 16, 8, 4};
  };
  const std::string rule =
      ": input and output overlap in part; pass the same view or separate memory; input is "
      "[1, 2, 2, 4]";
  for (const Index shift : {1, 4, 15}) {
    CHECK(message_of<ShapeError>([&] { rope.rotate_into(at(20), at(20 + shift), positions); }) ==
          "posenc::Rope::rotate_into" + rule);
    CHECK(message_of<ShapeError>([&] { rope.rotate_into(at(20), at(20 - shift), positions); }) ==
          "posenc::Rope::rotate_into" + rule);
    CHECK(message_of<ShapeError>([&] { table.rotate_into(at(20), at(20 + shift)); }) ==
          "posenc::RotationTable::rotate_into" + rule);
  }
  // A transposition in place: equal memory, other strides.
  auto transposed = at(20);
  std::swap(transposed.seq_stride, transposed.head_stride);
  CHECK(message_of<ShapeError>([&] { rope.rotate_into(at(20), transposed, positions); }) ==
        "posenc::Rope::rotate_into" + rule);
  CHECK(memory == std::vector<float>(100, 1.0F));

  CHECK_NOTHROW(rope.rotate_into(at(20), at(20), positions));
  // Memory of one element type that is written as another.
  const auto narrow = [&](Index first) {
    return HeadsView<posenc::Bfloat16>{
        reinterpret_cast<posenc::Bfloat16*>(memory.data() + first), 1, 2, 2, 4, 16, 8, 4};
  };
  for (const Index first : {20, 22, 34}) {
    CHECK(message_of<ShapeError>([&] { rope.rotate_into(at(20), narrow(first), positions); }) ==
          "posenc::Rope::rotate_into" + rule);
  }
  // Interleaved rows that do not overlap, such as q and k of a fused buffer.
  const auto spread = [&](Index first) {
    return HeadsView<float>{memory.data() + first, 1, 2, 2, 4, 32, 16, 8};
  };
  CHECK_NOTHROW(rope.rotate_into(spread(20), spread(24), positions));
  CHECK_NOTHROW(table.rotate_into(spread(20), spread(16)));
  CHECK_NOTHROW(rope.rotate_into(at(20), at(36), positions));
  CHECK_NOTHROW(rope.rotate_into(at(20), at(4), positions));
  CHECK_NOTHROW(table.rotate_into(at(20), at(36)));
}

TEST_CASE("table_into: cos and sin that share memory are an error in checked builds",
          "[rope][errors]") {
  const posenc::Rope<posenc::Interleaved> rope(
      posenc::Frequencies::from_inv_freq(std::vector<double>{1, 0.5}));
  const auto positions = Positions::starts({3, 5}, 4);
  std::vector<double> memory(200, 1);
  const auto at = [&](Index first) {
    return posenc::EmbeddingsView<double>{memory.data() + first, 2, 4, 2, 24, 6};
  };
  const auto write = [&](Index shift) { rope.table_into(positions, at(40), at(40 + shift)); };
  for (const Index shift : {0, 1, -1, 5, 24, -30}) {
    INFO("shift " << shift);
    CHECK(message_of<ShapeError>([&] { write(shift); }) ==
          "posenc::Rope::table_into: cos and sin must not share memory; cos is [2, 4, 2]");
  }
  CHECK(memory == std::vector<double>(200, 1));
  for (const Index shift : {2, 4, -2}) CHECK_NOTHROW(write(shift));
}

}  // namespace rope_overlap_test
