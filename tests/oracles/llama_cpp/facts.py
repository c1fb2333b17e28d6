# SPDX-License-Identifier: MIT
"""What a graph of llama.cpp does with positions, by layer, from the operators that it is built of."""
import re

ROWS = [0, 1, 7, 8, 9, 14, 15, 16, 17, 23, 39]  # queries whose visible keys are kept


def visible(mask, query):
    """The first and the last visible key of a query, "x" if there are gaps between them."""
    width = mask["extents"][0]
    row = mask["values"][query * width:(query + 1) * width]
    seen = [i for i, v in enumerate(row) if v is not None and v > -1e30]
    return f"{seen[0]}-{seen[-1]}" if seen and len(seen) == seen[-1] - seen[0] + 1 else "x"


def rope_of(op):
    """The parameters of a rotation, in the order of the recorder's command."""
    ramp = (op["original"], op["fast"], op["slow"]) if op["ext"] else (0, 0, 0)
    return (op["n"], op["mode"], ramp[0], op["base"], op["scale"], op["ext"], op["attn"], ramp[1], ramp[2], *op["sections"],
            op["factors"])


def role(name):
    name = name.replace("model.layers.{}.self_attn.", "")
    if re.match(r"(indexer|lid|index_)", name):
        return "indexer"
    if m := re.match(r"(attn_)?([qQkK])", name):
        return m[2].lower()
    return "other"


class Layer:
    """The operators of a layer, in their order."""

    def __init__(self):
        self.ropes, self.softmax, self.sinks, self.scale, self.cap, self.temperature = [], None, False, 1.0, 0.0, None

    def add(self, op):
        kind = op["op"]
        if kind == "rope":
            self.ropes.append((role(op["a"]), op))
        elif kind == "offset":
            next(r for _, r in reversed(self.ropes) if r["result"] == op["result"])["offset"] = op["offset"]
        elif kind == "scale" and role(op["a"]) in "qk":
            if op["a"].startswith("kq_tanh"):
                self.cap = op["factor"]
            self.scale *= op["factor"]
        elif kind == "mul" and role(op["a"]) == "q":
            self.temperature = op["b"]
        elif kind == "softmax" and op["mask"]:
            self.softmax = op | {"scale": op["scale"] * self.scale}  # of several, the last is the layer's own
            self.scale = 1.0
        elif kind == "sinks":
            self.sinks = True

    def ropes_of_attention(self):
        """The rotations of queries and keys. If none has a telling name, these are the first two."""
        found = {r: op for r, op in reversed(self.ropes)}
        if "q" in found or "k" in found:
            return found.get("q"), found.get("k")
        others = [op for r, op in self.ropes if r == "other"]
        return (others + [None, None])[:2]

    def facts(self, inputs):
        """Returns rotations of queries and keys, scale, soft cap, max_bias, sinks, visible keys and temperatures."""
        queries, keys = (op and rope_of(op) for op in self.ropes_of_attention())
        if self.softmax is None and queries is None:
            return None
        softmax = self.softmax or {"scale": None, "cap": 0, "max_bias": 0, "mask": ""}
        rows = temperatures = None
        mask = inputs.get(softmax["mask"])
        if mask and mask["extents"][1] > ROWS[-1]:
            rows = " ".join(visible(mask, i) for i in ROWS)
        if self.temperature in inputs:
            values = inputs[self.temperature]["values"]
            temperatures = " ".join(f"{values[i]:.9g}" for i in ROWS)
        scale = "-" if softmax["scale"] is None else f"{softmax['scale']:.7g}"
        return (queries, keys, scale, f"{self.cap or softmax['cap']:g}", f"{softmax['max_bias']:g}", str(int(self.sinks)), rows,
                temperatures)


def by_layer(answers):
    """Layers by their number. Attention to an encoder's output, which follows a layer's own, is left out."""
    layers, layer, is_cross = {}, 0, False
    for op in answers:
        if op.get("op") == "name":
            is_cross = (is_cross or op["a"].startswith("attn_norm_cross")) and not op["a"].startswith("ffn_")
            if m := re.search(r"-(\d+)( \(.*)?$", op["a"]):
                layer = int(m[1])
        elif "op" in op and not is_cross:
            layers.setdefault(layer, Layer()).add(op)
    return layers, {a["input"]: a for a in answers if "input" in a}
