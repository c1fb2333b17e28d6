// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <Eigen/Core>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tour {

using posenc::Index;

/// One token per row.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Width of the tour's model, and the number of tokens that it reads.
inline constexpr Index model_dim = 128, heads = 4, head_dim = model_dim / heads;
inline constexpr Index trained_length = 64, sample_length = 128;

/// Text that the tour runs on.
struct Sample {
  std::filesystem::path path;
  Index bytes = 0;
  Index words = 0;                  ///< tokens in the complete text
  Index vocabulary = 0;             ///< different ones
  bool repeated = false;            ///< the text was too short and is repeated
  std::vector<std::string> tokens;  ///< the first sample_length
  Matrix embeddings;                ///< of these tokens, [sample_length, model_dim]
};

/// Reads and splits a text. Throws FileError if it cannot be read or contains no word.
Sample read_sample(const std::filesystem::path& path);

/// Returns README.md in the current folder or one above it. Throws FileError if there is none.
std::filesystem::path default_text();

/// Returns words in lower case, and punctuation marks as separate tokens.
std::vector<std::string> split_words(std::string_view text);

/// Returns a vector per token, equal for equal tokens: mean 0, variance 1, [tokens, width].
Matrix embed(const std::vector<std::string>& tokens, Index width);

/// Returns at most `length` characters, the last one a dot if the token is longer.
std::string shortened(const std::string& token, std::size_t length);

}  // namespace tour
