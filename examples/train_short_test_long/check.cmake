# SPDX-License-Identifier: MIT
# Runs train_short_test_long with valid and invalid command lines, and with a run that is stopped and resumed.
# cmake -D PROGRAM=<program> -D SCRATCH=<folder> -P check.cmake

cmake_minimum_required(VERSION 3.23)
file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${SCRATCH}")

# expect(<status> <regex of output and errors> <arguments>...)
function(expect status regex)
  execute_process(COMMAND "${PROGRAM}" ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT result STREQUAL status OR NOT "${output}${errors}" MATCHES "${regex}")
    message(SEND_ERROR "train_short_test_long ${ARGN}: status ${result}, not ${status}, or no '${regex}' in\n"
                       "${output}${errors}")
  endif()
endfunction()

# RoPE has further trainings, one of which is stopped, and the learned table throws. One model is
# trained to the end, one has not begun.
set(smoke --budget smoke --methods learned,rope,kerple)
expect(0 "learned table +[0-9.]+ +refused +refused +refused" ${smoke} --threads 1 --out "${SCRATCH}/whole")
foreach(steps IN ITEMS 40 173)
  expect(130 "stopped in step [0-9]+ of .*--resume" ${smoke} --out "${SCRATCH}/parts" --resume --stop-after ${steps})
endforeach()
expect(0 "rope further with dynamic NTK" ${smoke} --threads 3 --out "${SCRATCH}/parts" --resume)
file(READ "${SCRATCH}/whole/results.csv" whole)
file(READ "${SCRATCH}/parts/results.csv" parts)
if(NOT whole STREQUAL parts)
  message(SEND_ERROR "A run that was stopped twice, on other threads, has other results:\n${whole}\nand\n${parts}")
endif()
if(NOT whole MATCHES "\nlearned,,no,1,64,\nlearned" OR NOT whole MATCHES "\nrope,YaRN,yes,1,256,[0-9.]+\n")
  message(SEND_ERROR "results.csv lacks what it should have:\n${whole}")
endif()

# A user's text, and checkpoints that belong to another one.
set(text "${SCRATCH}/text")
string(REPEAT "All work and no play makes Jack a dull boy.\n" 5000 content)
file(WRITE "${text}" "${content}")
set(small --budget smoke --methods nope --text "${text}" --out "${SCRATCH}/text_results")
expect(0 "1 files of 198,000 bytes to train on" ${small})
expect(1 "nope_1.checkpoint belongs to a run with other settings" --budget smoke --methods nope --resume --out
       "${SCRATCH}/text_results")
# Random letters have no structure except their frequencies.
string(RANDOM LENGTH 200000 RANDOM_SEED 1 content)
file(WRITE "${SCRATCH}/letters" "${content}")
expect(1 "no better than the frequencies of bytes: nope" --budget smoke --methods nope --text "${SCRATCH}/letters" --out
       "${SCRATCH}/letters_results")
file(WRITE "${SCRATCH}/short" "too short")
expect(1 "there is too little text: " --text "${SCRATCH}/short" --out "${SCRATCH}/no")
expect(1 "cannot read the file .*absent" --text "${SCRATCH}/absent" --out "${SCRATCH}/no")
expect(1 "cannot make the folder" ${smoke} --out "${text}")

expect(0 "^train_short_test_long .options.*exit status" --help)
expect(2 "unknown option --size.*exit status" --size 3)
expect(2 "--budget needs smoke, default or long, not short" --budget short)
expect(2 "--budget needs a value" --budget)
expect(2 "there is no method rotary" --methods rope,rotary)
expect(2 "--threads needs a number from 1 to 4, not 0" --threads 0)
