# SPDX-License-Identifier: MIT
# Converts bench.json to bench.md, a table of all cases, to bench_readme.md, a table of those of bench/results, and to
# bench.svg, a chart (if gnuplot is installed).
#   cmake -D OUTPUT=build/bench/bench -P table.cmake    reads OUTPUT.json
include("${CMAKE_CURRENT_LIST_DIR}/numbers.cmake")

file(READ "${OUTPUT}.json" json)
cases(names "${json}")
preface(where "${json}")

set(of_arithmetic "^(attention|limits/multiply_add)")

# others(<out> <benchmark as JSON>): counters that only some cases have.
function(others out benchmark)
  set(found)
  foreach(
    key_and_text IN
    ITEMS "vs_float;of float's time"
          "vs_unrounded;of the time with unrounded probabilities"
          "vs_contiguous;of the time over memory of its own"
          "vs_std_sin;x std::cos, std::sin"
          "vs_plain_attention;of plain attention's time"
          "vs_one_thread;x one thread"
          "vs_parts;of its parts' time")
    list(POP_FRONT key_and_text key)
    figure(value "${benchmark}" ${key} 2)
    if(value)
      list(APPEND found "${value} ${key_and_text}")
    endif()
  endforeach()
  list(JOIN found ", " found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# times(<out> <benchmark as JSON> <counter>): how many times faster.
function(times out benchmark name)
  figure(value "${benchmark}" ${name} 2)
  if(value)
    string(APPEND value " x")
  endif()
  set(${out} "${value}" PARENT_SCOPE)
endfunction()

# rows(<out> <regular expressions>...): tables of the cases that one of them matches: one of cases
# that move bytes, one of cases that compute.
function(rows out)
  set(moving)
  set(computing)
  foreach(name IN LISTS names)
    set(wanted OFF)
    foreach(expression IN LISTS ARGN)  # one expression would exceed CMake's limit of groups
      if(name MATCHES "^(${expression})$")
        set(wanted ON)
      endif()
    endforeach()
    if(NOT wanted)
      continue()
    endif()
    set(benchmark "${CASES_${name}}")
    time_figure(time "${benchmark}")
    others(others "${benchmark}")
    if(name MATCHES "${of_arithmetic}")
      counter(rate "${benchmark}" flop_rate 0)
      figure(of_fma_peak "${benchmark}" of_fma_peak 2)
      figure(of_read_bandwidth "${benchmark}" of_read_bandwidth 2)
      counter(workspace "${benchmark}" workspace_kib 0)
      times(vs_naive "${benchmark}" vs_naive)
      string(
        APPEND computing
        "| ${name} | ${time} | ${rate} | ${of_fma_peak} | ${of_read_bandwidth} | ${vs_naive} | ${workspace} | ${others} |\n")
    else()
      counter(rate "${benchmark}" "GB/s" 0)
      figure(vs_limit "${benchmark}" vs_limit 2)
      times(vs_plain "${benchmark}" vs_plain)
      times(vs_eigen "${benchmark}" vs_eigen)
      string(APPEND moving "| ${name} | ${time} | ${rate} | ${vs_limit} | ${vs_plain} | ${vs_eigen} | ${others} |\n")
    endif()
  endforeach()
  set(${out}
      "${where}

The columns are: time of a call (median, and half of the distance between the quartiles, as everywhere below); GB/s read and written;
time divided by that of the limit (a pass that only moves the same bytes, the fastest of several); and how many times faster the call is
than a plain loop compiled with the same flags, than Eigen::Tensor expressions, and than others.

| case | time | GB/s | beside the limit | plain loop | Eigen | others |
| --- | ---: | ---: | ---: | ---: | ---: | --- |
${moving}
Columns for attention: time of a call (median); useful GFLOP/s (4 operations per feature, head and visible query-key pair, a causal prompt
counts S^2 / 2 pairs); their share of the peak of multiply-adds in registers; for single tokens, the share of the bandwidth at which the
same bytes can be read and added up; how many times faster than naive Eigen (two products with a softmax between them, one head after the
other); and KiB of scratch memory. Ratios to plain attention are per useful operation.

| case | time | GFLOP/s | of the peak | of the bandwidth | naive Eigen | KiB | others |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
${computing}"
      PARENT_SCOPE)
endfunction()

rows(all ".*")
file(WRITE "${OUTPUT}.md" "${all}")
message(STATUS "all cases: ${OUTPUT}.md")

set(rotary "rotary/llama3_8b/(decode|prefill_512|prefill_4096)/(half|interleaved)/(table|on_the_fly|qk_on_the_fly|bf16_table)")
set(others "rotary/gpt_neox_20b/prefill_512/half/table|rotary/gptj_6b/prefill_512/interleaved/table|batch_64/learned|x_4096/sinusoidal|alibi|angles/table.*")
set(attention "attention/(module/.*|llama3_8b/.*|llama2_7b/(prefill_(128|1024|4096)|decode_4096(/bf16_cache)?))")
rows(some "${rotary}" "((additive|bias)/.*)?(${others})" "${attention}")
file(WRITE "${OUTPUT}_readme.md" "${some}")
message(STATUS "those of results: ${OUTPUT}_readme.md")

# The chart shows the cases with full heads and both baselines.
set(chart "case ours plain Eigen\n")
foreach(name IN LISTS names)
  counter(ours "${CASES_${name}}" vs_limit 4)
  counter(plain "${CASES_${name}}" vs_plain 4)
  counter(eigen "${CASES_${name}}" vs_eigen 4)
  if(ours AND plain AND eigen AND NOT name MATCHES "kv_heads|qwen|prefill_16/")
    string(APPEND chart "\"${name}\" ${ours} ${plain} ${eigen}\n")
  endif()
endforeach()

chart("${OUTPUT}" "${chart}" chart.gp)
