// SPDX-License-Identifier: MIT
#pragma once

// The only definition of the version. CMakeLists.txt reads it from this file.
#define POSENC_VERSION_MAJOR 0
#define POSENC_VERSION_MINOR 3
#define POSENC_VERSION_PATCH 0
// "-dev" between releases: these sources are on the way to that version. "" in a release alone.
#define POSENC_VERSION_SUFFIX "-dev"
