// SPDX-License-Identifier: MIT
#pragma once

#include "check.hpp"
#include "options.hpp"

#include <span>
#include <vector>

namespace ring {

/// Report of a rank to rank 0 about a pass, sent as its bytes.
struct PassReport {
  std::uint64_t fingerprint;
  bool repeats;           ///< two runs gave the same bits
  Difference difference;  ///< zeros if it was not requested
  Spent spent;            ///< of the second run
  Seconds empty_step;     ///< from measure_empty_step()
};

struct Report {
  PassReport forward, backward;

  PassReport& of(Pass pass) noexcept { return pass == Pass::Forward ? forward : backward; }
  const PassReport& of(Pass pass) const noexcept {
    return pass == Pass::Forward ? forward : backward;
  }
};

/// Returns the reports of all ranks on rank 0. Other ranks send theirs and return nothing.
///   Throws: LateRank, MpiError
std::vector<Report> collect(const Process& process, const Report& mine, Seconds limit);

/// Waits until rank 0 has heard of every rank and needs none of them. Returns in is_well whether
/// all is well.
///   Throws: LateRank, MpiError
void leave_together(const Process& process, bool& is_well, Seconds limit);

/// Prints the results of ranks in a pass and their errors.
/// \return true if all errors are within bounds
bool print_results(Pass pass, const Options& options, const Stripes& stripes,
                   std::span<const Report> reports);

/// Prints from which length on a ring is faster in a pass, for several numbers of ranks, with the
/// rates of this run.
void print_model(Pass pass, const Options& options, const Stripes& stripes,
                 std::span<const Report> reports, double rate_alone);

}  // namespace ring
