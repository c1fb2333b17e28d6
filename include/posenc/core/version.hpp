// SPDX-License-Identifier: MIT
#pragma once

// The one place that holds the version; CMakeLists.txt reads it from here.
#define POSENC_VERSION_MAJOR 0
#define POSENC_VERSION_MINOR 2
#define POSENC_VERSION_PATCH 0
