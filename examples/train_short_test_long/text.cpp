// SPDX-License-Identifier: MIT
#include "text.hpp"

#include "../tour/error.hpp"
#include "../tour/files.hpp"
#include "../tour/numbers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <string_view>

namespace study {
namespace {

namespace fs = std::filesystem;

/// Returns the FNV-1a hash.
std::uint64_t hash(std::string_view text, std::uint64_t value = 0xcbf29ce484222325u) {
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

struct File {
  std::string name;  ///< relative to the given folder
  fs::path path;
};

std::vector<File> files_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {{path.filename().string(), path}};
  std::vector<File> files;
  for (auto at = fs::recursive_directory_iterator(path, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (at->is_regular_file()) {
      files.push_back({at->path().lexically_relative(path).generic_string(), at->path()});
    }
  }
  if (error) throw tour::FileError(tour::cat("cannot read the folder ", path.string()));
  return files;
}

Windows windows_of(Index rows, Index length) {
  return {rows, length, std::vector<std::uint8_t>(static_cast<std::size_t>(rows * (length + 1)))};
}

void copy_window(const std::string& text, Index from, Windows& windows, Index row) {
  std::copy_n(text.data() + from, windows.length + 1,
              windows.bytes.data() + row * (windows.length + 1));
}

}  // namespace

Text read_text(const std::vector<fs::path>& paths) {
  std::vector<File> files;
  for (const fs::path& path : paths) {
    const auto more = files_of(path);
    files.insert(files.end(), more.begin(), more.end());
  }
  // Folders are listed in an unspecified order.
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.name < b.name; });
  Text text;
  for (const File& file : files) {
    const std::string content = tour::read_file(file.path);
    if (files.size() == 1) {
      const std::size_t cut = content.size() / 10 * 9;
      text.training = content.substr(0, cut);
      text.held_out = content.substr(cut);
      text.training_files = text.held_out_files = 1;
    } else if (hash(file.name) % 10 == 0) {
      text.held_out += content;
      ++text.held_out_files;
    } else {
      text.training += content;
      ++text.training_files;
    }
  }
  constexpr std::size_t least = 16384;
  if (text.held_out.size() < least || text.training.size() < least) {
    throw tour::FileError(tour::cat("there is too little text: ", text.training.size(),
                                    " bytes to train on and ", text.held_out.size(),
                                    " held out, where both need ", least));
  }
  text.fingerprint = hash(text.held_out, hash(text.training));
  return text;
}

fs::path default_text() {
  // Include directories of CMake's target, one of which has the headers.
  std::istringstream folders(STUDY_EIGEN_FOLDERS);
  std::error_code error;
  for (std::string folder; std::getline(folders, folder, '|');) {
    if (fs::is_directory(fs::path(folder) / "Eigen", error)) return fs::path(folder) / "Eigen";
  }
  throw tour::FileError(
      "Eigen's headers are missing in the folders of the build (" STUDY_EIGEN_FOLDERS
      "): name a text with --text");
}

std::uint64_t mixed(std::uint64_t seed, std::uint64_t first, std::uint64_t second) {
  // Finaliser of SplitMix64 (Steele, Lea, Flood 2014), once per number.
  std::uint64_t x = 0;
  for (const std::uint64_t number : {seed, first, second}) {
    x += number + 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
  }
  return x;
}

Windows training_windows(const Text& text, std::uint64_t seed, Index step, Index rows,
                         Index length) {
  Windows windows = windows_of(rows, length);
  const auto places =
      static_cast<std::uint64_t>(text.training.size()) - static_cast<std::uint64_t>(length);
  for (Index r = 0; r < rows; ++r) {
    const std::uint64_t number =
        mixed(seed, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(r));
    copy_window(text.training, static_cast<Index>(number % places), windows, r);
  }
  return windows;
}

Windows held_out_windows(const Text& text, Index bytes, Index longest, Index length) {
  const auto available = static_cast<Index>(text.held_out.size());
  const Index stretches = std::max(std::min(bytes, available - 1) / longest, Index{1});
  const Index last = available - longest - 1, pieces = longest / length;
  Windows windows = windows_of(stretches * pieces, length);
  for (Index n = 0; n < stretches; ++n) {
    const Index from = stretches == 1 ? 0 : last * n / (stretches - 1);
    for (Index piece = 0; piece < pieces; ++piece) {
      copy_window(text.held_out, from + piece * length, windows, n * pieces + piece);
    }
  }
  return windows;
}

double unigram_bits(const Text& text, const Windows& windows) {
  std::array<double, 256> counts;
  counts.fill(1);  // includes bytes that the training text lacks
  for (const char c : text.training) counts[static_cast<unsigned char>(c)] += 1;
  const double total = static_cast<double>(text.training.size()) + 256;
  double bits = 0;
  for (Index r = 0; r < windows.rows; ++r) {
    for (Index i = 1; i <= windows.length; ++i) {
      bits -= std::log2(counts[windows.row(r)[i]] / total);
    }
  }
  return bits / static_cast<double>(windows.rows * windows.length);
}

}  // namespace study
