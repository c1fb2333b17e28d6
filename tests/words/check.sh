#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks the prose of the repository, in one pass of awk over its files:
#
#   tests/words/check.sh openings   first word of every comment in include/, tests/, bench/ and examples/, and the length
#                                   of lines of headers (100 characters at most)
#   tests/words/check.sh labels     labels that three or more lines of docstrings use are those that CONTRIBUTING.md lists
#   tests/words/check.sh readme     length of README.md (130 lines at most), and of all pages the relative links, words to
#                                   avoid, and the length of lines outside tables (120 characters at most)
#   tests/words/check.sh findings   every script of findings/ has one line in its README, and its header comment
#   tests/words/check.sh headers    rows of examples/guide/headers.md: each public header once, with the libraries that it
#                                   includes, directly or indirectly
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# A comment is a run of lines that begin with // or ///. A licence line is a comment of its own.
openings() {
  find include tests bench examples \( -name '*.hpp' -o -name '*.cpp' \) -print0 | sort -z | xargs -0 awk '
    { text = $0 }
    FNR == 1 { kind = "" }
    length(text) > 100 && FILENAME ~ /^include\// {
      print FILENAME ":" FNR ": " length(text) " characters, more than 100"
      ++bad
    }
    /[^ \t\/].*[ \t]\/\/+<? (Of|But|What|Who|Whether|Where|That|None)([^A-Za-z_]|$)/ {
      print FILENAME ":" FNR ": " text  # at the end of a line of code
      ++bad
    }
    !sub(/^[ \t]*\/\//, "", text) { kind = ""; next }
    {
      previous = kind
      kind = sub(/^\/+</, "", text) ? "///<" : sub(/^\/+/, "", text) ? "///" : "//"
      sub(/^[ \t]+/, "", text)
      if (text ~ /^SPDX-License-Identifier/) { kind = ""; next }
      if (kind == previous) next
      if (text ~ /^(Of|But|What|Who|Whether|Where|That|None)([^A-Za-z_]|$)/) {
        print FILENAME ":" FNR ": " text
        ++bad
      }
    }
    END {
      if (bad) print bad " lines are too long, or begin a comment with another word than what it is about"
      exit bad > 0
    }'
}

# A label is "///  Name:". Rarer ones name a part of what one docstring describes, and are not listed.
labels() {
  local listed used
  listed="$(awk '/then labelled lines as far as they apply:/ { reading = 1 } reading { printf "%s ", $0 }
    reading && /Source\./ { exit }' CONTRIBUTING.md |
    sed 's/.*they apply: //; s/Source\..*/Source/; s/([^)]*)//g' | tr -d ' ' | tr ',' '\n' | LC_ALL=C sort)"
  used="$(find include -name '*.hpp' -exec grep -hoE '^ */// {2,4}[A-Z][a-z]+: ' {} + | tr -d ' /:' | LC_ALL=C sort |
    uniq -c | awk '$1 >= 3 { print $2 }')"
  if [[ "$used" != "$listed" ]]; then
    echo "CONTRIBUTING.md differs from the labels of docstrings (<: the page, >: the library):"
    diff <(printf '%s\n' "$listed") <(printf '%s\n' "$used") || true
    return 1
  fi
}

