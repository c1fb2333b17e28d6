// SPDX-License-Identifier: MIT
#include <posenc/posenc.hpp>

#include <string>

std::string version_seen_by_other_unit();

std::string version_seen_by_other_unit() { return posenc::build_info().version; }
