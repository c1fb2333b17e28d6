# SPDX-License-Identifier: MIT
# Headers, CMake package and pkg-config files: the component posenc. The licence is a component of its own, because packages
# have other places for it. Nothing but posenc::compiled depends on the architecture, and the tree may be moved.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/posenc")
set(pkgconfig_dir "${CMAKE_INSTALL_DATADIR}/pkgconfig")

install(TARGETS posenc_core EXPORT posencCoreTargets
        FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT posenc)
install(EXPORT posencCoreTargets NAMESPACE posenc:: DESTINATION "${package_dir}" COMPONENT posenc)
install(TARGETS posenc_interop EXPORT posencInteropTargets)
install(EXPORT posencInteropTargets NAMESPACE posenc:: DESTINATION "${package_dir}" COMPONENT posenc)
if(POSENC_WITH_EIGEN)
  install(TARGETS posenc EXPORT posencTargets)
  install(EXPORT posencTargets NAMESPACE posenc:: DESTINATION "${package_dir}" COMPONENT posenc)
  if(POSENC_BUILD_COMPILED)
    install(TARGETS posenc_compiled EXPORT posencCompiledTargets COMPONENT posenc)
    install(EXPORT posencCompiledTargets NAMESPACE posenc:: DESTINATION "${package_dir}" COMPONENT posenc)
  endif()
endif()

configure_package_config_file(
  cmake/posencConfig.cmake.in "${PROJECT_BINARY_DIR}/posencConfig.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
configure_file(cmake/posencConfigVersion.cmake.in "${PROJECT_BINARY_DIR}/posencConfigVersion.cmake" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/posencConfig.cmake" "${PROJECT_BINARY_DIR}/posencConfigVersion.cmake"
        DESTINATION "${package_dir}" COMPONENT posenc)

file(RELATIVE_PATH prefix_from_pc "${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
file(RELATIVE_PATH include_from_prefix "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file(cmake/posenc-core.pc.in "${PROJECT_BINARY_DIR}/posenc-core.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/posenc-core.pc" DESTINATION "${pkgconfig_dir}" COMPONENT posenc)

if(POSENC_WITH_EIGEN)
  # Eigen's headers are somebody else's, and -isystem says so; MSVC and downloaded copies have no such path.
  set(pc_requires "Requires: eigen3 >= 3.4")
  set(pc_eigen "")
  if(Eigen3_DIR AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
    get_target_property(eigen_directories Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)
    if(IS_DIRECTORY "${eigen_directories}")
      set(pc_requires "# Eigen ${Eigen3_VERSION}, at --define-variable=eigen_includedir=<folder> if it moves")
      set(pc_eigen " -isystem \${eigen_includedir}")
    endif()
  endif()
  configure_file(cmake/posenc.pc.in "${PROJECT_BINARY_DIR}/posenc.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/posenc.pc" DESTINATION "${pkgconfig_dir}" COMPONENT posenc)
endif()

install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT posenc_license)
