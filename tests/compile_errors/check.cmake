# SPDX-License-Identifier: MIT
# Compiles invalid programs and reads the first error of each:
#   cmake -D COMPILER=<g++ or clang++> -D PROGRAMS=<this directory> -D INCLUDES=<directories> -D WORK=<scratch directory>
#         [-D ONLY=<file.cpp>[:<case>]] [-D ONE_IN=<number> -D SEED=<text>] -P check.cmake
#
# ONE_IN compiles one program in <number>, selected by SEED. Programs that must compile are always included.
#
# The macro CASE selects a program of a file. The comment at the start of each program states what its first error must
# contain ("// error: this ... and this"), or that it compiles.

cmake_minimum_required(VERSION 3.23)

set(flags -std=c++20 -fsyntax-only -w)
foreach(directory IN LISTS INCLUDES)
  list(APPEND flags -isystem "${directory}")
endforeach()
set(ENV{LC_ALL} C)  # no translations

# Posenc is precompiled once.
file(MAKE_DIRECTORY "${WORK}")
file(COPY "${PROGRAMS}/posenc.hpp" DESTINATION "${WORK}")
execute_process(COMMAND "${COMPILER}" --version OUTPUT_VARIABLE version)
if(version MATCHES "clang")
  set(precompiled "${WORK}/posenc.hpp.pch")
  set(use -include-pch "${precompiled}")
else()
  set(precompiled "${WORK}/posenc.hpp.gch")
  set(use -include "${WORK}/posenc.hpp")
endif()
list(REMOVE_ITEM flags -fsyntax-only)
execute_process(COMMAND "${COMPILER}" ${flags} -x c++-header "${WORK}/posenc.hpp" -o "${precompiled}" COMMAND_ERROR_IS_FATAL ANY)
list(APPEND flags -fsyntax-only -Wfatal-errors ${use})  # only one error is read

set(programs 0)
file(GLOB files "${PROGRAMS}/*.cpp")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(STRINGS "${file}" lines REGEX "^#(el)?if CASE == |^ *// (error: |error:$|compiles$)")
  list(JOIN lines "\n" lines)
  string(REGEX MATCHALL "CASE == [0-9]+\n *// [^\n]*" cases "${lines}")
  set(expected_case 0)
  foreach(text IN LISTS cases)
    string(REGEX MATCH "^CASE == ([0-9]+)\n *// (compiles|error: ?)([^\n]*)$" text "${text}")
    set(case "${CMAKE_MATCH_1}")
    set(compiles "${CMAKE_MATCH_2}")
    string(REPLACE " ... " ";" wanted "${CMAKE_MATCH_3}")
    if(NOT case EQUAL expected_case)
      message(SEND_ERROR "${name}: case ${case} stands where ${expected_case} should")
    endif()
    math(EXPR expected_case "${expected_case} + 1")
    if(DEFINED ONLY AND NOT ONLY STREQUAL name AND NOT ONLY STREQUAL "${name}:${case}")
      continue()
    endif()
    if(ONE_IN AND NOT compiles STREQUAL "compiles")
      string(SHA1 drawn "${SEED} ${name} ${case}")
      string(SUBSTRING "${drawn}" 0 7 drawn)
      math(EXPR drawn "0x${drawn} % ${ONE_IN}")
      if(NOT drawn EQUAL 0)
        continue()
      endif()
    endif()
    math(EXPR programs "${programs} + 1")

    execute_process(COMMAND "${COMPILER}" ${flags} "-DCASE=${case}" "${file}" RESULT_VARIABLE failed ERROR_VARIABLE errors OUTPUT_QUIET)
    # The errors are text, not a list: semicolons and brackets in them are no separators.
    string(FIND "${errors}" "error: " at)
    set(first "")
    if(NOT at EQUAL -1)
      string(SUBSTRING "${errors}" ${at} -1 first)
      string(FIND "${first}" "\n" end)
      string(SUBSTRING "${first}" 0 ${end} first)
    endif()
    if(compiles STREQUAL "compiles")
      if(failed)
        message(SEND_ERROR "${name}, case ${case} must compile, but:\n${first}")
      endif()
    elseif(NOT failed)
      message(SEND_ERROR "${name}, case ${case} must not compile, but does")
    else()
      foreach(part IN LISTS wanted)
        string(FIND "${first}" "${part}" found)
        if(found EQUAL -1)
          message(SEND_ERROR "${name}, case ${case}: the first error must contain\n${part}\nbut is\n${first}")
        endif()
      endforeach()
    endif()
  endforeach()
endforeach()

if(programs EQUAL 0)
  message(FATAL_ERROR "no programs in ${PROGRAMS}")
endif()
message(STATUS "compile errors: ${programs} programs")
