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

/// One token a row.
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The width of the tour's model, and how many tokens of the text it reads.
inline constexpr Index model_dim = 128, heads = 4, head_dim = model_dim / heads;
inline constexpr Index trained_length = 64, sample_length = 128;

/// The text that the tour runs on.
struct Sample {
  std::filesystem::path path;
  Index bytes = 0;
  Index words = 0;                  ///< tokens in the whole text
  Index vocabulary = 0;             ///< different ones
  bool repeated = false;            ///< the text was too short and starts again
  std::vector<std::string> tokens;  ///< the first sample_length
  Matrix embeddings;                ///< theirs, [sample_length, model_dim]
};

/// Reads and splits a text. Throws FileError where it cannot be read or holds no word.
Sample read_sample(const std::filesystem::path& path);

/// README.md in the current folder or one above it. Throws FileError if there is none.
std::filesystem::path default_text();

/// Words in lower case, and punctuation marks as tokens of their own.
std::vector<std::string> split_words(std::string_view text);

/// A vector for each token, the same for equal tokens: mean 0, variance 1, [tokens, width].
Matrix embed(const std::vector<std::string>& tokens, Index width);

/// At most `length` characters, the last one a dot where the token is longer.
std::string shortened(const std::string& token, std::size_t length);

}  // namespace tour
