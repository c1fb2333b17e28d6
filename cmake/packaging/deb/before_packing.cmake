# SPDX-License-Identifier: MIT
# CPack runs this script on the files that it is about to pack.

set(usr "${CPACK_TEMPORARY_INSTALL_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX}")

# A folder of Eigen that the package manager of another machine does not fill.
file(GLOB_RECURSE pc_files "${usr}/*/posenc.pc")
foreach(pc_file IN LISTS pc_files)
  file(STRINGS "${pc_file}" eigen REGEX "^eigen_includedir=.")
  if(eigen AND NOT eigen STREQUAL "eigen_includedir=/usr/include/eigen3")
    message(FATAL_ERROR "The package would look for Eigen where only this machine has it: ${eigen}. Configure with the Eigen "
            "of libeigen3-dev, in /usr/include/eigen3.")
  endif()
endforeach()

# Debian's policy asks for a changelog in its own format.
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(changelog "${CPACK_TOPLEVEL_DIRECTORY}/changelog")
file(WRITE "${changelog}" "${CPACK_DEBIAN_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}: see CHANGELOG.md of the sources.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
file(ARCHIVE_CREATE OUTPUT "${usr}/share/doc/${CPACK_DEBIAN_PACKAGE_NAME}/changelog.gz" PATHS "${changelog}"
     FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
