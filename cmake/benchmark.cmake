# SPDX-License-Identifier: MIT
# benchmark::benchmark: the package, else a download (FETCHCONTENT_SOURCE_DIR_BENCHMARK names a copy).

find_package(benchmark CONFIG QUIET)
if(NOT TARGET benchmark::benchmark)
  if(NOT FETCHCONTENT_SOURCE_DIR_BENCHMARK)
    message(NOTICE "posenc: Google Benchmark is not installed, so it is downloaded now. Without network, install it "
            "(Debian: libbenchmark-dev), or build without benchmarks: -D POSENC_BUILD_BENCH=OFF.")
  endif()
  include(FetchContent)
  FetchContent_Declare(
    benchmark
    GIT_REPOSITORY https://github.com/google/benchmark.git
    GIT_TAG v1.9.1
    GIT_SHALLOW TRUE)
  set(BENCHMARK_ENABLE_TESTING OFF)
  set(BENCHMARK_ENABLE_INSTALL OFF)
  set(BENCHMARK_ENABLE_WERROR OFF)
  FetchContent_MakeAvailable(benchmark)
  posenc_system_headers(benchmark)
endif()
