"""Scaled dot-product attention and the rotary embedding of its operands."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.dtypes import torch_dtype
from workbench.ops.fusion_kinds import FUSABLE, OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import BARRIER


def _attention_flops(node, inputs, outputs):
    """The two products of each query head: queries by keys, weights by values."""
    if any(t is None or t.static_shape is None for t in inputs[:3]):
        return None
    query, key, value = (t.static_shape for t in inputs[:3])
    past = inputs[4].static_shape if len(inputs) > 4 and inputs[4] is not None else (0, 0, 0, 0)
    if past is None:
        return None
    length = key[-2] + past[2]
    heads = node.attr("q_num_heads") if len(query) == 3 else 1
    value_size = value[-1] // (node.attr("kv_num_heads") if len(value) == 3 else 1)
    return 2 * math.prod(query) * length + 2 * math.prod(query[:-1]) * heads * length * value_size


@operator("Attention", category="matmul", layout=BARRIER, fusion=OPAQUE, flops=_attention_flops)
def attention(call, query, key, value, mask=None, past_key=None, past_value=None, filled=None):
    """Attention on [batch, heads, length, size] or [batch, length, heads * size]; `filled`: keys in use, by batch."""
    packed = query.dim() == 3
    query = _by_head(query, call.attr("q_num_heads"))
    key, value = (_by_head(x, call.attr("kv_num_heads")) for x in (key, value))
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
    present = key, value
    dtype = query.dtype
    if dtype.itemsize < 4 and (query.device.type == "cpu" or not call.is_narrowed):
        # torch's kernels round in between: the weights on a GPU, more on a CPU; a run in a narrower type allows for it
        query, key, value = query.float(), key.float(), value.float()
    key, value = (_for_query_heads(x, query) for x in (key, value))
    bias = _bias(call, query, key, mask, past, filled)
    if len(call.node.outputs) < 4 and not call.attr("softcap") and bias is None:
        result, scores = F.scaled_dot_product_attention(query, key, value, scale=call.attr("scale")), None
    else:
        result, scores = _attend(call, query, key, value, bias)
        scores = scores.to(dtype)
    if packed:
        result = result.transpose(1, 2).flatten(2)
    return result.to(dtype), *present, scores


def _by_head(x: torch.Tensor, heads: int | None) -> torch.Tensor:
    if x.dim() == 4:
        return x
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def _for_query_heads(x: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Keys or values of a group repeated for each of its query heads."""
    group = query.shape[1] // x.shape[1]
    return x if group == 1 else x.repeat_interleave(group, 1)


def _bias(
    call: Call,
    query: torch.Tensor,
    key: torch.Tensor,
    mask: torch.Tensor | None,
    past: int,
    filled: torch.Tensor | None,
) -> torch.Tensor | None:
    """The tensor to add to the scores, -inf for masked keys; None if there is none."""
    keys = key.shape[2]
    if mask is not None and mask.shape[-1] < keys:
        mask = F.pad(mask, [0, keys - mask.shape[-1]], value=False if mask.dtype == torch.bool else -math.inf)
    if mask is not None:
        mask = _excluding(mask, query) if mask.dtype == torch.bool else mask.to(query.dtype)
    reach = _reach(call, query, key, past, filled)
    if reach is None:
        return mask
    return _excluding(reach, query) if mask is None else mask + _excluding(reach, query)


def _excluding(reach: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return torch.zeros(reach.shape, dtype=query.dtype, device=query.device).masked_fill(~reach, -math.inf)


def _reach(
    call: Call, query: torch.Tensor, key: torch.Tensor, past: int, filled: torch.Tensor | None
) -> torch.Tensor | None:
    """Which keys each query may attend to by position and by the filled part of a cache; None: all."""
    left, right = call.attr("left_window_size"), call.attr("right_window_size")
    if call.attr("is_causal"):
        right = 0
    keys = torch.arange(key.shape[2], device=query.device)
    limits = []
    if filled is not None:
        filled = filled.reshape(-1, 1, 1, 1)
        limits.append(keys < filled)
    if left >= 0 or right >= 0:
        queries = torch.arange(query.shape[2], device=query.device).unsqueeze(1)
        ahead = keys - queries - (past if filled is None or past else filled - query.shape[2])
        limits += [-ahead <= left] if left >= 0 else []
        limits += [ahead <= right] if right >= 0 else []
    return reduce(torch.logical_and, limits) if limits else None


def _attend(
    call: Call, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the scores after the step that `qk_matmul_output_mode` selects."""
    root = math.sqrt(_scale(call, query))
    steps = [(query * root) @ (key * root).transpose(-1, -2)]
    cap = call.attr("softcap")
    steps.append(cap * torch.tanh(steps[0] / cap) if cap else steps[0])
    steps.append(steps[1] if bias is None else steps[1] + bias)
    precision = call.attr("softmax_precision")
    weights = torch.softmax(steps[2], -1, dtype=torch_dtype(precision) if precision else None).to(query.dtype)
    if bias is not None:  # a query with all keys masked gives zeros
        weights = weights.masked_fill(bias.amax(-1, keepdim=True) == -math.inf, 0.0)
    steps.append(weights)
    return weights @ value, steps[call.attr("qk_matmul_output_mode")]


def _scale(call: Call, query: torch.Tensor) -> float:
    return call.attr("scale", 1.0 / math.sqrt(query.shape[-1]))


@operator("ai.onnx.preview.FlexAttention", category="matmul", layout=BARRIER, fusion=OPAQUE, flops=_attention_flops)
def flex_attention(call, query, key, value):
    """Attention whose scores and weights are modified by the node's bodies, in the precision of the softmax."""
    precision, dtype = call.attr("softmax_precision"), value.dtype
    precise = torch_dtype(precision) if precision else torch.promote_types(query.dtype, torch.float32)
    key, value = (_for_query_heads(x, query) for x in (key, value))
    root = math.sqrt(_scale(call, query))
    scores = ((query * root) @ (key * root).transpose(-1, -2)).to(precise)
    if call.attr("score_mod") is not None:
        (scores,) = call.run_body(call.attr("score_mod"), (scores,))
    weights = torch.softmax(scores, -1)
    if call.attr("prob_mod") is not None:
        (weights,) = call.run_body(call.attr("prob_mod"), (weights,))
    return (weights @ value.to(precise)).to(dtype)


@operator("RotaryEmbedding", category="elementwise", layout=BARRIER, fusion=FUSABLE, flops=per_output(3))
def rotary_embedding(call, x, cos, sin, positions=None):
    """Rotate pairs of elements of each head by the angles of their position."""
    packed = x.dim() == 3
    heads = x.unflatten(2, (call.attr("num_heads"), -1)) if packed else x.transpose(1, 2)
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    size = call.attr("rotary_embedding_dim") or heads.shape[-1]
    transposed, rest = heads[..., :size], heads[..., size:]
    parts: Any
    if call.attr("interleaved"):
        a, b = transposed[..., 0::2], transposed[..., 1::2]
        parts = torch.stack([cos * a - sin * b, sin * a + cos * b], -1).flatten(-2)
    else:
        a, b = transposed.chunk(2, -1)
        parts = torch.cat([cos * a - sin * b, sin * a + cos * b], -1)
    result = torch.cat([parts, rest], -1)
    return result.flatten(2) if packed else result.transpose(1, 2)
