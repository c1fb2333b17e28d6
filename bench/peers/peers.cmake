# SPDX-License-Identifier: MIT
# posenc_bench_peers: comparison with each other library that is found. Target bench_peers measures
# them.

set(POSENC_PEERS_PREFIX "" CACHE PATH "Where peers are installed that the system does not have, for POSENC_BENCH_PEERS")

posenc_add_bench(posenc_bench_peers "" peers/cases.cpp)
# Eigen's functions, compiled here for this processor, must not replace those inside a peer's
# library.
set_target_properties(posenc_bench_peers PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

# posenc_add_peer(<name> HEADER <header> LIBRARIES <libraries>... INSTALL <how to get it>
#                 [FOLDER <of headers>] [VERSION_IN <header>] [NEEDS <regular expression>] [WITH <libraries that are always there>...])
# compiles peers/<name>.cpp if its libraries are found, and its header with a line that matches NEEDS.
function(posenc_add_peer name)
  cmake_parse_arguments(PARSE_ARGV 1 peer "" "HEADER;FOLDER;VERSION_IN;NEEDS;INSTALL" "LIBRARIES;WITH")
  set(headers POSENC_PEER_${name}_HEADERS)
  find_path(${headers} ${peer_HEADER} HINTS "${POSENC_PEERS_PREFIX}/include" PATH_SUFFIXES ${peer_FOLDER})
  mark_as_advanced(${headers})
  set(found "${${headers}}")
  set(libraries)
  foreach(library IN LISTS peer_LIBRARIES)
    set(file POSENC_PEER_${name}_${library})
    find_library(${file} ${library} HINTS "${POSENC_PEERS_PREFIX}" PATH_SUFFIXES lib lib64)
    mark_as_advanced(${file})
    list(APPEND libraries "${${file}}")
  endforeach()
  if(found AND peer_NEEDS)
    file(STRINGS "${${headers}}/${peer_HEADER}" found REGEX "${peer_NEEDS}" LIMIT_COUNT 1)
  endif()
  if(NOT found OR "${libraries}" MATCHES "NOTFOUND")
    message(STATUS "peer ${name}: missing; ${peer_INSTALL}")
    return()
  endif()
  set(version "in ${${headers}}")
  if(peer_VERSION_IN)
    file(STRINGS "${${headers}}/${peer_VERSION_IN}" version REGEX "_VERSION_(MAJOR|MINOR|PATCH) +[0-9]|OPENBLAS_VERSION ")
    list(TRANSFORM version REPLACE "^.* ([0-9][0-9.]*).*$" "\\1")
    list(JOIN version "." version)
  endif()
  message(STATUS "peer ${name}: ${version}")
  target_sources(posenc_bench_peers PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/peers/${name}.cpp")
  target_include_directories(posenc_bench_peers SYSTEM PRIVATE "${${headers}}")
  target_link_libraries(posenc_bench_peers PRIVATE ${libraries} ${peer_WITH})
endfunction()

set(from_the_distribution "cmake/install-deps.sh peers installs it")

posenc_add_peer(
  openblas HEADER openblas_config.h FOLDER "${CMAKE_LIBRARY_ARCHITECTURE};openblas"
  VERSION_IN openblas_config.h
  LIBRARIES openblas
  INSTALL "${from_the_distribution}")

posenc_add_peer(
  onednn HEADER oneapi/dnnl/dnnl_version.h
  VERSION_IN oneapi/dnnl/dnnl_version.h
  LIBRARIES dnnl
  WITH gomp
  INSTALL "${from_the_distribution}")

posenc_add_peer(
  onednn_graph HEADER oneapi/dnnl/dnnl_graph.hpp
  VERSION_IN oneapi/dnnl/dnnl_version.h
  LIBRARIES dnnl
  WITH gomp
  INSTALL "oneDNN has it since version 3, as Debian 13")

posenc_add_peer(
  libtorch HEADER ATen/ATen.h
  LIBRARIES torch_cpu c10
  INSTALL "${from_the_distribution}")

# In C++20, vectors instantiate types that are still incomplete in the headers of version 1.
if(NOT EXISTS "${POSENC_PEER_libtorch_HEADERS}/torch/headeronly/version.h")
  set_source_files_properties(peers/libtorch.cpp PROPERTIES COMPILE_OPTIONS "-std=c++17;-Wno-c++20-extensions")
endif()

posenc_add_peer(
  ggml HEADER ggml-backend.h
  LIBRARIES ggml ggml-base
  INSTALL "install one of 2025 or later, shared libraries, into POSENC_PEERS_PREFIX")

posenc_add_peer(
  xnnpack HEADER xnnpack.h
  NEEDS xnn_create_rope_nthc_f32
  LIBRARIES XNNPACK
  INSTALL "install one of 2024 or later, a shared library, into POSENC_PEERS_PREFIX; the distribution's has no rotation")

posenc_add_peer(
  onnxruntime HEADER onnxruntime_c_api.h FOLDER onnxruntime
  LIBRARIES onnxruntime
  INSTALL "put its library, for example of the npm package onnxruntime-node, and onnxruntime_c_api.h into POSENC_PEERS_PREFIX")

# Target bench_peers: three runs; the table is bench_peers.md.
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(
    bench_peers
    COMMAND "${CMAKE_COMMAND}" -D "PROGRAM=$<TARGET_FILE:posenc_bench_peers>" -D "SOURCE_DIR=${PROJECT_SOURCE_DIR}" -D
            "OUTPUT=${PROJECT_BINARY_DIR}/bench" -P "${CMAKE_CURRENT_SOURCE_DIR}/report/run_peers.cmake"
    COMMENT "Other libraries beside posenc"
    USES_TERMINAL VERBATIM)
  add_dependencies(bench_peers posenc_bench_peers)
endif()
