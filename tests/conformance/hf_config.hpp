// SPDX-License-Identifier: MIT
#pragma once

#include "conformance/case.hpp"

#include <optional>

namespace conformance {

/// Turns what Hugging Face's own reading of a config.json gives into frequencies: "rope_type",
/// "rope_theta", "rotary_dim", "max_position_embeddings" and "rope_parameters".
///   Throws: NotSupported for types and parameters that the library does not have.
posenc::Frequencies hf_frequencies(const Json& standardized, std::optional<Index> length);

/// That reading, where the data do not give it: of a config of either style, with the rotary
/// dimension known.
Json hf_standardize(const Json& config, Index rotary_dim);

}  // namespace conformance
