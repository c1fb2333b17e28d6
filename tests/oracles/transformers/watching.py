# SPDX-License-Identifier: MIT
"""Observation of attention modules: their products, softmaxes and parts."""
import re

import torch
from torch.overrides import TorchFunctionMode

import state


def doubled(value):
    """Returns float32 tensors as float64, because some classes mix the types of their weights."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(doubled, value))
    return value.double() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value


class Calls(TorchFunctionMode):
    """Collects a product of queries and keys with the softmax that follows it, for each call of an attention module."""

    def __init__(self):
        super().__init__()
        self.modules = []  # the attention modules that are running, by name
        self.product = None
        self.joined = None  # scores with a column of sinks
        self.shifted = None  # scores from which their maximum is subtracted
        self.has_sums = False  # of exponentials, from which some classes compute the share of sinks
        self.found = []
        self.parts = []  # outputs of the modules within an attention module

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.modules and function in (torch.nn.functional.scaled_dot_product_attention,):
            raise RuntimeError("scaled_dot_product_attention was called in spite of eager")
        try:
            result = function(*args, **kwargs)
        except RuntimeError as error:
            if not re.search("dtype|scalar type", str(error)):
                raise
            result = function(*map(doubled, args), **{key: doubled(value) for key, value in kwargs.items()})
        if not self.modules:
            return result
        name = getattr(function, "__name__", "")
        if name in ("float", "to", "type", "type_as") and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.float64:
            if result.dtype == torch.float32:
                return args[0]  # rounding queries and keys would hide small angles
        if name in ("matmul", "bmm", "__matmul__", "baddbmm", "einsum"):
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            if name == "einsum" and len(tensors) == 2 and tensors[1].dim() >= 3:
                tensors[1] = tensors[1].transpose(-1, -2)
            if name == "baddbmm":
                tensors = [kwargs.get("batch1", tensors[-2]), kwargs.get("batch2", tensors[-1])]
            if len(tensors) == 2 and result.dim() >= 3 and result.shape[-2] == state.TOKENS and result.shape[-1] >= state.TOKENS:
                self.product, self.joined = (tensors[0], tensors[1].transpose(-1, -2), result), None
                self.has_sums, self.shifted = False, None
        elif name in ("max", "amax") and self.product is not None:
            self.shifted = args[0]
        elif name == "logsumexp":
            self.has_sums = True
        elif name in ("cat", "concat") and self.product is not None and isinstance(args[0], (list, tuple)):
            if result.shape[-1] == self.product[2].shape[-1] + 1 and args[0][0].shape[-1] == self.product[2].shape[-1]:
                self.joined = result
        elif name == "softmax" and self.product is not None:
            scores = self.joined if self.joined is not None else args[0]
            if self.shifted is not None and self.shifted.shape == scores.shape:
                scores = self.shifted
            if scores.shape[-2] == state.TOKENS and scores.numel() >= self.product[2].numel():
                queries, keys, _ = self.product
                self.found.append((self.modules[-1], queries.detach().clone(), keys.detach().clone(), scores.detach().clone(),
                                   self.joined is not None or self.has_sums, list(self.parts)))
            self.product = self.joined = None
        return result


def layer_of(name):
    found = re.search(r"\.(\d+)\.", "." + name + ".")
    return int(found[1]) if found else 0


def watch(model, calls):
    """Replaces the input of every attention module by one token, repeated, and collects outputs of its parts."""
    attention = [(name, module) for name, module in model.named_modules()
                 if re.search("Attention|Attn|SelfAtt|MLA$", type(module).__name__) and "Output" not in type(module).__name__]
    for name, module in attention:
        def before(module, args, kwargs, name=name):
            generator = torch.Generator().manual_seed(len(name) + layer_of(name))

            def constant(x):
                if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dim() in (2, 3):
                    if state.TOKENS == 0:  # of an image
                        state.TOKENS = x.shape[-2]
                if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dim() in (2, 3) and x.shape[-2] == state.TOKENS and (x.dim() == 2 or x.shape[0] == 1):
                    token = torch.randn(x.shape[-1], generator=generator, dtype=x.dtype)
                    return token.expand(x.shape).contiguous(), True
                return x, False
            args = list(args)
            for i, value in enumerate(args):
                args[i], done = constant(value)
                if done:
                    break
            else:
                for key in ("hidden_states", "hidden_state", "x", "input", "inputs", "query"):
                    if key in kwargs:
                        kwargs[key], done = constant(kwargs[key])
                        if done:
                            break
            calls.modules.append(name)
            calls.parts = []
            return tuple(args), kwargs

        def after(module, args, result):
            calls.modules.pop()

        module.register_forward_pre_hook(before, with_kwargs=True)
        module.register_forward_hook(after)
        for part in module.modules():
            if part is module:
                continue

            def keep(part, args, result):
                result = result[0] if isinstance(result, (tuple, list)) and result else result
                if isinstance(result, torch.Tensor) and result.is_floating_point() and result.dim() >= 2:
                    calls.parts.append(result.detach())
            part.register_forward_hook(keep)
