#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the mutants named in RESULTS and EQUIVALENT can still be made from the headers.

  tests/mutation/check_names.py

A name is "file function: `expression` change", as mutate.py writes it. The file must exist, define the function, and contain the
expression in it, as often as the number behind # says. Names whose code is gone are removed, or renamed if the code has moved.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "include" / "posenc"
NAME = re.compile(r"(\S+) (?:(\w+)::)?(~?\w+|operator[^:`]+): `(.*)` [^`]*?(?: #(\d+))?")


LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"|(?<!\w)\'(?:[^\'\\\n]|\\.)+\'|//[^\n]*')


def blanked(text):
    """Returns the text with spaces for literals and comments, whose braces do not count."""
    return LITERAL.sub(lambda found: " " * len(found[0]), text)


def end_of_parentheses(code, at):
    depth = 0
    for n in range(at, len(code)):
        depth += (code[n] == "(") - (code[n] == ")")
        if depth == 0:
            return n + 1
    return len(code)


def end_of_body(code, at):
    """Returns the end of the line that closes all braces after `at`. Lines of initializers do not end with a brace."""
    depth = 0
    for line in re.finditer(r"[^\n]*\n", code[at:]):
        depth += line[0].count("{") - line[0].count("}")
        if depth <= 0 and line[0].rstrip().endswith(("}", "};")):
            return at + line.end()
    return len(code)


def body_of(text, function):
    """Returns the definitions and declarations of a function, from its name to the end, in one line."""
    code, result = blanked(text), []
    for found in re.finditer(r"(?<![\w.])" + re.escape(function) + r"(?:<[^;{}()]*>)?\(", code):
        end = end_of_parentheses(code, found.end() - 1)
        if re.match(r"(?:\s|&|const\b|noexcept\b|override\b)*(?:\{|:(?!:)|->|requires\b|noexcept\()", code[end:]):
            result.append(text[found.start():end_of_body(code, end)])
        elif re.search(r"(?<!return)[\s&*]$", code[:found.start()]) and re.match(r"[\sa-z]*;", code[end:]):
            result.append(text[found.start():end])  # a declaration, with default arguments
    return " ".join(" ".join(result).split())


def fault_of(name, files):
    """Returns why no mutant has this name, or None."""
    parts = NAME.fullmatch(name)
    if not parts:
        return "is not the name of a mutant"
    file, owner, function, expression, number = parts.groups()
    if file not in files:
        path = INCLUDE / file
        files[file] = path.read_text() if path.is_file() else None
    text = files[file]
    if text is None:
        return f"{file} does not exist"
    if owner and not re.search(rf"\b{owner}\b", text):
        return f"{file} has no {owner}"
    body = body_of(text, function)
    if not body:
        return f"{file} has no {function}()"
    # A long expression is written as its first 40 and its last 25 characters.
    pattern = ".*?".join(re.escape(part) for part in expression.split(" ... "))
    count = len(re.findall(rf"(?<![\w.])(?={pattern}(?!\w))" if expression[0].isalnum() else rf"(?={pattern})", body))
    if count < (int(number or 1) if pattern == re.escape(expression) else 1):  # long expressions may lie in each other
        return f"{function}() contains `{expression}` {count} times"
    return None


def main():
    faults, files = [], {}
    for list_name in ("RESULTS", "EQUIVALENT"):
        for n, line in enumerate((HERE / list_name).read_text().splitlines(), 1):
            columns = line.split("\t")
            if line.startswith("#") or columns[0] == "folder":
                continue
            name = columns[1] if list_name == "RESULTS" else columns[0]
            fault = fault_of(name, files)
            if fault:
                faults.append(f"tests/mutation/{list_name}:{n}: {fault}: {name}")
    for fault in faults:
        print(fault)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
