// SPDX-License-Identifier: MIT
// Settings of a vision tower: its rotation, and settings that are rejected.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/interop/vision_settings.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

namespace vision_settings_test {

using posenc::ConfigError;
using posenc::PatchTable;
using posenc::VisionRotary;
using posenc::VisionSettings;

TEST_CASE("VisionSettings: invalid settings of towers are rejected", "[interop][vision]") {
  const auto validation_error = [](auto&& change) {
    VisionSettings tower{.model_type = "siglip_vision_model",
                         .layer_count = 27,
                         .attention = {.heads = 16, .head_dim = 72},
                         .patch_size = 14,
                         .table = PatchTable{.rows = 64, .cols = 64}};
    CHECK_NOTHROW(validate(tower));
    change(tower);
    return support::message_of<ConfigError>([&] { validate(tower); });
  };
  CHECK(validation_error([](auto& t) { t.patch_size = 0; }) ==
        "posenc::VisionSettings: patch_size must be from 1 to 2^20 but is 0");
  CHECK(validation_error([](auto& t) { t.patch_size = 1 << 20; }) == "nothing was thrown");
  CHECK(validation_error([](auto& t) { t.table->rows = 0; }) ==
        "posenc::VisionSettings: rows of the table must be from 1 to 2^20 but is 0");
  CHECK(validation_error([](auto& t) { t.softmax_scale = -1; }) ==
        "posenc::VisionSettings: softmax_scale must be finite and positive but is -1");
  CHECK(validation_error([](auto& t) {
          t.layers_without_window = {2, 1};
        }) == "posenc::VisionSettings: layers_without_window must be sorted");
  CHECK(validation_error([](auto& t) { t.rotary = VisionRotary{}; }).find("base") !=
        std::string::npos);
}

TEST_CASE("VisionSettings: the rotation of a tower has the pairing and the axes of its form",
          "[interop][vision]") {
  using Form = posenc::VisionRotaryForm;
  // Channel 0 turns with channel 1 if interleaved, with channel 4 if half of the head is apart, and
  // with channel 2 if halves of the head turn by an axis each.
  const std::pair<Form, std::size_t> partners[] = {
      {Form::Qwen2Vl, 4}, {Form::Llama4, 1}, {Form::Pixtral, 4}, {Form::Gemma4, 2}};
  for (const auto& [form, partner] : partners) {
    CAPTURE(static_cast<int>(form));
    const VisionSettings tower{
        .attention = {.head_dim = 8}, .patch_size = 14, .rotary = VisionRotary{form, 10000}};
    const auto rope = posenc::rope(tower);
    CHECK(rope.axis_count() == 2);
    CHECK(rope.rotary_dim() == 8);
    std::array<double, 8> x{1}, expected{};
    const auto at =
        posenc::Positions::axes({posenc::Positions::real({2.0}), posenc::Positions::real({0.0})});
    rope.rotate(posenc::HeadsView<double>{x.data(), 1, 1, 1, 8}, at);
    expected[0] = std::cos(2);
    expected[partner] = std::sin(2);
    for (std::size_t n = 0; n < 8; ++n) CHECK(x[n] == Approx(expected[n]).margin(1e-15));
  }
}

TEST_CASE("VisionSettings: towers without a rotation, or that are not read, have no rope",
          "[interop][vision]") {
  const auto error = [](const VisionSettings& tower) {
    return support::message_of<ConfigError>([&] { posenc::rope(tower); });
  };
  CHECK(error({.model_type = "siglip", .attention = {.head_dim = 8}}) ==
        "posenc::rope: the vision tower 'siglip' has no rotary encoding");
  CHECK(error({.rotary = VisionRotary{.base = 100}}) ==
        "posenc::rope: head_dim of the vision tower must be set");
  VisionSettings refused{.model_type = "other", .refused = "its model_type is unknown"};
  CHECK(error(refused) ==
        "posenc::rope: the vision tower 'other' is not supported: its model_type is unknown");
  CHECK_NOTHROW(validate(refused));
}

}  // namespace vision_settings_test
