# SPDX-License-Identifier: MIT
"""Loads tiny files into a released llama.cpp, by the recorder of tests/oracles/llama_cpp, and returns facts of their layers."""
import os
import pathlib
import sys

WORK = pathlib.Path(os.environ["WORK"])
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests/oracles/llama_cpp"))

import facts  # noqa: E402
import models  # noqa: E402
from program import Program  # noqa: E402


def layers(architecture, changes=(), tensors=None):
    """Returns a dict for each layer: rope (None without rotation), scale of scores, and the keys that query 39 sees. tensors
    are added to the file: {name: (shape, values)}."""
    program = Program(WORK / "record", WORK / "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64", WORK)
    keys = models.keys(architecture, changes)
    answers, learned_keys, learned = program.load(keys, models.tensors(architecture, models.LAYERS))
    if tensors:
        answers, _, _ = program.load(learned_keys, learned | tensors)
    program.close()
    found, inputs = facts.by_layer(answers)
    result = []
    for number in sorted(found):
        layer = found[number]
        queries, _ = layer.ropes_of_attention()
        mask = inputs.get(layer.softmax["mask"]) if layer.softmax else None
        result.append({"rope": queries, "scale": layer.softmax and round(layer.softmax["scale"], 6),
                       "sees": mask and facts.visible(mask, 39)})
    return result
