// SPDX-License-Identifier: MIT
#pragma once

#include "../tour/gnuplot.hpp"
#include <posenc/interop/model_settings.hpp>

#include <string>

namespace inspect {

/// Returns a figure of the wavelengths of all pairs, with and without scaling, for each type of
/// layer, with the lengths that the model states.
tour::Figure wavelength_figure(const posenc::ModelSettings& model, const std::string& name,
                               posenc::Index length);

}  // namespace inspect
