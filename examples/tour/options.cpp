// SPDX-License-Identifier: MIT
#include "options.hpp"

#include "error.hpp"
#include "numbers.hpp"

namespace tour {

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      continue;
    }
    if (name != "--text" && name != "--out" && name != "--only") {
      throw UsageError(cat("unknown option ", name));
    }
    if (++i == arguments.size() || arguments[i].empty()) {
      throw UsageError(cat(name, " needs a value"));
    }
    if (name == "--only") {
      options.only.push_back(arguments[i]);
    } else {
      (name == "--text" ? options.text : options.out) = arguments[i];
    }
  }
  return options;
}

std::string usage() {
  return R"(usage: posenc_tour [--text FILE] [--out DIR] [--only TITLE]...

Shows the effect of positional encodings on attention, on the words of a text: in the terminal, and
in DIR/report.html, one page with pictures that needs no network.

  --text FILE   the text to read; default README.md of this folder or one above it
  --out DIR     folder for the output; default tour-report
  --only TITLE  run a section, by its title or a part of it; may be repeated. Default: all
)";
}

}  // namespace tour
