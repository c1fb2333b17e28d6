# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by findings on llama.cpp: installs the release v0.5.0, and builds the recorder of its operators.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

npm_packages --ignore-scripts @node-llama-cpp/linux-x64@3.22.1
"${CXX:-g++}" -std=c++20 -O1 -rdynamic "$here/../tests/oracles/llama_cpp/record.cpp" -o "$work/record" -ldl
export WORK="$work"

# llama_program: runs the program on standard input, and keeps what it prints
llama_program() { python3 - >"$work/seen"; }
