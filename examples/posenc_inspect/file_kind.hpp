// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace inspect {

/// Bytes from the beginning of a file that tell its kind.
constexpr std::size_t bytes_of_kind = 512;

/// The reason why a file that begins like this is neither JSON nor GGUF: "it is a safetensors file, which
/// ...". Empty for what begins as either does.
std::string why_not_a_configuration(std::string_view begin);

}  // namespace inspect
