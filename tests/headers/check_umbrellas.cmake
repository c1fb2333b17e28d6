# SPDX-License-Identifier: MIT
# Umbrella headers: cmake -D INCLUDE_DIR=<repository>/include -P check_umbrellas.cmake
#
# posenc.hpp must reach every public header outside interop/. without_eigen.hpp must reach those that do not reach Eigen,
# and must not reach Eigen itself. kernels/ has no public header. A header is reached if it is included, directly or
# through other headers.

cmake_minimum_required(VERSION 3.23)

file(GLOB_RECURSE headers RELATIVE "${INCLUDE_DIR}" "${INCLUDE_DIR}/posenc/*.hpp")
if(NOT headers)
  message(FATAL_ERROR "no headers under ${INCLUDE_DIR}/posenc")
endif()
foreach(header IN LISTS headers)
  file(STRINGS "${INCLUDE_DIR}/${header}" lines REGEX "^[ \t]*#[ \t]*include[ \t]*<")
  list(TRANSFORM lines REPLACE "^[^<]*<([^>]*)>.*" "\\1")
  list(FILTER lines INCLUDE REGEX "^(posenc|Eigen|unsupported)/")
  set("includes_of_${header}" "${lines}")
endforeach()

# Sets <result> to <header> and all headers that it includes, directly or indirectly.
function(reach header result)
  set(reached "${header}")
  set(open "${header}")
  while(open)
    list(POP_FRONT open next)
    foreach(include IN LISTS "includes_of_${next}")
      if(NOT include IN_LIST reached)
        list(APPEND reached "${include}")
        list(APPEND open "${include}")
      endif()
    endforeach()
  endwhile()
  set(${result} "${reached}" PARENT_SCOPE)
endfunction()

reach(posenc/posenc.hpp all)
reach(posenc/without_eigen.hpp without_eigen)

set(of_eigen "${without_eigen}")
list(FILTER of_eigen INCLUDE REGEX "^(Eigen|unsupported)/")
if(of_eigen)
  message(SEND_ERROR "posenc/without_eigen.hpp reaches <${of_eigen}>")
endif()

foreach(header IN LISTS headers)
  if(header MATCHES "/detail/|^posenc/(interop|kernels)/")
    continue()
  endif()
  if(NOT header IN_LIST all)
    message(SEND_ERROR "posenc/posenc.hpp does not reach <${header}>")
  endif()
  if(NOT header IN_LIST without_eigen)
    reach("${header}" own)
    if(NOT own MATCHES "(^|;)(Eigen|unsupported)/")
      message(SEND_ERROR "posenc/without_eigen.hpp does not reach <${header}>, which needs no Eigen")
    endif()
  endif()
endforeach()
