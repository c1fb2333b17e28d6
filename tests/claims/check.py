#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares numbers of pages and docstrings with the data that they come from.

    tests/claims/check.py

A number of a page is marked behind it, `2<!-- claim: promise rotation --> ulp`, and a table of times above it,
`<!-- claims: bench amd -->`. Data:

    promise NAME                      number of tests/accuracy/promises.hpp
    error METHOD below LIMIT          largest error of cos and sin, from tests/report/RECORD; a sample may find a tenth less
    bench MACHINE CASES COLUMN WHICH  bench/README.md: min, max or only number of a column, over the cases that CASES matches
    peers CASE LIBRARY                how many times as long a library takes, from bench/README.md
    report NAME                       headline of tests/REPORT.md
    mutants drawn                     number of mutants that tests/mutation draws
    compatibility FORMAT STATUS...    number of rows of tests/oracles/*/status.tsv that have one of these statuses
    page PATH: WORDS                  number in the same words of another page; {} stands for it

A written number may have fewer digits than its source. Numbers of ulp must be marked on pages, and be promises of
promises.hpp in docstrings.
"""
import importlib.util
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # of tests/report/run.py
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INCLUDE = ROOT / "include" / "posenc"
# Generated, or about what was.
LEFT_OUT = {"CHANGELOG.md", "tests/REPORT.md"}

NUMBER = r"(?:\d{1,3}(?: \d{3})+|\d+)(?:\.\d+)?(?:e-?\d+|\^-?\d+)?"
MARK = re.compile(r"(\S*?(" + NUMBER + r"))?<!-- claim: (.*?) -->")
TABLE = re.compile(r"<!-- claims: bench (\w+) -->\n\n?((?:\|.*\n)+)", re.M)
UNMARKED = re.compile(r"(\d[\d.e^-]*)\)?[ \n]+ulp\b")


def promises():
    """Returns {name: (number, header, words)}."""
    text = (ROOT / "tests" / "accuracy" / "promises.hpp").read_text()
    found = re.findall(r'Promise (\w+)\{\s*"([^"]*)",\s*"([^"]*)",\s*"([^"]*)"\}', text)
    return {name: (number, header, words) for name, number, header, words in found}


def tables(text):
    """Yields the rows of all tables of a page as {column: cell}; the first column is ""."""
    head = None
    for line in text.splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if head is None:
            head = [""] + cells[1:]
        elif not set(line) <= set("|-: "):
            yield dict(zip(head, cells))


def value(text):
    """Returns the first number of a cell, or None."""
    found = re.search(r"\d+(?:\.\d+)?", text)
    return float(found[0]) if found else None


def module(name, path):
    """Returns the script as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


class Worst(float):
    """The largest error of a sample, which may be less than that of all inputs."""


class Data:
    """Everything that claims are compared with."""

    def __init__(self):
        self.promises = promises()
        bench = (ROOT / "bench" / "README.md").read_text()
        named = {"amd": "tables on AMD", "intel": "tables on Intel", "peers": "peers on AMD"}
        self.bench = {name: list(tables(bench[bench.index(f"<!-- measured: {title} -->"):bench.index(f"<!-- end of {title} -->")]))
                      for name, title in named.items()}
        self.report = module("report", ROOT / "tests" / "report" / "run.py")
        self.compatibility = module("compatibility", ROOT / "tests" / "oracles" / "compatibility.py")
        self.record = self.report.Record()

    def look_up(self, claim):
        """Returns the number that a claim names: a string for one that must be spelled alike, or a float."""
        kind, _, rest = claim.partition(" ")
        if kind == "promise":
            return self.promises[rest][0]
        if kind == "error":
            method, limit = rest.split(" below ")
            head, *rows = self.record.rows["comparison", "avx2"]
            row = next(row for row in rows if row[0].startswith(method))
            return Worst(row[[float(cell) if cell[0].isdigit() else None for cell in head].index(float(limit))])
        if kind == "bench":
            machine, cases, column, which = re.fullmatch(r"(\w+) (\S+) (.+) (min|max|only)", rest).groups()
            numbers = [value(row[column]) for row in self.bench[machine] if re.fullmatch(cases, row[""]) and row.get(column)]
            if which == "only" and len(numbers) != 1:
                raise LookupError(f"{len(numbers)} cases match")
            return max(numbers) if which == "max" else min(numbers)
        if kind == "peers":
            case, library = rest.split()
            return value(next(row for row in self.bench["peers"] if row[""] == case)[library])
        if kind == "report":
            number = next(number for name, number, _ in self.report.headlines(self.record) if name == rest)
            return re.sub(" (%|million|billion)$", "", number)
        if claim == "mutants drawn":
            return re.search(r"^TOTAL, .*= (\d+),", (ROOT / "tests" / "mutation" / "run.py").read_text(), re.M)[1]
        if kind == "compatibility":
            name, *statuses = rest.split()
            number = self.compatibility.counts(self.compatibility.rows(), name)
            return str(sum(number[status] for status in statuses))
        if kind == "page":
            path, words = rest.split(": ", 1)
            text = (ROOT / path).read_text()
            found = re.search(r"([\d.]+)".join(map(re.escape, words.split("{}"))), text)
            return float(found[1])
        raise LookupError("no such kind of data")


def agree(written, expected):
    """True if a number is the expected one, rounded to the digits that are written; a share may be written in per cent."""
    if isinstance(expected, str):
        return written == expected
    written = written.replace(" ", "")
    if isinstance(expected, Worst):
        return 0.98 * expected <= float(written) <= 1.1 * expected
    digits = re.sub(r"e.*", "", written).replace(".", "").lstrip("0")
    return any(float(f"{scale * expected:.{len(digits) - 1}e}") == float(written) for scale in (1, 100))


def bench_rows(text, rows):
    """Yields the rows of a table of times whose numbers are in no one row of the bench."""
    for line in text.splitlines()[2:]:
        numbers = re.findall(r"\d+(?:\.\d+)? (?:[a-z]+ )?± \d+(?:\.\d+)?", line)
        if not any(all(any(number in cell for cell in row.values()) for number in numbers) for row in rows):
            yield line


def check_page(path, data):
    text = path.read_text()
    marked = 0
    for match in MARK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        written, claim = (match[2] or "").strip(), match[3]
        marked += 1
        try:
            expected = data.look_up(claim)
        except (LookupError, StopIteration, ValueError, AttributeError, TypeError) as error:
            yield f"{line}: there is no data of '{claim}' ({error})"
            continue
        if not written or not agree(written, expected):
            yield f"{line}: {written or 'nothing'} where '{claim}' is {expected}"
    for match in TABLE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        marked += 1
        for row in bench_rows(match[2], data.bench[match[1]]):
            yield f"{line}: no row of bench/README.md has the numbers of {row}"
    if len(re.findall(r"<!-- claims?\b", text)) != marked:
        yield "a mark that is not understood"
    text = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    for match in UNMARKED.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{line}: '{' '.join(match[0].split())}' is not marked by a claim"
    check_page.marked += marked


def check_docstrings(data):
    """Yields numbers of ulp in headers that are within the words of no promise."""
    for path in sorted(INCLUDE.rglob("*.hpp")):
        header = path.relative_to(INCLUDE).as_posix()
        prose = " ".join(word for line in path.read_text().splitlines() if re.match(r"\s*//", line)
                         for word in line.split() if word not in ("//", "///"))
        texts = [words.replace("{}", number) for number, at, words in data.promises.values() if at == header]
        covered = [(match.start(), match.end()) for text in texts for match in re.finditer(re.escape(text), prose)]
        for match in UNMARKED.finditer(prose):
            if not any(begin <= match.start() and match.end(1) <= end for begin, end in covered):
                yield f"include/posenc/{header}: '{match[0]}' is no promise of tests/accuracy/promises.hpp"


def main():
    data = Data()
    failed = 0
    check_page.marked = 0
    pages = [path for folder in (".", "tests", "bench", "cmake", "examples", "include")
             for path in sorted((ROOT / folder).glob("*.md" if folder == "." else "**/*.md"))]
    for path in pages:
        name = path.relative_to(ROOT).as_posix()
        if name in LEFT_OUT:
            continue
        for problem in check_page(path, data):
            print(f"{name}:{problem}")
            failed += 1
    for problem in check_docstrings(data):
        print(problem)
        failed += 1
    print(f"{check_page.marked} claims on pages, {failed} wrong")
    sys.exit(failed > 0)


main()
