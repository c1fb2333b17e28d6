#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails if a public name of posenc has no docstring, and lists those. README.md of this folder tells what needs none.

    check_documented.py <folder of Doxygen's XML> <include folder>
"""
import re
import sys

import headers as model

# Types that do nothing where a concept asks for something. The concept documents their members.
NO_OP_TYPES = {"NoEncoding", "NoRotation", "NoBias"}


def is_copy_or_move(name):
    outer = name.scope.rpartition("::")[2]
    if name.kind != "function" or name.name != outer:
        return False
    return bool(re.search(rf"\(\s*(const {outer}(<.*>)?&|{outer}(<.*>)?&&)\s*\w*\)", name.declaration))


def needs_docstring(name):
    if name.is_specialization or name.scope in NO_OP_TYPES or name.scope == "tier::named":
        return False
    if name.kind == "enumerator" and name.name == "Unspecified":
        return False
    if name.kind == "function" and "->" in name.declaration and name.declaration.split("(")[0].split()[-1][0].isupper():
        return False  # a deduction guide
    return not model.is_trivial(name) and not is_copy_or_move(name)


def in_specialization(name):
    return "<" in name.scope


def main(xml_folder, include):
    missing = {}
    total = 0
    for header in model.read(xml_folder, include).values():
        for name in model.walk(header.names):
            if needs_docstring(name) and not in_specialization(name):
                total += 1
                if not name.doc.strip():
                    missing.setdefault(header.path, []).append(name)
    for header, names in sorted(missing.items()):
        for name in sorted(names, key=lambda n: n.line):
            print(f"include/posenc/{header}:{name.line}: {name.kind} {name.path} has no docstring")
    count = sum(len(names) for names in missing.values())
    print(f"{count} of {total} public names have no docstring")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
