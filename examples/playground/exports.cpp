// SPDX-License-Identifier: MIT
// Functions that the page calls in the WebAssembly module.
#include "../posenc_inspect/describe.hpp"
#include "../posenc_inspect/file_kind.hpp"
#include "calls.hpp"
#include <posenc/interop/hf_config.hpp>

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::vector<double> numbers;
std::string text;

}  // namespace

extern "C" {

[[clang::export_name("allocate")]] void* allocate(std::size_t bytes) { return std::malloc(bytes); }
[[clang::export_name("release")]] void release(void* memory) { std::free(memory); }

/// Runs playground::call(). Returns the count of its numbers; numbers_data() is their address.
[[clang::export_name("call")]] std::size_t call(const char* name, std::size_t length,
                                                const double* arguments, std::size_t count) {
  numbers = playground::call({name, length}, {arguments, count});
  return numbers.size();
}
[[clang::export_name("numbers_data")]] const double* numbers_data() { return numbers.data(); }

/// Prints the settings of a config.json as posenc_inspect does. pairing: 0 that of the file's
/// model, 1 interleaved, 2 half. Returns the length of the text; text_data() is its address.
[[clang::export_name("inspect_config")]] std::size_t inspect_config(const char* content,
                                                                    std::size_t length,
                                                                    int pairing) {
  const std::string file(content, length);
  text = inspect::why_not_a_configuration(std::string_view(file).substr(0, inspect::bytes_of_kind));
  if (file.starts_with("GGUF")) text = "it is a GGUF file, which the program posenc_inspect reads";
  if (!text.empty()) return text.size();
  posenc::HfConfigOptions options;
  if (pairing == 1) options.pairing = posenc::PairingKind::Interleaved;
  if (pairing == 2) options.pairing = posenc::PairingKind::HalfRotate;
  const auto model = posenc::read_hf_config(file, options);
  text = inspect::report(model, inspect::length_for(model, std::nullopt));
  return text.size();
}
[[clang::export_name("text_data")]] const char* text_data() { return text.data(); }

}  // extern "C"
