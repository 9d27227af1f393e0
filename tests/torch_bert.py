"""A BERT of torch modules, small and with random weights, as a TorchScript export."""

import math
from pathlib import Path

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.attention_norm, self.norm = (nn.LayerNorm(width, eps=1e-12) for _ in range(2))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:-1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        query, key, value = (self._split(part(x)) for part in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + mask
        joined = (scores.softmax(-1) @ value).permute(0, 2, 1, 3).reshape(x.shape)
        x = self.attention_norm(self.output(joined) + x)
        return self.norm(self.outer(nn.functional.gelu(self.inner(x))) + x)


class Bert(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4, layers: int = 12) -> None:
        super().__init__()
        self.words, self.segments, self.places = (nn.Embedding(count, width) for count in (100, 2, 64))
        self.norm, self.pooler = nn.LayerNorm(width, eps=1e-12), nn.Linear(width, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        places = torch.arange(ids.shape[1])
        x = self.norm(self.words(ids) + self.segments(segments) + self.places(places))
        hidden = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        for layer in self.layers:
            x = layer(x, hidden)
        return x, torch.tanh(self.pooler(x[:, 0]))


def exported_bert(path: Path, dynamic: bool = False) -> Path:
    """Of two texts of 16 words, of which the second is padded. dynamic: of any number of texts of any length."""
    torch.manual_seed(0)
    ids, mask = torch.randint(0, 100, (2, 16)), torch.ones(2, 16, dtype=torch.int64)
    mask[1, 9:] = 0
    words = {"input_names": ["ids", "mask", "segments"], "output_names": ["hidden", "pooled"]}
    texts = {0: "batch", 1: "length"}
    axes = {**dict.fromkeys(("ids", "mask", "segments", "hidden"), texts), "pooled": {0: "batch"}} if dynamic else None
    inputs = (ids, mask, torch.zeros_like(ids))
    torch.onnx.export(Bert().eval(), inputs, path, dynamo=False, dynamic_axes=axes, **words)
    return path
