"""The user's inputs of the open model, and the layouts that the user declares for them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.ui.state.session import Opened, stop_work, worker
from workbench.planning.layout.infer import declare
from workbench.run.inputs import Tensors, read_inputs, write_inputs


def use_inputs(opened: Opened, file: Any | None, seed: int) -> None:
    """Compare and measure on the user's .npz file, or on inputs from `seed`; drops the results of other inputs.

    Raises InputError, with nothing changed, if the file does not fit the model.
    """
    tensors = None
    if file is not None:
        with tempfile.TemporaryDirectory(prefix="workbench-inputs-") as folder:
            path = Path(folder) / Path(file.name).name
            path.write_bytes(file.getbuffer())
            tensors = read_inputs(path, opened.graph)
    use_tensors(opened, tensors, "" if file is None else Path(file.name).name, seed)


def use_tensors(opened: Opened, tensors: Tensors | None, name: str, seed: int = 0) -> None:
    """Compare and measure on these tensors of the file `name`; None: on inputs from `seed`."""
    stop_work(opened)
    opened.verifier = Verifier(opened.graph, tensors, seed, worker=worker(), given=opened.user_dim_names)
    opened.inputs, opened.seed = name, seed
    opened.drop_results()


def saved_inputs(opened: Opened, folder: Path) -> tuple[str | None, dict[str, int]]:
    """The user's inputs as an .npz file in the folder, or None; and the dims to bind.

    With the user's inputs no dims are bound, since they follow from the inputs.
    """
    if not opened.inputs:
        return None, opened.user_dims
    file = folder / "own.npz"
    write_inputs(file, opened.verifier.inputs)
    return str(file), {}


def declare_layouts(opened: Opened, layouts: Mapping[str, str]) -> None:
    """Declare the layouts of inputs on the open model. Raises UserError, with nothing changed, if one is invalid."""
    declare(opened.graph, layouts)
    stop_work(opened)
    opened.drop_results()
