# SPDX-License-Identifier: MIT
# Catch2::Catch2 and catch_discover_tests(): the package (2.13 or 3), else a download
# (FETCHCONTENT_SOURCE_DIR_CATCH2 names a copy).

find_package(Catch2 CONFIG QUIET)
if(NOT TARGET Catch2::Catch2)
  if(NOT FETCHCONTENT_SOURCE_DIR_CATCH2)
    message(NOTICE "posenc: Catch2 is not installed, so it is downloaded now. Without network, install it (Debian: "
            "catch2), or build without tests: -D POSENC_BUILD_TESTS=OFF.")
  endif()
  include(FetchContent)
  FetchContent_Declare(
    catch2
    GIT_REPOSITORY https://github.com/catchorg/Catch2.git
    GIT_TAG v3.7.1
    GIT_SHALLOW TRUE)
  FetchContent_MakeAvailable(catch2)
  posenc_system_headers(Catch2)
  list(APPEND CMAKE_MODULE_PATH "${catch2_SOURCE_DIR}/extras" "${catch2_SOURCE_DIR}/contrib")  # of 3, of 2.13
elseif(Catch2_VERSION VERSION_LESS 2.13)
  message(FATAL_ERROR "posenc's tests need Catch2 2.13 or newer; found ${Catch2_VERSION} in ${Catch2_DIR}")
endif()
include(Catch)
