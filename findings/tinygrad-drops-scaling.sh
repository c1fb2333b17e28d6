#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: tinygrad 0.13.0, its reader of GGUF and its language model, on the CPU.
# Guess:   tinygrad.llm applies rope.scaling.* and rope_freqs.weight of a file, or rejects the file.
# Seen:    linear scaling, YaRN and factors of Llama 3.1 change no bit of the logits.
# Matters: it is no reference for a scaled model. Its weights are permuted, so its pairing is halves for `llama` too.
. "$(dirname "$0")/common.sh"

python_packages tinygrad==0.13.0 gguf==0.19.0 numpy==2.4.6
export DEV=CPU CPU=1 HALF=0
python_program <<'PY'
import importlib.metadata, gguf, numpy as np
from tinygrad import Tensor
from tinygrad.llm.model import Transformer

random = np.random.default_rng(1)
weights = {name: random.standard_normal((16, 16)).astype("f") / 2 for name in
           ["token_embd", "output"] + ["blk.0." + n for n in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")]}


def logits(scale=lambda file: None):
    file = gguf.GGUFWriter("tiny.gguf", "llama")
    file.add_context_length(64), file.add_embedding_length(16), file.add_block_count(1), file.add_feed_forward_length(16)
    file.add_head_count(2), file.add_head_count_kv(2), file.add_layer_norm_rms_eps(1e-6), file.add_rope_freq_base(100.0)
    file.add_rope_dimension_count(8), file.add_token_list(["t%d" % i for i in range(16)])
    scale(file)
    for name, weight in weights.items():
        file.add_tensor(name + ".weight", weight)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        file.add_tensor(name + ".weight", np.ones(16, "f"))
    file.write_header_to_file(), file.write_kv_data_to_file(), file.write_tensors_to_file(), file.close()
    model, _ = Transformer.from_gguf("tiny.gguf")
    state = model.token_embd(Tensor([[3, 5, 7, 1, 2, 4]])).float()
    for block in model.blk:
        state = block(state, 0)
    return model.output(model.output_norm(state)).numpy()


plain = logits()
print("tinygrad", importlib.metadata.version("tinygrad"))
for kind in ("LINEAR", "YARN"):
    print(kind, "changes logits:", not np.array_equal(plain, logits(lambda file: (
        file.add_rope_scaling_type(gguf.RopeScalingType[kind]), file.add_rope_scaling_factor(4.0), file.add_rope_scaling_orig_ctx_len(16)))))
print("rope_freqs.weight changes logits:", not np.array_equal(plain, logits(lambda file: file.add_tensor("rope_freqs.weight", np.array([1, 2, 4, 8], "f")))))
print("a base of 10000 changes logits:", not np.array_equal(plain, logits(lambda file: file.kv_data[0]["llama.rope.freq_base"].__setattr__("value", 10000.0))))
PY
expect <<'OUT'
tinygrad 0.13.0
LINEAR changes logits: False
YARN changes logits: False
rope_freqs.weight changes logits: False
a base of 10000 changes logits: True
OUT
