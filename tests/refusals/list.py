#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lists what the library refuses, from its headers, with a test of each refusal.

    tests/refusals/list.py            prints the list
    tests/refusals/list.py --write    writes LIST in this folder: header, error, message, test; {} stands for a value
    tests/refusals/list.py --check    compares LIST with the headers and tests; fails also if a refusal has no test

A refusal is a call of fail<Error>(function, message...), a call of reject(key, message...), or a static_assert. A test
shows it if the fixed words of its message occur there in their order, in each form if the message has several. A test
of a static_assert is an "// error:" line of compile_errors/, whose parts occur in the message in their order, or
another file with the first words of the message.
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
        if piece.startswith("//") or piece == "\\":  # a comment, or the end of a line of a macro
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


def forms_of(parts):
    """Returns the lists of strings of a message: strings after a "?" of an argument are alternatives."""
    forms, alternatives, is_choice = [[]], [], False
    before = ""
    for kind, text in parts + [("end", "")]:
        if kind == "string" and re.search(r"\w\($", before) and not before.endswith("string("):
            continue  # argument of a call
        before = text if kind == "code" else ""
        if kind == "end":
            if alternatives:
                forms = [form + [choice] for form in forms for choice in alternatives]
            alternatives, is_choice = [], False
        elif kind == "code":
            is_choice = is_choice or "?" in text
        elif is_choice:
            alternatives.append(text)
        else:
            forms = [form + [text] for form in forms]
    return forms


def refusals(path):
    """Yields (error, fixed words of each form, message) for every refusal of a header."""
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
        has_name = call.group(1) and parts and parts[0][0] == "string" and found[0][0][0] == "string"
        message = "".join(words if kind == "string" else "{}" for kind, words in parts)
        if not any(len(words.strip()) >= MIN_WORDS for kind, words in parts[has_name:] if kind == "string"):
            continue  # the message comes from the caller
        if error != "compile time":
            parts = [part for argument in found[bool(call.group(1)):] for part in argument + [("end", "")]]
        if error != "compile time":
            message = re.sub(r"(\{\}\s*)+", "{} ", message)
        yield error, forms_of(parts), message.strip()


def joined_strings(path):
    """Returns the text of a test in which adjacent string literals are one, and quotes are gone."""
    text = path.read_text(errors="replace")
    text = re.sub(r'"\s*\n?\s*(?:std::string\()?"', "", text)
    return unescaped(text)


def shown_by(error, forms, tests, expected):
    """Returns the first test of a refusal, or None if one of its forms has none."""
    if error == "compile time":
        message = forms[0][0].removeprefix("posenc: ")
        for name, parts in expected:
            if re.search(".*".join(re.escape(part) for part in parts), forms[0][0], re.S):
                return name
        # Other tests repeat the first words, up to the first full stop, semicolon or comma.
        start = re.split(r"[;.,(]", message)[0].strip()
        start = start if len(start) >= 20 else message
        if len(forms[0]) > 1:  # a macro puts names between the words
            return shown_form(forms[0], [(name, " ".join(parts)) for name, parts in expected])
        return next((name for name, text in tests if start in text), None)
    found = [shown_form(form, tests) for form in forms]
    return None if None in found else found[0]


def shown_form(words, tests):
    pieces = [word.strip() for word in words if len(word.strip()) >= MIN_WORDS]
    if not pieces:
        return ""
    pattern = re.compile(r"[\s\S]{0,300}?".join(re.escape(piece) for piece in pieces))
    longest = max(pieces, key=len)
    return next((name for name, text in tests if longest in text and pattern.search(text)), None)


def listed():
    """Returns the text of the list, a summary, and its faults."""
    tests, expected = [], []
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix not in (".cpp", ".hpp", ".cmake", ".txt", ".sh") or HERE in path.parents:
            continue
        name = path.relative_to(ROOT / "tests").as_posix()
        tests.append((name, joined_strings(path)))
        if name.startswith("compile_errors/"):
            lines = re.findall(r"^ *// error: (.*)$", path.read_text(), re.M)
            expected += [(name, line.split(" ... ")) for line in lines]
    rows = {}
    for path in sorted(INCLUDE.rglob("*.hpp")):
        header = path.relative_to(INCLUDE).as_posix()
        for error, forms, message in refusals(path):
            row = (header, error, " ".join(message.split()))
            if row not in rows:
                rows[row] = shown_by(error, forms, tests, expected)
    untested = [row for row in rows if not rows[row]]
    faults = [f"{header} has a refusal without a test of its words: {message}" for header, _, message in untested]
    lines = ["# Written by list.py --write. Each error that a user can meet: header, error, message, a test that expects its words."]
    lines += ["\t".join((*row, test)) for row, test in rows.items() if test]
    return "\n".join(lines) + "\n", f"{len(rows)} refusals, {len(untested)} without a test", faults


def main():
    text, summary, faults = listed()
    file = HERE / "LIST"
    if sys.argv[1:] == ["--write"]:
        file.write_text(text)
    elif sys.argv[1:] == ["--check"]:
        if file.read_text() != text:
            faults.append("tests/refusals/LIST differs from the headers and tests: run tests/refusals/list.py --write")
    else:
        print(text, end="")
        return 0
    for fault in faults:
        print(fault)
    print(summary)
    return 1 if faults and sys.argv[1:] == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main())
