// SPDX-License-Identifier: MIT
#include "make_model.hpp"

namespace study {

template std::unique_ptr<LanguageModel<float>> make_with_bias<float>(const ModelConfig&);

}  // namespace study
