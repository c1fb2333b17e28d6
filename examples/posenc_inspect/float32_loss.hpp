// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>

#include <optional>

namespace inspect {

/// The first position at which cos or sin of some pair is off by more than `loss` where position,
/// inv_freq and their product are float, as in PyTorch; nothing up to 2^24, from where on float does
/// not even hold the positions.
std::optional<posenc::Index> first_lossy_position(const posenc::Frequencies& frequencies,
                                                  double loss);

}  // namespace inspect
