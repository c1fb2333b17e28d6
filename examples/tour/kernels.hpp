// SPDX-License-Identifier: MIT
#pragma once

#include "numbers.hpp"
#include <posenc/core/build_info.hpp>

#include <string>

namespace tour {

/// Returns the sentence beside every time: the measured kernels, and how to get faster ones.
inline std::string kernels_that_run() {
  const std::string tier = posenc::build_info().tier;
  const bool baseline = tier == "sse2" || tier == "scalar";
  return cat("Times are those of the ", tier, " kernels, which the flags of this build select",
             baseline ? "; `cmake --preset native` builds for this machine's processor, and its "
                        "kernels are usually faster."
                      : ".");
}

}  // namespace tour
