# SPDX-License-Identifier: MIT
# bench.json to bench.md, a table of all cases, bench_readme.md, of those that the README shows, and bench.svg, a chart
# (where gnuplot is installed).
#   cmake -D OUTPUT=build/bench/bench -P table.cmake    reads OUTPUT.json
include("${CMAKE_CURRENT_LIST_DIR}/numbers.cmake")

file(READ "${OUTPUT}.json" json)
cases(names "${json}")
preface(where "${json}")

# rows(<out> <regular expression of cases>): the table of some cases.
function(rows out wanted)
  set(table)
  foreach(name IN LISTS names)
    if(NOT name MATCHES "${wanted}")
      continue()
    endif()
    set(benchmark "${CASES_${name}}")
    string(JSON nanoseconds GET "${benchmark}" real_time)
    duration(time "${nanoseconds}")
    counter(rate "${benchmark}" "GB/s" 0)
    foreach(key IN ITEMS vs_limit vs_plain vs_eigen vs_float vs_std_sin)
      counter(${key} "${benchmark}" ${key} 2)
    endforeach()
    set(others)
    if(vs_float)
      list(APPEND others "${vs_float} of float's time")
    endif()
    if(vs_std_sin)
      list(APPEND others "${vs_std_sin} x std::cos, std::sin")
    endif()
    list(JOIN others ", " others)
    foreach(key IN ITEMS vs_plain vs_eigen)
      if(${key})
        string(APPEND ${key} " x")
      endif()
    endforeach()
    string(APPEND table
           "| ${name} | ${time} | ${rate} | ${vs_limit} | ${vs_plain} | ${vs_eigen} | ${others} |\n")
  endforeach()
  set(${out}
      "${where}

Time of a call (median), GB/s read and written, its time beside the limit's (a pass that only moves the same bytes), and how
many times faster it is than a plain loop compiled with the same flags, than Eigen::Tensor expressions, and than others.

| case | time | GB/s | beside the limit | plain loop | Eigen | others |
| --- | ---: | ---: | ---: | ---: | ---: | --- |
${table}"
      PARENT_SCOPE)
endfunction()

rows(all ".")
file(WRITE "${OUTPUT}.md" "${all}")
message(STATUS "all cases: ${OUTPUT}.md")

set(rotary "rotary/llama3_8b/(decode|prefill_512|prefill_4096)/(half|interleaved)/(table|on_the_fly|qk_on_the_fly|bf16_table)")
set(others "rotary/gpt_neox_20b/prefill_512/half/table|rotary/gptj_6b/prefill_512/interleaved/table|batch_64/learned|x_4096/sinusoidal|alibi|angles/table.*")
rows(some "^(${rotary}|.*(${others}))$")
file(WRITE "${OUTPUT}_readme.md" "${some}")
message(STATUS "the README's: ${OUTPUT}_readme.md")

# The chart shows the cases of whole heads that have both peers.
set(chart "case ours plain Eigen\n")
foreach(name IN LISTS names)
  counter(ours "${CASES_${name}}" vs_limit 4)
  counter(plain "${CASES_${name}}" vs_plain 4)
  counter(eigen "${CASES_${name}}" vs_eigen 4)
  if(ours AND plain AND eigen AND NOT name MATCHES "kv_heads|qwen|prefill_16/")
    string(APPEND chart "\"${name}\" ${ours} ${plain} ${eigen}\n")
  endif()
endforeach()

find_program(GNUPLOT gnuplot)
if(NOT GNUPLOT)
  message(STATUS "no chart: gnuplot is not installed")
  return()
endif()
file(WRITE "${OUTPUT}.dat" "${chart}")
execute_process(
  COMMAND "${GNUPLOT}" -e "data='${OUTPUT}.dat'; image='${OUTPUT}.svg'" "${CMAKE_CURRENT_LIST_DIR}/chart.gp"
  COMMAND_ERROR_IS_FATAL ANY)
message(STATUS "chart: ${OUTPUT}.svg")
