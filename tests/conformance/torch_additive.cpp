// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"
#include "conformance/rotation.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace conformance {
namespace {

posenc::SinusoidalConfig sinusoidal_config(const Case& c, Index model_dim) {
  posenc::SinusoidalConfig config{.model_dim = model_dim,
                                  .layout = posenc::SinusoidalLayout::Interleaved,
                                  .base = c.parameter<double>("base", 10000)};
  const auto layout = c.parameter<std::string>("layout", "interleaved");
  if (layout.rfind("interleaved", 0) != 0) throw NotSupported("layout: " + layout);
  return config;
}

template <class T>
void check_sinusoidal(Case& c) {
  // The reference as written may deviate from the paper. The case then has a table of the paper as
  // well.
  for (const std::string name : {"pe", "pe_paper"}) {
    if (!c.first_expected({name})) continue;
    Array<T> table(c.expected_shape(name));
    const auto out = embeddings_of(table);
    const auto positions = positions_from(0, out.seq);
    c.reaches(positions);
    posenc::Sinusoidal(sinusoidal_config(c, out.dim)).write_to(out, positions);
    c.check(name, table, Kind::Encoding);
  }
  if (!c.has("x")) return;
  auto x = c.read<T>("x");
  const auto embeddings = embeddings_of(x);
  const auto positions = positions_of(c, embeddings.seq);
  c.reaches(positions);
  posenc::Sinusoidal(sinusoidal_config(c, embeddings.dim)).add_to(embeddings, positions);
  c.check("y", x, Kind::Encoding);
  // The adjoint with respect to x is the identity.
  if (c.expects("grad_x")) c.check("grad_x", c.read<T>("cotangent"), Kind::Encoding);
}

/// Checks odd widths, which the reference does not support; posenc drops the last cosine.
void check_odd_width(Case& c) {
  const auto dim = c.parameter<Index>("d_model");
  if (!dim || *dim < 1 || *dim % 2 == 0) throw NotSupported("an error that is not of an odd width");
  Array<double> table({50, *dim});
  const auto config = sinusoidal_config(c, *dim);
  posenc::Sinusoidal(config).write_to(embeddings_of(table), posenc::Positions::range(0, 50));
  double worst = 0;
  for (Index i = 0; i < table.size(); ++i) {
    const Index channel = i % *dim;
    const double angle = static_cast<double>(i / *dim) *
                         std::pow(config.base, -static_cast<double>(channel - channel % 2) /
                                                   static_cast<double>(*dim));
    worst = std::max(
        worst, std::abs(table.data[i] - (channel % 2 == 0 ? std::sin(angle) : std::cos(angle))));
  }
  c.holds("an odd width gives the paper's table without the last cos", worst < 1e-13);
}

/// Returns a view of the case's table; the weight must outlive it.
template <class T>
posenc::Learned<T> learned(const Case& c, const Array<T>& weight) {
  return posenc::Learned<T>(matrix_of(weight), {.padding_row = c.parameter<Index>("padding_idx")});
}

template <class T>
void check_learned(Case& c) {
  const auto weight = c.read<T>("weight");
  auto x = c.read<T>("x");
  const auto encoding = learned<T>(c, weight);
  const auto positions = positions_of(c, embeddings_of(x).seq);
  encoding.add_to(embeddings_of(x), positions);
  c.check("y", x, Kind::Encoding);
  if (!c.has("cotangent")) return;
  const auto cotangent = c.read<T>("cotangent");
  c.check("grad_x", cotangent, Kind::Encoding);
  Array<T> grad_weight(weight.shape);
  encoding.add_gradient(embeddings_of(cotangent), positions, matrix_of(grad_weight));
  c.check("grad_weight", grad_weight, Kind::Encoding);
}

/// Checks that more tokens than rows are an error, before anything is written.
void check_too_long(Case& c) {
  const Index rows = c.required<Index>("max_len"), dim = c.parameter<Index>("d_model", 1);
  const Index seq = c.required<Index>("seq_len");
  const Array<float> weight({rows, dim});
  Array<float> x({1, seq, dim});
  bool thrown = false;
  try {
    learned<float>(c, weight).add_to(embeddings_of(x), positions_of(c, seq));
  } catch (const posenc::PositionError&) {
    thrown = true;
  }
  c.holds("a position past the table is a PositionError", thrown);
}

}  // namespace

void run_torch_sinusoidal(Case& c) {
  c.knows({"sinusoidal", "offset", "deviation", "error", "grad"},
          {"d_model", "max_len", "base", "layout", "offset", "seq"});
  if (c.is_about("error")) {
    check_odd_width(c);
  } else {
    in_both_precisions([&c]<class T>() { check_sinusoidal<T>(c); });
  }
}

void run_torch_learned(Case& c) {
  c.knows({"learned", "offset", "position", "ids", "error", "grad", "arange", "padding", "idx",
           "repeated"},
          {"d_model", "max_len", "seq_len", "offset", "padding_idx"});
  if (c.is_about("error")) {
    check_too_long(c);
  } else {
    in_both_precisions([&c]<class T>() { check_learned<T>(c); });
  }
}

}  // namespace conformance
