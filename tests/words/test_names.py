#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks how tests are named, so that they are found by what they test.

  tests/words/test_names.py

Each name is "subject: statement". The subject has at most 60 characters, and names something of the library: an identifier or a
key of a model file that include/ reads, or one of its headers. A test of a helper names a class of tests/support. Each test file
says in its second line why it exists.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEST_CASE = re.compile(r'\bTEST_CASE(?:_METHOD)?\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')


def names_of_library():
    names = set()
    for header in (ROOT / "include").rglob("*.hpp"):
        names.add(header.stem)
        names.update(re.findall(r"[A-Za-z_]\w+", re.sub(r"//.*", "", header.read_text())))
    return names


def classes_of_support():
    names = set()
    for header in (ROOT / "tests" / "support").glob("*.hpp"):
        names.update(re.findall(r"^(?:class|struct) (\w+)", header.read_text(), re.M))
    return names


def main():
    subjects, faults = names_of_library() | classes_of_support(), []
    for path in sorted((ROOT / "tests").rglob("*.cpp")):
        text = path.read_text().replace("TEMPLATE_LIST_TEST_CASE", "TEST_CASE").replace("TEMPLATE_TEST_CASE", "TEST_CASE")
        cases = TEST_CASE.findall(text)
        where = path.relative_to(ROOT)
        if cases and not text.split("\n")[1].startswith("// "):
            faults.append(f"{where}:2: a line of comment must say why this file exists")
        for literals in cases:
            name = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals))
            subject, colon, _ = name.partition(": ")
            if not colon or len(subject) > 60 or not subjects.intersection(re.findall(r"[A-Za-z_]\w+", subject)):
                faults.append(f'{where}: "{name}" must begin with a name of the library or of tests/support, and a colon')
    print("\n".join(faults))
    sys.exit(bool(faults))


main()
