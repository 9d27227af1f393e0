"""Parts of networks as torch's two exporters write them, by TorchScript and by dynamo: both end in one operator."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import workbench as wb
from tests.running import outputs
from workbench.ir import Graph

EXPORTERS = ["TorchScript", "dynamo"]


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *operands: torch.Tensor) -> torch.Tensor:
        return self.function(*operands)


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), -1)


class Rotary(nn.Module):
    """As in Llama's implementation in Hugging Face's transformers, modeling_llama.py."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", 1 / 10000 ** (torch.arange(0, 8, 2) / 8))

    def forward(self, query: torch.Tensor, key: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        expanded = self.frequencies[None, :, None].float().expand(positions.shape[0], -1, 1)
        angles = (expanded @ positions[:, None, :].float()).transpose(1, 2)
        both = torch.cat((angles, angles), -1)
        cos, sin = both.cos().unsqueeze(1), both.sin().unsqueeze(1)
        return query * cos + rotate_half(query) * sin, key * cos + rotate_half(key) * sin


def rotary_by_halves(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def written_out(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, -1) @ value


def causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


@dataclass(frozen=True)
class Part:
    """A part of a network, the operands' shapes, and what is counted after `simplify` and the further passes."""

    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    operators: dict[str, int]
    passes: tuple[str, ...] = ()
    mode: str = "ieee"


HEADS = ((2, 2, 4, 8),) * 3
PARTS = {
    "SiLU": Part(nn.SiLU, ((2, 3),), {"workbench.Silu": 1}, ("fuse_silu",)),
    "SiLU behind a convolution": Part(
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.SiLU()), ((1, 2, 5, 5),), {"workbench.ConvSilu": 1}, ("fuse_conv",)
    ),
    "SiLU behind a linear layer": Part(
        lambda: nn.Sequential(nn.Linear(4, 5), nn.SiLU()),
        ((2, 3, 4),),
        {"workbench.MatMulAddSilu": 1},
        ("fuse_linear",),
    ),
    "Gelu behind a linear layer": Part(
        lambda: nn.Sequential(nn.Linear(4, 5), nn.GELU()),
        ((2, 3, 4),),
        {"workbench.MatMulAddGelu": 1},
        ("fuse_linear",),
    ),
    "GroupNorm": Part(lambda: nn.GroupNorm(2, 4), ((2, 4, 3, 3),), {"GroupNormalization": 1}, mode="fast"),
    "LayerNorm": Part(lambda: nn.LayerNorm(8), ((2, 3, 8),), {"LayerNormalization": 1}),
    "residual and LayerNorm": Part(
        lambda: Of(lambda x, y: functional.layer_norm(x + y, (8,))),
        ((2, 3, 8), (2, 3, 8)),
        {"workbench.AddLayerNormalization": 1},
        ("fuse_skip_layer_norm",),
    ),
    "attention": Part(lambda: Of(functional.scaled_dot_product_attention), HEADS, {"Attention": 1}),
    "causal attention": Part(lambda: Of(causal), HEADS, {"Attention": 1}),
    "attention written out": Part(lambda: Of(written_out), HEADS, {"Attention": 1}),
    "rotary by halves": Part(
        lambda: Of(rotary_by_halves), ((2, 2, 4, 8), (2, 4, 4), (2, 4, 4)), {"RotaryEmbedding": 1}
    ),
}


def exported(module: nn.Module, operands: tuple[torch.Tensor, ...], exporter: str, path: Any) -> Graph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each exporter warns of the other
        if exporter == "dynamo":
            torch.onnx.export(module.eval(), operands, path, dynamo=True, verbose=False, external_data=False)
        else:
            torch.onnx.export(module.eval(), operands, path, dynamo=False, opset_version=17)
    return wb.load(path)


def numbers(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return tuple(torch.randn(shape) for shape in shapes)


def assert_same(graph: Graph, module: nn.Module, operands: tuple[torch.Tensor, ...]) -> None:
    """The graph computes what torch does."""
    found = outputs(graph, dict(zip(graph.inputs, (operand.numpy() for operand in operands), strict=True)))
    with torch.no_grad():
        expected = module(*operands)
    for array, tensor in zip(found.values(), expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_network_becomes_one_operator(part, exporter, tmp_path):
    wanted = PARTS[part]
    operands = numbers(*wanted.shapes)
    module = wanted.make()
    graph = exported(module, operands, exporter, tmp_path / "part.onnx")
    after = wb.optimize(graph, preset="simplify", mode=wanted.mode).graph
    if wanted.passes:
        after = wb.optimize(after, wanted.passes, mode=wanted.mode).graph
    assert Counter(node.op for node in after.nodes) == wanted.operators
    assert_same(after, module, operands)


@pytest.mark.slow
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_query_and_key_are_turned_by_one_table(exporter, tmp_path):
    """Cosines and sines are computed once, of half the size."""
    operands = (*numbers((2, 2, 4, 8), (2, 3, 4, 8)), torch.arange(4).expand(2, -1).contiguous())
    module = Rotary()
    graph = exported(module, operands, exporter, tmp_path / "rotary.onnx")
    after = wb.optimize(graph, preset="simplify").graph
    found = Counter(node.op for node in after.nodes)
    assert (found["RotaryEmbedding"], found["Cos"], found["Sin"], found["Concat"]) == (2, 1, 1, 0)
    assert all(after.shape(node.outputs[0]) == (2, 4, 4) for node in after.nodes if node.op in ("Cos", "Sin"))
    assert_same(after, module, operands)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_attention_of_several_heads_keeps_its_projections(exporter, tmp_path):
    (x,) = numbers((2, 4, 8))
    module = SelfAttention()
    graph = exported(module, (x,), exporter, tmp_path / "heads.onnx")
    after = wb.optimize(graph, preset="simplify").graph
    found = Counter(node.op for node in after.nodes)
    assert (found["Attention"], found["MatMul"] + found["Gemm"], found["Softmax"]) == (1, 2, 0)
    assert_same(after, module, (x,))


@pytest.mark.slow
def test_a_norm_by_the_root_mean_square(tmp_path):
    """TorchScript's exporter does not know it."""
    module, operands = nn.RMSNorm(8), numbers((2, 3, 8))
    after = wb.optimize(exported(module, operands, "dynamo", tmp_path / "norm.onnx"), preset="simplify").graph
    assert [node.op for node in after.nodes] == ["RMSNormalization"]
    assert_same(after, module, operands)
