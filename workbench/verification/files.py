"""Verification of one file against another, each run as it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.run.compare import Verdict
from workbench.verification.verifier import Verifier


class MismatchError(UserError):
    """Two models that cannot be compared, since their inputs or outputs differ."""


def verify_files(
    a: Graph, b: Graph, inputs: Mapping[str, np.ndarray] | None = None, seed: int = 0, given: Collection[str] = ()
) -> Verdict:
    """Compare two models, each run from its file; `a` is the reference.

    Raises MismatchError if their inputs or outputs differ in name or element type.
    """
    _check_same("input", a, b, a.inputs, b.inputs)
    _check_same("output", a, b, a.outputs, b.outputs)
    with Verifier(a, inputs, seed, given=given) as verifier:
        return verifier.check(b) if b.source is None else verifier.check_file(b, Path(b.source))


def _check_same(what: str, a: Graph, b: Graph, ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    only = next((name for name in (*ours, *theirs) if name not in ours or name not in theirs), None)
    if only is not None:
        side = "first" if only in ours else "second"
        raise MismatchError(
            f"Only the {side} model has an {what} '{only}'; models are compared by the names of their {what}s."
        )
    for name in ours:
        first, second = a.tensor_type(name), b.tensor_type(name)
        if first is not None and second is not None and first.dtype != second.dtype:
            raise MismatchError(
                f"The {what} '{name}' is {first.dtype.name.lower()} in the first model and "
                f"{second.dtype.name.lower()} in the second."
            )
