# SPDX-License-Identifier: MIT
# Include law: cmake -D INCLUDE_DIR=<repository>/include -P check_layers.cmake
#
# A header includes its own folder and those of a lower level, never one of a higher level or another one of its level.
# The folder detail/ of a folder is closed to others, except for the four that are the basis of others and for the
# folders that are named below. The first header that is read is core/config.hpp.

cmake_minimum_required(VERSION 3.23)

set(levels
    "core"
    "simd"
    "tensor"
    "concepts.hpp frequency kernels"
    "additive rotary bias attention"
    "kv"
    "nn"
    "interop"
    "without_eigen.hpp"
    "posenc.hpp")

set(open_details core simd tensor frequency)
# Folders that may also include the detail/ of another.
set(detail_of_attention_is_open_to kv nn)
set(detail_of_kv_is_open_to nn)
# Folders without public headers: they are in namespace detail, but have no folder of that name.
set(folders_without_users kernels)

set(level 0)
foreach(folders IN LISTS levels)
  separate_arguments(folders)
  foreach(folder IN LISTS folders)
    set(level_of_${folder} ${level})
  endforeach()
  math(EXPR level "${level} + 1")
endforeach()

function(violation header rule)
  message(SEND_ERROR "posenc/${header}: ${rule}")
endfunction()

file(GLOB_RECURSE headers RELATIVE "${INCLUDE_DIR}/posenc" "${INCLUDE_DIR}/posenc/*")
list(FILTER headers EXCLUDE REGEX "\\.md$")
if(NOT headers)
  message(FATAL_ERROR "no headers under ${INCLUDE_DIR}/posenc")
endif()

foreach(header IN LISTS headers)
  string(REGEX REPLACE "/.*" "" folder "${header}")
  if(NOT DEFINED level_of_${folder})
    violation("${header}" "'${folder}' is no folder of the library; name its level in check_layers.cmake")
    continue()
  endif()

  # A header without public names has a single namespace detail between its first BEGIN and its last
  # END.
  file(READ "${INCLUDE_DIR}/posenc/${header}" text)
  string(REGEX MATCHALL "POSENC_[A-Z_]*BEGIN\nnamespace detail {\n|POSENC_[A-Z_]*BEGIN\n|}  // namespace detail\n" parts "${text}")
  if(NOT header MATCHES "/detail/" AND NOT folder IN_LIST folders_without_users AND text MATCHES "}  // namespace detail\nPOSENC_[A-Z_]*END\n$"
     AND parts MATCHES "^POSENC_[A-Z_]*BEGIN\nnamespace detail {\n;}  // namespace detail\n$")
    violation("${header}" "defines nothing that users call; move it to ${folder}/detail/")
  endif()

  file(STRINGS "${INCLUDE_DIR}/posenc/${header}" includes REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")

  # The chain of first includes must start at core/config.hpp, which stops a compiler without C++20.
  if(NOT header MATCHES "^core/(config|version|detail/instruction_sets)\\.hpp$"
     AND NOT includes MATCHES "^#include <posenc/"
     OR includes MATCHES "^#include <posenc/core/(version|detail/instruction_sets)\\.hpp>" AND NOT header STREQUAL "core/config.hpp")
    violation("${header}" "must include core/config.hpp, or a header that does, before any other")
  endif()

  foreach(include IN LISTS includes)
    string(REGEX REPLACE "^[^<\"]*([<\"])([^>\"]*).*" "\\1;\\2" include "${include}")
    list(GET include 0 delimiter)
    list(GET include 1 path)

    if(path MATCHES "^posenc/([^/]+)")
      set(other "${CMAKE_MATCH_1}")
      if(NOT DEFINED level_of_${other})
        violation("${header}" "includes <${path}>, and '${other}' is no folder of the library")
      elseif(NOT other STREQUAL folder AND NOT level_of_${other} LESS level_of_${folder})
        violation("${header}" "includes <${path}>, but '${folder}' may only include folders below its level")
      elseif(path MATCHES "/detail/" AND NOT other STREQUAL folder AND NOT other IN_LIST open_details
             AND NOT folder IN_LIST detail_of_${other}_is_open_to)
        violation("${header}" "includes <${path}>, but '${other}' keeps its detail/ to itself")
      endif()
    elseif(delimiter STREQUAL "\"")
      violation("${header}" "includes \"${path}\"; write headers of posenc as <posenc/...>")
    elseif(path MATCHES "^unsupported/Eigen/" AND NOT header STREQUAL "tensor/eigen.hpp")
      violation("${header}" "includes <${path}>, which tensor/eigen.hpp alone may do")
    elseif(path MATCHES "^Eigen/" AND folder MATCHES "^(core|simd)$" AND NOT header STREQUAL "core/build_info.hpp")
      violation("${header}" "includes <${path}>, but core and simd know nothing of Eigen")
    elseif(path MATCHES "/" AND NOT path MATCHES "^(posenc|Eigen|unsupported/Eigen|sys)/")
      violation("${header}" "includes <${path}>: headers need the standard library and Eigen alone")
    endif()
  endforeach()
endforeach()

