"""A recipe: the choice of a tuning as a TOML file for `optimize --recipe`, with the evidence."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from workbench.errors import UserError, reading
from workbench.interfaces.study.tuning.evidence import Evidence
from workbench.pipeline.registry.pass_choice import PipelineOptions, choose
from workbench.planning.layout.profile import load_profile
from workbench.rewrite.core.exactness import MODES
from workbench.run.measurement.formatting import speed_text
from workbench.run.measurement.statistics import Ratio
from workbench.run.measurement.variants import BACKENDS, current_backend
from workbench.run.tolerances import DTYPES
from workbench.support.files import SPECIAL, is_special, write_text

VERSION = 1
_MAX_BYTES = 10_000_000  # bytes of a file
_MAX_NUMBER = 1e300
_TABLES = ("version", "model", "tuned", "run", "pipeline", "evidence")
BUDGET_ENDED, STOPPED_EARLY = "the budget ended", "it was stopped"  # why a tuning ended early


class RecipeError(UserError):
    """A recipe cannot be read or run."""


@dataclass(frozen=True)
class Recipe:
    """The chosen candidate, the request of the tuning, and the evidence.

    passes, options, target, mode, export_for: arguments of `api.optimize`.
    backend, dtype: the backend and element type that run the result.
    label:        the label of the chosen candidate.
    model_sha256: the SHA-256 of the model's file, see `records.store.model_hash`.
    objective:    "latency", "memory" or "size", on `device`. max_error: the largest allowed relative error.
    notes:        on the last run, on a machine that was busy meanwhile.
    ended:        why the tuning ended, as a sentence without a full stop. seconds: its duration.
    """

    model_name: str
    model_sha256: str
    objective: str
    device: str
    device_name: str
    versions: Mapping[str, str]
    max_error: float
    seconds: float
    ended: str
    label: str
    backend: str
    dtype: str
    passes: tuple[str, ...]
    options: Mapping[str, Any]
    target: str
    mode: str
    export_for: str | None
    evidence: tuple[Evidence, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_resumable(self) -> bool:
        """Whether the tuning ended early, so that tuning again continues from its measurements."""
        return self.ended in (BUDGET_ENDED, STOPPED_EARLY)

    @property
    def gain_text(self) -> str:
        """The best beside the original, of the last run, as `speed_text` says it; "" if it has no two of them."""
        original = next((entry for entry in self.evidence if entry.original), None)
        if original is None or self.objective != "latency" or original.label == self.label:
            return ""
        ratio, low, high = original.ratio, original.ratio_low, original.ratio_high
        if not (ratio and low and high):
            return ""
        speed = speed_text(Ratio(1 / ratio, 1 / high, 1 / low, original.busy))
        return f"{speed} the original in {original.backend}"

    @property
    def pipeline(self) -> PipelineOptions:
        """The pipeline; it runs for `target`, in `mode`."""
        return PipelineOptions(list(self.passes), export_for=self.export_for, options=dict(self.options))

    def table(self) -> dict[str, Any]:
        """The tables of the file; values that are None are left out."""
        pipeline = {"passes": list(self.passes), "target": self.target, "mode": self.mode}
        if self.export_for is not None:
            pipeline["export_for"] = self.export_for
        return {
            "version": VERSION,
            "model": {"name": self.model_name, "sha256": self.model_sha256},
            "tuned": {
                "objective": self.objective,
                "device": self.device,
                "device_name": self.device_name,
                "max_error": self.max_error,
                "seconds": self.seconds,
                "ended": self.ended,
                "chosen": self.label,
                "notes": list(self.notes),
                "versions": dict(self.versions),
            },
            "run": {"backend": self.backend, "dtype": self.dtype},
            "pipeline": {**pipeline, "options": dict(self.options)},
            "evidence": [{k: v for k, v in entry.row().items() if v is not None} for entry in self.evidence],
        }

    def toml(self) -> str:
        """The text of the file."""
        import tomli_w  # here, since machines on which nothing is tuned need not have it

        return tomli_w.dumps(self.table())


def save_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write the recipe to a file. Raises UserError."""
    write_text(path, recipe.toml())


def load_recipe(path: str | Path) -> Recipe:
    """The recipe in the file; checks that its passes exist. Raises RecipeError."""
    what = f"the recipe '{path}'"
    with reading(what, RecipeError, "tune again"):
        return _loaded(path, what)


