// SPDX-License-Identifier: MIT
#include "picture.hpp"

#include "../tour/numbers.hpp"
#include "describe.hpp"

#include <cmath>
#include <vector>

namespace inspect {

namespace {

using tour::cat;

/// Pairs that do not turn have no wavelength and are left out.
tour::Block block(const std::string& name, const std::vector<double>& wavelengths) {
  Eigen::Index count = 0;
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(wavelengths.size()), 2);
  for (std::size_t i = 0; i < wavelengths.size(); ++i) {
    if (!std::isfinite(wavelengths[i])) continue;
    rows.row(count++) << static_cast<double>(i), wavelengths[i];
  }
  return {name, rows.topRows(count)};
}

}  // namespace

tour::Figure wavelength_figure(const posenc::ModelSettings& model, const std::string& name,
                               Index length) {
  tour::Figure figure{.name = name, .title = "Wavelengths of " + model.model_type};
  std::string plots;
  const auto add = [&](const std::string& title, const char* style,
                       const std::vector<double>& values) {
    const std::string key = cat("series", figure.blocks.size());
    figure.blocks.push_back(block(key, values));
    plots += cat(plots.empty() ? "plot " : ", \\\n  ", "data index '", key, "' with ", style,
                 " title '", title, "'");
  };
  for (const posenc::LayerRotary& layer : model.layers) {
    const std::string of = layer.layer_type.empty() ? "" : " (" + layer.layer_type + ")";
    add("without scaling" + of, "lines dashtype 2", wavelengths(without_scaling(layer.rotary)));
    add("as configured" + of, "points", wavelengths(frequencies(layer.rotary, length)));
  }
  if (model.trained_length > 0) {
    plots +=
        cat(", \\\n  ", model.trained_length, " with lines linecolor '#888888' title 'made for ",
            tour::grouped(model.trained_length), " tokens'");
  }
  figure.commands = cat("set xlabel 'pair'\nset ylabel 'wavelength in tokens'\nset logscale y\n",
                        "set format y '10^{%L}'\nset key top left\n", plots, '\n');
  return figure;
}

}  // namespace inspect
