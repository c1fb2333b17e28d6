# SPDX-License-Identifier: MIT
# Checks that a page shows a program and its output byte for byte, and excerpts of other programs. An excerpt is the
# lines from "  // excerpt: NAME" to "  // end of excerpt", two columns to the left:
# cmake -D PAGE=<page.md> [-D SOURCE=<a.cpp> -D PROGRAM=<a>] [-D "EXCERPTS=<b.cpp;c.cpp>"] -P check_readme.cmake

file(READ "${PAGE}" text)

if(SOURCE)
  file(READ "${SOURCE}" source)
  string(FIND "${text}" "\n```cpp\n${source}```\n" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "${PAGE} has no ```cpp block with the text of ${SOURCE}:\n${source}")
  endif()

  # The first ```text block after the program holds its output.
  string(SUBSTRING "${text}" ${begin} -1 after)
  set(opening "\n```text\n")
  string(FIND "${after}" "${opening}" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "${PAGE} has no ```text block after the text of ${SOURCE}")
  endif()
  string(LENGTH "${opening}" length)
  math(EXPR begin "${begin} + ${length}")
  string(SUBSTRING "${after}" ${begin} -1 after)
  string(FIND "${after}" "```\n" end)
  string(SUBSTRING "${after}" 0 ${end} promised_output)

  execute_process(COMMAND "${PROGRAM}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output STREQUAL promised_output)
    message(FATAL_ERROR "${PAGE} promises\n${promised_output}\nbut ${SOURCE} prints\n${output}")
  endif()
endif()

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
    message(FATAL_ERROR "${PAGE} does not show the excerpt of ${file}:\n${excerpt}")
  endif()
endforeach()
