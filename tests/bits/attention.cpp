// SPDX-License-Identifier: MIT
#include "attention.hpp"

#include <Eigen/Core>

#if POSENC_BFLOAT16_PRODUCTS
#include "support/user_float16.hpp"
#endif

namespace bits {
namespace {

template <class T>
void report_calls_of(const std::string& name, Type type) {
  if constexpr (takes<T>) report_calls<T>(name, type);
}

}  // namespace

void report_all_attention() {
  report_calls_of<float>("float", Type::Float);
  report_calls_of<double>("double", Type::Double);
  report_calls_of<Eigen::half>("half", Type::Half);
#if POSENC_BFLOAT16_PRODUCTS
  // A user's class has the bits of Eigen's, and fewer operators.
  report_calls<support::UserBfloat16>("bfloat16", Type::Bfloat16);
#else
  report_calls_of<Eigen::bfloat16>("bfloat16", Type::Bfloat16);
#endif
}

}  // namespace bits
