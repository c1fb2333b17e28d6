// SPDX-License-Identifier: MIT
// main() of the benchmarks. Records the build and the machine in the output and in the JSON, then
// runs the benchmarks.
#include "support/noise.hpp"
#include <posenc/core/build_info.hpp>

#include <benchmark/benchmark.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace {

/// Returns the processor's name, if the system provides it.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

/// Makes malloc keep freed memory instead of returning it to the system after every use, as in a
/// process that runs for long. Otherwise Eigen's expressions mostly measure page faults.
void keep_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;

  std::ostringstream build;
  build << posenc::build_info();
  benchmark::AddCustomContext("build", build.str());
  benchmark::AddCustomContext("flags", POSENC_BENCH_FLAGS);
  benchmark::AddCustomContext("cpu", processor());
  benchmark::AddCustomContext("not_controlled", bench::control_noise());

  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
