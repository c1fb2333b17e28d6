# SPDX-License-Identifier: MIT
# Checks of every consumer: what posenc must provide, and what it must not change.

foreach(target posenc::posenc posenc::core posenc::interop)
  foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS LINK_OPTIONS)
    if(TARGET ${target})
      get_target_property(leaked ${target} INTERFACE_${property})
      if(leaked)
        message(FATAL_ERROR "${target} hands its consumers ${property} ${leaked}")
      endif()
    endif()
  endforeach()
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

if(posenc_DIR)
  find_package(posenc 99.0 QUIET)
  if(posenc_FOUND)
    message(FATAL_ERROR "asked for posenc 99.0, got ${posenc_VERSION}")
  endif()
endif()

# Eigen's headers produce warnings under these flags, so they compile only if posenc passes Eigen on
# as a system include.
target_compile_options(app PRIVATE -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror)
