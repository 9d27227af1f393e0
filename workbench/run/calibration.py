"""The inputs on which a quantizer observes the ranges of values: the user's files, those of the run, or seeded ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.ir import Graph
from workbench.run.inputs import Tensors, read_input_files, seed_inputs, write_inputs


@dataclass(frozen=True)
class RunInputs:
    """The inputs of a run. of: a graph's; None: seeded ones. are_seeded: whether `of` gives seeded ones too.

    several: a graph's inputs of several runs, the first those of `of`.
    """

    of: Callable[[Graph], Tensors] | None = None
    are_seeded: bool = True
    several: Callable[[Graph], Sequence[Tensors]] | None = None


def write_calibration(graph: Graph, path: str, run: RunInputs, folder: Path) -> str:
    """Write the inputs to .npz files in `folder`. Returns where they come from, as a part of a sentence.

    path: an .npz file, or a folder of them; "": the inputs of the run. Raises InputError.
    """
    folder.mkdir()
    if not path:
        write_inputs(folder / "0.npz", (run.of or seed_inputs)(graph))
        if run.of is None or run.are_seeded:
            return "its ranges are those of one seeded random input, which are not those of real data"
        return "its ranges are those of the inputs of the run"
    count = 0
    for count, tensors in enumerate(read_input_files(path, graph), start=1):
        write_inputs(folder / f"{count}.npz", tensors)
    return f"its ranges are those of {count:,} file{'s' * (count != 1)} of inputs"
