"""Operators with a state carried from token to token: linear attention and causal convolution."""

from __future__ import annotations

import math

from workbench.ir import Node
from workbench.ops.contract import Call, Types, known_shape, operator
from workbench.ops.convolution import conv_flops
from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER


def _linear_attention_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    """Each token adds an outer product to the state of every head, and reads the state once per query head."""
    query, value = known_shape(inputs, 0), known_shape(inputs, 2)
    heads: int | None = node.attr("q_num_heads")
    states: int | None = node.attr("kv_num_heads")
    if query is None or value is None or not heads or not states:
        return None
    batch, length, width = query
    return 2 * batch * length * (width // heads) * (value[2] // states) * (heads + states)


@operator("LinearAttention", category="matmul", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=_linear_attention_flops)
def linear_attention(
    call: Call,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    past: torch.Tensor | None = None,
    decay: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of H query heads to G states, token by token, in float32; returns the result and the last state.

    query: [N, L, H * E], key: [N, L, G * E], value: [N, L, G * V], past: [N, G, E, V],
        decay: [N, L, G * E] or [N, L, G], beta: [N, L, G] or [N, L, 1] ->
        y: [N, L, H * V], state: [N, G, E, V]
    """
    heads, states = call.attr("q_num_heads"), call.attr("kv_num_heads")
    rule = call.attr("update_rule")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise UnsupportedByTorch(f"there is no update rule '{rule}'")
    if (decay is None and "gated" in rule) or (beta is None and "delta" in rule):
        raise UnsupportedByTorch(f"the update rule '{rule}' needs a decay or a beta")
    dtype, state_type = query.dtype, query.dtype if past is None else past.dtype
    query = _by_head(query, heads)
    key, value = _by_head(key, states), _by_head(value, states)
    size = query.shape[-1]
    decay = _by_head(decay, states).exp() if decay is not None and "gated" in rule else None
    beta = _by_head(beta, beta.shape[-1]) if beta is not None and "delta" in rule else None
    empty = torch.zeros(*key.shape[:2], size, value.shape[-1], device=query.device)
    state = empty if past is None else past.float()
    scale: float = call.attr("scale") or 1.0 / math.sqrt(size)
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
    """[N, L, heads * E] as [N, heads, L, E], in float32."""
    return torch.unflatten(x.float(), 2, (heads, -1)).transpose(1, 2)


@operator("CausalConvWithState", category="convolution", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=conv_flops)
def causal_convolution(
    call: Call,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    past: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Convolve each channel with its kernel over the token and those before; returns the result and the last state.

    x: [N, C, L], weight: [C, 1, K], bias: [C], past: [N, C, K - 1] -> y: [N, C, L], state: [N, C, K - 1]
    """
    before = weight.shape[2] - 1
    whole = F.pad(x, [before, 0]) if past is None else torch.cat([past, x], 2)
    y = F.conv1d(whole, weight, bias, groups=x.shape[1]) if x.shape[2] else x  # torch refuses an empty result
    activation = call.attr("activation")
    if activation not in ("none", "silu", "swish"):
        raise UnsupportedByTorch(f"there is no activation '{activation}'")
    return y if activation == "none" else F.silu(y), whole[:, :, whole.shape[2] - before :].clone()
