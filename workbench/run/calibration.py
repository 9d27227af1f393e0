"""The inputs on which a quantizer observes the ranges of values: the user's files, those of the run, or seeded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workbench.ir import Graph
from workbench.run.inputs import Tensors, read_inputs, seed_inputs, write_inputs
from workbench.run.npz import InputError


@dataclass(frozen=True)
class RunInputs:
    """The inputs of a run. of: a graph's; None: seeded ones. are_seeded: whether `of` gives seeded ones too."""

    of: Callable[[Graph], Tensors] | None = None
    are_seeded: bool = True


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
    for count, tensors in enumerate(_read(Path(path), graph), start=1):
        write_inputs(folder / f"{count}.npz", tensors)
    return f"its ranges are those of {count:,} file{'s' * (count != 1)} of inputs"


def _read(path: Path, graph: Graph) -> Iterator[Tensors]:
    files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"The folder '{path}' has no .npz file; give one of them for each input of calibration.")
    for file in files:
        yield read_inputs(file, graph)
