// SPDX-License-Identifier: MIT
#pragma once

#include "peers.hpp"

#include <Eigen/Core>

#include <oneapi/dnnl/dnnl.hpp>

#include <memory>
#include <string>
#include <vector>

extern "C" void omp_set_num_threads(int count);  // of the OpenMP runtime that it was built with

// Shared by oneDNN's products and its graphs.
namespace onednn {

/// Numbers as oneDNN gets them: of type float or Eigen::bfloat16.
template <class S>
std::vector<S> stored(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}

template <class Attention>
bench::Prepared prepared(const bench::AttentionTask& task) {
  omp_set_num_threads(1);
  const auto state = std::make_shared<Attention>(task);
  return {[state] { state->run(); }, [state] { return state->result(); }};
}

/// Adds a peer that computes attention by Attention<S>, for elements of type S. It is constructed
/// of a task, and has run() and result().
template <template <class> class Attention>
bool add_peer(const std::string& name) {
  const dnnl_version_t* const v = dnnl_version();
  return bench::add_peer({.name = name,
                          .version = std::to_string(v->major) + "." + std::to_string(v->minor) +
                                     "." + std::to_string(v->patch),
                          .attention = prepared<Attention<float>>,
                          .attention_16_bit = prepared<Attention<Eigen::bfloat16>>});
}

}  // namespace onednn
