# SPDX-License-Identifier: MIT
# Flags of posenc's own tests, benches and examples. They live on a private target and are never exported.

option(POSENC_WERROR "Treat warnings in posenc's own code as errors" OFF)
option(POSENC_CHECKED "Compile tests, benches and examples with POSENC_CHECKED=1" OFF)
option(POSENC_FULL_TESTS "Run at length what is otherwise a sample that a seed draws: .ci/run --full" OFF)
option(POSENC_CI_TESTS
       "Add the tests that guard more than a change: bits of all levels, linked levels, compile errors, the survey of accuracy" ON)
option(POSENC_NATIVE "Compile tests, benches and examples with -march=native" OFF)

find_package(Threads REQUIRED)  # for Eigen's ThreadPoolDevice; the library itself owns no threads

add_library(posenc_dev INTERFACE)
target_link_libraries(posenc_dev INTERFACE posenc::posenc Threads::Threads)
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options(
    posenc_dev
    INTERFACE -Wall
              -Wextra
              -Wpedantic
              -Wconversion
              -Wsign-conversion
              -Wshadow
              -Wold-style-cast
              -Wdouble-promotion
              $<$<BOOL:${POSENC_WERROR}>:-Werror>
              $<$<BOOL:${POSENC_NATIVE}>:-march=native>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # Optimising, g++ 12 warns of its own headers: of std::string (PR 105329) and of the AVX-512 intrinsics (PR 105593). The
  # library's pragmas against the latter are lost where it is precompiled, as it is for the tests.
  target_compile_options(
    posenc_dev INTERFACE -Wno-restrict $<$<BOOL:${POSENC_NATIVE}>:-Wno-uninitialized;-Wno-maybe-uninitialized>)
endif()
target_compile_definitions(posenc_dev INTERFACE $<$<BOOL:${POSENC_CHECKED}>:POSENC_CHECKED=1>)

# Fetched code is not ours to warn about: CMake takes its headers for system headers only from 3.25 on, and if asked.
function(posenc_system_headers target)
  get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
  set_target_properties(${target} PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${directories}")
endfunction()

# Most of the time goes into instantiating the same templates for each source. To be joined, what a source has for itself is in a
# namespace of its file's name.
set(POSENC_JOIN_SOURCES 1 CACHE STRING "How many sources of a test or an example are compiled as one unit")

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A tenth of the time of a short unit, and a sixth of a long one's, goes into looking for memory that is free again; so not
  # below a gigabyte.
  target_compile_options(posenc_dev INTERFACE --param=ggc-min-heapsize=1000000)
endif()

# posenc_join_sources(<target>): of units that are about equally long.
function(posenc_join_sources target)
  if(POSENC_JOIN_SOURCES LESS_EQUAL 1)
    return()  # so that clangd finds each source in the compilation database
  endif()
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  math(EXPR units "(${count} + ${POSENC_JOIN_SOURCES} - 1) / ${POSENC_JOIN_SOURCES}")
  math(EXPR sources_per_unit "(${count} + ${units} - 1) / ${units}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${sources_per_unit})
endfunction()

# What computes for longer than it takes to optimise it.
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  set(optimised $<$<CONFIG:Debug>:-O1>)
endif()
