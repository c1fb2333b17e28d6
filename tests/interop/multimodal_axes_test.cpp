// SPDX-License-Identifier: MIT
// Axis tables of multimodal models, pair by pair, and errors of their settings.
#include "interop/spelled_axes.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/interop/multimodal_axes.hpp>

#include <vector>

namespace multimodal_axes_test {

using posenc::ConfigError;
using posenc::Index;
using posenc::MropeTail;
using spelled_axes::repeated;
using spelled_axes::spelled;
using support::message_of;

TEST_CASE("multimodal_axes: the tables of multimodal models", "[axes]") {
  CHECK(spelled(posenc::mrope_chunked({16, 24, 24})) ==
        repeated("t", 16) + repeated("h", 24) + repeated("w", 24));
  CHECK(posenc::mrope_chunked({16, 24, 24}).axis_count() == 3);
  CHECK(posenc::mrope_chunked({16, 24, 24, 0}).axis_count() == 4);

  // 20 rounds of t, h, w, after which h and w are exhausted.
  const auto rounds = repeated("thw", 20);
  CHECK(spelled(posenc::mrope_interleaved({24, 20, 20}, MropeTail::Time)) == rounds + "tttt");
  CHECK(spelled(posenc::mrope_interleaved({24, 20, 20}, MropeTail::Fourth)) == rounds + "teet");
  CHECK(spelled(posenc::mrope_interleaved({24, 20, 20, 0}, MropeTail::Fourth)) == rounds + "teet");
  CHECK(posenc::mrope_interleaved({24, 20, 20}, MropeTail::Time).axis_count() == 3);
  CHECK(posenc::mrope_interleaved({24, 20, 20}, MropeTail::Fourth).axis_count() == 4);
  for (const auto tail : {MropeTail::Time, MropeTail::Fourth}) {
    CHECK(spelled(posenc::mrope_interleaved({11, 11, 10}, tail)) == repeated("thw", 10) + "th");
  }

  CHECK(spelled(posenc::ernie_axes({22, 22, 20})) == repeated("hw", 22) + repeated("t", 20));
  CHECK(spelled(posenc::xdrope_axes({16, 16, 16, 16}), "pwht") ==
        repeated("p", 16) + repeated("w", 16) + repeated("h", 16) + repeated("t", 16));
}

TEST_CASE("multimodal_axes: invalid sections are rejected", "[axes][errors]") {
  const auto error = [](const auto& call) { return message_of<ConfigError>(call); };
  CHECK(error([] {
          posenc::mrope_chunked({1, 2});
        }) == "posenc::mrope_chunked: there must be 3 or 4 sections but they are [1, 2]");
  CHECK(error([] {
          posenc::mrope_interleaved({1, 2}, MropeTail::Time);
        }) == "posenc::mrope_interleaved: there must be 3 sections but they are [1, 2]");
  CHECK(error([] {
          posenc::mrope_interleaved({4, 2, 2, 0}, MropeTail::Time);
        }) == "posenc::mrope_interleaved: there must be 3 sections but they are [4, 2, 2, 0]");
  CHECK(error([] {
          posenc::mrope_interleaved({1, 2}, MropeTail::Fourth);
        }) == "posenc::mrope_interleaved: there must be 3 sections or 4 but they are [1, 2]");
  CHECK(error([] {
          posenc::mrope_interleaved({4, -1, 2}, MropeTail::Time);
        }) ==
        "posenc::mrope_interleaved: sections must lie between 0 and 65536 but are [4, -1, 2]");
  CHECK(error([] {
          posenc::mrope_interleaved({2, 6, 2}, MropeTail::Fourth);
        }) ==
        "posenc::mrope_interleaved: height and width must fit into every third pair but the "
        "sections are [2, 6, 2]");
  CHECK(
      error([] {
        posenc::ernie_axes({3, 4, 2});
      }) ==
      "posenc::ernie_axes: there must be 3 sections [h, w, t] with h == w but they are [3, 4, 2]");
  for (const std::vector<posenc::Index>& sections :
       {std::vector<posenc::Index>{2, 2}, {2, 2, 2, 2}}) {
    CHECK(error([&] { posenc::ernie_axes(sections); }) != "nothing was thrown");
  }
  CHECK(error([] {
          posenc::ernie_axes({-3, -3, 2});
        }) == "posenc::ernie_axes: sections must lie between 0 and 65536 but are [-3, -3, 2]");
  CHECK(error([] {
          posenc::mrope_chunked({Index{1} << 62, 1, 1});
        }) ==
        "posenc::PairAxes::sections: sections must lie between 0 and 65536 but are "
        "[4611686018427387904, 1, 1]");
  CHECK(error([] {
          posenc::xdrope_axes({3, 4, 2});
        }) == "posenc::xdrope_axes: there must be 4 sections but they are [3, 4, 2]");
}

}  // namespace multimodal_axes_test
