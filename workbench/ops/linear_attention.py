"""Operators with a state carried from token to token: linear attention and causal convolution."""

from __future__ import annotations

import math

from workbench.ops.contract import operator
from workbench.ops.convolution import conv_flops
from workbench.ops.dtypes import CannotRun
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import BARRIER


def _linear_attention_flops(node, inputs, outputs):
    """Each token adds an outer product to the state of every head, and reads the state once per query head."""
    query, _, value = (None if t is None else t.static_shape for t in inputs[:3])
    heads, states = node.attr("q_num_heads"), node.attr("kv_num_heads")
    if query is None or value is None or not heads or not states:
        return None
    batch, length, width = query
    return 2 * batch * length * (width // heads) * (value[2] // states) * (heads + states)


@operator("LinearAttention", category="matmul", layout=BARRIER, fusion=OPAQUE, flops=_linear_attention_flops)
def linear_attention(call, query, key, value, past=None, decay=None, beta=None):
    """Attention on [batch, length, heads * size], token by token, in float32; returns the result and the last state."""
    heads, states = call.attr("q_num_heads"), call.attr("kv_num_heads")
    rule = call.attr("update_rule")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise CannotRun(f"there is no update rule '{rule}'")
    dtype, state_type = query.dtype, query.dtype if past is None else past.dtype
    query = _by_head(query, heads)
    key, value = _by_head(key, states), _by_head(value, states)
    size = query.shape[-1]
    decay = _by_head(decay, states).exp() if "gated" in rule else None
    beta = _by_head(beta, beta.shape[-1]) if "delta" in rule else None
    empty = torch.zeros(*key.shape[:2], size, value.shape[-1], device=query.device)
    state = empty if past is None else past.float()
    scale = call.attr("scale") or 1.0 / math.sqrt(size)
    batch, _, length, _ = query.shape
    result = torch.empty(batch, length, heads, value.shape[-1], device=query.device)
    for t in range(length):
        k, v = key[:, :, t], value[:, :, t]
        if decay is not None:
            state = state * decay[:, :, t].unsqueeze(-1)
        if beta is not None:
            v = beta[:, :, t] * (v - torch.einsum("bhkv,bhk->bhv", state, k))
        state = state + k.unsqueeze(-1) * v.unsqueeze(-2)
        read = state.repeat_interleave(heads // states, 1)
        result[:, t] = scale * torch.einsum("bhk,bhkv->bhv", query[:, :, t], read)
    return result.flatten(2).to(dtype), state.to(state_type)


def _by_head(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.float().unflatten(2, (heads, -1)).transpose(1, 2)


@operator("CausalConvWithState", category="convolution", layout=BARRIER, fusion=OPAQUE, flops=conv_flops)
def causal_convolution(call, x, weight, bias=None, past=None):
    """Convolve each channel with its kernel over preceding tokens; returns the result and the state after it."""
    before = weight.shape[2] - 1
    whole = F.pad(x, [before, 0]) if past is None else torch.cat([past, x], 2)
    y = F.conv1d(whole, weight, bias, groups=x.shape[1]) if x.shape[2] else x  # torch refuses an empty result
    activation = call.attr("activation")
    if activation not in ("none", "silu", "swish"):
        raise CannotRun(f"there is no activation '{activation}'")
    return y if activation == "none" else F.silu(y), whole[:, :, whole.shape[2] - before :].clone()
