// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace study {

using posenc::Index;

/// Text in bytes: a part for training, and a part for evaluation.
struct Text {
  std::string training, held_out;
  Index training_files = 0, held_out_files = 0;
  std::uint64_t fingerprint = 0;  ///< of both
};

/// Reads files, and the files of folders. About one file in ten is held out, selected by its name;
/// of a single file, its last tenth.
///   Throws: tour::FileError, also if there is too little text
Text read_text(const std::vector<std::filesystem::path>& paths);

/// Returns the headers of the Eigen that this program was compiled with.
///   Throws: tour::FileError if they are missing
std::filesystem::path default_text();

/// Windows of text of one length, each with the byte after it.
struct Windows {
  Index rows = 0, length = 0;
  std::vector<std::uint8_t> bytes = {};  ///< [rows, length + 1]

  const std::uint8_t* row(Index r) const noexcept { return bytes.data() + r * (length + 1); }
};

/// Returns the windows of one training step. They depend only on the seed and the step, so that
/// training can resume anywhere.
Windows training_windows(const Text& text, std::uint64_t seed, Index step, Index rows,
                         Index length);

/// Returns about `bytes` bytes of the held-out text, spread evenly over it: segments of `longest`,
/// each cut into windows of `length`. Every length is thus evaluated on the same bytes.
///   length: divides longest
Windows held_out_windows(const Text& text, Index bytes, Index longest, Index length);

/// Returns the bits per byte of the windows for a model that knows only the frequencies of bytes in
/// the training text.
double unigram_bits(const Text& text, const Windows& windows);

/// Returns a number that depends on all three arguments only.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t first, std::uint64_t second);

}  // namespace study
