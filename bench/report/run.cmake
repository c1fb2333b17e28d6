# SPDX-License-Identifier: MIT
# Runs a benchmark program and writes OUTPUT.json, OUTPUT.md and OUTPUT.svg.
#   cmake -D PROGRAM=build/bench/bench/posenc_bench -D SOURCE_DIR=. -D OUTPUT=build/bench/bench -P run.cmake
include("${CMAKE_CURRENT_LIST_DIR}/measure.cmake")
measure("${PROGRAM}" "${OUTPUT}.json")
include("${CMAKE_CURRENT_LIST_DIR}/table.cmake")
