# SPDX-License-Identifier: MIT
# Compares what packages and citations say of posenc with the sources: cmake -D SOURCE_DIR=<posenc> -P check_metadata.cmake.
# The version is that of core/version.hpp, and the licence that of LICENSE. Files that are not here read them from there.

file(READ "${SOURCE_DIR}/include/posenc/core/version.hpp" header)
string(REGEX MATCH "MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*SUFFIX \"([^\"]*)\"" numbers "${header}")
set(version "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}${CMAKE_MATCH_4}")
file(STRINGS "${SOURCE_DIR}/LICENSE" license LIMIT_COUNT 1)
if(NOT license MATCHES "^([A-Za-z0-9.-]+) License$")
  message(FATAL_ERROR "LICENSE does not begin with the licence's name: ${license}")
endif()
set(license "${CMAKE_MATCH_1}")

set(failures "")
# check(<file> <regular expression with one group> <expected>): the file must say it once.
function(check name pattern expected)
  file(READ "${SOURCE_DIR}/${name}" text)
  string(REGEX MATCHALL "${pattern}" found "${text}")
  list(LENGTH found count)
  string(REGEX MATCH "${pattern}" found "${text}")
  if(NOT count EQUAL 1 OR NOT CMAKE_MATCH_1 STREQUAL expected)
    string(APPEND failures "\n  ${name}: '${CMAKE_MATCH_1}', ${count} times, and not '${expected}' once")
    set(failures "${failures}" PARENT_SCOPE)
  endif()
endfunction()

check(CITATION.cff "\nversion: ([^\n]*)" "${version}")
check(CITATION.cff "\nlicense: ([^\n]*)" "${license}")
check(cmake/packaging/bazel/MODULE.bazel "\n    version = \"([^\"]*)\",\n\\)" "${version}")
check(cmake/packaging/conan/conanfile.py "\n    license = \"([^\"]*)\"" "${license}")
check(cmake/packaging/meson/packagefiles/posenc/meson.build "project\\([^)]* version: '([^']*)'" "${version}")
check(cmake/packaging/meson/packagefiles/posenc/meson.build "project\\([^)]* license: '([^']*)'" "${license}")
check(cmake/packaging/spack/package.py "\n    license\\(\"([^\"]*)\"" "${license}")
check(cmake/packaging/vcpkg/vcpkg.json "\"version-semver\": \"([^\"]*)\"" "${version}")
check(cmake/packaging/vcpkg/vcpkg.json "\"license\": \"([^\"]*)\"" "${license}")

# A tag of posenc that a page or recipe names must exist; those of other projects are in cmake/*.cmake.
file(GLOB_RECURSE named "${SOURCE_DIR}/cmake/*.md" "${SOURCE_DIR}/cmake/packaging/*")
foreach(name IN LISTS named ITEMS "${SOURCE_DIR}/README.md" "${SOURCE_DIR}/CONTRIBUTING.md")
  file(STRINGS "${name}" lines REGEX "(GIT_TAG|[Tt]ags?|revision)[ =a-z\"`(]*v[0-9]+\\.[0-9]+")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "v[0-9]+\\.[0-9.]*[0-9]" tag "${line}")
    execute_process(COMMAND git -C "${SOURCE_DIR}" rev-parse --quiet --verify "refs/tags/${tag}" RESULT_VARIABLE missing OUTPUT_QUIET)
    if(missing)
      string(APPEND failures "\n  ${name}: the tag ${tag} does not exist: ${line}")
    endif()
  endforeach()
endforeach()

if(failures)
  message(FATAL_ERROR "posenc is ${version}, under ${license}, and these say otherwise:${failures}")
endif()
