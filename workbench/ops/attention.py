"""Scaled dot-product attention and the rotary embedding of its operands."""

from __future__ import annotations

import math
from functools import reduce

from workbench.ir import Node
from workbench.ops.contract import Call, Types, known_shape, operator, per_output
from workbench.ops.dtypes import UnsupportedByTorch, torch_dtype
from workbench.ops.fusion_kinds import FUSABLE, OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER


def _attention_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    """The two products of each query head: queries by keys, weights by values."""
    query, key, value = (known_shape(inputs, index) for index in range(3))
    has_past = len(inputs) > 4 and inputs[4] is not None
    past = known_shape(inputs, 4) if has_past else (0, 0, 0, 0)
    if query is None or key is None or value is None or past is None:
        return None
    length = key[-2] + past[2]
    heads: int = node.attr("q_num_heads") if len(query) == 3 else 1
    value_size: int = value[-1] // (node.attr("kv_num_heads") if len(value) == 3 else 1)
    return 2 * math.prod(query) * length + 2 * math.prod(query[:-1]) * heads * length * value_size


@operator("Attention", category="matmul", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=_attention_flops)
def attention(
    call: Call,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    past_key: torch.Tensor | None = None,
    past_value: torch.Tensor | None = None,
    key_lengths: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Attention of H query heads to G heads of keys and values; key_lengths: how many keys of a batch entry are in use.

    query: [N, H, L, E], key: [N, G, S, E], value: [N, G, S, V], mask: broadcast to [N, H, L, P + S],
        past_key: [N, G, P, E], past_value: [N, G, P, V], key_lengths: [N] ->
        y: [N, H, L, V], present_key: [N, G, P + S, E], present_value: [N, G, P + S, V], scores: [N, H, L, P + S]
    query: [N, L, H * E], key: [N, S, G * E], value: [N, S, G * V] -> y: [N, L, H * V]
    """
    packed = query.dim() == 3
    query = _by_head(query, call.attr("q_num_heads"))
    key, value = (_by_head(x, call.attr("kv_num_heads")) for x in (key, value))
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        if past_value is None:
            raise UnsupportedByTorch("it has past keys without past values")
        key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
    present = key, value
    dtype = query.dtype
    if dtype.itemsize < 4 and (query.device.type == "cpu" or not call.is_narrowed):
        # torch's fused kernels round intermediate results: on a GPU the weights, on a CPU more. This is accepted only
        # on a GPU, if the run is narrowed on purpose.
        query, key, value = query.float(), key.float(), value.float()
    key, value = (_for_query_heads(x, query) for x in (key, value))
    bias = _bias(call, query, key, mask, past, key_lengths)
    scores = None
    if len(call.node.outputs) < 4 and not call.attr("softcap") and bias is None:
        result = F.scaled_dot_product_attention(query, key, value, scale=call.attr("scale"))
    else:
        result, scores = _attend(call, query, key, value, bias)
        scores = scores.to(dtype)
    if packed:
        result = result.transpose(1, 2).flatten(2)
    return result.to(dtype), *present, scores


def _by_head(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[N, L, heads * E] as [N, heads, L, E]."""
    return x if x.dim() == 4 else torch.unflatten(x, 2, (heads, -1)).transpose(1, 2)


def _for_query_heads(x: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Keys or values [N, G, S, E] as [N, H, S, E]: each repeated for the query heads of its group."""
    group = query.shape[1] // x.shape[1]
    return x if group == 1 else x.repeat_interleave(group, 1)


def _bias(
    call: Call,
    query: torch.Tensor,
    key: torch.Tensor,
    mask: torch.Tensor | None,
    past: int,
    key_lengths: torch.Tensor | None,
) -> torch.Tensor | None:
    """The tensor to add to the scores; None if all its elements are zero.

    It is -inf for excluded keys, including keys beyond a mask that is too short.

    past: the number of past keys.
    """
    keys = key.shape[2]
    if mask is not None and mask.shape[-1] < keys:
        mask = F.pad(mask, [0, keys - mask.shape[-1]], value=False if mask.dtype == torch.bool else -math.inf)
    if mask is not None:
        mask = _excluding(mask, query) if mask.dtype == torch.bool else mask.to(query.dtype)
    allowed = _allowed(call, query, key, past, key_lengths)
    if allowed is None:
        return mask
    return _excluding(allowed, query) if mask is None else mask + _excluding(allowed, query)


def _excluding(allowed: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """0 where `allowed` is true, else -inf, in the type of the query."""
    return torch.zeros(allowed.shape, dtype=query.dtype, device=query.device).masked_fill(~allowed, -math.inf)


def _allowed(
    call: Call, query: torch.Tensor, key: torch.Tensor, past: int, key_lengths: torch.Tensor | None
) -> torch.Tensor | None:
    """Which keys each query may attend to, by position and by the keys in use; None: all."""
    left: int = call.attr("left_window_size")
    right: int = 0 if call.attr("is_causal") else call.attr("right_window_size")
    keys = torch.arange(key.shape[2], device=query.device)
    limits = []
    if key_lengths is not None:
        key_lengths = key_lengths.reshape(-1, 1, 1, 1)
        limits.append(keys < key_lengths)
    if left >= 0 or right >= 0:
        queries = torch.arange(query.shape[2], device=query.device).unsqueeze(1)
        # `past` or the difference of lengths is the position of the first query.
        ahead = keys - queries - (past if key_lengths is None or past else key_lengths - query.shape[2])
        limits += [-ahead <= left] if left >= 0 else []
        limits += [ahead <= right] if right >= 0 else []
    return reduce(torch.logical_and, limits) if limits else None


def _attend(
    call: Call, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the scores after the step that `qk_matmul_output_mode` selects."""
    root = math.sqrt(_scale(call, query))
    steps = [(query * root) @ (key * root).transpose(-1, -2)]
    cap: float = call.attr("softcap")
    steps.append(cap * torch.tanh(steps[0] / cap) if cap else steps[0])
    steps.append(steps[1] if bias is None else steps[1] + bias)
    precision = call.attr("softmax_precision")
    weights = torch.softmax(steps[2], -1, dtype=torch_dtype(precision) if precision else None).to(query.dtype)
    if bias is not None:  # a query whose keys are all excluded gives zeros
        weights = weights.masked_fill(bias.amax(-1, keepdim=True) == -math.inf, 0.0)
    steps.append(weights)
    return weights @ value, steps[call.attr("qk_matmul_output_mode")]


def _scale(call: Call, query: torch.Tensor) -> float:
    scale: float = call.attr("scale", 1.0 / math.sqrt(query.shape[-1]))
    return scale


@operator(
    "ai.onnx.preview.FlexAttention", category="matmul", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=_attention_flops
)
def flex_attention(call: Call, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attention whose scores and weights are modified by the node's bodies, in the precision of the softmax.

    query: [N, H, L, E], key: [N, G, S, E], value: [N, G, S, V] -> [N, H, L, V]
    """
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


@operator("RotaryEmbedding", category="elementwise", layout=LAYOUT_BARRIER, fusion=FUSABLE, flops=per_output(3))
def rotary_embedding(
    call: Call, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor | None = None
) -> torch.Tensor:
    """Rotate pairs of elements of each head by the angles of their position; R of E elements are rotated.

    x: [N, H, L, E], cos: [N, L, R / 2], sin: [N, L, R / 2] -> [N, H, L, E]
    x: [N, H, L, E], cos: [P, R / 2], sin: [P, R / 2], positions: [N, L] -> [N, H, L, E]
    x: [N, L, H * E], cos: [N, L, R / 2], sin: [N, L, R / 2] -> [N, L, H * E]
    x: [N, L, H * E], cos: [P, R / 2], sin: [P, R / 2], positions: [N, L] -> [N, L, H * E]
    """
    packed = x.dim() == 3
    heads = torch.unflatten(x, 2, (call.attr("num_heads"), -1)) if packed else x.transpose(1, 2)
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    size = call.attr("rotary_embedding_dim") or heads.shape[-1]
    rotated, rest = heads[..., :size], heads[..., size:]
    if call.attr("interleaved"):
        a, b = rotated[..., 0::2], rotated[..., 1::2]
        parts = torch.stack([cos * a - sin * b, sin * a + cos * b], -1).flatten(-2)
    else:
        a, b = rotated.chunk(2, -1)
        parts = torch.cat([cos * a - sin * b, sin * a + cos * b], -1)
    result = torch.cat([parts, rest], -1)
    return result.flatten(2) if packed else result.transpose(1, 2)
