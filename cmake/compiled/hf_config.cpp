// SPDX-License-Identifier: MIT
#include <posenc/interop/hf_config.hpp>

POSENC_BEGIN

template ModelSettings read_hf_config(const nlohmann::json&, const HfConfigOptions&);

POSENC_END
