# SPDX-License-Identifier: MIT
# Builds for 64-bit Arm with Debian's cross compiler and runs the result under qemu:
#   cmake --preset test -B build/aarch64 --toolchain cmake/toolchains/aarch64.cmake
# With clang++, and the libraries and linker of that compiler: -D POSENC_CROSS_CLANG=ON
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES POSENC_CROSS_CLANG)
if(POSENC_CROSS_CLANG)
  set(CMAKE_CXX_COMPILER clang++)
  set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
else()
  set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

# Libraries are the target's own, which leaves MPFR out. Headers without a library serve every processor; what they
# include beside them is found in /usr/include, after the target's own headers.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE NEVER)
