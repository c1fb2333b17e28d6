# SPDX-License-Identifier: MIT
# Headers, CMake package and pkg-config file. Nothing depends on the architecture, and the tree may be moved.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/posenc")
set(pkgconfig_dir "${CMAKE_INSTALL_DATADIR}/pkgconfig")

install(TARGETS posenc EXPORT posencTargets FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT posencTargets NAMESPACE posenc:: DESTINATION "${package_dir}")

configure_package_config_file(
  cmake/posencConfig.cmake.in "${PROJECT_BINARY_DIR}/posencConfig.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/posencConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/posencConfig.cmake" "${PROJECT_BINARY_DIR}/posencConfigVersion.cmake"
        DESTINATION "${package_dir}")

file(RELATIVE_PATH prefix_from_pc "${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
file(RELATIVE_PATH include_from_prefix "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file(cmake/posenc.pc.in "${PROJECT_BINARY_DIR}/posenc.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/posenc.pc" DESTINATION "${pkgconfig_dir}")

install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
