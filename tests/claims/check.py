#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares numbers of pages and docstrings with the data that they come from.

    tests/claims/check.py

CLAIMS of this folder has a line for each place: page | words with {} for each number | a source for each {}, apart by ;.
The words must occur exactly once in the page; line breaks do not count. Sources:

    promise NAME                      number of tests/accuracy/promises.hpp
    error METHOD below LIMIT          largest error of cos and sin, from tests/report/RECORD; a sample may find a tenth less
    bench MACHINE CASES COLUMN WHICH  bench/results: min, max or only number of a column, over the cases that match CASES
    peers CASE LIBRARY                how many times as long a library takes on AMD, from bench/results
    report NAME                       headline of tests/REPORT.md
    mutants drawn                     number of mutants that tests/mutation draws
    compatibility FORMAT STATUS...    number of rows of tests/oracles/*/status.tsv that have one of these statuses
    page PATH: WORDS                  number in the same words of another page; {} stands for it
    rows of bench MACHINE             no number: the words are the head of a table, whose rows are in the bench/results

A written number may have fewer digits than its source. Numbers of ulp must have a claim on pages, and be promises of
promises.hpp in docstrings. In sentences of README.md so must numbers before %, x, times, runs, million and billion.
"""
import importlib.util
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # of tests/report/run.py
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INCLUDE = ROOT / "include" / "posenc"
# Generated, or about what was.
LEFT_OUT = {"CHANGELOG.md", "tests/REPORT.md"}

NUMBER = r"(?:\d{1,3}(?: \d{3})+|\d+)(?:\.\d+)?(?:e-?\d+|\^-?\d+)?"
ULP = re.compile(r"(\d[\d.e^-]*)\)?\s+ulp\b")
# A number of README.md that data must confirm: "95.6 %", "1.0 to 1.2 times", "203 billion".
MEASURED = re.compile(r"(" + NUMBER + r")(?=(?: to " + NUMBER + r")? (?:%|x|times|runs|million|billion)(?!\w))")


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
        self.bench = {name: list(tables((ROOT / "bench" / "results" / f"{file}.txt").read_text()))
                      for name, file in (("amd", "amd"), ("intel", "intel"), ("peers", "amd_peers"))}
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


def claims():
    """Returns {page: [(words, sources)]}."""
    found = {}
    for line in (HERE / "CLAIMS").read_text().splitlines():
        if line and not line.startswith("#"):
            page, rest = line.split(" | ", 1)
            words, sources = rest.rsplit(" | ", 1)
            found.setdefault(page, []).append((words, sources.split("; ")))
    return found


def bench_rows(text, rows):
    """Yields the rows of a table of times whose numbers are in no one row of the bench."""
    for line in text.splitlines():
        numbers = re.findall(r"\d+(?:\.\d+)? (?:[a-z]+ )?± \d+(?:\.\d+)?", line)
        if not any(all(any(number in cell for cell in row.values()) for number in numbers) for row in rows):
            yield line


def check_claim(text, words, sources, data):
    """Returns where the numbers of a claim stand in a page, and what is wrong with it."""
    spaced = [re.escape(part) for part in re.split(r"(?<=\S)\s+(?=\S)", words)]
    pattern = r"\s+".join(spaced).replace(r"\{\}", "(" + NUMBER + ")")
    # A number that the words begin or end with is a complete one.
    found = list(re.finditer(r"(?<![\w.^-])" + pattern + r"(?![\d^]|\.\d)", text))
    if len(found) != 1:
        return [], [f"{len(found)} places have the words '{words}', not one"]
    if sources[0].startswith("rows of bench "):
        rest = re.match(r"[^\n]*\n\|[-:| ]+\n((?:\|.*\n)+)", text[found[0].end():])
        if rest is None or len(sources) > 1:
            return [], [f"no table begins with '{words}'"]
        end = found[0].end() + rest.end()
        return [(found[0].start(), end)], [f"no row of bench/results has the numbers of {row}"
                                           for row in bench_rows(rest[1], data.bench[sources[0].split()[-1]])]
    if words.count("{}") != len(sources):
        return [], [f"'{words}' has not as many numbers as sources"]
    problems = []
    for written, source in zip(found[0].groups(), sources):
        try:
            expected = data.look_up(source)
        except (LookupError, StopIteration, ValueError, AttributeError, TypeError) as error:
            problems.append(f"there is no data of '{source}' ({error})")
            continue
        if not agree(written, expected):
            problems.append(f"{written} where '{source}' is {expected}")
    return [found[0].span(group + 1) for group in range(len(sources))], problems


def check_page(name, text, listed, data):
    """Yields what is wrong with the numbers of a page, given its claims."""
    covered = []
    for words, sources in listed:
        spans, problems = check_claim(text, words, sources, data)
        covered += spans
        yield from problems
    if re.search(r"<!-- claims?\b", text):
        yield "a mark of a claim, which belongs into tests/claims/CLAIMS"
    kinds = [ULP, MEASURED] if name == "README.md" else [ULP]
    text = re.sub(r"^```.*?^```", lambda block: re.sub(r"\S", " ", block[0]), text, flags=re.M | re.S)
    for match in (match for kind in kinds for match in kind.finditer(text)):
        if not any(begin < match.end(1) and match.start(1) < end for begin, end in covered):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{line}: '{' '.join(text[match.start():match.end() + 10].split())}' has no claim in tests/claims/CLAIMS"


def check_docstrings(data):
    """Yields numbers of ulp in headers that are within the words of no promise."""
    for path in sorted(INCLUDE.rglob("*.hpp")):
        header = path.relative_to(INCLUDE).as_posix()
        prose = " ".join(word for line in path.read_text().splitlines() if re.match(r"\s*//", line)
                         for word in line.split() if word not in ("//", "///"))
        texts = [words.replace("{}", number) for number, at, words in data.promises.values() if at == header]
        covered = [(match.start(), match.end()) for text in texts for match in re.finditer(re.escape(text), prose)]
        for match in ULP.finditer(prose):
            if not any(begin <= match.start() and match.end(1) <= end for begin, end in covered):
                yield f"include/posenc/{header}: '{match[0]}' is no promise of tests/accuracy/promises.hpp"


def main():
    data = Data()
    listed = claims()
    failed = 0
    pages = {path.relative_to(ROOT).as_posix(): path for folder in (".", "tests", "bench", "cmake", "examples", "include")
             for path in sorted((ROOT / folder).glob("*.md" if folder == "." else "**/*.md"))}
    for name in sorted(set(listed) - set(pages)):
        print(f"{name}: no such page")
        failed += 1
    for name, path in pages.items():
        if name in LEFT_OUT and name not in listed:
            continue
        for problem in check_page(name, path.read_text(), listed.get(name, []), data):
            print(f"{name}: {problem}")
            failed += 1
    for problem in check_docstrings(data):
        print(problem)
        failed += 1
    number = sum(len(sources) for rows in listed.values() for _, sources in rows)
    print(f"{number} claims on pages, {failed} wrong")
    sys.exit(failed > 0)


main()
