// SPDX-License-Identifier: MIT
#include "html.hpp"

#include "numbers.hpp"

#include <cstdint>

namespace tour {

namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --text: #1d1d1f; --paper: #ffffff; --soft: #5c5f66; --line: #d9dce1;
  --stripe: #f5f6f8; --link: #0b5cad; --yes: #0b6e4f; --no: #a33c00; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e7ea; --paper: #16181c; --soft: #a5a9b2;
  --line: #3a3e46; --stripe: #1f2228; --link: #7db9f5; --yes: #62c9a3; --no: #ff9d66; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; color: var(--text); background: var(--paper);
  font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 1rem 0; }
h2 { font-size: 1.35rem; margin: 3rem 0 0.5rem; padding-bottom: 0.25rem; border-bottom: 2px solid var(--line); }
h3 { font-size: 1.1rem; margin: 2rem 0 0.5rem; }
p { margin: 0.6rem 0; max-width: 46rem; }
a { color: var(--link); }
nav ol { margin: 0; padding-left: 1.5rem; columns: 18rem; }
nav li { break-inside: avoid; }
nav ol ol { columns: 1; padding-left: 0; list-style: none; }
code, pre { font: 0.92em ui-monospace, "DejaVu Sans Mono", monospace; }
code { overflow-wrap: anywhere; }
td code { white-space: nowrap; }
pre { padding: 0.7rem; background: var(--stripe); border-left: 3px solid var(--line); white-space: pre-wrap;
  overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.3rem 0 1rem; font-size: 0.92rem; }
.title { margin: 1.2rem 0 0; color: var(--soft); }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.8rem 0.35rem 0; min-width: 5rem;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
thead th { border-bottom: 2px solid var(--line); }
.yes { color: var(--yes); } .no { color: var(--no); }
figure { margin: 1.2rem 0; }
figure img { display: block; width: 100%; min-width: 36rem; background: #ffffff; }
figure .wide { border: 1px solid var(--line); border-radius: 6px; }
figcaption { margin-top: 0.4rem; max-width: 46rem; color: var(--text); }
figure pre { font-size: 0.85rem; line-height: 1.4; margin: 0.5rem 0 0; white-space: pre; overflow-x: auto; overflow-wrap: normal; }
figcaption small { color: var(--soft); }
)";

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string prose(std::string_view text) {
  std::string result;
  bool code = false;
  for (const char c : escaped(text)) {
    if (c != '`') {
      result += c;
      continue;
    }
    result += code ? "</code>" : "<code>";
    code = !code;
  }
  return code ? result + "</code>" : result;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  result.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const bool given = at + i < bytes.size();
      bits = bits << 8 | (given ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      result += at + i <= bytes.size() ? digits[bits >> (18 - 6 * i) & 63] : '=';
    }
  }
  return result;
}

std::string page(std::string_view title, std::string_view contents, std::string_view body,
                 std::string_view end) {
  return cat("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
             "<title>", escaped(title), "</title>\n<style>", style, "</style>\n</head>\n<body>\n",
             "<h1>", escaped(title), "</h1>\n<nav aria-label=\"Contents\">\n", contents,
             "</nav>\n<main>\n", body, "</main>\n", end, "</body>\n</html>\n");
}

}  // namespace tour
