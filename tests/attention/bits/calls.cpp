// SPDX-License-Identifier: MIT
#include "calls.hpp"

#include <Eigen/Core>

namespace bits {
namespace {

template <class T>
void report_calls_of(const std::string& name) {
  if constexpr (takes<T>) report_calls<T>(name);
}

}  // namespace

void report_all_calls() {
  report_calls_of<float>("float");
  report_calls_of<double>("double");
  report_calls_of<Eigen::half>("half");
  report_calls_of<Eigen::bfloat16>("bfloat16");
}

}  // namespace bits
