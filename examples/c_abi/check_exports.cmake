# SPDX-License-Identifier: MIT
# Compares the symbols that the library exports with the functions that the header declares.
file(READ "${HEADER}" header)
string(REGEX MATCHALL "POSENC_API [^(]*posenc_[a-z_]+\\(" declarations "${header}")
list(TRANSFORM declarations REPLACE ".*(posenc_[a-z_]+)\\($" "\\1")
list(SORT declarations)
execute_process(COMMAND "${NM}" -D --defined-only "${LIBRARY}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" exports "${output}")
list(TRANSFORM exports REPLACE ".* " "")
list(SORT exports)
if(NOT declarations OR NOT exports STREQUAL declarations)
  message(FATAL_ERROR "The library exports\n  ${exports}\nbut posenc.h declares\n  ${declarations}")
endif()
message("${exports}")
