#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes examples/guide/compatibility.md: each model type of config.json and each architecture of GGUF, and how its reader was checked.

    tests/oracles/compatibility.py           prints the page
    tests/oracles/compatibility.py --write   writes it
    tests/oracles/compatibility.py --check   fails if the page is out of date, if a name of the library's tables has no
                                             row, or if a row has no known status

The rows come from */status.tsv of this folder: format, name, status, release, note. If there is none for GGUF, they come
from the library's tables.
"""
import collections
import json
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TABLES = ROOT / "include" / "posenc" / "interop" / "detail"
PAGE = ROOT / "examples" / "guide" / "compatibility.md"
FORMATS = {
    "config.json": ["hf_plain_types", "hf_window_types", "hf_layered_types", "hf_custom_types", "hf_unsupported_types"],
    "vision_config": ["hf_vision_types"],
    "gguf": ["gguf_architectures"],
}
STATUSES = {"compared": "compared", "code": "read from code", "refused": "refused", "none": "without rotation"}
Row = collections.namedtuple("Row", "format name status release note")


def rows_of_table(name):
    """Yields (names, text of the row) of a table of the library."""
    text = (TABLES / f"{name}.hpp").read_text()
    for found in re.finditer(r'\{\.names =\s*((?:"[^"]*"\s*)+)(.*?)(?=\{\.names|\Z)', text, re.S):
        yield "".join(re.findall(r'"([^"]*)"', found[1])).split(), found[2]


def table_names(format):
    return {name for table in FORMATS[format] for names, _ in rows_of_table(table) for name in names}


def rows_of_gguf_tables():
    for names, text in rows_of_table("gguf_architectures"):
        has = re.match(r'[,\s]*\.has =\s*((?:"[^"]*"\s*)+)(.*)', text, re.S)
        for name in names:
            if has is None:
                yield Row("gguf", name, "code", "", "")
            else:
                status = "refused" if ".has_rotary = true" in has[2] else "none"
                yield Row("gguf", name, status, "", "it has " + "".join(re.findall(r'"([^"]*)"', has[1])))


def rows():
    found = []
    for path in sorted(HERE.glob("*/status.tsv")):
        for line in path.read_text().splitlines():
            if line and not line.startswith("#"):
                found.append(Row(*(line.split("\t") + [""] * 5)[:5]))
    if not any(row.format == "gguf" for row in found):
        found += rows_of_gguf_tables()
    return sorted(set(found), key=lambda row: (row.format, row.name.lower(), row))


def counts(all_rows, format):
    """Returns the number of rows of each status."""
    return collections.Counter(row.status for row in all_rows if row.format == format)


def page(all_rows):
    version = json.loads((HERE / "transformers" / "versions.json").read_text())["transformers"]

    def releases(format):
        return sorted({row.release for row in all_rows if row.format == format and row.status == "compared"} - {""})

    def table(format):
        """Yields names without a note by status, and a table of those with one. Counts and messages stay in status.tsv."""
        groups = collections.defaultdict(list)
        for row in all_rows:
            if row.format == format:
                note = re.sub(r"^\d+ files agree.*|(?<=^its class was not run):.*", "", row.note)
                groups[list(STATUSES).index(row.status) if row.status in STATUSES else -1, note].append(f"`{row.name}`")
        noted = []
        for (status, note), names in sorted(groups.items(), key=lambda group: (group[0][0], -len(group[1]), group)):
            words = list(STATUSES.values())[status]
            if note:
                note = note.replace("|", "\\|").replace("<", "&lt;")
                noted.append(f"| {words} | {note} | {', '.join(names)} |")
            else:
                yield from textwrap.wrap(f"**{words.capitalize()}**: {', '.join(names)}.", 120, break_on_hyphens=False)
                yield ""
        if noted:
            yield "| status | note | names |"
            yield "| --- | --- | --- |"
            yield from noted
            yield ""

    def summary(format):
        number = counts(all_rows, format)
        return ", ".join(f"{number[status]} {words}" for status, words in STATUSES.items())

    return "\n".join([
        "# Compatibility",
        "",
        "Which values of `model_type` in config.json and which architectures of GGUF posenc reads, and how that was checked.",
        "",
        "- **compared**: the release named below ran a small model of the type. Rotation, scale, soft cap, temperature,",
        "  window and sinks of each layer are those that the reader returns, except for what a note says.",
        "- **read from code**: the reader follows the source, and nothing was run.",
        "- **refused**: the reader throws a `ConfigError`, for the reason in the note.",
        "- **without rotation**: the model does not rotate, so the reader throws, too.",
        "",
        f"All model types of transformers {version} are listed. Of other names, file and options must state",
        "[all settings](model_files.md#files-of-models-that-posenc-does-not-know).",
        "`tests/oracles/compatibility.py --write` writes this page.",
        "",
        "## config.json",
        "",
        f"Model types: {summary('config.json')}.",
        f"Compared with {', '.join(releases('config.json'))}; of multimodal types the text model was compared.",
        "How: [recordings](../../tests/oracles/transformers/README.md),",
        "[a row for each type](../../tests/oracles/transformers/status.tsv).",
        "",
        *table("config.json"),
        "## Vision towers of config.json",
        "",
        f"Types of vision_config: {summary('vision_config')}.",
        "Compared are the rotation of every patch of a small image, and the scale.",
        "",
        *table("vision_config"),
        "## GGUF",
        "",
        f"Architectures: {summary('gguf')}.",
        f"Compared with {', '.join(releases('gguf'))}.",
        "How: [recordings](../../tests/oracles/llama_cpp/README.md),",
        "[a row for each architecture](../../tests/oracles/llama_cpp/status.tsv).",
        "",
        *table("gguf")])


def main(argument):
    all_rows = rows()
    text = page(all_rows)
    if argument == "--write":
        PAGE.write_text(text)
        return 0
    if argument != "--check":
        print(text, end="")
        return 0
    errors = [f"{row.format} {row.name}: the status '{row.status}' is not known" for row in all_rows if row.status not in STATUSES]
    for format in FORMATS:
        names = [row.name for row in all_rows if row.format == format]
        errors += [f"{format} {name}: no row" for name in sorted(table_names(format) - set(names))]
        errors += [f"{format} {name}: {number} rows" for name, number in collections.Counter(names).items() if number > 1]
    if not PAGE.exists() or PAGE.read_text() != text:
        errors.append(f"{PAGE.relative_to(ROOT)} is out of date: tests/oracles/compatibility.py --write")
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
