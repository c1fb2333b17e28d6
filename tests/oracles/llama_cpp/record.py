#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""record.py RECORD LLAMA_FOLDER RELEASE OUT [ARCHITECTURE...]: writes recordings of a running llama.cpp, see README.md.
Without ARCHITECTURE it writes those of all, and absent.tsv if there is none.

Lines of graphs.tsv are: architecture, variant, layers. = means the layers of the variant plain. n* before a layer counts equal
layers, and repeat; begins one period of a pattern. A layer without attention is -. Other layers have the number of the rotation
of queries and of keys in rotations.tsv, scale, soft cap, max_bias, 1 if there are sinks, and the numbers of two rows in rows.tsv:
visible keys and temperatures. In rows.tsv x means keys that are not one range. Masks that a graph computes, for keys that an
indexer chooses, are not recorded.

A line of architectures.tsv has the keys of the plain model, and the tensors of divisors that the loader requires, with their
numbers of elements. The decoder of an encoder-decoder is recorded, without its attention to the encoder. plm is recorded with
one token, because its graph of several tokens fails."""
import functools
import itertools
import math
import multiprocessing
import pathlib
import re
import sys
import tempfile

import facts
import models
from program import Program
from variants import VARIANTS, divisors

# Variants of an architecture that llama.cpp does not run.
ABSENT = pathlib.Path(__file__).with_name("absent.tsv")
POSITIONS = [0, 1, 1000, 100000]
PROCESSES = 4
TOKENS = 40
ALIBI = [(4, 8.0), (12, 8.0), (32, 8.0), (40, 8.0), (12, 4.0)]


def text_of(v):
    if isinstance(v, bool):
        return f"b{int(v)}"
    if isinstance(v, list):
        return "a" + ",".join(str(int(x)) for x in v)
    return {int: "i", float: "f", str: "s"}[type(v)] + (f"{v:.9g}" if isinstance(v, float) else str(v))


def keys_text(keys, architecture):
    return " ".join(f"{k.removeprefix(architecture)}={text_of(v)}" for k, v in keys.items())


def runs(texts):
    """Equal neighbours as "count*text"."""
    groups = ((text, len(list(group))) for text, group in itertools.groupby(texts))
    return ";".join((f"{count}*" if count > 1 else "") + text for text, count in groups)


def layers_text(texts):
    depth = len(texts)
    for period in range(1, depth // 2 + 1):  # layers of a repeated pattern are written once
        if all(texts[i] == texts[i % period] for i in range(depth)):
            return "repeat;" + runs(texts[:period])
    return runs(texts)


class Architecture:
    """The recordings of one architecture."""

    def __init__(self, name, program, absent):
        self.name, self.program = name, program
        self.keys, self.tensors, self.pairs, self.graphs, self.absent = {}, {}, 32, {}, []
        self.divisors = {}  # pairs of the tensors of divisors that the loader requires
        for variant in VARIANTS:
            if variant in absent or not self.record(variant):
                self.absent.append(variant)
                if variant == "plain":
                    break

    def tensors_of(self, depth):
        """Tensors for another depth. Layers from the fifth on repeat with a period of four, as the lists of models.py do."""
        tensors, layers = {}, {}
        for name, tensor in self.tensors.items():
            if m := re.match(r"blk\.(\d+)\.(.*)", name):
                layers.setdefault(int(m[1]), {})[m[2]] = tensor
            else:
                tensors[name] = tensor
        for i in range(depth):
            for name, tensor in layers.get(i if i < models.LAYERS else 4 + i % 4, {}).items():
                tensors[f"blk.{i}.{name}"] = tensor
        return tensors

    def record(self, variant):
        changes, names, context, first = VARIANTS[variant]
        keys = models.keys(self.name, changes)
        removed = {self.name + k for k, v in changes.items() if v is None}
        keys = {k: v for k, v in (self.keys | keys).items() if k not in removed}
        depth = keys[self.name + ".block_count"]
        tensors = models.tensors(self.name, depth) if variant == "plain" else self.tensors_of(depth)
        tensors |= {n: ([self.pairs], divisors(n, self.pairs)) for n in names}
        tokens = 1 if self.name in models.ONE_TOKEN else TOKENS
        answers, given, learned = self.program.load(keys, tensors, context, first, tokens, depth != models.LAYERS)
        if answers[-1]["end"] != "decoded":
            said = [x for x in answers[-1]["said"].split("\n") if "error" in x or "ASSERT" in x]
            print(f"{self.name}\t{variant}\t{(said or [answers[-1]['said']])[-1][-160:]}", file=sys.stderr)
            return False
        layers, inputs = facts.by_layer(answers)
        if variant == "plain":
            self.keys, self.tensors = given, learned
            self.divisors = {n: shape[0] for n, (shape, _) in learned.items() if n.startswith("rope_f")}
            self.tensors |= {n: ([pairs], divisors(n, pairs)) for n, pairs in self.divisors.items()}
            ropes = [op for layer in layers.values() for op in layer.ropes_of_attention() if op]
            self.pairs = ropes[0]["n"] // 2 if ropes else 32
        further = {k: v for k, v in given.items() if k not in keys and k not in self.keys}
        self.graphs[variant] = [layers[i].facts(inputs) if i in layers else None for i in range(depth)], further
        return True


def record_one(name, record, folder, absent):
    with tempfile.TemporaryDirectory() as work:
        program = Program(record, folder, work)
        try:
            found = Architecture(name, program, absent.get(name, ()))
        finally:
            program.close()
        found.program = None
        print(f"{name}: {len(found.graphs)} graphs", file=sys.stderr, flush=True)
        return found


class Table:
    """Distinct rows, with numbers in the order of their first use."""

    def __init__(self):
        self.numbers = {}

    def number(self, row):
        return "-" if row is None else str(self.numbers.setdefault(row, len(self.numbers)))


class Writer:
    def __init__(self, out, release):
        self.out, self.release, self.ropes, self.rows = pathlib.Path(out), release, Table(), Table()
        self.out.mkdir(parents=True, exist_ok=True)

    def file(self, name, header, lines):
        (self.out / name).write_text("".join(f"{line}\n" for line in [f"# {self.release}. {header}", *lines]))

    def layer(self, layer):
        if layer is None:
            return "-"
        queries, keys, scale, cap, bias, sinks, visible, temperature = layer
        return ",".join((self.ropes.number(queries), self.ropes.number(keys), scale, cap, bias, sinks, self.rows.number(visible),
                         self.rows.number(temperature)))

    def graphs(self, architecture):
        plain = None
        for variant, (layers, further) in architecture.graphs.items():
            text = layers_text([self.layer(layer) for layer in layers])
            plain = plain or text
            shown = "=" if variant != "plain" and text == plain else text
            yield "\t".join([architecture.name, variant, shown, keys_text(further, architecture.name)]).rstrip("\t")

    def rotation(self, program, parameters):
        n, factors = parameters[0], parameters[-1]
        numbers = " ".join(f"{x:.9g}" for x in parameters[:-1])
        values = " ".join(map(str, divisors(factors, n // 2))) if factors.startswith("rope_f") else ""
        width = max(n, sum(parameters[-5:-1]))  # sections must fit, even if fewer channels are rotated
        outputs = [program.ask(f"rotate {width} {numbers} {position} {values}")[-1]["values"][:n] for position in POSITIONS]
        return "\t".join([numbers + " " + (factors or "-"), *(" ".join(f"{v:.7g}" for v in values) for values in outputs)])

    def alibi(self, program, heads, bias):
        values = program.ask(f"alibi {heads} {bias}")[-1]["values"]
        return " ".join(f"{math.log(a / b):.7g}" for a, b in zip(values[::2], values[1::2]))

    def write(self, architectures, program):
        self.file("architectures.tsv", "Keys of the plain model, and elements of the tensors of divisors that it needs", [
            "\t".join([a.name, keys_text({k: v for k, v in a.keys.items() if not k.startswith(('general.', 'tokenizer.'))}, a.name),
                       *(f"{name}:{pairs}" for name, pairs in a.divisors.items())]) for a in architectures])
        self.file("variants.tsv", "Name, context, first position, changed keys, tensors", [
            f"{v}\t{context}\t{first}\t" + " ".join(f"{k}={'-' if x is None else text_of(x)}" for k, x in changes.items())
            + "\t" + " ".join(names) for v, (changes, names, context, first) in VARIANTS.items()])
        self.file("graphs.tsv", "Architecture, variant, layers, further keys. A layer: rotations of queries and keys, scale, "
                  "soft cap, max_bias, sinks, rows of visible keys, rows of temperatures",
                  [line for a in architectures for line in self.graphs(a)])
        self.file("rows.tsv", f"Of the queries {facts.ROWS}: first and last visible key, or temperature", [
            f"{n}\t{row}" for row, n in self.rows.numbers.items()])
        self.file("alibi.tsv", "Heads, max_bias, logarithms of the ratio of probabilities at distances 0 and 1", [
            f"{heads}\t{bias:g}\t{self.alibi(program, heads, bias)}" for heads, bias in ALIBI])
        self.file("rotations.tsv", f"n mode original base scale ext attn fast slow sections factors; outputs at {POSITIONS}", [
            f"{n}\t{self.rotation(program, p)}" for p, n in self.ropes.numbers.items()])


def main(record, folder, release, out, *chosen):
    absent = dict(line.split("\t") for line in ABSENT.read_text().splitlines()) if ABSENT.exists() else {}
    absent = {a: v.split() for a, v in absent.items()}
    one = functools.partial(record_one, record=record, folder=folder, absent=absent)
    with multiprocessing.Pool(PROCESSES) as pool:
        found = pool.map(one, chosen or models.ARCHITECTURES, chunksize=1)
    writer = Writer(out, release)
    with tempfile.TemporaryDirectory() as work:
        program = Program(record, folder, work)
        writer.write([a for a in found if a.graphs], program)
        program.close()
    if not chosen and not ABSENT.exists():
        ABSENT.write_text("".join(f"{a.name}\t{' '.join(a.absent)}\n" for a in found if a.absent))
    print(f"{len(found)} architectures, {sum(len(a.graphs) for a in found)} graphs, {len(writer.ropes.numbers)} rotations")


if __name__ == "__main__":
    main(*sys.argv[1:])
