#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keeps the tables of a run in bench/results, and shows ten of their rows in bench/README.md and bench/results/limits.svg.

    results.py                    renews the page and the picture from the tables
    results.py <build>/bench      first keeps the tables <build>/bench_readme.md and <build>/bench_peers.md, if they are there
    results.py --check            fails if the page or the picture differs from the tables

A table's file is named after the maker of the processor, the first word of its text: amd.txt, amd_peers.txt.
"""
import pathlib
import re
import sys
import textwrap

BENCH = pathlib.Path(__file__).resolve().parent.parent
RESULTS, PAGE, PICTURE = BENCH / "results", BENCH / "README.md", BENCH / "results" / "limits.svg"
BEGIN, END = "<!-- ten rows, by report/results.py -->\n", "<!-- end of the ten rows -->\n"
MACHINES = {"amd": ("AMD EPYC (Zen 5)", "#0072b2"), "intel": ("Intel Xeon (Emerald Rapids)", "#e69f00")}
LIBRARIES = {"ggml": "ggml", "xnnpack": "XNNPACK", "onnxruntime": "ONNX Runtime", "onednn": "oneDNN", "onednn_graph": "oneDNN's graphs",
             "openblas": "OpenBLAS", "libtorch": "libtorch", "libtorch_sdpa": "libtorch"}
# What is measured, the case, and the case of the other libraries.
ROWS = [
    ("rotate one token, angles from a table", "rotary/llama3_8b/decode/half/table", "rotary/llama3_8b/half/table/tokens_1"),
    ("rotate 512 tokens, from a table", "rotary/llama3_8b/prefill_512/half/table", "rotary/llama3_8b/half/table/tokens_512"),
    ("rotate 512 tokens, angles computed", "rotary/llama3_8b/prefill_512/half/on_the_fly", None),
    ("add sinusoids to 8 x 4096 tokens", "additive/transformer_base/batch_8_x_4096/sinusoidal", None),
    ("attention, prompt of 1024", "attention/llama3_8b/prefill_1024", "attention/llama3_8b/prefill_1024"),
    ("... with ALiBi", "attention/llama3_8b/prefill_1024/alibi", None),
    ("... in bfloat16", "attention/llama3_8b/prefill_1024/bf16", "attention/llama3_8b/bf16_prefill_1024"),
    ("... backward", "attention/llama3_8b/backward_1024", None),
    ("one query, cache of 4096 keys", "attention/llama3_8b/decode_4096", "attention/llama3_8b/decode_4096"),
    ("... in bfloat16", "attention/llama3_8b/decode_4096/bf16_cache", "attention/llama3_8b/bf16_decode_4096"),
]


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(name):
    """Returns the rows of all tables of a file of results: {case: {column: cell}}."""
    found, head = {}, None
    for line in (RESULTS / f"{name}.txt").read_text().splitlines():
        if not line.startswith("|"):
            head = None
        elif head is None:
            head = cells(line)
        elif not set(line) <= set("|-: "):
            row = dict(zip(head, cells(line)))
            found[row["case"]] = row
    return found


def aligned(text):
    """Returns a text whose tables have columns of one width, and whose paragraphs have lines of at most 120 characters."""
    blocks = []
    for block in re.split(r"\n{2,}", text.strip("\n")):
        if not block.startswith("|"):
            blocks.append(textwrap.fill(" ".join(block.split()), 120, break_long_words=False, break_on_hyphens=False))
            continue
        head, rule, *rows = [cells(line) for line in block.splitlines()]
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        right = [mark.endswith(":") for mark in rule]
        lines = [[cell.rjust(width) if is_right else cell.ljust(width) for cell, width, is_right in zip(row, widths, right)]
                 for row in (head, *rows)]
        lines.insert(1, ["-" * (width - is_right) + ":" * is_right for width, is_right in zip(widths, right)])
        blocks.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
    return "\n\n".join(blocks) + "\n"


def keep(build):
    for suffix, file in (("", f"{build}_readme.md"), ("_peers", f"{build}_peers.md")):
        if pathlib.Path(file).exists():
            text = pathlib.Path(file).read_text()
            (RESULTS / f"{re.match('[A-Za-z]+', text)[0].lower()}{suffix}.txt").write_text(aligned(text))
        else:
            print(f"no {file}: its table stays")


def share(row):
    """Returns the share of the processor's limit that a case reaches."""
    beside = row.get("beside the limit")
    if beside:
        return 1 / float(beside.split()[0])
    return float((row["of the bandwidth"] or row["of the peak"]).split()[0])


