// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace tour {

/// Returns a text as HTML text.
std::string escaped(std::string_view text);

/// Returns prose as HTML; text between backticks is code.
std::string prose(std::string_view text);

/// Returns bytes in one line of base64, for data URIs.
std::string base64(std::string_view bytes);

/// Returns a page that needs no other file and no network. `end` is HTML for the end of its body.
std::string page(std::string_view title, std::string_view contents, std::string_view body,
                 std::string_view end = "");

}  // namespace tour
