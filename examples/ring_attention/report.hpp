// SPDX-License-Identifier: MIT
#pragma once

#include "check.hpp"
#include "options.hpp"

#include <span>
#include <vector>

namespace ring {

/// What a rank tells rank 0 of a pass, as it lies in memory.
struct PassReport {
  std::uint64_t fingerprint;
  bool repeats;           ///< twice, it gave the same bits
  Difference difference;  ///< nothing but zeros where it was not asked for
  Spent spent;            ///< the second time
  Seconds empty_step;     ///< measure_empty_step()'s
};

struct Report {
  PassReport forward, backward;

  PassReport& of(Pass pass) noexcept { return pass == Pass::Forward ? forward : backward; }
  const PassReport& of(Pass pass) const noexcept {
    return pass == Pass::Forward ? forward : backward;
  }
};

/// Rank 0 returns the reports of all ranks; the others send theirs and return nothing.
///   Throws: LateRank, MpiError
std::vector<Report> collect(const Process& process, const Report& mine, Seconds limit);

/// Returns when rank 0 says that it has heard of every rank and needs none any more, and whether all is well.
///   Throws: LateRank, MpiError
void leave_together(const Process& process, bool& is_well, Seconds limit);

/// Prints what ranks did in a pass and how far they are off.
/// \return whether all is as it should be
bool print_results(Pass pass, const Options& options, const Stripes& stripes,
                   std::span<const Report> reports);

/// Prints from which length on a ring pays in a pass, for several numbers of ranks, with rates of this run.
void print_model(Pass pass, const Options& options, const Stripes& stripes,
                 std::span<const Report> reports, double rate_alone);

}  // namespace ring
