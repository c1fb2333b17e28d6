// SPDX-License-Identifier: MIT
#include "model.hpp"

namespace study {

const std::vector<std::string>& methods() {
  static const std::vector<std::string> all = {"nope",  "sinusoidal", "learned", "rope", "xpos",
                                               "alibi", "t5",         "kerple",  "fire", "fox"};
  return all;
}

}  // namespace study
