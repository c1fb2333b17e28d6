# SPDX-License-Identifier: MIT
# What every consumer does once it has posenc::posenc, and what posenc must not have done to it.

foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS LINK_OPTIONS)
  get_target_property(leaked posenc::posenc INTERFACE_${property})
  if(leaked)
    message(FATAL_ERROR "posenc::posenc hands its consumers ${property} ${leaked}")
  endif()
endforeach()
foreach(variable CMAKE_BUILD_TYPE CMAKE_CXX_FLAGS CMAKE_CXX_STANDARD BUILD_TESTING)
  if(NOT "${${variable}}" STREQUAL "")
    message(FATAL_ERROR "${variable} was empty before posenc came; now it is '${${variable}}'")
  endif()
endforeach()
foreach(target posenc_dev posenc_tests tour bench)
  if(TARGET ${target})
    message(FATAL_ERROR "posenc brought its own target ${target}")
  endif()
endforeach()

add_executable(app "${CMAKE_CURRENT_LIST_DIR}/main.cpp" "${CMAKE_CURRENT_LIST_DIR}/other.cpp")
target_link_libraries(app PRIVATE posenc::posenc)
# Eigen's headers do not stand these: they pass only where posenc hands Eigen on as a system include.
target_compile_options(app PRIVATE -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror)
