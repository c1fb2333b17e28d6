# SPDX-License-Identifier: MIT
# Runs ring_attention with valid and invalid command lines, and with ranks that are late or lost.
# cmake -D LAUNCHER=<mpirun and its flags> -D PROGRAM=<program> -P check.cmake

cmake_minimum_required(VERSION 3.23)

# run(<ranks> <status> <regex of output and errors> <arguments>...): sets `output` to both. A run that hangs is an error.
function(run ranks status regex)
  execute_process(COMMAND ${LAUNCHER} -n ${ranks} "${PROGRAM}" ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE errors TIMEOUT 60)
  string(APPEND output "${errors}")
  if(NOT result STREQUAL status OR NOT output MATCHES "${regex}")
    message(SEND_ERROR "ring_attention ${ARGN}, ${ranks} ranks: status ${result}, not ${status}, or no '${regex}' in\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# bits_of(<variable> <words before them>): sets the variable to the bits in the output.
function(bits_of variable words)
  if(NOT output MATCHES "${words} +([0-9a-f]+)")
    message(SEND_ERROR "no '${words}' in\n${output}")
  endif()
  set(${variable} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

function(expect_same what first second)
  if(NOT first STREQUAL second)
    message(SEND_ERROR "${what}: ${first} and ${second} should be the same bits")
  endif()
endfunction()

# A prime number of tokens, which no number of ranks divides. The layer is small, because tests are
# compiled without optimisation.
set(sequence --tokens 523 --heads 4 --kv-heads 2 --head-dim 32)
set(well "output: [0-9a-f]+, the same twice.*within merge's bound.*gradients: +[0-9a-f]+, the same twice.*within what is allowed")
run(1 0 "${well}" ${sequence})
bits_of(one "bits of the output:")
bits_of(one_back "bits of the gradients:")
foreach(ranks IN ITEMS 3 4)
  run(${ranks} 0 "${well}" ${sequence})
  bits_of(one_again "of one process:")
  expect_same("one process, as ${ranks} ranks have it" "${one}" "${one_again}")
  bits_of(one_again "gradients of one process:")
  expect_same("gradients of one process, as ${ranks} ranks have it" "${one_back}" "${one_again}")
endforeach()
bits_of(four "bits of the output:")
bits_of(four_back "bits of the gradients:")
run(4 0 "${well}" ${sequence} --threads 2)
bits_of(four_again "bits of the output:")
expect_same("four ranks, twice" "${four}" "${four_again}")
bits_of(four_again "bits of the gradients:")
expect_same("gradients of four ranks, twice" "${four_back}" "${four_again}")
run(4 0 "${well}" --tokens 4 --heads 3 --kv-heads 1 --head-dim 6)
run(4 0 "the same twice.*the same twice.*pays from tokens.*pays from tokens" --tokens 64 --no-check)

foreach(rank IN ITEMS 0 2)
  run(4 1 "waited 4 s in vain: [^\n]*rank ${rank} has not (sent|taken) the keys of rank [0-9] in step 0" ${sequence} --limit 4 --fault sleep:${rank})
  # In most cases mpirun detects it first.
  run(4 1 "rank ${rank} |BAD TERMINATION" ${sequence} --limit 2 --fault exit:${rank})
endforeach()

run(1 0 "^mpirun -n RANKS.*exit status" --help)
run(2 2 "unknown option --size" --size 3)
run(1 2 "--tokens needs a value" --tokens)
run(4 2 "--tokens must be at least the number of ranks, 4, but is 3" --tokens 3)
run(1 2 "--kv-heads must divide --heads, 8, but is 3" --kv-heads 3)
run(1 2 "--limit needs a number from 0.001 to [0-9e+]+, not nan" --limit nan)
