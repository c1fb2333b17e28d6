// SPDX-License-Identifier: MIT
#include "calls.hpp"

#include <Eigen/Core>

namespace bits {

void report_all_calls() {
  report_calls<float>("float");
  report_calls<double>("double");
  report_calls<Eigen::half>("half");
  report_calls<Eigen::bfloat16>("bfloat16");
}

}  // namespace bits
