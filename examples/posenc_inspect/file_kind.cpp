// SPDX-License-Identifier: MIT
#include "file_kind.hpp"

#include "../tour/numbers.hpp"

#include <cstddef>
#include <iomanip>

namespace inspect {

namespace {

/// Kind of file that is found beside a configuration, or given instead of one.
struct Kind {
  std::string_view magic;
  std::string_view name;  ///< with its article
};

using namespace std::string_view_literals;

constexpr Kind kinds[] = {
    {"PK\x03\x04"sv, "a zip archive, as PyTorch's checkpoints are"},
    {"\x80\x02"sv, "a pickle, as older checkpoints of PyTorch are"},
    {"\x80\x03"sv, "a pickle, as older checkpoints of PyTorch are"},
    {"\x80\x04"sv, "a pickle, as older checkpoints of PyTorch are"},
    {"\x80\x05"sv, "a pickle, as older checkpoints of PyTorch are"},
    {"\x1f\x8b"sv, "a gzip archive"},
    {"\x28\xb5\x2f\xfd"sv, "a Zstandard archive"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {"\x93NUMPY"sv, "a NumPy array"},
    {"\x7f"
     "ELF"sv,
     "a program"},
    {"tjgg"sv, "a GGML file, which is older than GGUF and lacks these settings"},
    {"lmgg"sv, "a GGML file, which is older than GGUF and lacks these settings"},
    {"fmgg"sv, "a GGML file, which is older than GGUF and lacks these settings"},
    {"FUGG"sv, "a GGUF file in the other order of bytes"},
    {"version https://git-lfs"sv, "a pointer of Git LFS, not the file that it stands for"},
    {"<"sv, "a page of HTML or XML, not the file that it stands for"},
};

/// True if the text begins with the length of a JSON text, then the text.
bool is_safetensors(std::string_view begin) {
  return begin.size() > 8 && begin[8] == '{' && begin[7] == '\0' && begin[0] != '{';
}

bool begins_as_text(std::string_view begin) {
  for (const char c : begin) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') return false;
  }
  return true;
}

}  // namespace

std::string why_not_a_configuration(std::string_view begin) {
  constexpr auto remedy = ", neither a config.json nor a GGUF file";
  if (begin.empty()) return "it is empty";
  if (begin.substr(0, 4) == "GGUF") return "";
  for (const auto& [magic, name] : kinds) {
    if (begin.substr(0, magic.size()) == magic) return tour::cat("it is ", name, remedy);
  }
  if (is_safetensors(begin)) {
    return tour::cat("it is a safetensors file", remedy, "; its model has a config.json beside it");
  }
  const auto first = begin.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "it is blank";
  constexpr std::string_view mark = "\xef\xbb\xbf";  // which some editors write before a text
  if (begin.substr(0, mark.size()) == mark || begin[first] == '{' || begin[first] == '[') return "";
  if (begins_as_text(begin)) return tour::cat("it is a text", remedy, ": it begins with no {");
  const auto byte = static_cast<unsigned>(static_cast<unsigned char>(begin.front()));
  return tour::cat(
      "it is not text, and neither a config.json nor a GGUF file: its first byte is 0x", std::hex,
      std::setw(2), std::setfill('0'), byte);
}

}  // namespace inspect
