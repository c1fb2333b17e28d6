# SPDX-License-Identifier: MIT
"""What an attention call does, from its queries, keys and scores."""
import math

import torch

import state

SHOWN = (1, 7, 23)  # positions of the temperatures that are written


def source(vector, parts):
    """Finds the contiguous channels of a part's output at position 0 that are `vector` up to order and a factor.

    Returns (factor, index of each channel among them, offset), or None. Later parts come first: norms after products.
    """
    width = len(vector)
    target = vector.abs().sort().values
    for part in reversed(parts):
        if part.dim() == 3 and part.shape[1] == state.TOKENS:
            first = part[0, 0]
        elif part.dim() == 4 and part.shape[1] == state.TOKENS:
            first = part[0, 0].reshape(-1)
        elif part.dim() == 4 and part.shape[2] == state.TOKENS:
            first = part[0, :, 0].reshape(-1)
        elif part.dim() == 3 and part.shape[0] == state.TOKENS:
            first = part[0].reshape(-1)
        elif part.dim() == 2 and part.shape[0] == state.TOKENS:
            first = part[0]
        else:
            continue
        if len(first) < width:
            continue
        step = 4 if width % 4 == 0 else 1
        chunks = first.unfold(0, width, step)
        match = torch.nn.functional.cosine_similarity(chunks.abs().sort(dim=-1).values, target[None], dim=-1)
        best = int(match.argmax())
        if match[best] < 1 - 1e-12:
            continue
        chunk = chunks[best]
        size = float(target.norm() / chunk.norm())
        distance = (vector[:, None] / size - chunk[None]).abs()
        flipped = (vector[:, None] / size + chunk[None]).abs()
        if float(flipped.min(dim=1).values.sum()) < float(distance.min(dim=1).values.sum()):
            distance, size = flipped, -size
        index = distance.argmin(dim=1).tolist()
        if float(distance.min(dim=1).values.max()) < 1e-6 * float(chunk.abs().max()) and len(set(index)) == width:
            return size, index
    return None


def round_to(number, digits=9):
    return float(f"{number:.{digits}g}")


