// SPDX-License-Identifier: MIT
// Settings of a vision tower: its rotation, and settings that are rejected.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/interop/vision_settings.hpp>

#include <string>

namespace vision_settings_test {

using posenc::ConfigError;
using posenc::PatchTable;
using posenc::VisionRotary;
using posenc::VisionSettings;

TEST_CASE("settings of towers that cannot be right are refused", "[interop][vision]") {
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

}  // namespace vision_settings_test
