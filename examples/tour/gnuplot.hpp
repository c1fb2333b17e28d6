// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>

#include <filesystem>
#include <string>
#include <vector>

namespace tour {

/// Numbers of a picture under a name for scripts: `plot data index 'name'`.
struct Block {
  std::string name;
  Eigen::MatrixXd rows;
};

/// Input of gnuplot: data and commands.
struct Figure {
  std::string name;   ///< base name of its files
  std::string title;  ///< alternative text of the picture
  int width = 760, height = 430;
  std::vector<Block> blocks = {};
  std::string commands = {};
};

/// Draws figures into a folder. NAME.dat and NAME.gp are kept beside NAME.svg, so that `gnuplot
/// NAME.gp` in that folder draws it again.
class Gnuplot {
 public:
  /// Throws FileError if the folder cannot be created.
  explicit Gnuplot(std::filesystem::path folder);

  /// True if a gnuplot was found.
  bool installed() const { return installed_; }

  const std::filesystem::path& folder() const { return folder_; }

  /// Writes data and script and runs gnuplot. Returns the SVG, or nothing if it was not drawn.
  /// Throws FileError if the folder cannot be written to.
  std::string draw(const Figure& figure) const;

 private:
  std::filesystem::path folder_;
  bool installed_;
};

/// Returns commands for colours that readers with a colour vision deficiency can distinguish:
/// viridis for magnitudes, blue to white to orange for signed values.
std::string magnitude_palette();
std::string signed_palette();

/// Returns the largest absolute value.
double largest_size(const Eigen::MatrixXd& values);

/// Returns the command for a colour scale around 0 for values up to this size. No colour is
/// clipped, and the ends are round numbers.
std::string symmetric_colours(double size);
inline std::string symmetric_colours(const Eigen::MatrixXd& values) {
  return symmetric_colours(largest_size(values));
}

}  // namespace tour
