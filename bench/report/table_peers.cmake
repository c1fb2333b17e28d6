# SPDX-License-Identifier: MIT
# Converts the JSON of three runs to OUTPUT_peers.md, with a column for each measured peer.
#   cmake -D OUTPUT=build/bench/bench -P table_peers.cmake    reads OUTPUT_peers_<1 to 3>.json
include("${CMAKE_CURRENT_LIST_DIR}/numbers.cmake")

# Sets <case>_<counter> of every case: its values in the three runs.
set(peers)
set(versions)
foreach(run RANGE 1 3)
  file(READ "${OUTPUT}_peers_${run}.json" json)
  cases(names "${json}")
  preface(where "${json}")
  foreach(name IN LISTS names)
    set(benchmark "${CASES_${name}}")
    string(JSON label ERROR_VARIABLE without_peers GET "${benchmark}" label)
    if(NOT without_peers)
      string(REPLACE "; " ";" label "${label}")
      list(APPEND versions ${label})
    endif()
    string(JSON count LENGTH "${benchmark}")
    math(EXPR last "${count} - 1")
    foreach(i RANGE ${last})
      string(JSON key MEMBER "${benchmark}" ${i})
      if(key MATCHES "^diff_(.*)$")
        list(APPEND peers "${CMAKE_MATCH_1}")
        counter(times "${benchmark}" vs_${CMAKE_MATCH_1} 2)
        list(APPEND ${name}_vs_${CMAKE_MATCH_1} "${times}")
        string(JSON ${name}_${key} GET "${benchmark}" ${key})
      endif()
    endforeach()
    string(JSON nanoseconds GET "${benchmark}" real_time)
    fixed(nanoseconds "${nanoseconds}" 0)
    list(APPEND ${name}_time "${nanoseconds}")
  endforeach()
endforeach()
list(REMOVE_DUPLICATES peers)
list(REMOVE_DUPLICATES versions)
list(JOIN versions "; " versions)

# middle(<variable>): sorts its values and sets <variable>_lowest, _middle, _highest.
function(middle values)
  list(SORT ${values} COMPARE NATURAL)
  foreach(i_and_name IN ITEMS "0;lowest" "1;middle" "2;highest")
    list(POP_FRONT i_and_name i)
    list(GET ${values} ${i} value)
    set(${values}_${i_and_name} "${value}" PARENT_SCOPE)
  endforeach()
endfunction()

set(head "| case | ours |")
set(rule "| --- | ---: |")
foreach(peer IN LISTS peers)
  string(APPEND head " ${peer} |")
  string(APPEND rule " --- |")
endforeach()
set(rows)
foreach(name IN LISTS names)
  middle(${name}_time)
  duration(time "${${name}_time_middle}")
  string(REGEX REPLACE "^peers/" "" row "${name}")
  set(row "| ${row} | ${time} |")
  foreach(peer IN LISTS peers)
    set(cell)
    if(DEFINED ${name}_vs_${peer})
      middle(${name}_vs_${peer})
      set(times "${name}_vs_${peer}")
      set(cell "${${times}_middle} x (${${times}_lowest} to ${${times}_highest})")
      if("${${name}_diff_${peer}}" MATCHES "^([0-9](\\.[0-9])?)[0-9]*e(-)0*([0-9]+)$")
        string(APPEND cell ", ${CMAKE_MATCH_1}e-${CMAKE_MATCH_4}")
      else()
        string(APPEND cell ", ${${name}_diff_${peer}}")
      endif()
    endif()
    string(APPEND row " ${cell} |")
  endforeach()
  string(APPEND rows "${row}\n")
endforeach()

file(
  WRITE "${OUTPUT}_peers.md"
  "${where} Peers: ${versions}.

Time of a call of posenc; how many times faster it is than the peer's, as the median of three runs (lowest and highest in brackets); and the
largest difference of the peer's numbers, as a share of posenc's largest number.

${head}
${rule}
${rows}")
message(STATUS "table: ${OUTPUT}_peers.md")
