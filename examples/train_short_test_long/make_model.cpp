// SPDX-License-Identifier: MIT
#include "make_model.hpp"

namespace study {

template std::unique_ptr<LanguageModel<float>> make_model<float>(const ModelConfig&);

}  // namespace study
