# SPDX-License-Identifier: MIT
# Collects the lines between "// excerpt: NAME" and "// end of excerpt" in the sources of a program, whose page shows
# them under the picture NAME:
# cmake -D "SOURCES=<a.cpp;b.cpp>" -D OUTPUT=<excerpts.cpp> -P extract_code.cmake
# It handles quoted texts instead of lists of lines, because CMake splits lists at semicolons and joins them at brackets.

set(opening "// excerpt: ")
set(closing "// end of excerpt")
set(entries "")
foreach(source IN LISTS SOURCES)
  file(READ "${source}" text)
  string(FIND "${text}" "${opening}" begin)
  while(NOT begin EQUAL -1)
    string(SUBSTRING "${text}" ${begin} -1 text)
    string(FIND "${text}" "\n" name_end)
    string(FIND "${text}" "${closing}" end)
    if(name_end EQUAL -1 OR end LESS name_end)
      message(FATAL_ERROR "${source}: an excerpt without its end:\n${text}")
    endif()
    string(LENGTH "${opening}" name_begin)
    math(EXPR name_length "${name_end} - ${name_begin}")
    string(SUBSTRING "${text}" ${name_begin} ${name_length} name)
    math(EXPR code_begin "${name_end} + 1")
    math(EXPR code_length "${end} - ${code_begin}")
    string(SUBSTRING "${text}" ${code_begin} ${code_length} code)
    string(APPEND entries "      {\"${name}\", R\"excerpt(${code})excerpt\"},\n")
    string(SUBSTRING "${text}" ${end} -1 text)
    string(LENGTH "${closing}" length)
    string(SUBSTRING "${text}" ${length} -1 text)
    string(FIND "${text}" "${opening}" begin)
  endwhile()
endforeach()

file(WRITE "${OUTPUT}" "// Made by extract_code.cmake.
#include \"excerpts.hpp\"

namespace tour {

const std::vector<Excerpt>& excerpts() {
  static const std::vector<Excerpt> all = {
${entries}  };
  return all;
}

}  // namespace tour
")
