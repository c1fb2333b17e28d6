// SPDX-License-Identifier: MIT
#include "sample.hpp"

#include "error.hpp"
#include "files.hpp"
#include "numbers.hpp"
#include "random.hpp"

#include <cctype>
#include <set>

namespace tour {

namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Returns the bytes of the UTF-8 character at the beginning; 0 if there is none.
std::size_t character_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t size = first < 0x80                    ? 1
                           : first >= 0xC2 && first < 0xE0 ? 2
                           : first >= 0xE0 && first < 0xF0 ? 3
                           : first >= 0xF0 && first < 0xF5 ? 4
                                                           : 0;
  if (size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  return size;
}

/// Replaces every byte that is not UTF-8 and every control character by a question mark, so that
/// the page and the terminal can show any file.
std::string readable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool space = size == 1 && std::isspace(first) != 0;
    const bool control = size == 1 && (first < 0x20 || first == 0x7F);
    if (size == 0 || (control && !space)) {
      result += '?';
    } else {
      result += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return result;
}

bool in_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || c == '_' || std::isalnum(byte) != 0;
}

/// Returns the FNV-1a hash.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool open = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isspace(byte) != 0) {
      open = false;
      continue;
    }
    if (!open || !in_word(c)) words.emplace_back();
    words.back() += byte < 0x80 ? static_cast<char>(std::tolower(byte)) : c;
    open = in_word(c);
  }
  return words;
}

Matrix embed(const std::vector<std::string>& tokens, Index width) {
  Matrix rows(static_cast<Index>(tokens.size()), width);
  for (Index t = 0; t < rows.rows(); ++t) {
    Random random(hash(tokens[static_cast<std::size_t>(t)]));
    for (Index d = 0; d < width; ++d) rows(t, d) = static_cast<float>(random.normal());
  }
  return rows;
}

std::string shortened(const std::string& token, std::size_t length) {
  std::size_t end = 0, cut = 0;
  for (std::size_t characters = 0; end < token.size(); ++characters) {
    if (characters + 1 == length) cut = end;
    if (characters == length) return token.substr(0, cut) + ".";
    ++end;
    while (end < token.size() && is_continuation(token[end])) ++end;
  }
  return token;
}

std::filesystem::path default_text() {
  std::error_code error;
  for (auto folder = std::filesystem::current_path(error); !error && !folder.empty();
       folder = folder.parent_path()) {
    if (std::filesystem::is_regular_file(folder / "README.md", error)) return folder / "README.md";
    if (folder == folder.root_path()) break;
  }
  throw FileError(
      "found no README.md in this folder or above it to read as the text; name one with --text "
      "FILE");
}

Sample read_sample(const std::filesystem::path& path) {
  Sample sample;
  sample.path = path;
  const std::string text = read_file(path);
  const std::vector<std::string> words = split_words(readable(text));
  if (words.empty()) throw FileError(cat("the file ", path.string(), " has no words"));
  sample.bytes = static_cast<Index>(text.size());
  sample.words = static_cast<Index>(words.size());
  sample.vocabulary = static_cast<Index>(std::set<std::string>(words.begin(), words.end()).size());
  sample.repeated = sample.words < sample_length;
  for (std::size_t t = 0; t < static_cast<std::size_t>(sample_length); ++t) {
    sample.tokens.push_back(words[t % words.size()]);
  }
  sample.embeddings = embed(sample.tokens, model_dim);
  return sample;
}

}  // namespace tour
