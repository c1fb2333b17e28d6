#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lists what the library refuses, from its headers, with a test of each refusal.

    tests/refusals/list.py            prints the page
    tests/refusals/list.py --write    writes README.md in this folder
    tests/refusals/list.py --check    compares README.md with the headers and tests; fails also if a refusal without a
                                      test is not on the list of README.md that says so

A refusal is a call of fail<Error>(function, message...), a call of reject(key, message...), or a static_assert. A test
shows it if the fixed words of its message occur there in their order; of a static_assert, its first words.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INCLUDE = ROOT / "include" / "posenc"
CALL = re.compile(r"\bfail<(\w+)>\s*\(|\breject\(|\bstatic_assert\(")
# A token is a string, a character, a comment, or one character of code.
TOKEN = re.compile(r'R"\((?P<raw>.*?)\)"|"(?P<string>(?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)+\'|//[^\n]*|.', re.S)
MIN_WORDS = 5  # shorter pieces of a message say nothing


def unescaped(text):
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")


def arguments(text, start):
    """Returns the arguments of a call whose parenthesis opens before start: lists of ("string", text) or ("code", text)."""
    depth, found, current = 1, [], []
    for token in TOKEN.finditer(text, start):
        piece = token.group(0)
        if token.group("string") is not None or token.group("raw") is not None:
            words = token.group("raw") if token.group("raw") is not None else unescaped(token.group("string"))
            if current and current[-1][0] == "string":
                current[-1] = ("string", current[-1][1] + words)
            else:
                current.append(("string", words))
            continue
        if piece.startswith("//"):
            continue
        if piece in "([{":
            depth += 1
        elif piece in ")]}":
            depth -= 1
            if depth == 0:
                found.append(current)
                return found
        elif piece == "," and depth == 1:
            found.append(current)
            current = []
            continue
        if piece.isspace():
            continue
        if current and current[-1][0] == "code":
            current[-1] = ("code", current[-1][1] + piece)
        else:
            current.append(("code", piece))
    return found


def refusals(path):
    """Yields (error, fixed words, message) for every refusal of a header."""
    text = path.read_text()
    for call in CALL.finditer(text):
        line = text[text.rfind("\n", 0, call.start()) + 1:call.start()]
        if "//" in line or re.search(r"\b(void|inline)\b[^;{]*$", line):
            continue
        found = arguments(text, call.end())
        if call.group(0).startswith("static_assert"):
            if len(found) < 2 or not any(kind == "string" for kind, _ in found[-1]):
                continue
            error, parts = "compile time", found[-1]
        elif call.group(1):
            error, parts = call.group(1), [part for argument in found[1:] for part in argument]
            if found and found[0] and found[0][0][0] == "string" and len(found[0]) == 1:
                parts = [("string", found[0][0][1] + ": ")] + parts
        else:
            error, parts = "ConfigError", [part for argument in found for part in argument + [("string", " ")]]
        words = [words for kind, words in parts if kind == "string"]
        if call.group(1) and words and parts[0][0] == "string" and found[0][0][0] == "string":
            words = words[1:]  # tests often have the function's name in a variable
        message = "".join(words if kind == "string" else "{}" for kind, words in parts)
        if not any(len(word.strip()) >= MIN_WORDS for word in words):
            continue  # the message comes from the caller
        yield error, words, re.sub(r"(\{\}\s*)+", "{} ", message).strip()


def joined_strings(path):
    """Returns the text of a test in which adjacent string literals are one, and quotes are gone."""
    text = path.read_text(errors="replace")
    text = re.sub(r'"\s*\n?\s*(?:std::string\()?"', "", text)
    return unescaped(text)


def shown_by(error, words, tests):
    if error == "compile time":
        # Tests of compile errors repeat the first words, up to the first full stop, semicolon or comma.
        start = re.split(r"[;.,(]", words[0].removeprefix("posenc: "))[0].strip()
        start = start if len(start) >= 20 else words[0].strip()
        return next((name for name, text in tests if start in text), None)
    pieces = [re.escape(word.strip()) for word in words if len(word.strip()) >= MIN_WORDS]
    pattern = re.compile(r"[\s\S]{0,300}?".join(pieces))
    longest = max((word.strip() for word in words), key=len)
    for name, text in tests:
        if longest in text and pattern.search(text):
            return name
    return None


def page():
    tests = []
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix in (".cpp", ".hpp", ".cmake", ".txt", ".sh") and HERE not in path.parents:
            tests.append((path.relative_to(ROOT / "tests").as_posix(), joined_strings(path)))
    rows, untested = {}, []
    for path in sorted(INCLUDE.rglob("*.hpp")):
        header = path.relative_to(INCLUDE).as_posix()
        for error, words, message in refusals(path):
            message = message.replace("|", "\\|").replace("\n", " ")
            test = shown_by(error, words, tests)
            row = (header, error, message)
            if row not in rows:
                rows[row] = test
                if not test:
                    untested.append(row)
    lines = ["# What the library refuses", "",
             "Each error that a user can meet, from the headers, with a test that expects its words. `{}` stands for a value.",
             "`tests/refusals/list.py --write` writes this page.", "",
             f"{len(rows)} refusals, {len(untested)} of them without a test that repeats their words.", ""]
    if untested:
        lines += ["## Without a test of their words", ""]
        lines += ["| header | error | message |", "| --- | --- | --- |"]
        lines += [f"| {header} | {error} | {message} |" for header, error, message in untested]
        lines.append("")
    room = None
    for (header, error, message), test in rows.items():
        if not test:
            continue
        if header.split("/")[0] != room:
            room = header.split("/")[0]
            lines += ["" if lines[-1] else None, f"## {room}", "", "| header | error | message | test |",
                      "| --- | --- | --- | --- |"]
            lines = [line for line in lines if line is not None]
        lines.append(f"| {header} | {error} | {message} | {test} |")
    return "\n".join(lines) + "\n", len(rows), len(untested)


def main():
    text, count, untested = page()
    readme = HERE / "README.md"
    if sys.argv[1:] == ["--write"]:
        readme.write_text(text)
        print(f"{count} refusals, {untested} without a test")
    elif sys.argv[1:] == ["--check"]:
        if readme.read_text() != text:
            print("tests/refusals/README.md differs from the headers and tests: run tests/refusals/list.py --write")
            print(f"{count} refusals, {untested} without a test")
            return 1
        print(f"{count} refusals, {untested} without a test")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
