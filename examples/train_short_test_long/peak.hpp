// SPDX-License-Identifier: MIT
#pragma once

namespace study {

/// Returns the peak of multiply-adds of `threads` threads, in operations per second: chains of x =
/// x / 2 + 1 / 2 in registers. Takes about a quarter of a second.
double multiply_add_peak(int threads);

}  // namespace study
