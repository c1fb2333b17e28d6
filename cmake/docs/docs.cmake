# SPDX-License-Identifier: MIT
# Target `docs`: the site, in <build>/html. README.md of this folder explains it.

find_program(POSENC_DOXYGEN doxygen)
find_program(POSENC_SPHINX_BUILD sphinx-build)
find_package(Python3 COMPONENTS Interpreter REQUIRED)
if(NOT POSENC_DOXYGEN OR NOT POSENC_SPHINX_BUILD)
  message(FATAL_ERROR "The documentation needs Doxygen and Sphinx with MyST and Furo: run cmake/install-deps.sh docs "
          "(Debian: doxygen python3-sphinx python3-myst-parser furo), or set POSENC_BUILD_DOCS=OFF.")
endif()

set(docs_dir "${PROJECT_BINARY_DIR}/docs")
set(docs_source_dir "${PROJECT_SOURCE_DIR}/cmake/docs")
configure_file("${docs_source_dir}/Doxyfile.in" "${docs_dir}/Doxyfile" @ONLY)
set(docs_python "${CMAKE_COMMAND}" -E env PYTHONDONTWRITEBYTECODE=1 "${Python3_EXECUTABLE}")

# Sphinx reads all pages each time (-E), because a header's page depends on the names of all others.
add_custom_target(
  docs
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${docs_dir}/headers" "${docs_dir}/xml"
  COMMAND ${docs_python} "${docs_source_dir}/wrap_docstrings.py" "${PROJECT_SOURCE_DIR}/include" "${docs_dir}/headers"
  COMMAND "${POSENC_DOXYGEN}" "${docs_dir}/Doxyfile"
  COMMAND ${docs_python} "${docs_source_dir}/stage.py" "${PROJECT_SOURCE_DIR}" "${docs_dir}/pages"
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${PROJECT_BINARY_DIR}/html"
  COMMAND
    "${CMAKE_COMMAND}" -E env PYTHONDONTWRITEBYTECODE=1 "POSENC_DOCS_VERSION=${posenc_version_text}"
    "POSENC_DOCS_XML=${docs_dir}/xml" "POSENC_DOCS_INCLUDE=${PROJECT_SOURCE_DIR}/include" "${POSENC_SPHINX_BUILD}" -E -q -W --keep-going -j auto -b html -c
    "${docs_source_dir}" -d "${docs_dir}/doctrees" "${docs_dir}/pages" "${PROJECT_BINARY_DIR}/html"
  COMMAND "${CMAKE_COMMAND}" -E echo "The site's first page: ${PROJECT_BINARY_DIR}/html/index.html"
  VERBATIM)

# The checks read what `docs` has made. A browser opens it where there is one.
find_program(POSENC_NODE NAMES node nodejs)
find_program(POSENC_CHROMIUM NAMES chromium chromium-browser google-chrome)
set(check_browser "")
if(POSENC_NODE AND POSENC_CHROMIUM)
  set(check_browser COMMAND "${POSENC_NODE}" "${docs_source_dir}/check_browser.mjs" "${POSENC_CHROMIUM}" "${PROJECT_BINARY_DIR}/html")
endif()
add_custom_target(
  docs_check
  COMMAND ${docs_python} "${docs_source_dir}/check_links.py" "${PROJECT_BINARY_DIR}/html"
  COMMAND ${docs_python} "${docs_source_dir}/check_documented.py" "${docs_dir}/xml" "${PROJECT_SOURCE_DIR}/include"
  ${check_browser}
  VERBATIM)
add_dependencies(docs_check docs)
