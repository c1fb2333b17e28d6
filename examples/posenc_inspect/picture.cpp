// SPDX-License-Identifier: MIT
#include "picture.hpp"

#include "../tour/numbers.hpp"
#include "describe.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace inspect {

namespace {

using tour::cat;

/// Returns the curve of wavelengths. Pairs that are not rotated have no wavelength and are omitted.
tour::Block block(const std::string& name, const std::vector<double>& wavelengths) {
  Eigen::Index count = 0;
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(wavelengths.size()), 2);
  for (std::size_t i = 0; i < wavelengths.size(); ++i) {
    if (!std::isfinite(wavelengths[i])) continue;
    rows.row(count++) << static_cast<double>(i), wavelengths[i];
  }
  return {name, rows.topRows(count)};
}

/// Returns a text in double quotes of gnuplot. Escapes it, because names of layer types come from
/// files.
std::string quoted(const std::string& text) {
  std::string safe;
  for (const char c : text.substr(0, 100)) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == ' ' || c == '_' || c == '-' || c == '=';
    safe += is_plain ? c : '?';
  }
  return safe;
}

}  // namespace

tour::Figure wavelength_figure(const posenc::ModelSettings& model, const std::string& name,
                               Index length) {
  // Equal curves are drawn once, under all of their names.
  struct Series {
    std::string title, style;
    std::vector<double> wavelengths;
  };
  std::vector<Series> all;
  const auto add = [&all](const std::string& title, const char* style,
                          const std::vector<double>& values) {
    for (Series& other : all) {
      if (other.wavelengths != values) continue;
      other.title += " = " + title;
      return;
    }
    all.push_back({title, style, values});
  };
  const auto of = [](const posenc::LayerRotary& layer) {
    return layer.layer_type.empty() ? std::string("all layers") : layer.layer_type;
  };
  for (const posenc::LayerRotary& layer : model.layers) {
    add(of(layer), "linespoints pointsize 0.5", wavelengths(frequencies(layer.rotary, length)));
  }
  for (const posenc::LayerRotary& layer : model.layers) {
    add(of(layer) + " without scaling", "lines dashtype 2",
        wavelengths(without_scaling(layer.rotary)));
  }

  tour::Figure figure{.name = name, .title = "Wavelengths of " + model.model_type};
  const std::string title = "Wavelengths of RoPE's pairs: " + quoted(model.model_type);
  std::string plots;
  for (const Series& series : all) {
    const std::string key = cat("series", figure.blocks.size());
    figure.blocks.push_back(block(key, series.wavelengths));
    plots += cat(plots.empty() ? "plot " : ", \\\n  ", "data index '", key, "' with ", series.style,
                 " title \"", quoted(series.title), "\"");
  }
  if (model.trained_length > 0) {
    plots +=
        cat(", \\\n  ", model.trained_length, " with lines linecolor '#888888' title 'made for ",
            tour::grouped(model.trained_length), " tokens'");
  }
  // The key is placed below the picture, because it would cover curves inside of it.
  figure.height = 430 + 22 * static_cast<int>(all.size() + 1);
  figure.commands = cat("set title \"", title, "\" noenhanced\n",
                        "set xlabel 'pair'\nset ylabel 'wavelength in tokens'\nset logscale y\n",
                        "set format y '10^{%L}'\nset offsets 0, 0, graph 0.03, 0\n",
                        "set key below vertical maxcols 1 Left reverse\n", plots, '\n');
  return figure;
}

}  // namespace inspect
