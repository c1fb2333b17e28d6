#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves promises of tests/accuracy/promises.hpp with Gappa and Sollya: tests/proofs/README.md.

    tests/proofs/prove.py [words]...          theorems whose statement contains all these words; by default all
    tests/proofs/prove.py --headers <copy>    of another copy of posenc, such as a mutant
    tests/proofs/prove.py --scripts <folder>  writes what the tools read: one file each

Ends with 77 if a tool is missing, with 1 if a theorem is not proved.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import sys
import time

sys.dont_write_bytecode = True

import theorems  # noqa: E402
import tools  # noqa: E402
from translate import ROOT, Untranslatable  # noqa: E402
import angles, double_double, elementary, frequencies, hyperbolic, rotation  # noqa: E402, E401, F401: they add their theorems to the list


def missing_tools():
    """Says which tools are not installed, and returns their names."""
    missing = [tool for tool in (tools.GAPPA, tools.SOLLYA) if not shutil.which(tool)]
    if missing:
        print(f"skipped: no {' and no '.join(missing)}; cmake/install-deps.sh proofs")
    return missing


def judge(theorem, headers, promised):
    """Returns whether a theorem is proved and its bound keeps the promise, and a line about it."""
    start = time.time()
    try:
        bound = theorem.prove(headers)
        compared = ""
        if bound is not None:
            number = promised[theorem.promise]
            compared = f": {float(bound):.4g}, {theorem.promise} promises {float(number):.4g}"
            if bound > number:
                raise tools.Unproved("the bound is" + compared[1:])
        return True, f"proved    {theorem.words}{compared} ({time.time() - start:.1f} s)"
    except (tools.Unproved, Untranslatable) as error:
        return False, f"NOT       {theorem.words}: {error}"


def main():
    parser = argparse.ArgumentParser(description="Proves promises of accuracy.")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--headers", default=ROOT, help="copy of posenc with include/ and tests/accuracy/promises.hpp")
    parser.add_argument("--scripts", help="folder for the scripts of the tools")
    chosen = parser.parse_args()
    if missing_tools():
        return 77
    headers = theorems.Headers(chosen.headers)
    promised = theorems.promises(headers)
    asked = [theorem for theorem in theorems.THEOREMS if all(word in theorem.words for word in chosen.words)]
    # The tools run beside each other.
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for holds, text in pool.map(lambda theorem: judge(theorem, headers, promised), asked):
            print(text, flush=True)
            failed += not holds
    if chosen.scripts:
        folder = pathlib.Path(chosen.scripts)
        folder.mkdir(parents=True, exist_ok=True)
        for i, (what, script) in enumerate(tools.log, 1):
            name = re.sub(r"\W+", "_", what)
            (folder / f"{i:03}_{name}{'.sollya' if what == 'Sollya' else '.g'}").write_text(script)
    print(f"{len(asked) - failed} theorems proved, {failed} not")
    return 1 if failed or not asked else 0


if __name__ == "__main__":
    sys.exit(main())
