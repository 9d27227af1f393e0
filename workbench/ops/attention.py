"""Scaled dot-product attention and the rotary embedding of its operands."""

from __future__ import annotations

import math
from typing import Any

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.dtypes import torch_dtype
from workbench.ops.layouts import BARRIER
from workbench.ops.lazy import F, torch


def _attention_flops(node, inputs, outputs):
    """Both products of each query head: queries with keys, weights with values."""
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


@operator("Attention", category="matmul", layout=BARRIER, flops=_attention_flops)
def attention(call, query, key, value, mask=None, past_key=None, past_value=None):
    """Of [batch, heads, length, size] or [batch, length, heads * size] operands."""
    packed = query.dim() == 3
    query = _by_head(query, call.attr("q_num_heads"))
    key, value = (_by_head(x, call.attr("kv_num_heads")) for x in (key, value))
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
    present = key, value
    group = query.shape[1] // key.shape[1]
    if group > 1:
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    bias = _bias(call, query, key, mask, past)
    if len(call.node.outputs) < 4 and not call.attr("softcap", 0.0) and bias is None:
        result, scores = F.scaled_dot_product_attention(query, key, value, scale=call.attr("scale")), None
    else:
        result, scores = _attend(call, query, key, value, bias)
    if packed:
        result = result.transpose(1, 2).flatten(2)
    return result, *present, scores


def _by_head(x: torch.Tensor, heads: int | None) -> torch.Tensor:
    if x.dim() == 4:
        return x
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def _bias(
    call: Call, query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, past: int
) -> torch.Tensor | None:
    """What is added to the scores, -inf where a key is out of reach; None for nothing."""
    queries, keys = query.shape[2], key.shape[2]
    if mask is not None and mask.shape[-1] < keys:
        mask = F.pad(mask, [0, keys - mask.shape[-1]], value=False if mask.dtype == torch.bool else -math.inf)
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=query.dtype, device=query.device).masked_fill(~mask, -math.inf)
    if not call.attr("is_causal", 0):
        return mask
    reach = torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril(past)
    causal = torch.zeros(queries, keys, dtype=query.dtype, device=query.device).masked_fill(~reach, -math.inf)
    return causal if mask is None else mask + causal


def _attend(
    call: Call, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the scores as they stand after the step that `qk_matmul_output_mode` names."""
    root = math.sqrt(call.attr("scale", 1.0 / math.sqrt(query.shape[-1])))
    steps = [(query * root) @ (key * root).transpose(-1, -2)]
    cap = call.attr("softcap", 0.0)
    steps.append(cap * torch.tanh(steps[0] / cap) if cap else steps[0])
    steps.append(steps[1] if bias is None else steps[1] + bias)
    precision = call.attr("softmax_precision")
    weights = torch.softmax(steps[2], -1, dtype=torch_dtype(precision) if precision else None).to(query.dtype)
    if bias is not None:  # a query that reaches no key gives zeros
        weights = weights.masked_fill(bias.amax(-1, keepdim=True) == -math.inf, 0.0)
    steps.append(weights)
    return weights @ value, steps[call.attr("qk_matmul_output_mode", 0)]


@operator("RotaryEmbedding", category="elementwise", layout=BARRIER, flops=per_output(3))
def rotary_embedding(call, x, cos, sin, positions=None):
    """Pairs of elements of each head turned by the angles of their position."""
    packed = x.dim() == 3
    heads = x.unflatten(2, (call.attr("num_heads"), -1)) if packed else x.transpose(1, 2)
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    size = call.attr("rotary_embedding_dim", 0) or heads.shape[-1]
    turned, rest = heads[..., :size], heads[..., size:]
    parts: Any
    if call.attr("interleaved", 0):
        a, b = turned[..., 0::2], turned[..., 1::2]
        parts = torch.stack([cos * a - sin * b, sin * a + cos * b], -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        parts = torch.cat([cos * a - sin * b, sin * a + cos * b], -1)
    result = torch.cat([parts, rest], -1)
    return result.flatten(2) if packed else result.transpose(1, 2)
