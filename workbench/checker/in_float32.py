"""Runs an output with float32 in place of the narrower types that it has in addition to the model.

What it computes so differs from the model by rounding of float32 alone, and by the rounding of its constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.checker.comparing import Differences, NoisyResults, largest_difference, narrower_types
from workbench.checker.drawing import Array
from workbench.checker.outcome import one_line
from workbench.checker.plain import PlainModel
from workbench.checker.sessions import NotCompared, cpu_session, with_weights
from workbench.checker.widening import has_constants, widened

_NOISY = 3  # runs with noise in constants of a narrower type
_TIMES_NOISE = 8.0  # times what the noise does: the most that their rounding does


class InFloat32:
    """narrowed: the outputs that are computed in narrower types."""

    def __init__(
        self,
        model: PlainModel,
        output: PlainModel,
        mode: str,
        narrowed: Mapping[str, float],
        random: np.random.Generator,
    ) -> None:
        self.model, self.output, self.mode, self.narrowed = model, output, mode, narrowed
        proto = with_weights(output)
        types = set().union(*(narrower_types(model, output, name) for name in narrowed))
        noise = [random] * _NOISY if has_constants(proto, types) else []
        try:
            # with optimizations, without which ONNX Runtime 1.31 mistakes Casts that change nothing before an If
            self.session, *self.noisy = (cpu_session(widened(proto, types, by), True) for by in (None, *noise))
        except Exception as error:
            raise NotCompared(f"ONNX Runtime does not load the output in float32 ({one_line(str(error))})") from None

    def check(self, feed: Mapping[str, Array], expected: Sequence[Any], movements: NoisyResults, where: str) -> None:
        """Raises DoesNotHold if an output differs by more than narrower types explain. feed: for the model."""
        taken = {given.name: given.type for given in self.session.get_inputs()}
        own = {v: array.astype(np.float32) if taken[v] == "tensor(float)" else array for v, array in feed.items()}
        try:
            results, *moved = (session.run(None, own) for session in (self.session, *self.noisy))
        except Exception as error:
            raise NotCompared(f"ONNX Runtime does not run the output in float32 ({one_line(str(error))})") from None
        compared, allowed = [], {}
        for index, (name, one) in enumerate(zip(self.model.graph.outputs, expected, strict=True)):
            compared.append(results[index] if name in self.narrowed else one)
            by_noise = [largest_difference([results[index]], [other[index]]) for other in moved]
            allowed[name] = _TIMES_NOISE * max(by_noise, default=0.0)
        found = Differences(self.model, self.output, self.mode, allowed)
        found.add(expected, compared, movements, where, " even with float32 in place of narrower types")
