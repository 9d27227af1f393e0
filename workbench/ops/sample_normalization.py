"""InstanceNormalization of each sample as a whole: group normalization of one group, as a function in the domain
"workbench".

Exporters write it as a Reshape to [N, 1, C*D], an InstanceNormalization and a Reshape back. The first Reshape joins
axes that are not adjacent in another order, so that no layout passes through it, although the order of the elements of
a sample means nothing to what is computed. Layout strategies write the three as one operator, and as three again.

Source: Wu and He, "Group Normalization", ECCV 2018, https://arxiv.org/abs/1803.08494 (one group is their layer norm).
"""

from __future__ import annotations

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation
from workbench.ops.contract import Call, operator, per_output
from workbench.ops.fusion_kinds import FUSABLE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import NotPermutable, PermutedCall, remapped

SAMPLE_NORM = "SampleNormalization"
SAMPLE_NORM_BODIES = {
    SAMPLE_NORM: f"""{SAMPLE_NORM} <epsilon> (x, scale, bias) => (y) {{
    dims = Shape (x)
    one_group = Constant <value = int64[3] {{0, 1, -1}}> ()
    samples = Reshape (x, one_group)
    normalized = InstanceNormalization <epsilon: float = @epsilon> (samples, scale, bias)
    y = Reshape (normalized, dims)
}}"""
}


def _propagate_samples(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Any order of the axes of a sample is possible."""
    if perm[0] != 0:
        raise NotPermutable(f"{node} normalizes each sample, and the first axis counts them")
    return PermutedCall((0,), (perm,))


@operator(
    f"workbench.{SAMPLE_NORM}",
    category="normalization",
    layout=remapped(_propagate_samples),
    fusion=FUSABLE,
    flops=per_output(7),
)
def sample_normalization(call: Call, x: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """x: [N, *D], scale: [1], bias: [1] -> [N, *D]"""
    normalized = torch.group_norm(x.reshape(x.shape[0], 1, -1), 1, scale, bias, call.attr("epsilon", 1e-5))
    return normalized.reshape(x.shape)
