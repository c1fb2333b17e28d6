#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""record.py RECORD LLAMA_FOLDER RELEASE OUT [ARCHITECTURE...]: writes recordings of a running llama.cpp, see README.md."""
import collections
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


def text_of(v):
    if isinstance(v, bool):
        return f"b{int(v)}"
    if isinstance(v, list):
        return "a" + ",".join(str(int(x)) for x in v)
    return {int: "i", float: "f", str: "s"}[type(v)] + (f"{v:.9g}" if isinstance(v, float) else str(v))


def keys_text(keys, architecture):
    return " ".join(f"{k.removeprefix(architecture)}={text_of(v)}" for k, v in keys.items())


class Table:
    """Distinct rows, with numbers in the order of their first use."""

    def __init__(self):
        self.numbers = {}

    def number(self, row):
        return self.numbers.setdefault(row, len(self.numbers))


class Recorder:
    def __init__(self, program, absent):
        self.program, self.ropes, self.rows = program, Table(), Table()
        self.architectures, self.learned, self.pairs, self.graphs, self.now_absent = {}, {}, {}, {}, {}
        self.absent = absent

    def layer_text(self, layer, inputs):
        q, k = layer.ropes_of_attention()
        softmax = layer.softmax
        if softmax is None and q is None:
            return "-"
        rope = lambda op: "-" if op is None else str(self.ropes.number(facts.rope_of(op)))
        rows = "-"
        if softmax and softmax["mask"] in inputs:
            mask = inputs[softmax["mask"]]
            if mask["extents"][1] > facts.ROWS[-1]:
                rows = self.rows.number(" ".join(facts.visible(mask, i) for i in facts.ROWS))
        temperature = "-"
        if layer.temperature in inputs:
            values = inputs[layer.temperature]["values"]
            temperature = self.rows.number(" ".join(f"{values[i]:.9g}" for i in facts.ROWS))
        scale = f"{layer.scale * softmax['scale']:.7g}" if softmax else "-"
        cap = layer.cap or (softmax["cap"] if softmax else 0)
        bias = softmax["max_bias"] if softmax else 0
        return ",".join(map(str, (rope(q), rope(k), scale, f"{cap:g}", f"{bias:g}", int(layer.sinks), rows, temperature)))

    def graph_text(self, answers, depth):
        layers, inputs = facts.by_layer(answers)
        texts = [self.layer_text(layers[i], inputs) if i in layers else "-" for i in range(depth)]
        runs = []
        for i, text in enumerate(texts):
            if runs and runs[-1][1] == text:
                runs[-1][0] += 1
            else:
                runs.append([1, text])
        for period in range(1, depth // 2 + 1):  # layers of a repeated pattern are written once
            if len(runs) > 2 and all(texts[i] == texts[i % period] for i in range(depth)):
                return "repeat;" + ";".join(texts[:period])
        return ";".join(f"{n}*{text}" for n, text in runs)

    def record(self, architecture, variant):
        changes, names, context, first = VARIANTS[variant]
        base = self.architectures.get(architecture, {})
        learned = {k: v for k, v in base.items() if k not in models.keys(architecture)}
        keys = models.keys(architecture, changes)
        removed = {architecture + k for k, v in changes.items() if v is None}
        keys = {k: v for k, v in (learned | keys).items() if k not in removed}
        depth = keys[architecture + ".block_count"]
        if variant in self.absent.get(architecture, ()):
            return None
        tensors = models.tensors(architecture, depth) if variant == "plain" else self.tensors_of(architecture, depth)
        tensors |= {n: ([self.pairs[architecture]], divisors(n, self.pairs[architecture])) for n in names}
        answers, given, learned = self.program.load(keys, tensors, context, first,
                                                   learn_again=depth != models.LAYERS)
        if answers[-1]["end"] != "decoded":
            self.now_absent.setdefault(architecture, []).append(variant)
            said = [x for x in answers[-1]["said"].split("\n") if "error" in x or "ASSERT" in x]
            return (said or [answers[-1]["said"]])[-1]
        if variant == "plain":
            self.architectures[architecture], self.learned[architecture] = given, learned
            ropes = [op for layer in facts.by_layer(answers)[0].values() for op in layer.ropes_of_attention() if op]
            self.pairs[architecture] = ropes[0]["n"] // 2 if ropes else 32
        further = {k: v for k, v in given.items() if k not in keys and k not in base}
        self.graphs[architecture, variant] = self.graph_text(answers, depth), further
        return None

    def tensors_of(self, architecture, depth):
        """Tensors for another depth. Layers from the fifth on repeat with a period of four, as the lists of models.py do."""
        tensors, layers = {}, collections.defaultdict(dict)
        for name, tensor in self.learned[architecture].items():
            if m := re.match(r"blk\.(\d+)\.(.*)", name):
                layers[int(m[1])][m[2]] = tensor
            else:
                tensors[name] = tensor
        for i in range(depth):
            for name, tensor in layers[i if i < models.LAYERS else 4 + i % 4].items():
                tensors[f"blk.{i}.{name}"] = tensor
        return tensors

    def rotation(self, parameters):
        n, factors = parameters[0], parameters[-1]
        numbers = " ".join(f"{x:.9g}" for x in parameters[:-1])
        values = " ".join(map(str, divisors(factors, n // 2))) if factors in (
            "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight") else ""
        outputs = []
        for position in POSITIONS:
            answer = self.program.ask(f"rotate {n} {numbers} {position} {values}")[-1]
            outputs.append(" ".join(f"{v:.8g}" for v in answer["values"]))
        return "\t".join([numbers + " " + (factors or "-"), *outputs])

    def write(self, out, release):
        def file(name, header, lines):
            (out / name).write_text("".join(f"{line}\n" for line in [f"# {release}. {header}", *lines]))

        file("architectures.tsv", "Keys of the plain model", [
            f"{a}\t{keys_text({k: v for k, v in keys.items() if not k.startswith(('general.', 'tokenizer.'))}, a)}"
            for a, keys in self.architectures.items()])
        file("variants.tsv", "Name, context, first position, changed keys, tensors", [
            f"{v}\t{context}\t{first}\t" + " ".join(f"{k}={'-' if x is None else text_of(x)}" for k, x in changes.items())
            + "\t" + " ".join(names) for v, (changes, names, context, first) in VARIANTS.items()])
        file("graphs.tsv", "Architecture, variant, layers, further keys. A layer: rotations of queries and keys, scale, "
             "soft cap, max_bias, sinks, rows of visible keys, rows of temperatures", [
                 "\t".join([a, v, "=" if v != "plain" and text == self.graphs.get((a, "plain"), ("",))[0] else text,
                            keys_text(further, a)]).rstrip("\t") for (a, v), (text, further) in self.graphs.items()])
        file("rows.tsv", f"Of the queries {facts.ROWS}: first and last visible key, or temperature", [
            f"{n}\t{row}" for row, n in self.rows.numbers.items()])
        file("rotations.tsv", f"n mode original base scale ext attn fast slow sections factors; outputs at {POSITIONS}", [
            f"{n}\t{self.rotation(p)}" for p, n in list(self.ropes.numbers.items())])


def main(record, folder, release, out, *chosen):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        absent = dict(line.split("\t") for line in ABSENT.read_text().splitlines()) if ABSENT.exists() else {}
        recorder = Recorder(Program(record, folder, work), {a: v.split() for a, v in absent.items()})
        for architecture in chosen or models.ARCHITECTURES:
            for variant in VARIANTS:
                failure = recorder.record(architecture, variant)
                if failure:
                    print(f"{architecture}\t{variant}\t{failure[-160:]}", file=sys.stderr)
                    if variant == "plain":
                        break
        recorder.write(out, release)
        (out / "absent.tsv").write_text("".join(
            f"{a}\t{' '.join(v)}\n" for a, v in recorder.now_absent.items()))
    print(f"{len(recorder.architectures)} architectures, {len(recorder.graphs)} graphs, {len(recorder.ropes.numbers)} rotations")


if __name__ == "__main__":
    main(*sys.argv[1:])
