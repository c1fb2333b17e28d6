# SPDX-License-Identifier: MIT

# measure(<program> <json>): runs the program; the JSON records the commit of SOURCE_DIR.
function(measure program json)
  execute_process(
    COMMAND git -C "${SOURCE_DIR}" describe --always --dirty
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "unknown")
  endif()
  execute_process(
    COMMAND "${program}" --benchmark_context=commit=${commit} --benchmark_counters_tabular=true
            --benchmark_out_format=json "--benchmark_out=${json}"
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()