def best_other(row):
    """Returns how many times as long the fastest other library takes, with its name."""
    times = {name: float(re.match(r"[\d.]+", cell)[0]) for name, cell in row.items()
             if name not in ("case", "ours") and cell}
    name = min(times, key=times.get)
    return f"{times[name]:.1f} x {LIBRARIES[name]}"


def ten_rows():
    head = ["float, one thread"]
    for machine, (name, _) in MACHINES.items():
        head += [name, "of the limit", "next library"]
    yield "| " + " | ".join(head) + " |"
    yield "| --- |" + " ---: | ---: | --- |" * len(MACHINES)
    tables = {name: table(name) for machine in MACHINES for name in (machine, machine + "_peers")}
    for what, case, peers in ROWS:
        row = [what]
        for machine in MACHINES:
            own = tables[machine][case]
            other = best_other(tables[machine + "_peers"][peers]) if peers else ""
            row += [own["time"].split(" ±")[0], f"{100 * share(own):.0f} %", other]
        yield "| " + " | ".join(row) + " |"


def picture():
    left, top, width, step, bar = 300, 62, 540, 46, 16
    height = top + step * len(ROWS) + 40
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{height}" viewBox="0 0 900 {height}"'
             ' font-family="sans-serif" font-size="14">',
             f'<rect width="900" height="{height}" fill="#ffffff"/>',
             '<text x="12" y="24" font-size="16" font-weight="bold">How near each call comes to the limit of the processor</text>']
    x = left
    for name, color in MACHINES.values():
        lines += [f'<rect x="{x}" y="36" width="12" height="12" fill="{color}"/>', f'<text x="{x + 18}" y="47">{name}</text>']
        x += 190
    bottom = top + step * len(ROWS)
    for percent in range(0, 101, 25):
        x = left + width * percent // 100
        lines += [f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="#cccccc"/>',
                  f'<text x="{x}" y="{bottom + 20}" text-anchor="middle">{percent} %</text>']
    tables = {machine: table(machine) for machine in MACHINES}
    previous = ""
    for i, (what, case, _) in enumerate(ROWS):
        y = top + step * i + 6
        label = what
        if what.startswith("..."):
            label = previous + "," + what.removeprefix("...").replace(" with", " with")
        else:
            previous = what.split(",")[0]
        lines.append(f'<text x="{left - 10}" y="{y + bar + 5}" text-anchor="end">{label}</text>')
        for j, (machine, (_, color)) in enumerate(MACHINES.items()):
            reached = share(tables[machine][case])
            lines += [f'<rect x="{left}" y="{y + j * bar}" width="{width * min(reached, 1):.0f}" height="{bar - 1}" fill="{color}"/>',
                      f'<text x="{left + width * min(reached, 1) + 5:.0f}" y="{y + j * bar + 12}" font-size="12">'
                      f'{100 * reached:.0f}</text>']
    return "\n".join(lines + ["</svg>"]) + "\n"


def page():
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + "\n" + "\n".join(ten_rows()) + "\n\n" + text[end:]


def main(argument):
    if argument == "--check":
        stale = [file for file, text in ((PAGE, page()), (PICTURE, picture())) if file.read_text() != text]
        for file in stale:
            print(f"{file.relative_to(BENCH.parent)} differs from bench/results/*.txt: run bench/report/results.py")
        return len(stale)
    if argument:
        keep(argument)
    PAGE.write_text(page())
    PICTURE.write_text(picture())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
