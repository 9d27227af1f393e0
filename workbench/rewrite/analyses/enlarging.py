"""Shared by passes that pad weights with zeros: more FLOPs, for fewer bytes and kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.ir import Graph, Node, constant_shape
from workbench.ops.windows import Window
from workbench.rewrite.analyses.parallel import constant_weights
from workbench.rewrite.core.passes import Pass, option
from workbench.rewrite.core.rule import NoMatch

# Multiply-adds count 2. A core of a CPU computes some 10 while it moves a byte; an NVIDIA H200 14 in float32, 103 in
# TF32 (its data sheet: 67 and 494 TFLOP/s, 4.8 TB/s).
_FLOPS_PER_BYTE = 20
ZERO_TIMES_INFINITY = "the weight 0 makes NaN of an infinity"


@dataclass(frozen=True)
class Enlarging(Pass):
    """Base of these passes, with options for the accepted cost. The time to start a kernel is not counted."""

    flops_per_byte: int = option(
        _FLOPS_PER_BYTE,
        "The FLOPs that the device computes while it moves a byte; the roofline of the page Measure has it.",
        least=0,
    )
    force: bool = option(
        False, "Enlarge wherever the results stay the same, whatever it costs, and however large the file becomes."
    )

    @property
    def grows_freely(self) -> bool:
        return self.force


def window_of(graph: Graph, node: Node) -> Window:
    """The window of a convolution, with explicit padding."""
    kernel = constant_shape(constant_weights(graph, node))[2:]
    sizes = (graph.shape(node.inputs[0]) or ())[2:]
    known = tuple(size for size in sizes if isinstance(size, int))
    if node.attr("auto_pad").startswith("SAME") and len(known) < len(kernel):
        raise NoMatch(f"{node} computes its padding from the size of the image, which is not known")
    return Window.of(node, kernel, known if len(known) == len(kernel) else (0,) * len(kernel))


def taps(graph: Graph, conv: Node) -> int:
    """The number of elements in its window."""
    return math.prod(constant_shape(constant_weights(graph, conv))[2:])


def require_gain(flops: int | None, saved: int | None, what: str, pass_: Enlarging) -> None:
    """Raises NoMatch if the FLOPs cost more than is saved.

    flops: additional FLOPs. saved: bytes that are no longer moved. what: subject of the sentence, "merging ...".
    """
    if pass_.force:
        return
    if flops is None or saved is None:
        raise NoMatch(
            f"{what} takes FLOPs whose number is not known; in mode fast the option force does it nevertheless"
        )
    if flops > saved * pass_.flops_per_byte:
        raise NoMatch(
            f"{what} takes {flops:,} FLOPs more and moves {saved:,} bytes less, which is worth at most "
            f"{saved * pass_.flops_per_byte:,} FLOPs; in mode fast the option force does it nevertheless"
        )


def more_flops(flops: Sequence[int | None]) -> str:
    """The sum of these FLOPs as text, "256 FLOPs more"."""
    known = [count for count in flops if count is not None]
    return f"{sum(known):,} FLOPs more" if len(known) == len(flops) else "FLOPs whose number is not known"
