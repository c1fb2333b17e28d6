// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>

#include <filesystem>
#include <string>
#include <vector>

namespace tour {

/// Numbers of a picture; scripts name them, `plot data index 'name'`.
struct Block {
  std::string name;
  Eigen::MatrixXd rows;
};

/// What gnuplot draws: data and the commands that draw it.
struct Figure {
  std::string name;   ///< of its files
  std::string title;  ///< for readers who do not see it
  int width = 760, height = 430;
  std::vector<Block> blocks = {};
  std::string commands = {};
};

/// Draws figures into a folder: NAME.dat and NAME.gp stay beside NAME.svg, so that
/// `gnuplot NAME.gp` in that folder draws it again.
class Gnuplot {
 public:
  /// Throws FileError if the folder cannot be made.
  explicit Gnuplot(std::filesystem::path folder);

  /// Whether there is a gnuplot to run.
  bool installed() const { return installed_; }

  const std::filesystem::path& folder() const { return folder_; }

  /// Writes data and script and runs gnuplot; gives the SVG, or nothing where it was not drawn.
  /// Throws FileError if the folder cannot be written to.
  std::string draw(const Figure& figure) const;

 private:
  std::filesystem::path folder_;
  bool installed_;
};

/// Commands that set colours which readers with a colour vision deficiency can tell apart: viridis
/// for magnitudes, blue to white to orange for signed values.
std::string magnitude_palette();
std::string signed_palette();

/// The largest absolute value.
double largest_size(const Eigen::MatrixXd& values);

/// The command for a colour scale around 0 that holds values of this size, so that no colour is
/// clipped; its ends are round numbers.
std::string symmetric_colours(double size);
inline std::string symmetric_colours(const Eigen::MatrixXd& values) {
  return symmetric_colours(largest_size(values));
}

}  // namespace tour
