// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/rotation.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace conformance {
namespace {

posenc::Frequencies given(const std::vector<double>& inv_freq) {
  return posenc::Frequencies::from_inv_freq(inv_freq);
}

/// Returns the module's frequencies, its "freqs" parameter. Interpolation is not included.
posenc::Frequencies frequencies_of(Case& c) {
  if (const auto custom = c.parameter<std::vector<double>>("custom_freqs")) return given(*custom);
  if (const auto count = c.parameter<std::size_t>("num_freqs")) {
    return given(std::vector<double>(*count, 1.0));
  }
  if (c.has("freqs")) {
    const auto freqs = c.read<double>("freqs");
    return given({freqs.data.begin(), freqs.data.end()});
  }
  const Index dim = c.required<Index>("dim");
  if (c.is_about("pixel")) {
    return posenc::frequencies(
        posenc::PixelFrequencies{.rotary_dim = dim, .max_freq = c.required<double>("max_freq")});
  }
  const double theta = c.parameter<double>("theta", 10000);
  if (const auto rescale = c.parameter<double>("theta_rescale_factor")) {
    return posenc::frequencies(
        posenc::NtkScaling{.rotary_dim = dim, .base = theta, .factor = *rescale});
  }
  return posenc::frequencies(posenc::Unscaled{.rotary_dim = dim, .base = theta});
}

Index length_of_keys(const Case& c) {
  const auto& shape = c.shape("k");
  return named_axes(shape, c.parameter<std::string>("layout", "(batch, heads, seq, dim)"))["seq"]
      .extent;
}

/// Returns the positions of tokens, from "offset" on. Queries after cached keys end at the last
/// key.
posenc::Positions position_of_tokens(Case& c, const std::string& input, Index seq) {
  double first = c.parameter<double>("offset", 0);
  if (c.is_about("cached") && input == "q") {
    first += static_cast<double>(length_of_keys(c) - seq);
  }
  const double factor = c.parameter<double>("interpolate_factor", 1);
  if (factor == 1) return positions_from(first, seq);
  std::vector<double> positions;
  for (Index s = 0; s < seq; ++s) {
    positions.push_back((first + static_cast<double>(s)) / factor);
  }
  return posenc::Positions::real(positions);
}

/// Checks rotated queries and keys and their scales, centred on half the number of positions.
void check_xpos(Case& c, const posenc::Frequencies& frequencies) {
  const auto layout = c.parameter<std::string>("layout", "(batch, heads, seq, dim)");
  const auto length = [&](const char* name) {
    return named_axes(c.shape(name), layout)["seq"].extent;
  };
  if (length("q") != length("k")) throw NotSupported("xpos with two centres");
  const Index seq = length("q");
  const posenc::XPos<posenc::Interleaved> xpos(frequencies,
                                               {.scale_base = c.required<double>("xpos_scale_base"),
                                                .centre = static_cast<double>(seq / 2)});
  const auto positions = posenc::Positions::range(0, seq);
  c.reaches(positions);
  in_both_precisions([&]<class T>() {
    auto q = c.read<T>("q"), k = c.read<T>("k");
    xpos.rotate_queries(heads_of(q, layout), positions);
    xpos.rotate_keys(heads_of(k, layout), positions);
    c.check("q_out", q, Kind::Encoding);
    c.check("k_out", k, Kind::Encoding);
    if (!c.expects("scale")) return;
    Array<T> scale(c.expected_shape("scale"));
    const auto rows = matrix_of(scale);
    for (Index s = 0; s < rows.rows; ++s) {
      for (Index d = 0; d < rows.cols; ++d) {
        rows.row(s)[d] = static_cast<T>(xpos.scale(static_cast<double>(s), d / 2));
      }
    }
    c.check("scale", scale, Kind::Encoding);
  });
}

/// Checks equal frequencies on every axis of a grid; t is (batch, heads, axes..., dim).
void check_axial(Case& c, const posenc::Frequencies& of_one_axis) {
  const auto dims = c.required<std::vector<Index>>("dims");
  const auto offsets =
      c.parameter<std::vector<double>>("offsets", std::vector<double>(dims.size(), 0));
  const auto positions = [&] {
    if (c.is_about("pixel")) return posenc::pixel_grid(dims, offsets);
    if (dims.size() != 2 || c.parameter<std::vector<double>>("offsets")) {
      throw NotSupported("a grid of words with offsets, or not of two axes");
    }
    return posenc::Positions::grid(dims[0], dims[1]);
  }();
  c.reaches(positions);
  const auto axial = posenc::axial(std::vector<posenc::Frequencies>(dims.size(), of_one_axis));
  const posenc::Rope<posenc::Interleaved> rope(axial);

  in_both_precisions([&]<class T>() {
    const auto t = c.read<T>("t");
    Array<T> out(t.shape);
    const Index seq = positions.count(), dim = t.extent(-1);
    const auto heads = [&](auto& x) {
      return posenc::HeadsView<ElementOf<decltype(x)>>{
          x.data.data(),           x.extent(0), seq,      x.extent(1), dim,
          x.extent(1) * seq * dim, dim,         seq * dim};
    };
    rope.rotate_into(heads(t), heads(out), positions);
    c.check("out", out, Kind::Encoding);

    Array<T> angles(c.expected_shape("axial_freqs"));
    const auto inv_freq = axial.frequencies.inv_freq();
    for (Index s = 0; s < seq; ++s) {
      for (Index d = 0; d < rope.rotary_dim(); ++d) {
        const double position = positions.at(0, s, rope.axes().axis(d / 2));
        angles.data[s * rope.rotary_dim() + d] =
            static_cast<T>(position * inv_freq[static_cast<std::size_t>(d / 2)]);
      }
    }
    c.check("axial_freqs", angles, Kind::Encoding);
  });
}

/// Checks the gradient of learned frequencies.
void check_frequency_gradient(Case& c, const posenc::Rope<posenc::Interleaved>& rope) {
  auto y = c.read<double>("q");
  const auto cotangent = c.read<double>("cotangent");
  const auto heads = heads_of(y);
  const auto positions = position_of_tokens(c, "q", heads.seq);
  rope.rotate(heads, positions);
  Array<double> gradient({rope.rotary_dim() / 2});
  posenc::accumulate_frequency_gradient(
      rope, heads, heads_of(cotangent), positions,
      std::span(gradient.data.data(), static_cast<std::size_t>(gradient.size())));
  c.check("grad_freqs", gradient);
}

}  // namespace

