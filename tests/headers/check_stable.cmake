# SPDX-License-Identifier: MIT
# Types that are the same under all flags must have no function that depends on flags: cmake -D
# INCLUDE_DIR=<repository>/include -P check_stable.cmake. Between POSENC_STABLE_BEGIN and
# POSENC_STABLE_END every struct must have a static_assert that it is trivially copyable. Errors are
# exempt, because other units must be able to catch them.

cmake_minimum_required(VERSION 3.23)

set(structs 0)
file(GLOB_RECURSE headers RELATIVE "${INCLUDE_DIR}" "${INCLUDE_DIR}/posenc/*.hpp")
foreach(header IN LISTS headers)
  if(header MATCHES "core/(config|error)\\.hpp$")
    continue()
  endif()
  set(stable OFF)
  file(STRINGS "${INCLUDE_DIR}/${header}" lines REGEX "^(POSENC_STABLE_BEGIN|POSENC_STABLE_END|struct |class |template|.*inline |static_assert)")
  foreach(line IN LISTS lines)
    if(line MATCHES "^POSENC_STABLE_(BEGIN|END)")
      string(COMPARE EQUAL "${CMAKE_MATCH_1}" BEGIN stable)
      if(NOT stable AND unchecked)
        message(SEND_ERROR "${header}: no static_assert(std::is_trivially_copyable_v<...>) for ${unchecked}")
      endif()
      set(unchecked)
    elseif(stable AND line MATCHES "^(struct|class) ([A-Za-z0-9_]+)")
      list(APPEND unchecked "${CMAKE_MATCH_2}")
      math(EXPR structs "${structs} + 1")
    elseif(stable AND line MATCHES "^static_assert\\(std::is_trivially_copyable_v<([A-Za-z0-9_]+)>")
      list(REMOVE_ITEM unchecked "${CMAKE_MATCH_1}")
    elseif(stable AND line MATCHES "template|inline " AND NOT line MATCHES "POSENC_ALWAYS_INLINE")
      message(SEND_ERROR "${header}: a function or template whose code depends on the flags belongs to POSENC_BEGIN: ${line}")
    endif()
  endforeach()
endforeach()
if(structs LESS 20)
  message(SEND_ERROR "only ${structs} structs found under ${INCLUDE_DIR}")
endif()