def rotation_of(x):
    """Returns (temperature per position, pairs, inv_freq) of x [positions, channels], or a string with what it is not."""
    norms = x.norm(dim=-1)
    temperature = norms / norms[0]
    if float((temperature - 1).abs().max()) < 1e-6:
        temperature = torch.ones_like(temperature)
    else:  # exact where channels without rotation show it
        ratios = (x / x[0]).sort(dim=-1).values
        for row in range(len(x)):
            close = (ratios[row].diff().abs() < 1e-12).nonzero()
            if len(close):
                temperature[row] = ratios[row][close[0, 0]]
    x = x / temperature[:, None]
    scale = float(x[0].abs().max())
    moves = ((x - x[0]).abs().max(dim=0).values > 1e-13 * scale).nonzero()[:, 0].tolist()
    if not moves:
        return temperature, [], []
    if len(moves) % 2:
        return "channels that no pairs explain"
    n = len(moves) // 2
    candidates = {"half": list(zip(moves[:n], moves[n:])), "interleaved": list(zip(moves[0::2], moves[1::2])),
                  "quarters": list(zip(moves[:n // 2] + moves[n:n + n // 2], moves[n // 2:n] + moves[n + n // 2:]))}
    best = None
    for name, pairs in candidates.items():
        a, b = (x[:, [pair[i] for pair in pairs]] for i in (0, 1))
        size = (a * a + b * b).sqrt()
        wrong = float(((size - size[0]).abs() / size[0]).max())
        if best is None or wrong < best[0]:
            best = wrong, name, pairs
    wrong, name, pairs = best
    if wrong > 2e-6:
        return "a change with positions that no rotation explains"
    z = torch.complex(*(x[:, [pair[i] for pair in pairs]] for i in (0, 1)))
    if state.GRIDS:
        return temperature, pairs, on_grid(z)
    angle = torch.angle(z / z[0])
    inv_freq = angle[1]
    positions = torch.arange(len(x), dtype=x.dtype)[:, None]
    rest = angle - positions * inv_freq
    rest = (rest - 2 * math.pi * torch.round(rest / (2 * math.pi))).abs()
    if float((rest / (1 + positions)).max()) > 2e-6:
        return "angles that do not grow with the position"
    return temperature, pairs, inv_freq.tolist()


def grids(rows, columns):
    """Returns orders of patches, with the tokens before and after them that do not rotate."""
    by_rows = [(r, c) for r in range(rows) for c in range(columns)]
    by_blocks = sorted(by_rows, key=lambda at: (at[0] // 2, at[1] // 2, at[0] % 2, at[1] % 2))
    return {"rows": by_rows, "blocks": by_blocks}


def on_grid(z):
    """Returns {order, first, axes, inv_freq} that explain how pairs [tokens, pairs] turn over a grid of patches, or a string."""
    for order, places in state.GRIDS.items():
        for first in dict.fromkeys((0, len(z) - len(places))):
            patches = z[first:first + len(places)]
            if first < 0 or len(patches) < len(places):
                continue
            turn = torch.angle(patches / patches[0])
            right, down = places.index((0, 1)), places.index((1, 0))
            axes, inv_freq, wrong = "", [], 0.0
            for i in range(z.shape[1]):
                axis = 1 if abs(float(turn[right, i])) > abs(float(turn[down, i])) else 0
                frequency = float(turn[right if axis else down, i])
                rest = torch.stack([turn[t, i] - frequency * place[axis] for t, place in enumerate(places)])
                wrong = max(wrong, float((rest - 2 * math.pi * torch.round(rest / (2 * math.pi))).abs().max()))
                axes += str(axis)
                inv_freq.append(frequency)
            if wrong < 1e-5:
                return {"order": order, "first": first, "axes": axes, "inv_freq": [round_to(f, 7) for f in inv_freq]}
    return "unexplained"


def explain(inv_freq, width):
    """Returns {base, dim} if they explain the frequencies, otherwise {inv_freq}."""
    if isinstance(inv_freq, dict):
        return inv_freq
    n = len(inv_freq)
    if n > 1 and 0 < inv_freq[1] < inv_freq[0] and abs(inv_freq[0] - 1) < 1e-6:
        for dim in dict.fromkeys((2 * n, width)):
            base = math.exp(-math.log(inv_freq[-1]) * dim / (2 * (n - 1)))
            base = round_to(base, 5)
            if all(abs(f / base ** (-2 * i / dim) - 1) < 3e-6 for i, f in enumerate(inv_freq)):
                return {"base": base, "dim": dim}
    return {"inv_freq": [round_to(f, 7) for f in inv_freq]}


def mask_of(visible):
    """Returns what explains the visible keys [queries, keys]."""
    n = len(visible)
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    if bool(visible.all()):
        return {"mask": "all"}
    if bool((visible == (j <= i)).all()):
        return {"mask": "causal"}
    for size in range(1, n):
        for mask, shape in (({"mask": "causal", "window": size}, (j <= i) & (i - j < size)),
                            ({"mask": "all", "reach": size}, (i - j).abs() <= size),
                            ({"mask": "causal", "chunk": size}, (j <= i) & (j // size == i // size))):
            if bool((visible == shape).all()):
                return mask
    return {"mask": "other", "keys": [int(row.sum()) for row in visible]}


def scores_of(products, scores, visible, caps):
    """Returns (scale, factor per query, softcap) that explain the visible scores, or None."""
    sizes = torch.where(visible, products.abs(), 0)
    large = visible & (sizes > 0.05 * sizes.amax(dim=-1, keepdim=True))
    for cap in [0.0, *caps]:
        linear = scores if cap == 0 else cap * torch.atanh((scores / cap).clamp(-1 + 1e-15, 1 - 1e-15))
        ratio = torch.where(large, linear / products, math.nan)
        per_query = ratio.transpose(0, 1).flatten(1).nanmedian(dim=1).values
        wrong = ((ratio / per_query[None, :, None] - 1).abs()).nan_to_num(0).max()
        if float(wrong) < 1e-6 and not bool(per_query.isnan().any()):
            return float(per_query[0]), per_query / per_query[0], cap
    return None


def facts(call, caps):
    """Returns what one attention call does."""
    _, queries, keys, scores, sinks, parts = call
    queries, keys = (x.reshape(-1, *x.shape[-2:]).double() for x in (queries, keys))
    scores = scores.reshape(-1, *scores.shape[-2:]).double()
    if len(queries) != len(keys):
        keys = keys.repeat_interleave(len(queries) // len(keys), dim=0)
    if scores.shape[-1] == state.TOKENS + 1:
        scores = scores[..., :-1]
    if keys.shape[1] != state.TOKENS or scores.shape != (len(queries), state.TOKENS, state.TOKENS):
        return {"unexplained": f"scores of shape {list(scores.shape)}"}
    width = queries.shape[-1]
    visible = scores > -3000
    if not bool((visible == visible[:1]).all()):
        return {"unexplained": "heads with different masks"}
    fact = mask_of(visible[0])
    fact["head_dim"] = width

    rotations = [rotation_of(x[head]) for x in (queries, keys) for head in range(len(x))]
    wrong = [r for r in rotations if isinstance(r, str)] + ["angles that no grid explains" for r in rotations if r[2] == "unexplained"]
    if wrong:
        return fact | {"unexplained": wrong[0]}
    temperature, pairs, inv_freq = rotations[0]
    for i, (other, other_pairs, other_freq) in enumerate(rotations):
        same = other_pairs == pairs and (inv_freq == other_freq if isinstance(inv_freq, dict) else
                                         all(abs(a - b) <= 1e-6 * abs(a) for a, b in zip(inv_freq, other_freq)))
        if not same:
            return fact | {"unexplained": "heads, or queries and keys, that rotate differently"}
        if i >= len(queries) and float((other - 1).abs().max()) > 1e-6:
            return fact | {"unexplained": "a factor of keys that depends on the position"}

    explained = scores_of(queries @ keys.transpose(-1, -2), scores, visible, caps)
    if explained is None:
        return fact | {"unexplained": "scores that are no multiple of products"}
    factor, per_query, cap = explained
    temperature = temperature * per_query

    rotated = sorted(c for pair in pairs for c in pair)
    passed = [c for c in range(width) if c not in set(rotated)]
    index = {}
    factors = {"rotated": factor, "passed": factor}
    for x in (queries, keys):
        for part, channels in (("rotated", rotated), ("passed", passed)):
            if not channels:
                continue
            found = source(x[0, 0, channels], parts) if channels == list(range(width)) or part == "passed" else None
            whole = source(x[0, 0], parts) if found is None else None
            found = found or (source(x[0, 0, channels], parts) if whole is None else None)
            if whole is not None:
                factors[part] *= whole[0]
                order = {c: whole[1][c] for c in channels}
            elif found is not None:
                factors[part] *= found[0]
                order = {c: found[1][i] for i, c in enumerate(channels)}
            else:
                fact["untraced"] = True  # no part of the module has these channels: a norm without a module
                continue
            if part == "rotated":
                if "order" not in index:
                    index = {"order": order, "whole": whole is not None}
    if pairs:
        order = index.get("order", {c: c for c in rotated})
        low = 0 if index.get("whole", True) or "order" not in index else rotated[0]
        pairs = [tuple(order[c] + low for c in pair) for pair in pairs]
        channels = sorted(c for pair in pairs for c in pair)
        offset, n = channels[0], len(pairs)
        if pairs == [(offset + i, offset + i + n) for i in range(n)]:
            form = "half"
        elif pairs == [(offset + 2 * i, offset + 2 * i + 1) for i in range(n)]:
            form = "interleaved"
        elif pairs == [(offset + i, offset + i + width // 2) for i in range(n)] and offset == 0:
            form = "half of head"  # the last frequencies are 0
        else:
            form = "other"
            fact["pairs"] = pairs
        fact["rotation"] = {"pairs": form, "offset": offset, "width": 2 * n} | explain(inv_freq, width)
    else:
        fact["rotation"] = None
    main = "rotated" if pairs else "passed"
    fact["factor"] = round_to(factors[main], 8)
    if pairs and passed and abs(factors["passed"] / factors["rotated"] - 1) > 1e-6:
        fact["plain"] = round_to(factors["passed"], 8)
    if cap:
        fact["softcap"] = cap
    if sinks:
        fact["sinks"] = True
    if float((temperature - 1).abs().max()) > 1e-6:
        fact["temperature"] = [round_to(float(temperature[p]), 8) for p in SHOWN]
    return fact