void run_lucidrains(Case& c) {
  c.knows({"lucidrains", "lang", "partial",     "offset", "seq",     "before",  "head",  "theta",
           "cached",     "keys", "interpolate", "factor", "rescale", "custom",  "freqs", "constant",
           "learned",    "freq", "grad",        "axial",  "pixel",   "offsets", "xpos"},
          {"dim", "head_dim", "theta", "offset", "layout", "interpolate_factor",
           "theta_rescale_factor", "custom_freqs", "num_freqs", "start_index", "dims", "max_freq",
           "offsets", "xpos_scale_base"});
  const auto frequencies = frequencies_of(c);
  check_inv_freq(c, "freqs_parameter", frequencies);
  if (c.is_about("xpos")) return check_xpos(c, frequencies);
  if (c.is_about("axial")) return check_axial(c, frequencies);
  const posenc::Rope<posenc::Interleaved> rope(frequencies, c.parameter<Index>("start_index", 0));
  in_both_precisions([&]<class T>() {
    check_rotations<T>(
        c, rope,
        [&c](const std::string& input, Index seq) { return position_of_tokens(c, input, seq); },
        c.parameter<std::string>("layout", ""));
  });
  if (c.expects("grad_freqs")) check_frequency_gradient(c, rope);
}

}  // namespace conformance
