# SPDX-License-Identifier: MIT
# Tests mirror headers: cmake -D INCLUDE_DIR=<repository>/include -D TESTS_DIR=<repository>/tests -P check_mirrored.cmake
#
# Every public header of a folder must have a test of its name, tests/<folder>/<header>_test.cpp. kernels/ has no public
# header. A header whose second line says that it is an earlier release's name of another needs none.

cmake_minimum_required(VERSION 3.23)

file(GLOB headers RELATIVE "${INCLUDE_DIR}/posenc" "${INCLUDE_DIR}/posenc/*/*.hpp")
list(FILTER headers EXCLUDE REGEX "^kernels/")
list(LENGTH headers count)
if(count LESS 50)
  message(FATAL_ERROR "only ${count} public headers found under ${INCLUDE_DIR}/posenc")
endif()

set(missing)
foreach(header IN LISTS headers)
  string(REGEX REPLACE "\\.hpp$" "_test.cpp" test "${header}")
  file(STRINGS "${INCLUDE_DIR}/posenc/${header}" renamed LIMIT_COUNT 3 REGEX "^// The name of [a-z0-9_]+\\.hpp in ")
  if(NOT renamed AND NOT EXISTS "${TESTS_DIR}/${test}")
    string(APPEND missing "\n  posenc/${header}: no tests/${test}")
  endif()
endforeach()
if(missing)
  message(FATAL_ERROR "public headers without a test of their name:${missing}")
endif()
