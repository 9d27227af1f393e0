"""Networks written in torch, with random weights, for the comparison of `on_gpu.py` with plain torch.

ResNet (He, Zhang, Ren, Sun 2016), BERT (Devlin et al. 2019), ViT (Dosovitskiy et al. 2021), ConvNeXt (Liu et al.
2022), Inception with batch normalization (Ioffe, Szegedy 2015), U-Net (Ronneberger, Fischer, Brox 2015) and a block of
Llama (Touvron et al. 2023) in the sizes of their papers. small: the same networks with few and narrow layers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

Network = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Bottleneck(nn.Module):
    def __init__(self, in_channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = _normed(nn.Conv2d(in_channels, width, 1, bias=False))
        self.second = _normed(nn.Conv2d(width, width, 3, stride, 1, bias=False))
        self.third = _normed(nn.Conv2d(width, 4 * width, 1, bias=False))
        changes = stride > 1 or in_channels != 4 * width
        self.skip = _normed(nn.Conv2d(in_channels, 4 * width, 1, stride, bias=False)) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.second(F.relu(self.first(x))))
        return F.relu(self.third(y) + self.skip(x))


def _normed(convolution: nn.Conv2d) -> nn.Sequential:
    return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels))


def resnet(blocks: tuple[int, ...], width: int = 64) -> nn.Module:
    layers: list[nn.Module] = [_normed(nn.Conv2d(3, width, 7, 2, 3, bias=False)), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    in_channels = width
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Bottleneck(in_channels, width << stage, 2 if stage and not block else 1))
            in_channels = 4 * width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(in_channels, 1000))


def _activated(in_channels: int, width: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return _normed(nn.Conv2d(in_channels, width, kernel, stride, kernel // 2, bias=False)).append(nn.ReLU())


class InceptionBlock(nn.Module):
    """widths: of the 1x1 branch, the 3x3 branch, the branch of two 3x3, and the 1x1 after the pool; the first and the
    last are 0 where the block halves the image."""

    def __init__(self, in_channels: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        single, narrow, wide, narrow_of_two, wide_of_two, pooled = widths
        stride = 1 if single else 2
        pool = nn.AvgPool2d(3, 1, 1) if single else nn.MaxPool2d(3, 2, 1)
        self.branches = nn.ModuleList(
            [
                nn.Sequential(_activated(in_channels, narrow, 1), _activated(narrow, wide, 3, stride)),
                nn.Sequential(
                    _activated(in_channels, narrow_of_two, 1),
                    _activated(narrow_of_two, wide_of_two, 3),
                    _activated(wide_of_two, wide_of_two, 3, stride),
                ),
                nn.Sequential(pool, _activated(in_channels, pooled, 1)) if pooled else pool,
            ]
        )
        if single:
            self.branches.insert(0, _activated(in_channels, single, 1))
        self.width = single + wide + wide_of_two + (pooled or in_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


_INCEPTION = (
    *((64, 64, 64, 64, 96, 32), (64, 64, 96, 64, 96, 64), (0, 128, 160, 64, 96, 0), (224, 64, 96, 96, 128, 128)),
    *((192, 96, 128, 96, 128, 128), (160, 128, 160, 128, 160, 96), (96, 128, 192, 160, 192, 96)),
    *((0, 128, 192, 192, 256, 0), (352, 192, 320, 160, 224, 128), (352, 192, 320, 192, 224, 128)),
)


def inception(narrow: int) -> nn.Module:
    """narrow: by how much every width is divided."""
    layers: list[nn.Module] = [_activated(3, 64 // narrow, 7, 2), nn.MaxPool2d(3, 2, 1)]
    layers += [_activated(64 // narrow, 64 // narrow, 1), _activated(64 // narrow, 192 // narrow, 3)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    width = 192 // narrow
    for widths in _INCEPTION:
        block = InceptionBlock(width, tuple(one // narrow for one in widths))
        layers.append(block)
        width = block.width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))


class UNet(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        pairs = list(pairwise(widths))
        self.first = self._twice(3, width)
        self.down = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), self._twice(a, b)) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
        self.joined = nn.ModuleList(self._twice(b, a) for a, b in reversed(pairs))
        self.last = nn.Conv2d(width, 2, 1)

    @staticmethod
    def _twice(in_channels: int, width: int) -> nn.Module:
        return nn.Sequential(_activated(in_channels, width, 3), _activated(width, width, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(kept[-1]))
        x = kept.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            x = joined(torch.cat([kept.pop(), up(x)], 1))
        result: torch.Tensor = self.last(x)
        return result


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, 1, 3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.outer(F.gelu(self.inner(y)))).permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext(blocks: tuple[int, ...], width: int = 96) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4), ChannelNorm(width, eps=1e-6)]
    for stage, count in enumerate(blocks):
        if stage:
            layers += [ChannelNorm(width, eps=1e-6), nn.Conv2d(width, 2 * width, 2, 2)]
            width *= 2
        layers += [ConvNeXtBlock(width) for _ in range(count)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(width), nn.Linear(width, 1000))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        return self.output(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    """before: whether layer norms are before attention and MLP, as in ViT, or after the residual sums, as in BERT."""

    def __init__(self, width: int, heads: int, before: bool) -> None:
        super().__init__()
        self.before, self.attention = before, Attention(width, heads)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.before:
            x = x + self.attention(self.first(x))
            return x + self.outer(F.gelu(self.inner(self.second(x))))
        x = self.first(x + self.attention(x))
        return self.second(x + self.outer(F.gelu(self.inner(x))))


class Bert(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(30522, width), nn.Parameter(torch.randn(1, length, width))
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(EncoderLayer(width, heads, False) for _ in range(layers)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.layers(self.norm(self.tokens(ids) + self.positions))
        return hidden


class VisionTransformer(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, side: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.class_token, self.positions = (
            nn.Parameter(torch.zeros(1, 1, width)),
            nn.Parameter(torch.randn(1, (side // 16) ** 2 + 1, width)),
        )
        self.layers = nn.Sequential(*(EncoderLayer(width, heads, True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(x.shape[0], -1, -1), tokens], 1) + self.positions
        logits: torch.Tensor = self.head(self.norm(self.layers(tokens))[:, 0])
        return logits


class LlamaBlock(nn.Module):
    """One token with a cache of keys and values: [batch, heads, past, size]."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.first, self.second = (nn.Parameter(torch.ones(width)) for _ in range(2))
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = _scaled(x, self.first)
        query, key, value = (
            part(y).unflatten(-1, (self.heads, self.size)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        x = x + self.output(F.scaled_dot_product_attention(query, keys, values).transpose(1, 2).flatten(2))
        y = _scaled(x, self.second)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), keys, values


def _scaled(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def _images(batch: int, side: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 3, side, side),)


def _resnet(blocks: tuple[int, ...]) -> Callable[[int, bool], Network]:
    return lambda batch, small: (
        resnet((1, 1) if small else blocks, 8 if small else 64),
        _images(batch, 64 if small else 224),
    )


def _bert(batch: int, small: bool) -> Network:
    layers, width, heads, length = (2, 64, 4, 16) if small else (12, 768, 12, 128)
    return Bert(layers, width, heads, length), (torch.randint(0, 30522, (batch, length)),)


def _vit(batch: int, small: bool) -> Network:
    layers, width, heads, side = (2, 64, 4, 64) if small else (12, 768, 12, 224)
    return VisionTransformer(layers, width, heads, side), _images(batch, side)


def _convnext(batch: int, small: bool) -> Network:
    return convnext((1, 1) if small else (3, 3, 9, 3), 16 if small else 96), _images(batch, 64 if small else 224)


def _inception(batch: int, small: bool) -> Network:
    return inception(16 if small else 1), _images(batch, 64 if small else 224)


def _unet(batch: int, small: bool) -> Network:
    return UNet(8 if small else 64, 2 if small else 4), _images(batch, 64 if small else 256)


def _llama(batch: int, small: bool) -> Network:
    width, heads, inner, past = (64, 4, 128, 16) if small else (4096, 32, 11008, 512)
    cache = torch.randn(batch, heads, past, width // heads)
    return LlamaBlock(width, heads, inner), (torch.randn(batch, 1, width), cache, cache.clone())


NETWORKS: dict[str, Callable[[int, bool], Network]] = {
    "resnet50": _resnet((3, 4, 6, 3)),
    "bert": _bert,
    "unet": _unet,
    "inception_v2": _inception,
    "vit_b16": _vit,
    "convnext_t": _convnext,
    "llama_block": _llama,
    "resnet101": _resnet((3, 4, 23, 3)),
}


def network(name: str, batch: int, small: bool) -> Network:
    """The module, for inference, and its inputs, both seeded."""
    torch.manual_seed(0)
    module, inputs = NETWORKS[name](batch, small)
    return module.eval(), inputs


def exported(module: nn.Module, inputs: tuple[torch.Tensor, ...], path: Path) -> Path:
    """Write the module as an ONNX file, by the TorchScript exporter, which needs only onnx."""
    torch.onnx.export(module, inputs, str(path), dynamo=False, opset_version=17)
    return path
