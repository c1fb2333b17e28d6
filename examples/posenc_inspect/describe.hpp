// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/interop/model_settings.hpp>

#include <optional>
#include <string>
#include <vector>

namespace inspect {

using posenc::Index;

/// "Llama3Scaling: base 500000, factor 8, ..."
std::string describe(const posenc::RotaryRule& rule);

/// The same rule without scaling, to compare with.
posenc::Frequencies without_scaling(const posenc::RotarySettings& settings);

/// 2 pi / inv_freq of each pair, in tokens; infinite for a pair that does not turn.
std::vector<double> wavelengths(const posenc::Frequencies& frequencies);

/// The length to show rules at that depend on it: the one given, or the one the model is made for.
Index length_for(const posenc::ModelSettings& model, std::optional<Index> given);

/// All that is known of a model, line by line.
std::string report(const posenc::ModelSettings& model, Index length);

/// The presets: their rules, and what they were checked against.
std::string list_of_presets();

/// What differs between two models, member by member; empty where all members are equal.
std::string comparison(const posenc::ModelSettings& a, const posenc::ModelSettings& b,
                       Index length);

/// What the words of a comparison mean that are not those of files; empty if there are none.
std::string explanations(std::string_view comparison);

}  // namespace inspect
