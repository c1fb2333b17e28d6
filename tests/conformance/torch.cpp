// SPDX-License-Identifier: MIT
#include "conformance/categories.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

namespace conformance {
namespace {

/// Returns every tuple like "(4,50,8,64)" of a text.
std::vector<std::vector<Index>> tuples_of(const std::string& text) {
  std::vector<std::vector<Index>> tuples;
  for (std::size_t at = text.find('('); at != std::string::npos; at = text.find('(', at + 1)) {
    const std::size_t end = text.find(')', at);
    if (end == std::string::npos) break;
    const std::string inside = text.substr(at + 1, end - at - 1);
    const bool numbers = !inside.empty() && std::all_of(inside.begin(), inside.end(), [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == ',' || c == ' ';
    });
    if (!numbers) continue;
    const Json tuple = Json::parse("[" + inside + "]", nullptr, false);
    if (!tuple.is_discarded()) tuples.push_back(tuple.get<std::vector<Index>>());
  }
  return tuples;
}

Array<float> some_numbers(std::vector<Index> shape) {
  Array<float> x(std::move(shape));
  for (Index i = 0; i < x.size(); ++i) x.data[i] = static_cast<float>(i % 11) - 5;
  return x;
}

/// True if rotating a [B, S, H, D] tensor keeps its norm.
bool rotates(const std::vector<Index>& shape, Index first) {
  Array<float> x = some_numbers(shape);
  const float norm = x.data.matrix().norm();
  const auto heads = heads_of(x, "(batch, seq, heads, dim)");
  posenc::Rope<posenc::Interleaved>(posenc::Unscaled{.rotary_dim = heads.dim, .base = 10000})
      .rotate(heads, posenc::Positions::range(first, heads.seq));
  return std::abs(x.data.matrix().norm() - norm) <= 1e-5f * norm;
}

bool attends(Index model_dim, Index head_count, const std::vector<Index>& shape) {
  if (head_count <= 0) throw Malformed("there must be heads");
  const posenc::Rope<posenc::Interleaved> rope(
      posenc::Unscaled{.rotary_dim = model_dim / head_count, .base = 10000});
  posenc::MultiHeadAttention<float, posenc::Rope<posenc::Interleaved>> module(
      {.model_dim = model_dim, .heads = head_count}, rope);
  module.randomize(1);
  const Array<float> x = some_numbers(shape);
  Array<float> out(shape);
  const auto embeddings = embeddings_of(x);
  module.forward(embeddings, posenc::Positions::range(0, embeddings.seq), embeddings_of(out),
                 {.causal = posenc::Causal::No});
  return out.data.allFinite() && !(out.data == 0).all();
}

/// Checks programs that fail in the reference by its own mistakes and must run here.
void run_errors(Case& c) {
  c.knows({"errors"}, {});
  const Json& description = c.description();
  const Json programs = description.value("errors", Json::object());
  for (const auto& [program, error] : programs.items()) {
    const auto tuples = tuples_of(program);
    if (tuples.size() == 1 && tuples[0].size() == 4) {
      c.holds(program, rotates(tuples[0], 0));
    } else if (tuples.size() == 2 && tuples[0].size() == 2 && tuples[1].size() == 3) {
      c.holds(program, attends(tuples[0][0], tuples[0][1], tuples[1]));
    } else {
      throw NotSupported("the program '" + program + "'");
    }
  }
  if (description.contains("shape_with_one_head")) {
    const auto shape = description.at("shape_with_one_head").at("input").get<std::vector<Index>>();
    c.holds("one head keeps its shape", rotates(shape, 0));
  }
  if (description.contains("error")) {
    if (description.value("notes", Json()).dump().find("max_position") == std::string::npos) {
      throw NotSupported("an error that is not of a table that cannot grow");
    }
    // Rope has no table, so no position is past its end.
    c.holds("any position can be rotated", rotates({1, 8, 1, 64}, 10'000'000));
  }
}

}  // namespace

void run_torch(Case& c) {
  if (c.is_about("interpolate")) {
    run_torch_interpolate(c);
  } else if (c.is_about("mha") || c.feature().find("rope_attention") != std::string::npos) {
    run_torch_multi_head(c);
  } else if (c.is_about("attention") || c.is_about("alibi")) {
    run_torch_attention(c);
  } else if (c.is_about("sinusoidal")) {
    run_torch_sinusoidal(c);
  } else if (c.is_about("learned")) {
    run_torch_learned(c);
  } else if (c.is_about("rotary")) {
    run_torch_rotary(c);
  } else if (c.is_about("errors")) {
    run_errors(c);
  } else {
    throw NotSupported("the feature '" + c.feature() + "' is unknown");
  }
}

}  // namespace conformance
