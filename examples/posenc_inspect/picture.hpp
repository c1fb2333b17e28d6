// SPDX-License-Identifier: MIT
#pragma once

#include "../tour/gnuplot.hpp"
#include <posenc/interop/model_settings.hpp>

#include <string>

namespace inspect {

/// The wavelength of every pair, with scaling and without, for each type of layer, beside the
/// lengths that the model knows.
tour::Figure wavelength_figure(const posenc::ModelSettings& model, const std::string& name,
                               posenc::Index length);

}  // namespace inspect
