# SPDX-License-Identifier: MIT
# Packs the playground into one page, and its figures of positions and distances into a part of a page for the tour:
# cmake -D MODULE=<wasm> -D OUTPUT=<folder> -D VERSION=<version> -D GZIP=<program> -D BASE64=<program> -P bundle.cmake

cmake_minimum_required(VERSION 3.23)
set(here "${CMAKE_CURRENT_LIST_DIR}")

execute_process(COMMAND "${GZIP}" -9 -n -c "${MODULE}" COMMAND "${BASE64}" -w 0 OUTPUT_VARIABLE library RESULTS_VARIABLE results)
if(NOT results STREQUAL "0;0")
  message(FATAL_ERROR "${MODULE} cannot be packed: ${results}")
endif()

# read_all(<variable> <files>...): joins files of this folder.
function(read_all variable)
  set(all "")
  foreach(name IN LISTS ARGN)
    file(READ "${here}/${name}" content)
    string(APPEND all "${content}")
  endforeach()
  set(${variable} "${all}" PARENT_SCOPE)
endfunction()

# The style is that of the tour's report.
read_all(report_style ../tour/html.cpp)
string(FIND "${report_style}" "style = R\"(" begin)
string(FIND "${report_style}" ")\";" end)
math(EXPR begin "${begin} + 11")
math(EXPR length "${end} - ${begin}")
if(begin LESS 11 OR length LESS 1)
  message(FATAL_ERROR "tour/html.cpp has no text named style")
endif()
string(SUBSTRING "${report_style}" ${begin} ${length} report_style)
read_all(figure_style figures.css)
read_all(page_style page.css)
read_all(figure_scripts library.js draw.js figures.js)
read_all(page_script playground.js)
read_all(tour_script tour.js)

# JSON of names and texts. A config.json has no backslash and no "<".
set(examples "")
foreach(name IN ITEMS llama-3.1-8b gemma-3-4b qwen2.5-7b-yarn gpt-oss-20b deepseek-v3)
  read_all(text ../configs/${name}.json)
  if(text MATCHES "[\\\\<\t]")
    message(FATAL_ERROR "${name}.json needs escapes")
  endif()
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n" text "${text}")
  string(APPEND examples ",\"${name}\":\"${text}\"")
endforeach()
string(SUBSTRING "${examples}" 1 -1 examples)

read_all(page page.html)
string(REPLACE "@STYLE@" "${report_style}${figure_style}${page_style}" page "${page}")
file(RELATIVE_PATH guide "${OUTPUT}" "${here}/../guide")
string(REPLACE "@GUIDE@" "${guide}/" page "${page}")
string(REPLACE "@VERSION@" "${VERSION}" page "${page}")
string(REPLACE "@EXAMPLES@" "{${examples}}" page "${page}")
string(REPLACE "@SCRIPTS@" "${figure_scripts}${page_script}" page "${page}")
string(REPLACE "@LIBRARY@" "${library}" page "${page}")
file(WRITE "${OUTPUT}/playground.html" "${page}")
file(WRITE "${OUTPUT}/figures.html" "<style>\n${figure_style}</style>\n<script type=\"text/plain\" id=\"library\">${library}</script>\n"
     "<script>\n${figure_scripts}${tour_script}</script>\n")
