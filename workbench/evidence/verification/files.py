"""Verification of one file against another. Each is run from its file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from workbench.errors import UserError
from workbench.evidence.verification.verifier import Verifier
from workbench.ir import Graph
from workbench.ir.narrowed_io import INPUT_TYPE, OUTPUT_TYPE, loaded_type
from workbench.rewrite.core.exactness import DEFAULT_MODE, EXACT, FAST
from workbench.run.compare import Verdict


class MismatchError(UserError):
    """Two models that cannot be compared, since their inputs or outputs differ in name or element type."""


def verify_files(
    a: Graph,
    b: Graph,
    inputs: Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]] | None = None,
    seed: int = 0,
    given: Collection[str] = (),
    runs: int | None = None,
    mode: str = DEFAULT_MODE,
) -> Verdict:
    """Compare two models, each run from its file; `a` is the reference. given: dims that are not changed.

    inputs, runs: see `Verifier`. mode: "exact" allows no other bit; "fast" compares only elements that are finite in
    `a`.

    The tolerance is that of the narrower element types of the two, since a file may be a conversion of the other.
    Raises MismatchError if their inputs or outputs differ in name or element type.
    """
    with Verifier(a, inputs, seed, given=given, runs=runs) as verifier:
        return compare_files(verifier, b, mode)


def compare_files(verifier: Verifier, other: Graph, mode: str = DEFAULT_MODE) -> Verdict:
    """Compare a model, run from its file, with the verifier's. Raises MismatchError as `verify_files`."""
    original = verifier.original
    _require_same_values("input", original, other, original.inputs, other.inputs)
    _require_same_values("output", original, other, original.outputs, other.outputs)
    exact, numbers_only = mode == EXACT, mode == FAST
    if other.source is None:
        return verifier.check(other, exact, narrowed=True, numbers_only=numbers_only)
    return verifier.check_file(other, Path(other.source), exact, narrowed=True, numbers_only=numbers_only)


def _require_same_values(kind: str, a: Graph, b: Graph, names_a: tuple[str, ...], names_b: tuple[str, ...]) -> None:
    """Raise MismatchError unless both models have the same inputs, or outputs. kind: "input" or "output"."""
    extra = next((name for name in (*names_a, *names_b) if name not in names_a or name not in names_b), None)
    if extra is not None:
        side = "first" if extra in names_a else "second"
        raise MismatchError(
            f"Only the {side} model has an {kind} '{extra}'; models are compared by the names of their {kind}s."
        )
    prefix = INPUT_TYPE if kind == "input" else OUTPUT_TYPE
    for name in names_a:
        first, second = loaded_type(a, name, prefix), loaded_type(b, name, prefix)
        if first is not None and second is not None and first != second:
            raise MismatchError(
                f"The {kind} '{name}' is {first.name.lower()} in the first model and "
                f"{second.name.lower()} in the second."
            )
