// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace tour {

/// Lines of the tour's own sources, from "// excerpt: NAME" to "// end of excerpt". The build
/// collects them, so that the page shows under a picture the code that computed its numbers. NAME
/// is that of the picture, followed by 1, 2, ... if the order of the source is not that of the
/// page.
struct Excerpt {
  std::string name, code;
};

/// Returns all excerpts. extract_code.cmake writes the definition.
const std::vector<Excerpt>& excerpts();

/// Returns the excerpts of one picture, joined, without their indentation. Throws std::logic_error
/// if there are none.
std::string code_of(const std::string& picture);

}  // namespace tour
