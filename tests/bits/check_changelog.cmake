# SPDX-License-Identifier: MIT
# A changed hash needs a line in CHANGELOG.md, which names the checksum of HASHES.
#   cmake -D SOURCE_DIR=<project> -P check_changelog.cmake

file(SHA256 "${SOURCE_DIR}/tests/bits/HASHES" checksum)
string(SUBSTRING "${checksum}" 0 12 checksum)
file(READ "${SOURCE_DIR}/CHANGELOG.md" changelog)
if(NOT changelog MATCHES "`${checksum}`")
  message(FATAL_ERROR "tests/bits/HASHES has changed. Say in the first section of CHANGELOG.md which bits changed and why, and "
                      "name the checksum `${checksum}`.")
endif()
