"""What the user says of the open model's inputs: their values, and the layouts in which they arrive."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.layout.infer import declare
from workbench.run.inputs import Tensors, read_inputs, write_inputs
from workbench.ui.state.session import Opened, stop_work, worker
from workbench.verification.verifier import Verifier


def use_inputs(opened: Opened, file: Any | None, seed: int) -> None:
    """Compare and measure on the user's .npz, or on inputs generated from `seed`; drops results of other inputs.

    Raises InputError, with nothing changed, for a file that does not fit the model.
    """
    tensors = None
    if file is not None:
        with tempfile.TemporaryDirectory(prefix="workbench-inputs-") as folder:
            path = Path(folder) / Path(file.name).name
            path.write_bytes(file.getbuffer())
            tensors = read_inputs(path, opened.graph)
    use_tensors(opened, tensors, "" if file is None else Path(file.name).name, seed)


def use_tensors(opened: Opened, tensors: Tensors | None, name: str, seed: int = 0) -> None:
    """Compare and measure on these, of the file `name`; None: on those generated from `seed`."""
    stop_work(opened)
    opened.verifier = Verifier(opened.graph, tensors, seed, worker=worker(), given=opened.given)
    opened.inputs, opened.seed = name, seed
    _let_go_of_results(opened)


def given_inputs(opened: Opened, folder: Path) -> tuple[str | None, dict[str, int]]:
    """An .npz in the folder with the user's own inputs, None for generated ones, and the dims to bind, which follow
    from own inputs."""
    if not opened.inputs:
        return None, opened.dims_given
    own = folder / "own.npz"
    write_inputs(own, opened.verifier.inputs)
    return str(own), {}


def declare_layouts(opened: Opened, layouts: Mapping[str, str]) -> None:
    """Declare the layouts of inputs on the open model. Raises UserError, with nothing changed, if one is invalid."""
    declare(opened.graph, layouts)
    stop_work(opened)
    opened.__dict__.pop("summary", None)  # it contains layouts
    opened.views.clear()
    opened.sides.clear()
    opened.side_histories.clear()
    _let_go_of_results(opened)


def _let_go_of_results(opened: Opened) -> None:
    opened.history = opened.spec = opened.measured_spec = opened.measured = None
    opened.laid_out = {}
    opened.moments.clear()
