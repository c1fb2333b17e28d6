// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>

#include <optional>

namespace inspect {

/// Returns the first position at which cos or sin of some pair has an error of more than `loss` if
/// position, inv_freq and their product are float, as in PyTorch. Returns nothing if there is none
/// up to 2^24; beyond that float cannot represent all positions.
std::optional<posenc::Index> first_lossy_position(const posenc::Frequencies& frequencies,
                                                  double loss);

}  // namespace inspect
