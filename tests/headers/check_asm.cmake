# SPDX-License-Identifier: MIT
# Inline assembly must be guarded by the architecture that it is written for: cmake -D INCLUDE_DIR=<repository>/include -P
# check_asm.cmake
#
# Each `asm` must be in a branch of #if that requires one of the macros below, or a macro of posenc that is 1 only in such
# branches of its own header. A compiler's macro does not count, because clang++ and g++ compile for all architectures. The
# one exception is empty assembly with a memory operand, "+m", because every architecture has that constraint.

cmake_minimum_required(VERSION 3.23)

set(architecture "defined\\((__x86_64__|__i386__|__aarch64__|__arm__|__riscv|__powerpc__|__s390x__|__wasm__)\\)")

# Sets `result` to true if `condition` is false for all architectures except some of those above.
# One term of a conjunction must name the architecture and nothing else; nested conditions are not
# recognised as guards.
function(names_architecture condition derived result)
  set(term "${architecture}")
  foreach(macro IN LISTS derived)
    string(APPEND term "|${macro}")
  endforeach()
  set(${result} OFF PARENT_SCOPE)
  if(condition MATCHES "! *\\(")
    return()
  endif()
  string(REPLACE "&&" ";" parts "${condition}")
  list(LENGTH parts count)
  set(named OFF)
  foreach(part IN LISTS parts)
    string(STRIP "${part}" part)
    if(part MATCHES "^(${term})$" OR part MATCHES "^\\((${term})( *\\|\\| *(${term}))*\\)$"
       OR (count EQUAL 1 AND part MATCHES "^(${term})( *\\|\\| *(${term}))*$"))
      set(named ON)
    elseif(part MATCHES "\\|\\|" AND NOT part MATCHES "^\\(.*\\)$")
      return()
    endif()
  endforeach()
  set(${result} ${named} PARENT_SCOPE)
endfunction()

set(found 0)
file(GLOB_RECURSE headers RELATIVE "${INCLUDE_DIR}" "${INCLUDE_DIR}/posenc/*.hpp")
foreach(header IN LISTS headers)
  file(READ "${INCLUDE_DIR}/${header}" text)
  if(NOT text MATCHES "[^A-Za-z0-9_](__asm__|__asm|asm)[^A-Za-z0-9_]")
    continue()
  endif()
  string(REGEX REPLACE "\\\\\n" " " text "${text}")  # continued lines
  string(REGEX REPLACE "[][;]" " " text "${text}")  # characters that CMake lists cannot hold
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "/\\*[^*]*\\*/" "" text "${text}")
  string(REPLACE "\n" ";" lines "${text}")

  set(guards)  # ON or OFF for each #if around a line
  set(derived)
  foreach(line IN LISTS lines)
    if(line MATCHES "^ *# *(if|ifdef|ifndef|elif|else|endif) *(.*)$")
      set(directive "${CMAKE_MATCH_1}")
      string(STRIP "${CMAKE_MATCH_2}" condition)
      if(directive MATCHES "^(elif|else|endif)$")
        list(POP_BACK guards)
      endif()
      if(directive STREQUAL "ifdef")
        set(condition "defined(${condition})")
      endif()
      if(directive MATCHES "^(if|ifdef|elif)$")
        names_architecture("${condition}" "${derived}" guard)
        list(APPEND guards ${guard})
      elseif(NOT directive STREQUAL "endif")
        list(APPEND guards OFF)
      endif()
    elseif(line MATCHES "^ *# *define +(POSENC_[A-Z0-9_]+) +([^ ]+)")
      if(ON IN_LIST guards AND CMAKE_MATCH_2 STREQUAL "1")
        list(APPEND derived "${CMAKE_MATCH_1}")
      elseif(NOT CMAKE_MATCH_2 STREQUAL "0")
        list(REMOVE_ITEM derived "${CMAKE_MATCH_1}")
      endif()
    elseif(line MATCHES "(^|[^A-Za-z0-9_])(__asm__|__asm|asm)[^A-Za-z0-9_]")
      math(EXPR found "${found} + 1")
      if(NOT ON IN_LIST guards AND NOT line MATCHES "asm\\(\"\" : \"\\+m\"\\(")
        string(STRIP "${line}" line)
        message(SEND_ERROR "${header}: no architecture guards: ${line}")
      endif()
    endif()
  endforeach()
endforeach()
if(found LESS 5)
  message(SEND_ERROR "only ${found} lines of inline assembly found under ${INCLUDE_DIR}")
endif()