# Links in fenced blocks and in inline code are text. An anchor is a heading of its page, as GitHub spells it.
readme() {
  local pages failed=0 lines found
  # cmake/docs/start.md is the first page of the site, whose links are those of the site.
  mapfile -t pages < <(find . -name '*.md' -not -path './build/*' -not -path ./cmake/docs/start.md -printf '%P\n' | sort)
  lines="$(wc -l <README.md)"
  if ((lines > 130)); then
    echo "README.md has $lines lines, more than 130"
    failed=1
  fi
  # Words that mean something else to most readers: a folder is no room, channels are rotated, an error names its cause.
  awk 'FNR == 1 { fenced = 0 }
    /^ *```/ { fenced = !fenced; next }
    fenced || /^    / { next }
    {
      text = " " tolower($0) " "
      gsub(/`[^`]*`|quarter turns?/, "", text)
      if (match(text, /[^a-z](rooms?|turns|turned|turning|told)[^a-z]/)) {
        print FILENAME ":" FNR ": write another word than" substr(text, RSTART, RLENGTH)
        bad = 1
      }
    }
    END { exit bad }' "${pages[@]}" || failed=1
  LC_ALL=C awk '/^ *\|/ { next }
    { gsub(/[\200-\277]/, "") }  # bytes that continue a character of UTF-8
    length($0) > 120 {
      print FILENAME ":" FNR ": " length($0) " characters, more than 120"
      bad = 1
    }
    END { exit bad }' "${pages[@]}" || failed=1

  # heading <tab> page#anchor, and link <tab> page:line <tab> file <tab> file#anchor
  found="$(awk '
    function resolved(page, target,    parts, kept, n, i, path) {
      if (target == "") return page
      sub(/[^\/]*$/, "", page)
      n = split(page target, parts, "/")
      kept = 0
      for (i = 1; i <= n; ++i) {
        if (parts[i] == ".." && kept > 0) --kept
        else if (parts[i] != "." && parts[i] != "") parts[++kept] = parts[i]
      }
      path = parts[1]
      for (i = 2; i <= kept; ++i) path = path "/" parts[i]
      return path
    }
    FNR == 1 { fenced = 0; split("", count) }
    /^ *```/ { fenced = !fenced; next }
    fenced || /^    / { next }
    /^#+ / {
      slug = tolower($0)
      sub(/^#+ +/, "", slug)
      gsub(/[^a-z0-9 _-]/, "", slug)
      gsub(/ /, "-", slug)
      print "heading\t" FILENAME "#" slug (count[slug] ? "-" count[slug] : "")
      ++count[slug]
    }
    {
      text = $0
      gsub(/`[^`]*`/, "", text)
      while (match(text, /\]\([^()]*\)/)) {
        target = substr(text, RSTART + 2, RLENGTH - 3)
        text = substr(text, RSTART + RLENGTH)
        if (target ~ /^[a-z]+:/) continue
        anchor = target
        if (!sub(/^[^#]*#/, "", anchor)) anchor = ""
        sub(/#.*/, "", target)
        file = resolved(FILENAME, target)
        print "link\t" FILENAME ":" FNR "\t" file "\t" (anchor == "" || file !~ /\.md$/ ? "" : file "#" anchor)
      }
    }' "${pages[@]}")"

  local kind from file heading
  local -A headings=()
  while IFS=$'\t' read -r kind heading; do
    if [[ "$kind" == heading ]]; then headings["$heading"]=1; fi
  done <<<"$found"
  while IFS=$'\t' read -r kind from file heading; do
    if [[ "$kind" != link ]]; then continue; fi
    if [[ ! -e "$file" ]]; then
      echo "$from: $file does not exist"
      failed=1
    elif [[ -n "$heading" && -z "${headings[$heading]:-}" ]]; then
      echo "$from: no heading is $heading"
      failed=1
    fi
  done <<<"$found"
  return "$failed"
}

findings() {
  local script label failed=0
  for script in findings/*-*.sh; do
    if [[ "$(grep -cF "(${script#findings/})" findings/README.md)" != 1 ]]; then
      echo "findings/README.md must list ${script#findings/} once"
      failed=1
    fi
    for label in Package Guess Seen Matters; do
      if [[ "$(grep -c "^# $label: " "$script")" != 1 ]]; then
        echo "$script: one comment must begin with $label:"
        failed=1
      fi
    done
  done
  return "$failed"
}

# A row is | [name](path) | use | Eigen or nothing | cost |.
headers() {
  local page=examples/guide/headers.md expected found
  expected="$(find include/posenc -name '*.hpp' -print0 | sort -z | xargs -0 awk '
    FNR == 1 { headers[++count] = FILENAME; sub(/^include\//, "", headers[count]) }
    /^[ \t]*#[ \t]*include[ \t]*</ {
      sub(/^[^<]*</, ""); sub(/>.*/, "")
      if ($0 ~ /^(posenc|Eigen|unsupported)\//) edges[headers[count]] = edges[headers[count]] " " $0
    }
    function visit(header,    list, n, i) {
      if (header in seen) return
      seen[header] = 1
      n = split(edges[header], list, " ")
      for (i = 1; i <= n; ++i) visit(list[i])
    }
    END {
      for (i = 1; i <= count; ++i) {
        header = headers[i]
        if (header ~ /\/(detail|kernels)\//) continue
        split("", seen)
        visit(header)
        eigen = ""
        for (other in seen) if (other ~ /^(Eigen|unsupported)/) eigen = "**Eigen**"
        sub(/^posenc\//, "", header)
        print header "\t" eigen
      }
    }' | LC_ALL=C sort)"
  found="$(awk -F ' *[|] *' '/^[|] \[/ {
    path = $2
    sub(/^[^(]*\(\.\.\/\.\.\/include\/posenc\//, "", path); sub(/\).*/, "", path)
    print path "\t" $4
  }' "$page" | LC_ALL=C sort)"
  if [[ "$found" != "$expected" ]]; then
    echo "$page differs from include/posenc (<: the page, >: the library):"
    diff <(printf '%s\n' "$found") <(printf '%s\n' "$expected") || true
    return 1
  fi
}

case "${1:-}" in
  openings | labels | readme | findings | headers) "$1" ;;
  *) echo "check.sh: unknown argument '${1:-}'; use openings, labels, readme, findings or headers" >&2; exit 2 ;;
esac
