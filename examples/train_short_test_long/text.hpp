// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace study {

using posenc::Index;

/// What the models learn from, and what they are asked about: bytes.
struct Text {
  std::string training, held_out;
  Index training_files = 0, held_out_files = 0;
  std::uint64_t fingerprint = 0;  ///< of both
};

/// Reads files, and those in folders. About one file in ten is held out, chosen by its name; of a
/// single file its last tenth.
///   Throws: tour::FileError, also where there is too little
Text read_text(const std::vector<std::filesystem::path>& paths);

/// The headers of the Eigen that this program was compiled with.
///   Throws: tour::FileError where they are gone
std::filesystem::path default_text();

/// Pieces of text of one length, each with the byte that follows it.
struct Windows {
  Index rows = 0, length = 0;
  std::vector<std::uint8_t> bytes = {};  ///< [rows, length + 1]

  const std::uint8_t* row(Index r) const noexcept { return bytes.data() + r * (length + 1); }
};

/// The windows of one training step: a function of the seed and the step alone, so that training can be
/// taken up anywhere.
Windows training_windows(const Text& text, std::uint64_t seed, Index step, Index rows,
                         Index length);

/// About `bytes` of the held-out text, from places spread evenly over it: stretches of `longest`, each cut
/// into windows of `length`. So every length is asked about the same bytes.
///   length: divides longest
Windows held_out_windows(const Text& text, Index bytes, Index longest, Index length);

/// Bits per byte of the windows' text for a model that knows how frequent bytes are in the training text,
/// and nothing else.
double unigram_bits(const Text& text, const Windows& windows);

/// A number that depends on all three and on nothing else.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t first, std::uint64_t second);

}  // namespace study
