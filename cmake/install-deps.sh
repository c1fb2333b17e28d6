#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what is missing on this machine to build posenc, and does nothing where all is there.
#
#   cmake/install-deps.sh            everything that README's commands need
#   cmake/install-deps.sh tour|test|bench   only what that command needs
#   cmake/install-deps.sh docs       what the documentation needs: cmake/docs
#   cmake/install-deps.sh languages  what the examples c_abi and python need
#   cmake/install-deps.sh playground  what examples/playground needs: WebAssembly's compiler and libraries, node, Chromium
#   cmake/install-deps.sh proofs     what tests/proofs needs
#   cmake/install-deps.sh ci         everything, also for the documentation, languages, the playground and proofs, clang's compiler and tools, cross compilers with qemu, node, and meson
#   cmake/install-deps.sh peers      what bench needs, and the libraries that POSENC_BENCH_PEERS measures beside posenc
set -euo pipefail

fail() {
  echo "install-deps: $*" >&2
  exit 1
}

# Debian's names. Eigen, Catch2 and Google Benchmark are downloaded by CMake where their package is missing.
build=(g++ cmake ninja-build git libeigen3-dev)
tour=(gnuplot-nox)
tests=(catch2 libmpfr-dev nlohmann-json3-dev pkg-config python3)
cluster=(libopenmpi-dev openmpi-bin)  # for examples/ring_attention alone
bench=(libbenchmark-dev)
docs=(doxygen python3-sphinx python3-myst-parser furo)
languages=(pybind11-dev python3-dev python3-numpy)  # PyTorch, where it is installed, is compared as well
playground=(clang lld wasi-libc libc++-dev-wasm32 libclang-rt-dev-wasm32 nodejs chromium)
peers=(libopenblas-dev libdnnl-dev libtorch-dev)
newer_peers=(libggml-dev libonnxruntime-dev libxnnpack-dev libpthreadpool-dev)  # Debian 12 has none, or too old ones
proofs=(gappa sollya python3)
tools=(clang-format clang-tidy libclang-rt-dev libc++-dev g++-aarch64-linux-gnu qemu-user g++-mingw-w64-x86-64-posix
  g++-riscv64-linux-gnu meson python3-clang-14 valgrind)

optional=()  # left out where the distribution does not have them
case "${1:-all}" in
  tour) needed=("${build[@]}" "${tour[@]}") ;;
  test) needed=("${build[@]}" "${tour[@]}" "${tests[@]}" "${cluster[@]}") ;;
  bench) needed=("${build[@]}" "${bench[@]}") ;;
  docs) needed=("${build[@]}" "${docs[@]}") ;;
  languages) needed=("${build[@]}" "${languages[@]}") ;;
  playground) needed=("${build[@]}" "${tour[@]}" "${playground[@]}") ;;
  proofs) needed=("${proofs[@]}") ;;
  peers) needed=("${build[@]}" "${bench[@]}" "${peers[@]}") optional=("${newer_peers[@]}") ;;
  all) needed=("${build[@]}" "${tour[@]}" "${tests[@]}" "${cluster[@]}" "${bench[@]}") ;;
  ci) needed=("${build[@]}" "${tour[@]}" "${tests[@]}" "${cluster[@]}" "${bench[@]}" "${docs[@]}" "${languages[@]}"
    "${playground[@]}" "${proofs[@]}" "${tools[@]}") ;;
  *) fail "unknown argument '$1'; use tour, test, bench, docs, languages, playground, proofs, peers, ci, or nothing for tour, test and bench" ;;
esac

# A program counts wherever it comes from; a library counts as a package.
is_present() {
  case "$1" in
    g++) command -v c++ >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    gnuplot-nox) command -v gnuplot >/dev/null ;;
    clang) command -v clang++ >/dev/null ;;
    g++-aarch64-linux-gnu) command -v aarch64-linux-gnu-g++ >/dev/null ;;
    g++-riscv64-linux-gnu) command -v riscv64-linux-gnu-g++ >/dev/null ;;
    lld) command -v wasm-ld >/dev/null ;;
    nodejs) command -v node >/dev/null ;;
    g++-mingw-w64-x86-64-posix) command -v x86_64-w64-mingw32-g++-posix >/dev/null ;;
    openmpi-bin) command -v mpirun >/dev/null ;;
    qemu-user) command -v qemu-aarch64 >/dev/null ;;
    cmake | git | gappa | pkg-config | python3 | sollya | clang-format | clang-tidy | meson | doxygen) command -v "$1" >/dev/null ;;
    *) [[ "$(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null)" == installed ]] ;;
  esac
}

install_with_apt() {
  local missing=() package
  for package in "${needed[@]}" "${optional[@]}"; do
    is_present "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "not root and no sudo; as root, run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  echo "install-deps: installing ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  local attempt
  for attempt in 1 2 3; do
    "${apt[@]}" update </dev/null && break
    ((attempt < 3)) || fail "apt-get update failed three times"
    sleep 5
  done
  local available=()
  for package in "${missing[@]}"; do
    [[ " ${optional[*]} " != *" $package "* ]] || apt-cache show "$package" &>/dev/null || continue
    available+=("$package")
  done
  "${apt[@]}" install --yes --no-install-recommends "${available[@]}" </dev/null >/dev/null
}

# Other package managers are named, not driven: nobody has tested posenc with them.
explain() {
  local missing=() program
  for program in c++ cmake ninja git; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  local advice
  if command -v dnf >/dev/null; then
    advice="dnf install gcc-c++ cmake ninja-build git eigen3-devel gnuplot catch-devel mpfr-devel json-devel pkgconf openmpi-devel google-benchmark-devel"
  elif command -v pacman >/dev/null; then
    advice="pacman -S gcc cmake ninja git eigen gnuplot catch2 mpfr nlohmann-json pkgconf openmpi benchmark"
  elif command -v zypper >/dev/null; then
    advice="zypper install gcc-c++ cmake ninja git eigen3-devel gnuplot Catch2-devel mpfr-devel nlohmann_json-devel pkg-config openmpi4-devel benchmark-devel"
  elif command -v brew >/dev/null; then
    advice="brew install cmake ninja git eigen gnuplot catch2 mpfr nlohmann-json pkgconf open-mpi google-benchmark"
  else
    advice="install a C++20 compiler, cmake, ninja, git, Eigen, gnuplot, Catch2, MPFR, nlohmann-json, pkg-config, Open MPI, Google Benchmark"
  fi
  echo "install-deps: this script installs with apt only. What posenc uses: $advice" >&2
  ((${#missing[@]} == 0)) || fail "missing: ${missing[*]}"
}

if command -v apt-get >/dev/null; then
  install_with_apt
else
  explain
fi

cmake_version="$(cmake --version | sed -n '1s/^cmake version //p')"
if [[ "$(printf '%s\n' 3.25 "$cmake_version" | sort --version-sort | head -n 1)" != 3.25 ]]; then
  fail "cmake is $cmake_version, but the presets need 3.25 or newer: see https://cmake.org/download or 'pip install cmake'"
fi
