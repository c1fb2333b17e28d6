# SPDX-License-Identifier: MIT
# The Debian package libposenc-dev, for every architecture: the target package, or cpack in the build folder, writes it.

set(deb_name libposenc-dev)
set(deb_eigen "")
if(POSENC_WITH_EIGEN)
  set(deb_eigen "libeigen3-dev (>= 3.4)")
endif()

# Nothing that is installed has to be built, so the package is made without building all.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

# Debian's place for the licence. An ordinary installation leaves it out.
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${deb_name}" RENAME copyright
        COMPONENT posenc_deb EXCLUDE_FROM_ALL)
set(CPACK_INSTALL_CMAKE_PROJECTS
    "${PROJECT_BINARY_DIR};posenc;posenc;/" "${PROJECT_BINARY_DIR};posenc;posenc_deb;/")

set(CPACK_GENERATOR DEB)
set(CPACK_SOURCE_GENERATOR "")  # the repository's own archives are the source packages
set(CPACK_VERBATIM_VARIABLES ON)
# Debian sorts 0.3.0~dev before 0.3.0.
string(REPLACE "-" "~" CPACK_PACKAGE_VERSION "${posenc_version_text}")
set(CPACK_PACKAGE_VENDOR "posenc authors")
if(NOT CPACK_PACKAGE_CONTACT)
  set(CPACK_PACKAGE_CONTACT "posenc authors <posenc@localhost>")
endif()
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/before_packing.cmake")

set(CPACK_DEBIAN_PACKAGE_NAME ${deb_name})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "${deb_eigen}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Sinusoidal, learned and rotary encodings, ALiBi, T5 and others, with attention
and a cache of keys and values. The headers that need no Eigen work without
the recommended package.")

include(CPack)
