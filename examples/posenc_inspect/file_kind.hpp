// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace inspect {

/// Number of bytes at the beginning of a file that suffice to identify its kind.
constexpr std::size_t bytes_of_kind = 512;

/// Returns the reason why a file with this beginning is neither JSON nor GGUF: "it is a safetensors
/// file, which ...". Empty if it may be one of these.
std::string why_not_a_configuration(std::string_view begin);

}  // namespace inspect
