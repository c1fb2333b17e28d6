// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/interop/model_settings.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inspect {

using posenc::Index;

/// Returns a rule as text: "Llama3Scaling: base 500000, factor 8, ..."
std::string describe(const posenc::RotaryRule& rule);

/// Returns the frequencies without scaling, for comparison.
posenc::Frequencies without_scaling(const posenc::RotarySettings& settings);

/// Returns 2 pi / inv_freq of each pair, in tokens; infinite for a pair that is not rotated.
std::vector<double> wavelengths(const posenc::Frequencies& frequencies);

/// Returns the length to evaluate length-dependent rules for: the given one, or the model's own.
Index length_for(const posenc::ModelSettings& model, std::optional<Index> given);

/// Returns all settings of a model, line by line.
std::string report(const posenc::ModelSettings& model, Index length);

/// Returns a line that names a setting which the reader of a config.json assumed, because its text
/// does not state it; empty if there is none.
std::string assumption(const posenc::ModelSettings& model, std::string_view text);

/// Returns the presets with their rules and the sources that they were checked against.
std::string list_of_presets();

/// Returns the differences of two models, member by member; empty if all members are equal.
std::string comparison(const posenc::ModelSettings& a, const posenc::ModelSettings& b,
                       Index length);

/// Returns the meanings of words in a comparison that do not occur in files; empty if there are
/// none.
std::string explanations(std::string_view comparison);

}  // namespace inspect
