# SPDX-License-Identifier: MIT
# Writes the single headers posenc_rope.hpp and posenc_all.hpp, and prints their sizes and SHA-256 sums:
# cmake -D SOURCE_DIR=<repository> -D OUTPUT_DIR=<folder> -P single_header.cmake
#
# A single header holds the text of every header that its first includes reach, in the order in which a compiler reads them.
# Each text has a macro of its own in place of #pragma once, so that both single headers can be included in one translation
# unit. An include inside #if is replaced inside that #if. Its text counts as written there alone, and is written again where
# it is included outside. Standard headers that are included outside #if come first, and those of others stay where they are.
# The result depends on the sources alone.

cmake_minimum_required(VERSION 3.23)

file(STRINGS "${SOURCE_DIR}/include/posenc/core/version.hpp" version REGEX "^#define POSENC_VERSION_")
if(NOT version MATCHES "MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*SUFFIX \"([^\"]*)\"")
  message(FATAL_ERROR "include/posenc/core/version.hpp must define POSENC_VERSION_MAJOR, _MINOR, _PATCH and _SUFFIX")
endif()
set(major "${CMAKE_MATCH_1}")
set(minor "${CMAKE_MATCH_2}")
set(patch "${CMAKE_MATCH_3}")

# State of one single header: its text, its standard headers, the headers that are in force at this place, and for each #if
# around this place the headers that were in force before it. Global, because a function would copy the text for each caller.
function(begin_state)
  set_property(GLOBAL PROPERTY body "")
  set_property(GLOBAL PROPERTY standard)
  set_property(GLOBAL PROPERTY known)
  set_property(GLOBAL PROPERTY depth 0)
endfunction()

function(write_text text)
  set_property(GLOBAL APPEND_STRING PROPERTY body "${text}")
endfunction()

# Keeps `known` in step with a directive of a condition: a header that one branch includes is unknown in the others.
function(follow_condition directive)
  get_property(depth GLOBAL PROPERTY depth)
  get_property(known GLOBAL PROPERTY known)
  if(directive MATCHES "^(if|ifdef|ifndef)$")
    math(EXPR depth "${depth} + 1")
    set_property(GLOBAL PROPERTY known_before_${depth} "${known}")
  else()
    get_property(before GLOBAL PROPERTY known_before_${depth})
    set_property(GLOBAL PROPERTY known "${before}")
    if(directive STREQUAL "endif")
      math(EXPR depth "${depth} - 1")
    endif()
  endif()
  set_property(GLOBAL PROPERTY depth ${depth})
endfunction()

# Writes text of a header. Its guard begins with its first line that is no comment, so that the texts of the headers that it
# includes at its beginning stand before it and not inside it. `pending` holds its comments until then.
macro(write_part)
  string(REGEX REPLACE "^(// SPDX-License-Identifier: MIT\n)?#pragma once\n|^// SPDX-License-Identifier: MIT\n" "" part "${part}")
  if(guarded)
    write_text("${part}")
  else()
    string(APPEND pending "${part}")
    if(NOT pending MATCHES "^([ \t]*(//[^\n]*)?\n)*$")
      string(REGEX REPLACE "^\n+" "" pending "${pending}")
      write_text("\n// ==== ${header} ====\n#ifndef ${guard}\n#define ${guard}\n\n${pending}")
      set(guarded ON)
    endif()
  endif()
endmacro()

# Writes a header of posenc, such as posenc/core/error.hpp, unless it is known.
function(write_header header)
  get_property(known GLOBAL PROPERTY known)
  if(header IN_LIST known)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY known "${header}")
  file(READ "${SOURCE_DIR}/include/${header}" text)
  string(REPLACE "\r\n" "\n" text "${text}")
  string(MAKE_C_IDENTIFIER "${header}" guard)
  string(TOUPPER "${guard}" guard)
  string(REGEX REPLACE "^POSENC_" "POSENC_SINGLE_HEADER_" guard "${guard}")
  set(guarded OFF)
  set(pending "")
  write_lines()
  if(guarded)
    write_text("#endif\n")
  else()  # includes only
    write_text("\n// ==== ${header} ====\n${pending}")
  endif()
endfunction()

