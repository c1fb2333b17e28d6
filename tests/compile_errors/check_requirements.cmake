# SPDX-License-Identifier: MIT
# A compiler that lacks a requirement of posenc states it in the first of at most two errors:
#   cmake -D COMPILER=<g++ or clang++> -D INCLUDE_DIR=<repository>/include -D EIGEN=<its directory> -D WORK=<scratch directory>
#         -P check_requirements.cmake
# posenc/without_eigen.hpp must include no header of Eigen, even if Eigen is installed.

cmake_minimum_required(VERSION 3.23)

set(ENV{LC_ALL} C)  # no translations
set(compile "${COMPILER}" "-I${INCLUDE_DIR}" -x c++)
file(MAKE_DIRECTORY "${WORK}")

# Compiles a unit that includes <header>, with the given flags, and searches <rule> in its first
# error.
function(check_first_error header rule)
  file(WRITE "${WORK}/unit.cpp" "#include <${header}>\n")
  execute_process(COMMAND ${compile} -fsyntax-only ${ARGN} "${WORK}/unit.cpp" RESULT_VARIABLE failed ERROR_VARIABLE errors OUTPUT_QUIET)
  string(REPLACE ";" "," errors "${errors}")
  string(REGEX MATCHALL "[^\n]*error: [^\n]*" errors "${errors}")
  list(LENGTH errors count)
  if(NOT failed)
    message(SEND_ERROR "<${header}> with ${ARGN} must not compile, but does")
    return()
  endif()
  list(GET errors 0 first)
  string(FIND "${first}" "${rule}" found)
  if(found EQUAL -1 OR count GREATER 2)
    message(SEND_ERROR "<${header}> with ${ARGN}: of ${count} errors the first is\n${first}\nand not\n${rule}")
  endif()
endfunction()

# headers.include_law checks that all other headers include core/config.hpp first as well.
foreach(header IN ITEMS posenc/posenc.hpp posenc/without_eigen.hpp posenc/rotary/rope.hpp)
  check_first_error("${header}" "posenc needs C++20" -std=c++17)
endforeach()

check_first_error(posenc/simd/tier.hpp "posenc: POSENC_TIER names a tier that the compiler's flags do not allow"
                  -std=c++20 -DPOSENC_TIER=avx512)

file(WRITE "${WORK}/unit.cpp" "#if !__has_include(<Eigen/Core>)\n#error\n#endif\n")
execute_process(COMMAND ${compile} -fsyntax-only -std=c++20 "${WORK}/unit.cpp" RESULT_VARIABLE no_eigen ERROR_QUIET)
if(no_eigen)
  check_first_error(posenc/posenc.hpp "without Eigen, include <posenc/without_eigen.hpp>" -std=c++20)
else()
  message(STATUS "not tried: the compiler finds Eigen without being told where it is")
endif()

file(WRITE "${WORK}/unit.cpp" "#include <posenc/without_eigen.hpp>\n")
execute_process(COMMAND ${compile} -std=c++20 -isystem "${EIGEN}" -M "${WORK}/unit.cpp"
                OUTPUT_VARIABLE read COMMAND_ERROR_IS_FATAL ANY)
if(NOT read MATCHES "posenc/rotary/rope\\.hpp" OR read MATCHES "[^ ]*/Eigen/[^ ]*")
  message(SEND_ERROR "posenc/without_eigen.hpp must read posenc/rotary/rope.hpp and no header of Eigen: ${CMAKE_MATCH_0}")
endif()
