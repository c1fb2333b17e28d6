# SPDX-License-Identifier: MIT
# The README shows the quickstart and what it prints, byte for byte, and of each of the EXCERPTS the lines from
# "  // excerpt: NAME" to "  // end of excerpt", two columns to the left:
# cmake -D README=<README.md> -D SOURCE=<quickstart.cpp> -D PROGRAM=<quickstart> -D "EXCERPTS=<a.cpp;b.cpp>"
#       -P check_readme.cmake

# Splits `text` at the first fenced block of `language`: the block's content and what follows it.
function(take_block language text content rest)
  set(opening "\n```${language}\n")
  string(FIND "${text}" "${opening}" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "${README} has no ```${language} block where one is expected")
  endif()
  string(LENGTH "${opening}" length)
  math(EXPR begin "${begin} + ${length}")
  string(SUBSTRING "${text}" ${begin} -1 text)
  string(FIND "${text}" "```\n" end)
  string(SUBSTRING "${text}" 0 ${end} block)
  string(SUBSTRING "${text}" ${end} -1 text)
  set(${content} "${block}" PARENT_SCOPE)
  set(${rest} "${text}" PARENT_SCOPE)
endfunction()

file(READ "${README}" text)
take_block(cpp "${text}" program text)
take_block(text "${text}" promised_output text)

file(READ "${SOURCE}" source)
if(NOT program STREQUAL source)
  message(FATAL_ERROR "the first ```cpp block of ${README} is not the text of ${SOURCE}:\n${program}")
endif()

execute_process(COMMAND "${PROGRAM}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output STREQUAL promised_output)
  message(FATAL_ERROR "${README} promises\n${promised_output}\nbut ${SOURCE} prints\n${output}")
endif()

file(READ "${README}" text)
foreach(file IN LISTS EXCERPTS)
  file(READ "${file}" source)
  string(FIND "${source}" "\n  // excerpt: " begin)
  string(FIND "${source}" "\n  // end of excerpt\n" end)
  if(begin EQUAL -1 OR end LESS begin)
    message(FATAL_ERROR "${file} has no excerpt")
  endif()
  math(EXPR length "${end} - ${begin}")
  string(SUBSTRING "${source}" ${begin} ${length} excerpt)
  string(SUBSTRING "${excerpt}" 1 -1 excerpt)
  string(FIND "${excerpt}" "\n" begin)
  string(SUBSTRING "${excerpt}" ${begin} -1 excerpt)
  string(REPLACE "\n  " "\n" excerpt "${excerpt}")
  string(FIND "${text}" "\n```cpp${excerpt}\n```\n" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "${README} does not show the excerpt of ${file}:\n${excerpt}")
  endif()
endforeach()
