// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace tour {

/// Lines of the tour's own sources, from "// excerpt: NAME" to "// end of excerpt": the build gathers
/// them, so that what the page shows under a picture is what made its numbers. NAME is that of the
/// picture, with 1, 2, ... behind it where the order of the source is not that of the reader.
struct Excerpt {
  std::string name, code;
};

/// All of them, in a source that extract_code.cmake writes.
const std::vector<Excerpt>& excerpts();

/// Those of one picture, one after the other, without their indentation. Throws std::logic_error
/// where no lines are marked for it.
std::string code_of(const std::string& picture);

}  // namespace tour