def _loaded(path: str | Path, what: str) -> Recipe:
    table = _parsed(Path(path), what)
    version = table.get("version")
    if version != VERSION:
        raise RecipeError(
            f"{what} is of version {str(version)[:20]}, and this program reads version {VERSION}; tune again, or use "
            "the program that wrote it"
        )
    unknown = next((key for key in table if key not in _TABLES), None)
    if unknown is not None:
        raise RecipeError(f"{what} has the unknown key '{unknown[:60]}'; its keys are {', '.join(_TABLES)}")
    reader = _Reader(what, table)
    recipe = Recipe(
        model_name=reader.text("model", "name"),
        model_sha256=reader.text("model", "sha256"),
        objective=reader.text("tuned", "objective"),
        device=reader.text("tuned", "device"),
        device_name=reader.text("tuned", "device_name"),
        versions=reader.text_table("tuned", "versions"),
        max_error=reader.number("tuned", "max_error"),
        seconds=reader.number("tuned", "seconds"),
        ended=reader.text("tuned", "ended"),
        label=reader.text("tuned", "chosen"),
        backend=reader.one_of("run", "backend", BACKENDS),
        dtype=reader.one_of("run", "dtype", DTYPES),
        passes=reader.texts("pipeline", "passes"),
        options=reader.table("pipeline", "options"),
        target=reader.text("pipeline", "target"),
        mode=reader.one_of("pipeline", "mode", MODES),
        export_for=reader.text("pipeline", "export_for") if "export_for" in reader.part("pipeline") else None,
        evidence=reader.evidence(),
        notes=reader.texts("tuned", "notes") if "notes" in reader.part("tuned") else (),
    )
    try:
        choose(list(recipe.passes), export_for=recipe.export_for, options=recipe.options)
        load_profile(recipe.target)
    except UserError as error:
        raise RecipeError(f"{what} cannot be run here: {error}") from None
    return recipe


def _parsed(path: Path, what: str) -> dict[str, Any]:
    try:
        if is_special(path):
            raise RecipeError(f"{what} cannot be read, for {SPECIAL}; name another file")
        if path.stat().st_size > _MAX_BYTES:
            raise RecipeError(f"{what} has more than {_MAX_BYTES:,} bytes, too many for a recipe; name another file")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{what} cannot be read: {error.strerror or error}; name another file") from None
    except (ValueError, RecursionError) as error:  # not TOML, or not UTF-8
        raise RecipeError(f"{what} is not TOML: {error}; correct the file, or tune again") from None


@dataclass(frozen=True)
class _Reader:
    """Reads the values of a recipe. Raises RecipeError for a key that is missing or has another type.

    what: names the recipe in errors. whole: the parsed file.
    """

    what: str
    whole: Mapping[str, Any]

    def part(self, name: str) -> Mapping[str, Any]:
        result = self.whole.get(name)
        if not isinstance(result, dict):
            raise RecipeError(f"{self.what} lacks the table [{name}]; tune again, or restore it")
        return result

    def _value(self, part: str, key: str, kinds: tuple[type, ...], expected: str) -> Any:
        result = self.part(part).get(key)
        if not isinstance(result, kinds) or isinstance(result, bool):
            raise RecipeError(f"{self.what}: {part}.{key} must be {expected}; correct it, or tune again")
        return result

    def text(self, part: str, key: str) -> str:
        return str(self._value(part, key, (str,), "a text"))

    def number(self, part: str, key: str) -> float:
        result = self._value(part, key, (int, float), "a number")
        if abs(result) > _MAX_NUMBER:
            raise RecipeError(f"{self.what}: {part}.{key} is too large a number; correct it, or tune again")
        return float(result)

    def table(self, part: str, key: str) -> Mapping[str, Any]:
        return dict(self._value(part, key, (dict,), "a table"))

    def text_table(self, part: str, key: str) -> Mapping[str, str]:
        return {name: str(value) for name, value in self.table(part, key).items()}

    def texts(self, part: str, key: str) -> tuple[str, ...]:
        result = self._value(part, key, (list,), "a list of names")
        if not all(isinstance(name, str) for name in result):
            raise RecipeError(f"{self.what}: {part}.{key} must be a list of names; correct it, or tune again")
        return tuple(result)

    def one_of(self, part: str, key: str, allowed: Sequence[str] | Mapping[str, Any]) -> str:
        result = current_backend(self.text(part, key))
        if result not in allowed:
            raise RecipeError(f"{self.what}: {part}.{key} must be one of {', '.join(allowed)}, not '{result[:60]}'")
        return result

    def evidence(self) -> tuple[Evidence, ...]:
        rows, known = self.whole.get("evidence", []), {field.name for field in fields(Evidence)}
        try:
            if not all({*row} <= known for row in rows):
                raise TypeError
            return tuple(Evidence(**row) for row in rows)
        except TypeError:
            raise RecipeError(
                f"{self.what}: a row of [[evidence]] lacks a key or has an unknown one; tune again"
            ) from None