# Writes the lines of `text`, and in place of its includes the headers. The text is not an argument of this macro, because CMake
# would read its backslashes.
macro(write_lines)
  set(rest "\n${text}")
  while(rest MATCHES "\n[ \t]*#[ \t]*(include|if|ifdef|ifndef|elif|else|endif)([^A-Za-z_\n][^\n]*)?\n")
    set(line "${CMAKE_MATCH_0}")
    set(directive "${CMAKE_MATCH_1}")
    set(argument "${CMAKE_MATCH_2}")
    string(FIND "${rest}" "${line}" begin)
    string(LENGTH "${line}" length)
    math(EXPR begin "${begin} + 1")
    string(SUBSTRING "${rest}" 0 ${begin} part)
    string(SUBSTRING "${part}" 1 -1 part)
    write_part()
    # The line's end stays, because it begins the next line.
    math(EXPR after "${begin} + ${length} - 2")
    string(SUBSTRING "${rest}" ${after} -1 rest)
    string(SUBSTRING "${line}" 1 -1 part)
    get_property(depth GLOBAL PROPERTY depth)
    if(NOT directive STREQUAL "include")
      follow_condition("${directive}")
      write_part()
    elseif(argument MATCHES "^[ \t]*[<\"](posenc/[^>\"]*)[>\"]")
      write_header("${CMAKE_MATCH_1}")
    elseif(depth EQUAL 0 AND argument MATCHES "^[ \t]*(<[a-z0-9_]+>)")
      set_property(GLOBAL APPEND PROPERTY standard "${CMAKE_MATCH_1}")
    else()
      write_part()
    endif()
  endwhile()
  string(SUBSTRING "${rest}" 1 -1 part)
  write_part()
endmacro()

# write_single_header(<name> <comment> <includes>)
function(write_single_header name comment text)
  begin_state()
  set(header "${name}")
  set(guarded ON)
  write_lines()
  get_property(body GLOBAL PROPERTY body)
  get_property(standard GLOBAL PROPERTY standard)
  list(REMOVE_DUPLICATES standard)
  list(SORT standard)
  list(TRANSFORM standard REPLACE "(.+)" "#include \\1\n")
  foreach(include IN LISTS standard)
    string(REPLACE "${include}" "" body "${body}")  # those inside #if
  endforeach()
  string(REPLACE ";" "" standard "${standard}")

  file(READ "${SOURCE_DIR}/LICENSE" licence)
  string(REGEX REPLACE "\r?\n$" "" licence "${licence}")
  string(REGEX REPLACE "\r?\n" "\n// " licence "${licence}")
  string(REGEX REPLACE "// \n" "//\n" licence "${licence}")
  set(text "// SPDX-License-Identifier: MIT
//
// ${name}, posenc ${major}.${minor}.${patch}
//
${comment}//
// Generated from the headers posenc/... by the target posenc_single; do not edit. A translation unit
// includes single headers of one version, or headers posenc/..., but not both. Translation units
// with either link into one program.
//
// ${licence}
#pragma once

#if defined(POSENC_BEGIN) && !defined(POSENC_SINGLE_HEADER)
#error \"posenc: ${name} is included after a header posenc/...; a translation unit includes one or the other\"
#elif defined(POSENC_SINGLE_HEADER) && \\
    (POSENC_VERSION_MAJOR != ${major} || POSENC_VERSION_MINOR != ${minor} || POSENC_VERSION_PATCH != ${patch})
#error \"posenc: ${name} is included after a single header of another version\"
#else

// With an older standard, the first header below names the one that is needed.
#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) > 201703L
${standard}#endif
${body}
#ifndef POSENC_SINGLE_HEADER
#define POSENC_SINGLE_HEADER 1
#endif
#endif
")
  string(REGEX REPLACE "\n\n\n+" "\n\n" text "${text}")
  file(MAKE_DIRECTORY "${OUTPUT_DIR}")
  file(WRITE "${OUTPUT_DIR}/${name}" "${text}")
  file(SIZE "${OUTPUT_DIR}/${name}" size)
  file(SHA256 "${OUTPUT_DIR}/${name}" sum)
  message(STATUS "${name}: ${size} bytes, SHA-256 ${sum}")
endfunction()

# The folders of rotation, as without_eigen.hpp lists them.
file(STRINGS "${SOURCE_DIR}/include/posenc/without_eigen.hpp" includes
     REGEX "^#include <posenc/(concepts\\.hpp|(core|simd|tensor|frequency|rotary)/)")
list(JOIN includes "\n" includes)
write_single_header(posenc_rope.hpp
"// Rotary position embeddings and their frequency rules, with the elements, views and positions that
// they take. Needs C++20, and no other library.
" "${includes}\n")

# The whole library.
file(GLOB interop RELATIVE "${SOURCE_DIR}/include/posenc/interop" "${SOURCE_DIR}/include/posenc/interop/*.hpp")
list(TRANSFORM interop REPLACE "(.+)" "#include <posenc/interop/\\1>\n")
string(REPLACE ";" "" interop "${interop}")
write_single_header(posenc_all.hpp
"// All of posenc. Needs C++20 and Eigen 3.4 or 5.
" "#include <posenc/posenc.hpp>\n${interop}")
