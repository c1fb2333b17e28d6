// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace tour {

/// Text as HTML text.
std::string escaped(std::string_view text);

/// Prose as HTML: what stands between backticks is code.
std::string prose(std::string_view text);

/// Text in one line of base64, for data URIs.
std::string base64(std::string_view bytes);

/// A page that needs no file beside it and no network.
std::string page(std::string_view title, std::string_view contents, std::string_view body);

}  // namespace tour
