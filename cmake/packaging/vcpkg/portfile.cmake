# SPDX-License-Identifier: MIT
# An overlay port of the checkout that it lies in: vcpkg install posenc --overlay-ports=<checkout>/cmake/packaging/vcpkg.
# A port of vcpkg's registry sets SOURCE_PATH by vcpkg_from_github() instead.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(VCPKG_BUILD_TYPE release)  # headers are the same in both configurations

vcpkg_check_features(OUT_FEATURE_OPTIONS feature_options FEATURES eigen POSENC_WITH_EIGEN)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${feature_options}
    -DPOSENC_BUILD_TESTS=OFF
    -DPOSENC_BUILD_BENCH=OFF
    -DPOSENC_BUILD_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/posenc)

if("eigen" IN_LIST FEATURES)
  # Eigen's headers are beside posenc's, wherever the installed tree is moved to.
  vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/share/pkgconfig/posenc.pc"
    "eigen_includedir=[^\n]*" "eigen_includedir=\${includedir}/eigen3" REGEX)
endif()
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib" "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
