# SPDX-License-Identifier: MIT
# posenc::compiled: the instantiations that most programs need, as a library of the same headers. It is built if something links
# it, or with all if POSENC_BUILD_COMPILED is on, which also installs it.

option(POSENC_BUILD_COMPILED "Build posenc::compiled, and install it" OFF)
set(POSENC_COMPILED_OPTIONS "" CACHE STRING
    "Compiler options for posenc::compiled and for all that links it, such as -march=x86-64-v3")

# In parts, so that a test waits only for what it calls.
set(attention_sources cmake/compiled/linear.cpp)
foreach(type float double half bfloat16)
  list(APPEND attention_sources cmake/compiled/attention_${type}.cpp cmake/compiled/backward_${type}.cpp
       cmake/compiled/cache_${type}.cpp)
endforeach()
add_library(posenc_compiled_attention OBJECT EXCLUDE_FROM_ALL ${attention_sources})
add_library(posenc_compiled_readers OBJECT EXCLUDE_FROM_ALL cmake/compiled/hf_config.cpp cmake/compiled/model_files.cpp)
add_library(posenc_compiled_rotation OBJECT EXCLUDE_FROM_ALL
  cmake/compiled/ropes.cpp cmake/compiled/rotation_half.cpp cmake/compiled/rotation_interleaved.cpp)
set(compiled_parts posenc_compiled_attention posenc_compiled_readers posenc_compiled_rotation)
list(TRANSFORM compiled_parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE compiled_objects)

if(POSENC_BUILD_COMPILED)
  add_library(posenc_compiled ${compiled_objects})
else()
  add_library(posenc_compiled EXCLUDE_FROM_ALL ${compiled_objects})
endif()
add_library(posenc::compiled ALIAS posenc_compiled)
set_target_properties(posenc_compiled PROPERTIES EXPORT_NAME compiled VERSION ${PROJECT_VERSION}
                                                 SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
foreach(target IN ITEMS posenc_compiled ${compiled_parts})
  target_link_libraries(${target} PUBLIC posenc)
  # What changes the bodies of functions is passed on. Where it differs nevertheless, names differ, and linking fails.
  target_compile_definitions(${target} PUBLIC POSENC_COMPILED=1 $<$<BOOL:${POSENC_CHECKED}>:POSENC_CHECKED=1>)
  target_compile_options(${target} PUBLIC ${POSENC_COMPILED_OPTIONS})
  target_compile_definitions(${target} PRIVATE POSENC_DETAIL_DEFINES_READERS=1)
  if(BUILD_SHARED_LIBS)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
endforeach()
