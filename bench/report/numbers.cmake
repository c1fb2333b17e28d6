# SPDX-License-Identifier: MIT
# Formats the numbers of a Google Benchmark JSON. CMake computes with integers only, so decimals are
# cut from the text.

# fixed(<out> <number> <decimals>): 1.0449 with 2 decimals is 1.04. Numbers below 1e-4 are zero.
function(fixed out number decimals)
  if(number MATCHES "[eE]-")
    set(number 0)
  endif()
  if(NOT number MATCHES "^(-?[0-9]+)(\\.([0-9]*))?$")
    message(FATAL_ERROR "not a decimal number: '${number}'")
  endif()
  set(whole "${CMAKE_MATCH_1}")
  string(SUBSTRING "${CMAKE_MATCH_3}0000000000" 0 ${decimals} kept)
  string(SUBSTRING "${CMAKE_MATCH_3}0000000000" ${decimals} 1 next)
  math(EXPR digits "1${kept} + ${next} / 5")  # the leading 1 keeps zeros, and carries
  string(SUBSTRING "${digits}" 0 1 carried)
  string(SUBSTRING "${digits}" 1 -1 digits)
  math(EXPR whole "${whole} + ${carried} - 1")
  if(decimals EQUAL 0)
    set(${out} "${whole}" PARENT_SCOPE)
  else()
    set(${out} "${whole}.${digits}" PARENT_SCOPE)
  endif()
endfunction()

# duration(<out> <nanoseconds>): 84 123.4 is 84.1 us.
function(duration out nanoseconds)
  fixed(whole "${nanoseconds}" 0)
  foreach(unit_and_size IN ITEMS "ns;1" "us;1000" "ms;1000000" "s;1000000000")
    list(POP_FRONT unit_and_size unit)
    if(whole LESS "${unit_and_size}000" OR unit STREQUAL "s")
      math(EXPR number "(${whole} + ${unit_and_size} / 2) / ${unit_and_size}")
      if(NOT unit STREQUAL "ns" AND number LESS 100)
        math(EXPR tenths "(10 * ${whole} + ${unit_and_size} / 2) / ${unit_and_size}")
        string(REGEX REPLACE "(.)$" ".\\1" number "${tenths}")
      endif()
      set(${out} "${number} ${unit}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# counter(<out> <benchmark as JSON> <name> <decimals>): the counter; empty if the case does not have
# it.
function(counter out benchmark name decimals)
  string(JSON value ERROR_VARIABLE missing GET "${benchmark}" "${name}")
  if(missing)
    set(value "")
  else()
    fixed(value "${value}" ${decimals})
  endif()
  set(${out} "${value}" PARENT_SCOPE)
endfunction()

# figure(<out> <benchmark as JSON> <counter> <decimals>): the counter and its spread, "1.15 ± 0.03".
function(figure out benchmark name decimals)
  counter(value "${benchmark}" ${name} ${decimals})
  counter(spread "${benchmark}" ${name}_spread ${decimals})
  if(value AND spread)
    string(APPEND value " ± ${spread}")
  endif()
  set(${out} "${value}" PARENT_SCOPE)
endfunction()

# time_figure(<out> <benchmark as JSON>): the time of a call and its spread, "483 ns ± 2 %"; "483 ns ± 7 % unsteady" if
# the spread is above 5 %.
function(time_figure out benchmark)
  string(JSON nanoseconds GET "${benchmark}" real_time)
  duration(time "${nanoseconds}")
  counter(spread "${benchmark}" time_spread_percent 0)
  if(NOT spread STREQUAL "")
    string(APPEND time " ± ${spread} %")
  endif()
  string(JSON label ERROR_VARIABLE missing GET "${benchmark}" label)
  if(NOT missing)
    string(APPEND time " ${label}")
  endif()
  set(${out} "${time}" PARENT_SCOPE)
endfunction()

# cases(<out> <JSON>): sets CASES_<name> of the caller to each case as JSON, and <out> to the list
# of names in order.
function(cases out json)
  set(names)
  string(JSON count LENGTH "${json}" benchmarks)
  math(EXPR last "${count} - 1")
  string(JSON benchmarks GET "${json}" benchmarks)
  foreach(i RANGE ${last})
    string(JSON benchmark GET "${benchmarks}" ${i})
    string(JSON name GET "${benchmark}" name)
    string(REGEX REPLACE "/iterations:1/manual_time$" "" name "${name}")
    list(APPEND names "${name}")
    set("CASES_${name}" "${benchmark}" PARENT_SCOPE)
  endforeach()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# preface(<out> <JSON>): one line with the origin of the numbers.
function(preface out json)
  foreach(key IN ITEMS cpu build flags commit not_controlled)
    string(JSON ${key} ERROR_VARIABLE missing GET "${json}" context ${key})
    if(missing)
      set(${key} "unknown")
    endif()
  endforeach()
  set(${out} "${cpu}, one thread unless said; ${build}; flags `${flags}`; commit ${commit}. Not controlled: ${not_controlled}."
      PARENT_SCOPE)
endfunction()

# chart(<output without extension> <data> <script of gnuplot>): writes <output>.dat and the chart <output>.svg, if gnuplot is
# installed.
function(chart output data script)
  find_program(GNUPLOT gnuplot)
  if(NOT GNUPLOT)
    message(STATUS "no chart: gnuplot is not installed")
    return()
  endif()
  file(WRITE "${output}.dat" "${data}")
  execute_process(
    COMMAND "${GNUPLOT}" -e "data='${output}.dat'; image='${output}.svg'" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${script}"
    COMMAND_ERROR_IS_FATAL ANY)
  message(STATUS "chart: ${output}.svg")
endfunction()
