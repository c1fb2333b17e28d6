# SPDX-License-Identifier: MIT
find_path(CATCH2_MODULE_DIR CatchAddTests.cmake PATHS /usr/lib /usr/share PATH_SUFFIXES cmake/Catch2 REQUIRED)
include("${CATCH2_MODULE_DIR}/Catch.cmake")
