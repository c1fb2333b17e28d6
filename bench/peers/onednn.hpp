// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>

#include <oneapi/dnnl/dnnl.hpp>

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

inline std::string version() {
  const dnnl_version_t* const v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace onednn
