// SPDX-License-Identifier: MIT
#include "make_model.hpp"

namespace study {

const std::vector<std::string>& methods() {
  static const std::vector<std::string> all = {"nope",  "sinusoidal", "learned", "rope", "xpos",
                                               "alibi", "t5",         "kerple",  "fire"};
  return all;
}

template std::unique_ptr<LanguageModel<float>> make_model<float>(const ModelConfig&);

}  // namespace study
