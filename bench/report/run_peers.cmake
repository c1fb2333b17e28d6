# SPDX-License-Identifier: MIT
# Runs posenc_bench_peers three times and writes OUTPUT_peers_<1 to 3>.json and the table OUTPUT_peers.md.
#   cmake -D PROGRAM=build/bench/bench/posenc_bench_peers -D SOURCE_DIR=. -D OUTPUT=build/bench/bench -P run_peers.cmake
include("${CMAKE_CURRENT_LIST_DIR}/measure.cmake")
foreach(run RANGE 1 3)
  measure("${PROGRAM}" "${OUTPUT}_peers_${run}.json")
endforeach()
include("${CMAKE_CURRENT_LIST_DIR}/table_peers.cmake")
