# SPDX-License-Identifier: MIT
# Eigen3::Eigen: the parent project's, else the package, else a download (FETCHCONTENT_SOURCE_DIR_EIGEN names a copy).

if(NOT TARGET Eigen3::Eigen)
  # No version here: asked for 3.4, the package of Eigen 5 says no.
  find_package(Eigen3 CONFIG QUIET)
endif()
if(Eigen3_VERSION AND Eigen3_VERSION VERSION_LESS 3.4)
  message(FATAL_ERROR "posenc needs Eigen 3.4 or newer; found ${Eigen3_VERSION} in ${Eigen3_DIR}")
endif()

if(NOT TARGET Eigen3::Eigen)
  if(NOT FETCHCONTENT_SOURCE_DIR_EIGEN)
    message(NOTICE "posenc: Eigen is not installed, so it is downloaded now. Without network, install it "
            "(Debian: libeigen3-dev; Fedora: eigen3-devel; brew, vcpkg, conda: eigen), or name a copy of its sources "
            "with -D FETCHCONTENT_SOURCE_DIR_EIGEN=<folder>, or where it is installed with -D Eigen3_DIR=<folder "
            "of Eigen3Config.cmake>, or use posenc::core alone, which needs no Eigen: -D POSENC_WITH_EIGEN=OFF.")
  endif()
  include(FetchContent)
  FetchContent_Declare(
    eigen
    GIT_REPOSITORY https://gitlab.com/libeigen/eigen.git
    GIT_TAG 3.4.0
    GIT_SHALLOW TRUE
    # A folder that Eigen does not have: its headers are all we want, not its tests, options and install rules.
    SOURCE_SUBDIR headers-only)
  FetchContent_MakeAvailable(eigen)
  if(NOT TARGET Eigen3::Eigen)
    add_library(Eigen3::Eigen INTERFACE IMPORTED GLOBAL)
    target_include_directories(Eigen3::Eigen INTERFACE "${eigen_SOURCE_DIR}")
  endif()
endif()

target_link_libraries(posenc INTERFACE Eigen3::Eigen)

# The headers of an imported target are system headers; those of a target that a parent project builds are not.
get_target_property(eigen_is_imported Eigen3::Eigen IMPORTED)
if(NOT eigen_is_imported)
  target_include_directories(
    posenc SYSTEM INTERFACE $<BUILD_INTERFACE:$<TARGET_PROPERTY:Eigen3::Eigen,INTERFACE_INCLUDE_DIRECTORIES>>)
endif()
