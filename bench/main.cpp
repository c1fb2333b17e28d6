// SPDX-License-Identifier: MIT
// The main() of posenc_bench: says what was compiled, in the output and in the JSON, then runs the benchmarks.
#include <posenc/core/build_info.hpp>

#include <benchmark/benchmark.h>

#include <sstream>

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;

  std::ostringstream build;
  build << posenc::build_info();
  benchmark::AddCustomContext("build", build.str());

  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
