# SPDX-License-Identifier: MIT
# Replaces the generated sections of bench/README.md by the tables of the last run. Section <name> is between the lines
# "<!-- measured: <name> on <maker> -->" and "<!-- end of <name> on <maker> -->", for the processor's maker: the first word of
# the tables.
#   cmake -D OUTPUT=build/bench/bench -P readme.cmake    reads OUTPUT_readme.md and, if it is there, OUTPUT_peers.md
set(page "${CMAKE_CURRENT_LIST_DIR}/../README.md")
file(READ "${page}" text)

foreach(section_and_file IN ITEMS "tables;${OUTPUT}_readme.md" "peers;${OUTPUT}_peers.md")
  list(POP_FRONT section_and_file section)
  if(NOT EXISTS "${section_and_file}")
    message(STATUS "section ${section} stays: no ${section_and_file}")
    continue()
  endif()
  file(READ "${section_and_file}" table)
  string(REGEX MATCH "^[A-Za-z]+" maker "${table}")
  string(APPEND section " on ${maker}")
  set(start "<!-- measured: ${section} -->\n")
  set(end "<!-- end of ${section} -->")
  string(FIND "${text}" "${start}" from)
  string(FIND "${text}" "${end}" to)
  if(from LESS 0 OR to LESS from)
    message(FATAL_ERROR "README.md has no section ${section}")
  endif()
  string(LENGTH "${start}" length)
  math(EXPR from "${from} + ${length}")
  string(SUBSTRING "${text}" 0 ${from} before)
  string(SUBSTRING "${text}" ${to} -1 after)
  set(text "${before}\n${table}\n${after}")
  message(STATUS "section ${section}: from ${section_and_file}")
endforeach()
file(WRITE "${page}" "${text}")
