# SPDX-License-Identifier: MIT
"""A running llama.cpp, and tiny model files for it. Nothing of an architecture must be known: missing keys, tensors and
shapes are learned from the messages of the loader."""
import json
import math
import os
import pathlib
import re
import struct
import subprocess

ALIGNMENT = 32


def _text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(v):
    """The type and bytes of a value: bool, int (uint32), float (float32), str, or a list of one of these."""
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, int):
        return (4, struct.pack("<I", v)) if v >= 0 else (5, struct.pack("<i", v))
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, str):
        return 8, _text(v)
    kind = 5 if type(v[0]) is int else _value(v[0])[0]
    items = [struct.pack("<i", x) if kind == 5 else _value(x)[1] for x in v]
    return 9, struct.pack("<IQ", kind, len(v)) + b"".join(items)


def write_file(path, keys, tensors):
    """Writes a GGUF file. Tensors are {name: (shape, values or None)}; without values they are zeros, which take no room
    on the disk."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(keys))]
    for key, v in keys.items():
        kind, raw = _value(v)
        head.append(_text(key) + struct.pack("<I", kind) + raw)
    offset, data = 0, []
    for name, (shape, values) in tensors.items():
        head.append(_text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape)
                    + struct.pack("<IQ", 0, offset))
        if values:
            data.append((offset, struct.pack(f"<{len(values)}f", *values)))
        offset += -(-4 * math.prod(shape) // ALIGNMENT) * ALIGNMENT
    raw = b"".join(head)
    start = -(-len(raw) // ALIGNMENT) * ALIGNMENT
    with open(path, "wb") as f:
        f.write(raw)
        f.truncate(start + offset)
        for at, values in data:
            f.seek(start + at)
            f.write(values)


# What a key is, if the architecture requires it and the specification does not have it.
USUAL = [(r"epsilon", 1e-5), (r"sliding_window_pattern", 4), (r"sliding_window", 16), (r"dimension_sections", [12, 10, 10, 0]),
         (r"expert_used_count", 2), (r"expert_count", 4), (r"expert.*feed_forward_length", 64), (r"lora_rank", 32),
         (r"key_length_mla", 96), (r"value_length_mla", 64), (r"ssm.conv_kernel", 4), (r"ssm.inner_size", 256),
         (r"ssm.state_size", 16), (r"token_type_count", 2), (r"ssm.time_step_rank", 8), (r"l_cache", 3), (r"alibi", 8.0),
         (r"(scale|clamp|factor|beta|bias)$", 1.0), (r"dimension_count", 64)]


class Program:
    """llama.cpp, in a process that is started again after it ended itself."""

    def __init__(self, record, folder, work):
        self.command, self.process = [str(record), str(folder)], None
        self.file = pathlib.Path(work) / "model.gguf"
        self.loads = 0

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process = None

    def ask(self, line):
        """Returns the answers to a command. The last one has "end"."""
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True,
                                            env=os.environ | {"GGML_NO_BACKTRACE": "1"})
        answers = []
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            for text in self.process.stdout:
                if not text.startswith("{"):
                    continue
                answers.append(json.loads(text))
                if "end" in answers[-1]:
                    return answers
        except BrokenPipeError:
            pass
        errors = self.process.stderr.read()
        signal = -self.process.wait()
        self.process = None
        found = re.search(r"\S+/src/(\S+: GGML_ASSERT.*) failed", errors)
        reason = found[1] if found else " ".join(errors.split()[-30:]) or f"ended by signal {signal}"
        return answers + [{"end": "stopped", "said": reason}]

    def load(self, keys, tensors, context=128, first=0, tokens=40, learn_again=False):
        """Returns (answers, keys, tensors), the latter two with what was missing. With learn_again, tensors of layers that are
        too many are learned again one by one."""
        keys, tensors, retyped = dict(keys), {n: (list(s), v) for n, (s, v) in tensors.items()}, set()
        shapes = {re.sub(r"blk\.\d+", "blk", n): s for n, (s, _) in tensors.items()}
        for _ in range(4000):
            write_file(self.file, keys, tensors)
            self.loads += 1
            answers = self.ask(f"load {self.file} {context} {first} {tokens}")
            end, said = answers[-1]["end"], answers[-1]["said"]
            if end != "not loaded":
                return answers, keys, tensors
            if m := re.search(r"tensor '([^']+)' not found", said):
                if m[1] in tensors:
                    return answers, keys, tensors
                tensors[m[1]] = (shapes.get(re.sub(r"blk\.\d+", "blk", m[1]), [1]), None)
            elif m := re.search(r"tensor '([^']+)' has wrong shape; expected ([^;]*?), got", said):
                shape = [int(n) for n in m[2].split(",")]
                while len(shape) > 1 and shape[-1] == 1:
                    shape.pop()
                if tensors[m[1]][0] == shape or tensors[m[1]][1]:
                    return answers, keys, tensors
                tensors[m[1]] = (shape, tensors[m[1]][1])
                shapes[re.sub(r"blk\.\d+", "blk", m[1])] = shape
            elif (m := re.search(r"key not found in model: (\S+)", said)) and m[1] not in keys:
                keys[m[1]] = next((v for pattern, v in USUAL if re.search(pattern, m[1])), 1)
            elif (m := re.search(r"key (\S+) has wrong type \S+ but expected type (\S+)", said)) and m[1] not in retyped:
                retyped.add(m[1])
                key = m[1] if m[1] in keys else next(k for k in keys if k.endswith(m[1]))
                keys[key] = {"f": 1.0, "b": True, "s": "x", "a": [1] * 8}.get(m[2][0], 1)
            elif "wrong number of tensors" in said and learn_again:
                tensors, learn_again = {n: t for n, t in tensors.items() if t[1] or not n.startswith("blk.")}, False
            else:
                return answers, keys, tensors
        return answers, keys, tensors
